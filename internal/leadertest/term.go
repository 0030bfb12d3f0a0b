package leadertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/leader"
)

// Term is a term for the test of code that takes a *leader.Term. A candidate on a [Store] of
// its own leads it, so its methods are the real ones. [Term.End] and [Term.Advance] end it.
//
// The time of the term stands still but for Advance, in a testing/synctest bubble, too. So
// the term never ends by itself.
type Term struct {
	*leader.Term
	tb    TB
	clock *Clock
	store *Store
	stop  context.CancelFunc
	guard *Guard // one of its candidate's; nil: there is none
	stall time.Duration
}

// termElection is the name of the election of a [Term].
const termElection = "term"

// NewTerm returns a term that leads, of a candidate with these settings. Clock is not among them: the
// time is the term's own. The candidate ends at the end of the test, and with it the term. NewTerm
// fails the test for settings with which a candidate does not lead at once.
func NewTerm(tb TB, cfg leader.Config) *Term {
	tb.Helper()
	if cfg.ID == "" {
		cfg.ID = "leader"
	}
	clock := NewClock()
	t := &Term{Term: new(leader.Term), tb: tb, clock: clock, stall: cfg.StallTimeout}
	t.store = NewStore(clock, WithMaxLease(0))
	for _, g := range cfg.Guards {
		if g, ok := g.(Guard); ok {
			t.guard = &g
		}
	}
	cfg.Clock = clock
	ctx, stop := context.WithCancel(context.Background())
	t.stop = stop
	c, err := leader.Campaign(ctx, t.store, termElection, cfg)
	if err != nil {
		stop()
		tb.Fatalf("leadertest: NewTerm: %v", err)
		return t
	}
	w := Watch(tb, nil, c) // its Expect also waits for guards in another time
	w.Expect(Elected())
	if term := w.Term(); term != nil {
		t.Term = term
	}
	return t
}

// Advance lets d pass without a renewal, so that the rest of the lease shrinks by d
// ([leader.Term.Remaining], 12 s at first with the default settings). When nothing is left,
// the term ends with [leader.ErrLeaseExpired], before Advance returns.
func (t *Term) Advance(d time.Duration) {
	t.store.Link("").Cut()
	t.clock.Advance(d)
}

// End ends the term with a cause, as that cause ends a term in production, and returns when
// the context has ended: one of [leader.ErrResigned], ErrStopped, ErrLeaseExpired,
// ErrPreempted, ErrDeleted, ErrRegressed, ErrConnectionClosed, ErrFenced if a [Guard] is
// among the Guards of the settings, or ErrStalled if they have a StallTimeout. It fails the
// test for any other cause, and does nothing to a term that has ended.
func (t *Term) End(cause error) {
	t.tb.Helper()
	if t.Context().Err() != nil {
		return
	}
	link := t.store.Link("")
	switch {
	case errors.Is(cause, leader.ErrResigned):
		_ = t.Resign(context.Background())
	case errors.Is(cause, leader.ErrStopped):
		t.stop()
	case errors.Is(cause, leader.ErrLeaseExpired):
		t.Advance(t.Remaining())
	case errors.Is(cause, leader.ErrPreempted):
		t.store.Put(termElection, []byte("another's"))
		link.Reconnect() // the candidate reads the key at once
	case errors.Is(cause, leader.ErrDeleted):
		t.store.Delete(termElection)
		link.Reconnect()
	case errors.Is(cause, leader.ErrRegressed):
		link.Reconnect()
		t.store.Recreate()
		limited, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = t.Proclaim(limited, nil) // the write shows it
	case errors.Is(cause, leader.ErrConnectionClosed):
		link.Close()
	case errors.Is(cause, leader.ErrFenced) && t.guard != nil:
		t.guard.Overtake(t.Term)
	case errors.Is(cause, leader.ErrStalled) && t.stall > 0:
		link.Restore()                         // or the lease would be over before
		over := t.Context().Done()             // asked before the time passes
		t.Go(func(context.Context) { <-over }) // there may be no work but this
		t.clock.Advance(t.stall)
	default:
		t.tb.Fatalf("leadertest: this term cannot end with %v", cause)
		return
	}
	select {
	case <-t.Context().Done():
	case <-time.After(patience):
	}
	if got := context.Cause(t.Context()); !errors.Is(got, cause) {
		t.tb.Fatalf("leadertest: the term was to end with %v, and has ended with %v", cause, got)
	}
}

// Overtake raises the guard of a term as a later term does.
func (g Guard) Overtake(t *leader.Term) {
	orders := g.link.store
	value := orders.Entry(g.key).Value
	var raised map[string]any
	if err := json.Unmarshal(value, &raised); err != nil {
		panic(fmt.Sprintf("leadertest: the guard of the term is %q: %v", value, err))
	}
	raised["token"], raised["session"] = t.Token()+1, "LATER"
	value, err := json.Marshal(raised)
	if err != nil {
		panic(err) // it was made of JSON
	}
	orders.Put(g.key, value)
	backend.FenceOf(t, g).Suspect()
}
