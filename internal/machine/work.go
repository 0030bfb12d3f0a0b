package machine

import (
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// The end of the work of a term is awaited if the application takes its terms in a loop over Candidate.Terms, or when it
// begins work by Term.Go. Then the work of two terms never goes on at once in one candidate: while the work of a term goes
// on, no other term begins.
//
//   - A leader that steps down, and one that is fenced, drains: it keeps the key without
//     leading, until the work has ended or the time is up.
//   - Afterwards a candidate with work that goes on does not take the key. It releases a key
//     that it wins by a write that it had sent before.
//   - A leader whose work hangs steps down, for a cause that may come again.
//   - A candidate without a loop, after it had one, does not take the key either. It gives up
//     a key that it holds.

// workState is the application's work in the terms.
//
// going is set only where awaited is. idle is set only after a loop.
type workState struct {
	loops   bool // the application takes its terms in loops
	idle    bool // and it is in none now
	awaited bool // the end of the work of the last term is, or was, awaited
	going   bool // that work has not ended
}

// begin begins the work of a term, if its end is awaited.
func (w *workState) begin(awaited bool) { w.awaited, w.going = awaited, awaited }

// found notes that the term that leads has work.
func (w *workState) found() { w.awaited, w.going = true, true }

// end ends the work of the last term.
func (w *workState) end() { w.going = false }

// take begins a loop. A term that leads is work for it.
func (w *workState) take(leads bool) {
	w.loops, w.idle = true, false
	if leads {
		w.awaited, w.going = true, true
	}
}

// leave ends the last loop.
func (w *workState) leave() { w.idle = w.loops }

// gracePeriod returns how long the candidate keeps the key for work that goes on: one lease
// without a GracePeriod.
func (m *Machine) gracePeriod() time.Duration {
	if d := m.bucket.times.GracePeriod; d > 0 {
		return d
	}
	return m.bucket.times.Lease
}

// shut reports whether the candidate leaves the key alone even if it is free: it is suspended, its
// work goes on, or no loop takes its terms.
func (m *Machine) shut() bool { return m.suspended || m.work.going || m.work.idle }

// drained ends a drain, because the work has ended or the time is up. A leader that was
// fenced and has its key still is elected again if its work has ended in time. It gives the
// key up otherwise.
func (m *Machine) drained(now time.Time, fx *Effects) {
	if m.work.going {
		m.fault(NotReleased(m.term.token), fx)
	}
	switch {
	case m.leave.mode != Staying:
		m.becomeCandidate(fx)
	case m.work.going:
		m.withdraw(now, fx)
	default:
		m.term.draining, m.term.drainBy = false, time.Time{}
		m.renew.want()
	}
}

// NotReleased returns the fault that the work of a term goes on after its end.
func NotReleased(token uint64) error {
	return fmt.Errorf("%w: the work of the term with token %d goes on, and the candidate does not campaign before it ends: return from the loop's body and from the functions of Term.Go", backend.ErrNotReleased, token)
}

// givesUp reports whether the candidate keeps the key for work that goes on, and gives it up then.
func (m *Machine) givesUp() bool { return m.term.draining && m.leave.mode != Staying }

// isLate reports whether a call is for a term that another has followed.
func (m *Machine) isLate(in *Input) bool { return in.Term != 0 && in.Term != m.term.number }

// stalled steps down, because the work of the term hangs.
func (m *Machine) stalled(now time.Time, fx *Effects) {
	if m.state == StateLeader && m.work.going {
		m.leave.withdraw(now)
		m.stepDown(now, time.Time{}, backend.ErrStalled, fx)
	}
}

// ErrWorkReturned ends a term whose work has returned, before anything else ended it.
var ErrWorkReturned = fmt.Errorf("%w: the work of the term has returned", backend.ErrResigned)

// worked ends the work of a term, and hands over if the term still leads. Of an earlier term
// it is no news.
func (m *Machine) worked(now time.Time, term uint64, leave bool, fx *Effects) {
	if term != m.term.number {
		return
	}
	m.work.end()
	if leave && m.state == StateLeader {
		m.leave.withdraw(now)
		m.stepDown(now, time.Time{}, ErrWorkReturned, fx)
	}
}
