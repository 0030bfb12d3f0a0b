package leader

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
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
	// told has the fault that was reported when a request of that kind failed, until one
	// succeeds. A fault of the guard itself stands with guardInRaised.
	told [guardInRaised + 1]string

	recheckAt time.Time          // zero: the guard has not been found fit
	recheck   context.CancelFunc // of the check in flight that the guard machine knows nothing of
}

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

// addGuards makes the guard drivers of a candidate.
func (a *actor) addGuards(guards []Guard) {
	election := a.c.election
	if b, ok := a.c.store.(*bucketStore); ok {
		election = b.name + "/" + election
	}
	for i, g := range guards {
		a.guards = append(a.guards, guardDriver{
			number: i, guard: g, asks: g.Backend(),
			guardMachine: guardMachine{guardParams: guardParams{id: a.m.id, session: a.m.session, election: election}},
		})
	}
}

// tell makes the machine and the guard machines agree after either has changed. The machine's
// effects are carried out before.
func (a *actor) tell() {
	if w := a.m.wish(); w != a.wish {
		a.wish = w
		for i := range a.guards {
			a.stepGuard(&a.guards[i], guardInput{kind: guardInWish, wish: w})
		}
	}
	if r := a.report(); r != a.m.guards && !a.m.done {
		a.step(input{kind: inGuards, guards: r}, nil)
	}
}

// wakeAt returns when one of the guard machines is to step again, or wake if that is earlier.
func (a *actor) wakeAt(wake time.Time) time.Time {
	for i := range a.guards {
		wake = earlier(wake, a.guards[i].wakeAt)
		if a.guards[i].recheck == nil {
			wake = earlier(wake, a.guards[i].recheckAt)
		}
	}
	return wake
}

// report returns the combined state of the guards.
func (a *actor) report() guardsReport {
	r := guardsReport{fit: true, stand: a.wish.token}
	for i := range a.guards {
		s := &a.guards[i]
		r.fit = r.fit && s.ready()
		r.over = max(r.over, s.over())
		if !s.stands {
			r.stand = 0
		}
	}
	return r
}

// stepGuards steps every guard machine.
func (a *actor) stepGuards(in guardInput) {
	if len(a.guards) == 0 {
		return
	}
	for i := range a.guards {
		if in.kind == guardInReconnected {
			a.guards[i].recheckAt = time.Time{}
		}
		a.stepGuard(&a.guards[i], in)
		a.checkAgain(&a.guards[i])
	}
	a.tell()
}

// checkAgain checks a guard again if a recheck is due.
func (a *actor) checkAgain(s *guardDriver) {
	if s.recheck != nil || s.recheckAt.IsZero() || a.now().Before(s.recheckAt) || a.m.done {
		return
	}
	ctx, cancel := deadline.Within(a.values, deadline.Default)
	s.recheck = cancel
	box, number := &a.c.box, s.number
	s.asks.Check(ctx, func(err error) {
		box.put(mail{guard: &guardMail{number: number, in: guardInput{err: err}, rechecked: true}})
	})
}

// recheckedAs takes the reply to a recheck. A guard that is not fit any more is left to
// the guard machine, which checks it itself, again and again until it is fit. A server that does
// not reply proves nothing.
func (a *actor) recheckedAs(s *guardDriver, err error) {
	s.recheckAt = a.now().Add(recheckEvery)
	if err != nil && !errors.Is(err, ErrUnreachable) {
		s.recheckAt = time.Time{}
		a.stepGuard(s, guardInput{kind: guardInUnfit})
		a.tell()
	}
}

// reported takes a message about a guard.
func (a *actor) reported(m *guardMail) {
	s := &a.guards[m.number]
	s.cleanUp(m)
	if m.rechecked {
		a.recheckedAs(s, m.in.err)
		return
	}
	if m.in.kind == guardInChecked && m.in.err == nil {
		s.recheckAt = a.now().Add(recheckEvery)
	}
	if m.in.err == nil && m.in.kind != guardInSuspect {
		s.told[m.in.kind] = ""
	}
	a.stepGuard(s, m.in)
	a.tell()
}

// stepGuard steps the guard machine of a guard and carries out the effects.
func (a *actor) stepGuard(s *guardDriver, in guardInput) {
	in.dice = a.rng.Uint32()
	fx := s.step(a.now(), a.m.timing().lease, in)
	if s.stands && a.term != nil && a.term.token == s.wish.token {
		a.term.fences[s.number].Move(s.seen.revision, in.kind == guardInRaised && in.err == nil)
	}
	if fx.fault != nil {
		kind := in.kind
		if in.err == nil {
			kind = guardInRaised
		}
		if text := fx.fault.Error(); text != s.told[kind] {
			s.told[kind] = text
			a.fault(fmt.Errorf("guard of %s: %w", s.guard, fx.fault))
		}
	}
	s.wakeAt = fx.wake
	if fx.cancel {
		s.cancel()
	}
	if fx.op.kind != guardNone {
		a.request(s, fx.op)
	}
}

// request sends a request to the guard. The reply goes to the mailbox.
func (a *actor) request(s *guardDriver, op guardOp) {
	ctx, cancel := context.WithCancel(a.values)
	s.cancel = cancel
	box, number := &a.c.box, s.number
	answer := func(in guardInput) { box.put(mail{guard: &guardMail{number: number, in: in}}) }
	switch op.kind {
	case guardCheck:
		s.asks.Check(ctx, func(err error) { answer(guardInput{kind: guardInChecked, err: err}) })
	case guardRead:
		s.asks.Get(ctx, func(e backend.Entry, err error) {
			answer(guardInput{kind: guardInRead, observed: decodeGuard(e), err: err})
		})
	case guardRaise:
		s.asks.Update(ctx, op.rec.encode(), op.revision, func(revision uint64, err error) {
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

// guarding reports whether a guard has not answered yet.
func (a *actor) guarding() bool {
	for i := range a.guards {
		if a.guards[i].cancel != nil || a.guards[i].recheck != nil {
			return true
		}
	}
	return false
}

// fence makes the fence of a term at the guard.
func (s *guardDriver) fence(t *Term, box *mailbox) *fence {
	f := &fence{
		guard: s.guard, election: s.election, session: s.session, token: t.token, value: s.seen.rec.encode(),
		over: t.ctx.Done(), revision: s.seen.revision, moved: make(chan struct{}),
	}
	number := s.number
	f.suspect = func() { box.put(mail{guard: &guardMail{number: number, in: guardInput{kind: guardInSuspect}}}) }
	return f
}
