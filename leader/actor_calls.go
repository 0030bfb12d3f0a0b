package leader

import (
	"fmt"
	"slices"
)

// calls are the calls of an application that wait for their outcome.
type calls struct {
	resigning  []chan error
	handing    []handing
	proclaimed []proclamation
}

// handing is a call of Transfer that waits until a candidate takes the key.
type handing struct {
	call chan error
	to   string // an ID or a session
}

// proclamation is a call of Proclaim that waits for its value to be stored.
type proclamation struct {
	call    chan error
	term    uint64
	counter uint64 // of the first write that carries the value
}

// answer answers the calls whose outcome is known.
func (a *actor) answer(in input, call chan error, next uint64, denied error) {
	switch {
	case call == nil:
	case denied != nil:
		call <- denied
	case in.kind == inResign && (in.to != "" || in.next):
		a.calls.handing = append(a.calls.handing, handing{call, a.m.leave.to})
	case in.kind == inResign:
		a.calls.resigning = append(a.calls.resigning, call)
	case in.kind == inProclaim:
		a.calls.proclaimed = append(a.calls.proclaimed, proclamation{call, a.m.term.number, next})
	}
	if a.m.leave.mode == staying || a.m.abandoned(a.now()) {
		for _, call := range a.calls.resigning {
			call <- nil
		}
		a.calls.resigning = nil
		if len(a.calls.handing) > 0 {
			a.taken()
		}
	}
	if len(a.calls.proclaimed) > 0 {
		a.calls.proclaimed = slices.DeleteFunc(a.calls.proclaimed, func(p proclamation) bool {
			switch {
			case a.m.state != StateLeader || a.m.term.number != p.term:
				p.call <- ErrNotLeader
			case a.m.writes.acked >= p.counter:
				p.call <- nil
			default:
				return false
			}
			return true
		})
	}
}

// taken answers the calls of Transfer when another holder of the key is seen, or when
// this candidate may take the key again and no other has taken it.
func (a *actor) taken() {
	s := a.m.key.seen
	by := s.kind == entryForeign || s.kind == entryRecord && s.rec.session != a.m.session
	if !by && !a.m.holds() && a.now().Before(a.m.leave.cooldownUntil) {
		return
	}
	a.c.mu.Lock()
	a.c.taker = s.rec.id
	a.c.mu.Unlock()
	for _, h := range a.calls.handing {
		switch {
		case by && (s.rec.id == h.to || s.rec.session == h.to):
			h.call <- nil
		case by:
			h.call <- fmt.Errorf("%w: %s", ErrNotSucceeded, holderOf(s, a.seat))
		default:
			h.call <- fmt.Errorf("%w: nobody has", ErrNotSucceeded)
		}
	}
	a.calls.handing = nil
}

// hangUp answers the calls that wait for a candidate that has ended.
func (a *actor) hangUp() {
	for _, h := range a.calls.handing {
		h.call <- fmt.Errorf("%w before it was seen who took the key", ErrStopped)
	}
	for _, call := range a.calls.resigning {
		if a.m.holds() {
			call <- fmt.Errorf("%w before the release was acknowledged", ErrStopped)
		} else {
			call <- nil
		}
	}
}
