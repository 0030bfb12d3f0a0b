package leader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// A disagreement on the number of seats is reported once per candidate.
func TestSeats_Disagreement(t *testing.T) {
	for _, one := range []struct{ a, b int }{{2, 3}, {3, 2}, {0, 2}, {2, 1}} {
		k := newKit(t)
		k.stand("a", leader.Config{Seats: one.a})
		k.clock.Settle()
		b, wb := k.stand("b", leader.Config{Seats: one.b})
		k.clock.Advance(time.Minute)
		var errs []error
		for _, e := range wb.Events() {
			if f, ok := e.(leader.Faulted); ok {
				errs = append(errs, f.Err)
			}
		}
		want := fmt.Sprintf(`"b" is set to %d, "a" to %d`, max(one.b, 1), max(one.a, 1))
		if len(errs) != 1 || !errors.Is(errs[0], leader.ErrSeatsDiffer) || !strings.Contains(errs[0].Error(), otherSeats+": "+want) {
			t.Errorf("%v: %v", one, errs)
		}
		n := b.Stats().Faults[leader.ErrSeatsDiffer]
		check.That(t, n == 1, "%v: %d faults counted", one, n)
	}
	k := newKit(t)
	stand := func(id string, seats int) *leader.Candidate {
		c, _ := k.stand(id, leader.Config{Seats: seats})
		k.clock.Settle()
		return c
	}
	a, x, _ := stand("a", 3), stand("x", 3), stand("y", 3)
	k.store.Link("b").LoseWrites(-1) // b takes no seat, and sees a move from the first to the second
	b := stand("b", 2)
	stand("d", 3)
	check.OK(t, a.Resign(t.Context()))
	k.clock.Advance(16 * time.Second)
	check.OK(t, x.Stop(t.Context()))
	k.clock.Advance(16 * time.Second)
	term, ok := a.Term()
	check.Must(t, ok && term.Seat() == 2, "a is not on the second seat")
	check.Equal(t, b.Stats().Faults[leader.ErrSeatsDiffer], 3, "%d faults of a, x and d")

	k = newKit(t)
	k.stand("a", leader.Config{})
	_, wb := k.stand("b", leader.Config{Seats: 1})
	k.clock.Advance(time.Minute)
	wb.Ignore(leadertest.Observed()).ExpectExactly()
}

// Numbers of seats that cannot work are refused.
func TestSeats_InvalidAreRefused(t *testing.T) {
	k := newKit(t)
	for want, cfg := range map[string]leader.Config{
		"Seats -1 is negative":               {Seats: -1},
		"Seats 1001 is more than 1000":       {Seats: 1001},
		"Seats 2 is more than 1 with Guards": {Seats: 2, Guards: []leader.Guard{k.store.Link("a").Guard()}},
	} {
		c, err := leader.Campaign(t.Context(), k.store.Link("a"), "e", cfg)
		check.That(t, c == nil && errors.Is(err, leader.ErrInvalidConfig) && strings.Contains(err.Error(), want),
			"%s: %v", want, err)
	}
	for _, election := range []string{"", "a b"} {
		_, err := leader.Campaign(t.Context(), k.store.Link("a"), election, leader.Config{Seats: 2})
		check.That(t, errors.Is(err, leader.ErrInvalidConfig), "election %q: %v", election, err)
	}
	check.Is(t, check.Err(leader.Campaign(t.Context(), nil, "e", leader.Config{Seats: 2})), leader.ErrInvalidConfig)
}

// A candidate that starts takes the first seat if that is free. If it cannot read the first
// seat's key, it takes another.
func TestSeats_FirstSeatFirst(t *testing.T) {
	inSealed(t, func(w *world) {
		for i := range 20 {
			election := fmt.Sprint("e", i)
			c := w.campaign(w.Context(), w.dial("a"), election, leader.Config{ID: "a", Seats: 3})
			w.at(w.now())
			term, ok := c.Term()
			check.That(t, ok && term.Seat() == 1, "%s: it leads on seat %d", election, term.Seat())
		}
	})
	k := newKit(t)
	k.store.Link("a").LoseReads(1)
	a, _ := k.stand("a", leader.Config{Seats: 2})
	k.clock.Settle()
	_, ok := a.Term()
	check.That(t, !ok, "it leads before the first seat's key is known")
	k.clock.Advance(3 * time.Second)
	if term, ok := a.Term(); !ok || term.Seat() != 2 {
		t.Errorf("it leads on seat %d", term.Seat())
	}
}

// A client that only observes, or sends requests, can name a seat by the result of
// leader.SeatKey.
func TestNames_OfSeats(t *testing.T) {
	k := newKit(t)
	k.stand("a", leader.Config{Seats: 2})
	k.clock.Advance(time.Second)
	seat := leader.SeatKey("e", 2)
	check.Is(t, check.Err(leader.Lookup(t.Context(), k.store, seat)), nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	check.Is(t, check.Err(leader.Observe(ctx, k.store, seat)), nil)
	check.Is(t, check.Err(leader.StepDown(t.Context(), k.store, seat, leader.StepDownOptions{By: ""})), leader.ErrNoLeader)
}
