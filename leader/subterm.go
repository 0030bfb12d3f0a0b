package leader

import (
	"context"
	"math"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/machine"
)

func init() { backend.NewSubterm = newSubterm }

// newSubterm begins a term within another: of one of the things that a leader works on, each with a token and guards of its
// own. It leads while the other one does, by the same lease, until it is ended.
func newSubterm(ctx context.Context, s backend.Subterm) (term any, end context.CancelCauseFunc) {
	within, _ := FromContext(ctx) // package shard has it from a candidate
	t := &Term{
		token: s.Token, seat: within.seat, timeline: within.timeline, until: within.until, within: within, release: s.Released,
		grace: grace{by: math.MaxInt64}, // package shard says when it gives the shard up
	}
	ctx, t.cancel = context.WithCancelCause(ctx)
	t.ctx = leadership{ctx, t}
	guards, _ := s.Guards.([]Guard)
	if err := checkGuards(guards); err != nil {
		s.Fault(err)
		return t, t.cancel
	}
	if len(guards) == 0 {
		s.Raised()
		return t, t.cancel
	}
	k := &guardKeeper{
		Subterm: s, term: t, timeline: t.timeline, box: mailbox{bell: make(chan struct{}, 1)},
		guards: guardDriversFor(guards, machine.GuardParams{ID: s.ID, Session: s.Session, Election: s.Owner}),
	}
	go k.run()
	return t, t.cancel
}

// free releases a subterm, once, when the functions of Go have returned, too.
func (t *Term) free() {
	t.mu.Lock()
	first, waits := !t.freed.Swap(true), t.known.running > 0
	t.mu.Unlock()
	switch {
	case !first:
	case waits: // the last function of Go releases it
		t.cancel(nil)
	default:
		t.leave()
	}
}

// leave releases a subterm whose work has ended.
func (t *Term) leave() {
	t.lose(nil)
	t.release()
}

// lose ends a subterm, and the time for its work in hand.
func (t *Term) lose(cause error) {
	t.lookGrace()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancel(cause)
	t.grace.end(context.Cause(&t.ctx))
}

// guardKeeper raises the guards of a subterm, and keeps them raised while it leads.
type guardKeeper struct {
	backend.Subterm
	timeline
	term   *Term
	guards guardDrivers
	box    mailbox
	raised bool // all were
}

func (k *guardKeeper) run() {
	values := context.WithoutCancel(&k.term.ctx)
	timer := backend.Unarmed(k.clock)
	defer timer.Stop()
	over := k.term.ctx.Done()
	k.stepAll(values, machine.GuardInput{Kind: machine.GuardInDesired, Desired: machine.DesiredGuards{Token: k.Token}})
	for over != nil || k.guards.busy() {
		m := k.box.takeOr(func() {})
		if m == nil {
			if at := k.guards.wakeAt(time.Time{}); over != nil && !at.IsZero() {
				timer.Reset(max(time.Nanosecond, at.Sub(k.now())))
			}
			select {
			case <-k.box.bell:
			case <-timer.C():
				if over != nil {
					k.stepAll(values, machine.GuardInput{Kind: machine.GuardInTick})
				}
			case <-over:
				over = nil
				for i := range k.guards {
					k.guards[i].dismiss()
				}
			}
			continue
		}
		if s := &k.guards[m.guard.number]; over == nil {
			s.cleanUp(m.guard)
		} else if in, ok := s.answered(m.guard, k.now()); ok {
			k.step(values, s, in)
		}
		m.free()
	}
	k.box.close()
}

// stepAll steps every guard machine.
func (k *guardKeeper) stepAll(values context.Context, in machine.GuardInput) {
	for i := range k.guards {
		k.step(values, &k.guards[i], in)
		k.guards[i].checkAgain(values, k.now(), &k.box)
	}
}

// step steps the guard machine of a guard, and tells the subterm how the guards stand.
func (k *guardKeeper) step(values context.Context, s *guardDriver, in machine.GuardInput) {
	var term *Term // nil: it has no fences yet
	if k.raised {
		term = k.term
	}
	if fault := s.step(values, &k.box, k.now(), k.Lease, in, term); fault != nil {
		k.Fault(fault)
	}
	r := k.guards.report(k.Token)
	switch {
	case r.Over >= k.Token:
		k.term.lose(ErrFenced)
	case r.RaisedAt == k.Token && !k.raised:
		for i := range k.guards {
			k.term.fences = append(k.term.fences, k.guards[i].fence(k.term, &k.box))
		}
		k.raised = true
		k.Raised()
	}
}
