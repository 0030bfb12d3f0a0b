package leader

import "time"

// A candidate can be barred. It then hears and reads all that another does, so
// that it can take its key with one write as soon as the gate is opened, and never
// writes to take it. An earlier write of its own may still be stored: what it wins
// so is released as soon as it may be, never led. So who is barred is neither
// pending, nor leads, nor is fenced.

// bar closes the gate of a candidate. Who holds the key, or is about to give it up
// after a term, goes on.
func (m *machine) bar() { m.barred = m.barred || m.state == StateCandidate }

// open opens the gate. Until then it takes no lease, and later publishes the value.
func (m *machine) open(until time.Time, value string) {
	m.barred = false
	m.away = later(m.away, until)
	m.value = value
}

// unbarred is the request that would be due next if the gate were open.
func (m *machine) unbarred(now time.Time) agenda {
	open := *m
	open.barred = false
	return open.next(now)
}

// eager reports whether all that keeps it from writing to take its key now is that
// it is barred.
func (m *machine) eager(now time.Time) bool {
	a := m.unbarred(now)
	return m.barred && m.leaving == staying && a.kind == reqWrite && !a.at.After(now)
}

// engaged reports whether the key is its own, or may turn out to be by a write that
// was sent: until another revision is known than that which the newest write was
// to replace. Those before it were to replace that one or an older. Where keys are
// emptied without a trace, one that found nothing may still be stored afterwards.
func (m *machine) engaged() bool {
	return m.state != StateCandidate || m.holds() || m.leaving != staying || m.op.kind == reqWrite ||
		m.counter > 0 && m.sent[0].cond == m.seen.revision
}
