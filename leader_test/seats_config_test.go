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
	"github.com/natsleader/natsleader/kvelect"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/seats"
)

// A disagreement on the number of seats is reported once per candidate.
func TestSeats_Disagreement(t *testing.T) {
	for _, one := range []struct{ a, b int }{{2, 3}, {3, 2}, {0, 2}, {2, 1}} {
		k := newKit(t)
		k.mark = seated(one.a)
		k.stand("a", leader.Config{})
		k.clock.Settle()
		k.mark = seated(one.b)
		b, wb := k.stand("b", leader.Config{})
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
	stand := func(id string, n int) *leader.Candidate {
		k.mark = seated(n)
		c, _ := k.stand(id, leader.Config{})
		k.clock.Settle()
		return c
	}
	a, x, _ := stand("a", 3), stand("x", 3), stand("y", 3)
	k.store.Link("b").LoseWrites(-1) // b takes no seat, and sees a move from the first to the second
	b := stand("b", 2)
	stand("d", 3)
	check.OK(t, leadertest.Resign(t.Context(), a))
	k.clock.Advance(16 * time.Second)
	check.OK(t, x.Stop())
	k.clock.Advance(16 * time.Second)
	term, ok := a.Term()
	check.Must(t, ok && term.Seat() == 2, "a is not on the second seat")
	check.Equal(t, b.Stats().Faults[leader.ErrSeatsDiffer], 3, "%d faults of a, x and d")

	k = newKit(t)
	k.stand("a", leader.Config{})
	k.mark = seated(1)
	_, wb := k.stand("b", leader.Config{})
	k.clock.Advance(time.Minute)
	wb.Ignore(leadertest.Observed()).ExpectExactly()
}

// Numbers of seats that cannot work are refused.
func TestSeats_InvalidAreRefused(t *testing.T) {
	k := newKit(t)
	link := k.store.Link("a")
	guarded := leader.Config{Guards: []leader.Guard{link.Guard()}}
	for _, one := range []struct {
		want  string
		store leader.Store
		cfg   leader.Config
	}{
		{"-1 seats are not from 1 to 1000", seats.Of(link, -1), leader.Config{}},
		{"1001 seats are not from 1 to 1000", seats.Of(link, 1001), leader.Config{}},
		{"2 seats with Guards", seats.Of(link, 2), guarded},
		{"2 seats beside nats-kv-leader-elect", seats.Of(kvelect.Beside(link), 2), leader.Config{}},
		{"3 seats beside nats-kv-leader-elect", kvelect.Beside(seats.Of(link, 3)), leader.Config{}},
		{"4 seats with Guards", seats.Of(seats.Of(seats.Of(link, 3), 4), 0), guarded},
	} {
		check.Says(t, check.Err(leader.Campaign(t.Context(), one.store, "e", one.cfg)), leader.ErrInvalidConfig, one.want)
	}
	for _, election := range []string{"", "a b"} {
		_, err := leader.Campaign(t.Context(), seats.Of(link, 2), election, leader.Config{})
		check.That(t, errors.Is(err, leader.ErrInvalidConfig), "election %q: %v", election, err)
	}
	check.Is(t, check.Err(leader.Campaign(t.Context(), seats.Of(nil, 2), "e", leader.Config{})), leader.ErrInvalidConfig)
}

// A candidate that starts takes the first seat if that is free. If it cannot read the first
// seat's key, it takes another.
func TestSeats_FirstSeatFirst(t *testing.T) {
	inSealed(t, func(w *world) {
		for i := range 20 {
			election := fmt.Sprint("e", i)
			cl := w.dial("a")
			cl.mark = seated(3)
			c := w.campaign(w.Context(), cl, election, leader.Config{ID: "a"})
			w.at(w.now())
			term, ok := c.Term()
			check.That(t, ok && term.Seat() == 1, "%s: it leads on seat %d", election, term.Seat())
		}
	})
	k := newKit(t)
	k.store.Link("a").LoseReads(1)
	k.mark = seated(2)
	a, _ := k.stand("a", leader.Config{})
	k.clock.Settle()
	_, ok := a.Term()
	check.That(t, !ok, "it leads before the first seat's key is known")
	k.clock.Advance(3 * time.Second)
	if term, ok := a.Term(); !ok || term.Seat() != 2 {
		t.Errorf("it leads on seat %d", term.Seat())
	}
}

// A client that only observes, or sends requests, can name a seat by the result of
// seats.Key.
func TestNames_OfSeats(t *testing.T) {
	k := newKit(t)
	k.mark = seated(2)
	k.stand("a", leader.Config{})
	k.clock.Advance(time.Second)
	seat := seats.Key("e", 2)
	check.Is(t, check.Err(leader.Lookup(t.Context(), k.store, seat)), nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	check.Is(t, check.Err(leader.Observe(ctx, k.store, seat)), nil)
	check.Is(t, check.Err(leader.StepDown(t.Context(), k.store, seat, leader.StepDownOptions{By: ""})), leader.ErrNoLeader)
}
