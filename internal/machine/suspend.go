package machine

import "time"

// A candidate can be suspended. A suspended candidate hears and reads as much as any other,
// so that it can take its key with one write as soon as it is resumed. It never writes to
// take its key. An earlier write of its own may still be stored. The candidate releases a
// key that it wins by such a write as soon as it may, and never leads with it. So a
// suspended candidate is never Pending, Leader or Fenced.

// suspend keeps the candidate from taking its key. A machine that holds the key, or is about
// to give it up after a term, goes on.
func (m *Machine) suspend() { m.suspended = m.suspended || m.state == StateCandidate }

// resume lets the candidate take its key again. The candidate takes no lease before until,
// and later publishes the value.
func (m *Machine) resume(until time.Time, value string) {
	m.suspended = false
	m.leave.coolDown(Later(m.leave.cooldownUntil, until))
	m.value = value
}

// ifResumed returns the request that would be due next if the candidate were resumed. Its
// copy of the machine must not be on the stack of each step.
//
//go:noinline
func (m *Machine) ifResumed(now time.Time) agenda {
	open := *m
	open.suspended = false
	return open.next(now)
}

// isTaking reports whether the candidate waits for a slot to write to take its key now.
func (m *Machine) isTaking(now time.Time) bool {
	if m.suspended || m.flight.slot != slotWaits || m.leave.mode != Staying {
		return false
	}
	a := m.next(now)
	return a.kind == ReqWrite && !a.at.After(now)
}

// wantsKey reports whether being suspended is all that keeps the candidate from writing to
// take its key now.
func (m *Machine) wantsKey(now time.Time) bool {
	if !m.suspended || m.leave.mode != Staying {
		return false
	}
	a := m.ifResumed(now)
	return a.kind == ReqWrite && !a.at.After(now)
}

// mayHoldKey reports whether the candidate holds the key, has work that goes on, or may turn
// out to hold the key by a write that it has sent. Such a write may win until the candidate
// knows another revision than the one that its newest write was to replace. The writes before the newest were to
// replace that revision or an older one. In a bucket where keys are emptied without a
// trace, a write that was to replace no message may still be stored afterwards.
func (m *Machine) mayHoldKey() bool {
	return m.state != StateCandidate || m.work.going || m.leave.mode != Staying || m.flight.req.Kind == ReqWrite || m.mayKeep()
}

// mayKeep reports whether the candidate holds the key, or its newest write may have taken it.
func (m *Machine) mayKeep() bool {
	return m.holds() || m.writes.counter > 0 && m.writes.sent[0].cond == m.key.seen.Revision
}
