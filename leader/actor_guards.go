package leader

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"

	"github.com/natsleader/natsleader/internal/record"

	"github.com/natsleader/natsleader/internal/natskv"
)

// guardDriver is one guard of a candidate. It has the guard machine, which decides on the
// requests, and the actor's means to send them.
type guardDriver struct {
	guardMachine
	number int
	guard  Guard
	asks   backend.Guard
	cancel context.CancelFunc // of the request in flight; nil if there is none
	wakeAt time.Time
	// reported has the fault that was reported when a request of that kind failed, until one
	// succeeds. A fault of the guard itself stands with guardInRaised.
	reported [guardInRaised + 1]string

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

// guardMail is mail about a guard.
type guardMail struct {
	number    int
	in        guardInput
	rechecked bool // in.err is the answer to a recheck
}

// checkGuards rejects guards that are missing or listed twice.
func checkGuards(guards []Guard) error {
	for i, g := range guards {
		if g == nil || g.Backend() == nil {
			return fmt.Errorf("%w: Guards[%d] is nil, or %w", ErrInvalidConfig, i, backend.ErrNotOpened)
		}
		if !reflect.TypeOf(g).Comparable() {
			return fmt.Errorf("%w: Guards[%d] is a %T, which cannot be compared", ErrInvalidConfig, i, g)
		}
		for j, other := range guards[:i] {
			if other == g {
				return fmt.Errorf("%w: Guards[%d] and Guards[%d] are the same, %s", ErrInvalidConfig, j, i, g)
			}
		}
	}
	return nil
}

// newGuardDrivers makes the guard drivers of a candidate.
func newGuardDrivers(c *Candidate, p params, guards []Guard) guardDrivers {
	election := c.election
	if b, ok := c.store.(*natskv.Bucket); ok {
		election = b.Name() + "/" + election
	}
	var all guardDrivers
	for i, g := range guards {
		all = append(all, guardDriver{
			number: i, guard: g, asks: g.Backend(),
			guardMachine: guardMachine{guardParams: guardParams{id: p.id, session: p.session, election: election}},
		})
	}
	return all
}

// tell makes the machine and the guard machines agree after either has changed. It returns the
// input for the machine, or nil.
func (a *actor) tell() *input {
	if len(a.guards) == 0 {
		return nil
	}
	if w := a.status.wish; w != a.wish {
		a.wish = w
		for i := range a.guards {
			a.stepGuard(&a.guards[i], guardInput{kind: guardInWish, wish: w})
		}
	}
	if r := a.guards.report(a.wish.token); r != a.status.guards && !a.status.done {
		return &input{kind: inGuards, guards: r}
	}
	return nil
}

// wakeAt returns when one of the guard machines is to step again, or wake if that is earlier.
func (g guardDrivers) wakeAt(wake time.Time) time.Time {
	for i := range g {
		wake = earlier(wake, g[i].wakeAt)
		if g[i].recheck == nil {
			wake = earlier(wake, g[i].recheckAt)
		}
	}
	return wake
}

// report returns the combined state of the guards, for the token at which they are to stand.
func (g guardDrivers) report(token uint64) guardsReport {
	r := guardsReport{fit: true, stand: token}
	for i := range g {
		s := &g[i]
		r.fit = r.fit && s.ready()
		r.over = max(r.over, s.over())
		if !s.stands {
			r.stand = 0
		}
	}
	return r
}

// stepGuards steps every guard machine. It returns the input for the machine, or nil.
func (a *actor) stepGuards(in guardInput) *input {
	for i := range a.guards {
		if in.kind == guardInReconnected {
			a.guards[i].recheckAt = time.Time{}
		}
		a.stepGuard(&a.guards[i], in)
		if !a.status.done {
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
		box.put(mail{guard: &guardMail{number: number, in: guardInput{err: err}, rechecked: true}})
	})
}

// reported takes a message about a guard. It returns the input for the machine, or nil.
func (a *actor) reported(m *guardMail) *input {
	s := &a.guards[m.number]
	s.cleanUp(m)
	if m.rechecked {
		// A guard that is not fit any more is left to the guard machine, which checks it
		// itself, again and again until it is fit. A server that does not reply proves
		// nothing.
		s.recheckAt = a.now().Add(recheckEvery)
		if m.in.err == nil || errors.Is(m.in.err, ErrUnreachable) {
			return nil
		}
		s.recheckAt = time.Time{}
		m.in = guardInput{kind: guardInUnfit}
	}
	if m.in.kind == guardInChecked && m.in.err == nil {
		s.recheckAt = a.now().Add(recheckEvery)
	}
	if m.in.err == nil && m.in.kind != guardInSuspect && m.in.kind != guardInUnfit {
		s.reported[m.in.kind] = ""
	}
	a.stepGuard(s, m.in)
	return a.tell()
}

// stepGuard steps the guard machine of a guard and carries out the effects.
func (a *actor) stepGuard(s *guardDriver, in guardInput) {
	in.dice = a.rng.Uint32()
	fx := s.step(a.now(), a.status.times.orDefault().lease, in)
	if s.stands && a.term != nil && a.term.token == s.wish.token {
		a.term.fences[s.number].Move(s.seen.Revision, in.kind == guardInRaised && in.err == nil)
	}
	if fx.fault != nil {
		kind := in.kind
		if in.err == nil {
			kind = guardInRaised
		}
		if text := fx.fault.Error(); text != s.reported[kind] {
			s.reported[kind] = text
			a.fault(fmt.Errorf("guard of %s: %w", s.guard, fx.fault))
		}
	}
	s.wakeAt = fx.wake
	if fx.cancel {
		s.cancel()
	}
	if fx.op.kind != guardNone {
		s.send(a.values, fx.op, &a.c.box)
	}
}

// send sends a request to the guard. The reply goes to the mailbox.
func (s *guardDriver) send(values context.Context, op guardOp, box *mailbox) {
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(values)
	number := s.number
	answer := func(in guardInput) { box.put(mail{guard: &guardMail{number: number, in: in}}) }
	switch op.kind {
	case guardCheck:
		s.asks.Check(ctx, func(err error) { answer(guardInput{kind: guardInChecked, err: err}) })
	case guardRead:
		s.asks.Get(ctx, func(e backend.Entry, err error) {
			answer(guardInput{kind: guardInRead, observed: record.DecodeGuard(e), err: err})
		})
	case guardRaise:
		s.asks.Update(ctx, op.rec.Encode(), op.revision, func(revision uint64, err error) {
			answer(guardInput{kind: guardInRaised, revision: revision, err: err})
		})
	case guardNone:
	}
}

// cleanUp releases the context of a request that is answered.
func (s *guardDriver) cleanUp(m *guardMail) {
	if m.rechecked {
		s.recheck()
		s.recheck = nil
		return
	}
	switch m.in.kind {
	case guardInChecked, guardInRead, guardInRaised:
		s.cancel()
		s.cancel = nil
	case guardInTick, guardInWish, guardInReconnected, guardInUnfit, guardInSuspect:
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
		guard: s.guard, election: s.election, session: s.session, token: t.token, value: s.seen.Rec.Encode(),
		over: t.ctx.Done(), revision: s.seen.Revision, moved: make(chan struct{}),
	}
	number := s.number
	f.suspect = func() { box.put(mail{guard: &guardMail{number: number, in: guardInput{kind: guardInSuspect}}}) }
	return f
}
