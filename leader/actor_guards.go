package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/natskv"
	"github.com/natsleader/natsleader/internal/record"
)

// guardDriver is one guard of a candidate. It has the guard machine, which decides on the
// requests, and the actor's means to send them.
type guardDriver struct {
	machine.GuardMachine
	number int
	guard  Guard
	asks   backend.Guard
	cancel context.CancelFunc // of the request in flight; nil if there is none
	wakeAt time.Time
	// faults has the fault that was reported when a request of that kind failed, until one
	// succeeds. A fault of the guard itself stands with GuardInRaised.
	faults [machine.GuardInRaised + 1]error

	recheckAt time.Time          // zero: the guard has not been found fit
	recheck   context.CancelFunc // of the check in flight that the guard machine knows nothing of
}

// guardDrivers are the guards of a candidate, in the order of Config.Guards.
type guardDrivers []guardDriver

// recheckEvery is how often a guard that was found fit is checked again. Meanwhile
// another server may have come to lead its stream, or the settings may have changed.
// Neither is reported to the client. A check that finds nothing wrong keeps no candidate
// from standing.
const recheckEvery = time.Minute

// newGuardDrivers makes the guard drivers of a candidate.
func newGuardDrivers(c *Candidate, p machine.Params, guards []Guard) guardDrivers {
	election := c.election
	if b, ok := c.store.(*natskv.Bucket); ok {
		election = b.Name() + "/" + election
	}
	return guardDriversFor(guards, machine.GuardParams{ID: p.ID, Session: p.Session, Election: election})
}

func guardDriversFor(guards []Guard, p machine.GuardParams) (all guardDrivers) {
	for i, g := range guards {
		all = append(all, guardDriver{number: i, guard: g, asks: g.Backend(), GuardMachine: machine.GuardMachine{GuardParams: p}})
	}
	return all
}

// tell makes the machine and the guard machines agree after either has changed. It returns the
// input for the machine, or nil.
func (a *actor) tell() *machine.Input {
	if len(a.guards) == 0 {
		return nil
	}
	if w := a.status.Desired; w != a.desired {
		a.desired = w
		for i := range a.guards {
			a.stepGuard(&a.guards[i], machine.GuardInput{Kind: machine.GuardInDesired, Desired: w})
		}
	}
	if r := a.guards.report(a.desired.Token); r != a.status.Guards && !a.status.Done {
		return &machine.Input{Kind: machine.InGuards, Guards: r}
	}
	return nil
}

// wakeAt returns when one of the guard machines is to step again, or wake if that is earlier.
func (g guardDrivers) wakeAt(wake time.Time) time.Time {
	for i := range g {
		wake = machine.Earlier(wake, g[i].wakeAt)
		if g[i].recheck == nil {
			wake = machine.Earlier(wake, g[i].recheckAt)
		}
	}
	return wake
}

// report returns the combined state of the guards, for the token at which they are to stand.
func (g guardDrivers) report(token uint64) machine.GuardsReport {
	r := machine.GuardsReport{Fit: true, RaisedAt: token}
	for i := range g {
		s := &g[i]
		r.Fit = r.Fit && s.Ready()
		r.Over = max(r.Over, s.Over())
		if !s.Raised {
			r.RaisedAt = 0
		}
	}
	return r
}

// stepGuards steps every guard machine. It returns the input for the machine, or nil.
func (a *actor) stepGuards(in machine.GuardInput) *machine.Input {
	for i := range a.guards {
		if in.Kind == machine.GuardInReconnected {
			a.guards[i].recheckAt = time.Time{}
		}
		a.stepGuard(&a.guards[i], in)
		if !a.status.Done {
			a.guards[i].checkAgain(a.values, a.now(), &a.c.box)
		}
	}
	return a.tell()
}

// checkAgain checks a guard again if a recheck is due.
func (s *guardDriver) checkAgain(values context.Context, now time.Time, box *mailbox) {
	if s.recheck != nil || s.recheckAt.IsZero() || now.Before(s.recheckAt) {
		return
	}
	var ctx context.Context
	ctx, s.recheck = deadline.Within(values, deadline.Default)
	number := s.number
	s.asks.Check(ctx, func(err error) {
		box.put(mail{guard: &guardMail{number: number, in: machine.GuardInput{Err: err}, rechecked: true}})
	})
}

// reported takes a message about a guard. It returns the input for the machine, or nil.
func (a *actor) reported(m *guardMail) *machine.Input {
	s := &a.guards[m.number]
	if in, ok := s.answered(m, a.now()); ok {
		a.stepGuard(s, in)
		return a.tell()
	}
	return nil
}

// answered takes a message about the guard, and returns the input for the guard machine, or false.
func (s *guardDriver) answered(m *guardMail, now time.Time) (in machine.GuardInput, ok bool) {
	s.cleanUp(m)
	if m.rechecked {
		// A guard that is not fit any more is left to the guard machine, which checks it
		// itself, again and again until it is fit. A server that does not reply proves
		// nothing.
		s.recheckAt = now.Add(recheckEvery)
		if m.in.Err == nil || errors.Is(m.in.Err, ErrUnreachable) {
			return m.in, false
		}
		s.recheckAt = time.Time{}
		return machine.GuardInput{Kind: machine.GuardInUnfit}, true
	}
	if m.in.Kind == machine.GuardInChecked && m.in.Err == nil {
		s.recheckAt = now.Add(recheckEvery)
	}
	if m.in.Err == nil && m.in.Kind != machine.GuardInSuspect && m.in.Kind != machine.GuardInUnfit {
		s.faults[m.in.Kind] = nil
	}
	return m.in, true
}

// stepGuard steps the guard machine of a guard and carries out the effects.
func (a *actor) stepGuard(s *guardDriver, in machine.GuardInput) {
	in.Jitter = a.rng.Uint32()
	if fault := s.step(a.values, &a.c.box, a.now(), a.status.Times.OrDefault().Lease, in, a.term); fault != nil {
		a.fault(fault)
	}
	a.noticeGuards()
}

// step steps the guard machine for a term, which may be nil, and carries out the effects. It returns a fault that is to be
// reported, or nil.
func (s *guardDriver) step(values context.Context, box *mailbox, now time.Time, lease time.Duration, in machine.GuardInput, term *Term) (fault error) {
	fx := s.Step(now, lease, in)
	if s.Raised && term != nil && term.token == s.Desired.Token {
		term.fences[s.number].Move(s.Seen.Revision, in.Kind == machine.GuardInRaised && in.Err == nil)
	}
	if fx.Fault != nil {
		kind := in.Kind
		if in.Err == nil {
			kind = machine.GuardInRaised
		}
		if old := s.faults[kind]; old == nil || old.Error() != fx.Fault.Error() {
			s.faults[kind] = fx.Fault
			fault = fmt.Errorf("guard of %s: %w", s.guard, fx.Fault)
		}
	}
	s.wakeAt = fx.Wake
	if fx.Cancel {
		s.cancel()
	}
	if fx.Op.Kind != machine.GuardNone {
		s.send(values, fx.Op, box)
	}
	return fault
}

// send sends a request to the guard. The reply goes to the mailbox.
func (s *guardDriver) send(values context.Context, op machine.GuardOp, box *mailbox) {
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(values)
	number := s.number
	answer := func(in machine.GuardInput) { box.put(mail{guard: &guardMail{number: number, in: in}}) }
	switch op.Kind {
	case machine.GuardCheck:
		s.asks.Check(ctx, func(err error) { answer(machine.GuardInput{Kind: machine.GuardInChecked, Err: err}) })
	case machine.GuardRead:
		s.asks.Get(ctx, func(e backend.Entry, err error) {
			answer(machine.GuardInput{Kind: machine.GuardInRead, Observed: record.DecodeGuard(e), Err: err})
		})
	case machine.GuardRaise:
		s.asks.Update(ctx, op.Rec.Encode(), op.Revision, func(revision uint64, err error) {
			answer(machine.GuardInput{Kind: machine.GuardInRaised, Revision: revision, Err: err})
		})
	case machine.GuardNone:
	}
}

// cleanUp releases the context of a request that is answered.
func (s *guardDriver) cleanUp(m *guardMail) {
	if m.rechecked {
		s.recheck()
		s.recheck = nil
		return
	}
	switch m.in.Kind {
	case machine.GuardInChecked, machine.GuardInRead, machine.GuardInRaised:
		s.cancel()
		s.cancel = nil
	case machine.GuardInTick, machine.GuardInDesired, machine.GuardInReconnected, machine.GuardInUnfit, machine.GuardInSuspect:
	}
}

// dismiss gives up the requests in flight, which still have to be answered.
func (s *guardDriver) dismiss() {
	if s.cancel != nil {
		s.cancel()
	}
	if s.recheck != nil {
		s.recheck()
	}
}

// busy reports whether a guard has not answered yet.
func (g guardDrivers) busy() bool {
	for i := range g {
		if g[i].cancel != nil || g[i].recheck != nil {
			return true
		}
	}
	return false
}

// fence makes the fence of a term at the guard.
func (s *guardDriver) fence(t *Term, box *mailbox) *fence {
	f := &fence{
		guard: s.guard, election: s.Election, session: s.Session, token: t.token, value: s.Seen.Rec.Encode(),
		over: t.ctx.Done(), revision: s.Seen.Revision, moved: make(chan struct{}),
	}
	number := s.number
	f.suspect = func() {
		box.put(mail{guard: &guardMail{number: number, in: machine.GuardInput{Kind: machine.GuardInSuspect}}})
	}
	return f
}
