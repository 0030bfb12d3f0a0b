package machine

import (
	"fmt"
)

// brokenInvariant returns the invariant of a part that does not hold, or an empty string.
// The random walks, the fuzz test and the transcripts check it after every step. The
// exploration cannot: its normal form clears fields that no machine looks at any more.
func (m *Machine) brokenInvariant() string {
	for _, part := range []struct {
		name   string
		broken string
	}{
		{"bucket", m.bucket.broken()},
		{"feed", m.feed.broken()},
		{"key", m.key.broken()},
		{"memory", m.memory.broken()},
		{"reads", m.reads.broken()},
		{"writes", m.writes.broken()},
		{"term", m.term.broken()},
		{"past", m.past.broken()},
		{"work", m.work.broken()},
		{"queue", m.queue.broken()},
		{"leave", m.leave.broken()},
		{"flight", m.flight.broken()},
		{"race", m.race.broken(m.holds())},
	} {
		if part.broken != "" {
			return part.name + ": " + part.broken
		}
	}
	switch holdsTerm := m.state == StateLeader || m.state == StateFenced; {
	case m.done:
	case holdsTerm && m.term.token == 0:
		return fmt.Sprintf("%v without a token", m.state)
	case m.state == StateCandidate && m.term.token != 0:
		return "a candidate with a token"
	case m.term.draining && m.state != StateFenced:
		return fmt.Sprintf("%v drains", m.state)
	case m.state == StateFenced && m.term.cause == nil, m.state != StateFenced && m.term.cause != nil:
		return fmt.Sprintf("%v with the cause %v", m.state, m.term.cause)
	case (m.state == StateLeader || m.state == StateFenced) && !m.renew.electFrom.IsZero():
		return fmt.Sprintf("%v waits until it may elect", m.state)
	}
	return ""
}

func (r *raceState) broken(holds bool) string {
	switch {
	case r.left > 0 && r.lost < 2:
		return fmt.Sprintf("it waits after %d refusals", r.lost)
	case holds && *r != raceState{trip: r.trip}:
		return "it goes on after a win"
	}
	return ""
}
