package machine

import (
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/record"
)

// GuardsReport is the combined state of a candidate's guards.
type GuardsReport struct {
	Fit   bool   // all can protect their streams; checked since the connection was last made
	Stand uint64 // all stand at this token, raised by this session; 0: not all, or not at the same
	Over  uint64 // the greatest token found at one of them that was not raised for the wish
}

// GuardsWish is the state in which the candidate wants its guards.
type GuardsWish struct {
	soon  bool   // a write that elects is on its way, so the guards are to be read
	Token uint64 // at which they are to stand, until further notice; 0: leave them alone
}

// raising reports whether a term is claimed that has not begun. Either its guards do not
// stand yet, or the lease was no longer valid when they did. The candidate renews its
// lease like a leader, because no other candidate's lease can be running.
func (m *Machine) raising() bool { return m.state == StatePending && m.term.token != 0 }

// wish returns the state in which the machine wants its guards. Only a leader, whose lease is
// valid by its own clock at every call of wish, and a candidate that has claimed a term and
// waits for its guards want them to stand at a token. So a leader that was fenced or deposed
// does not raise a deleted guard again.
func (m *Machine) wish() GuardsWish {
	w := GuardsWish{soon: m.flight.req.Kind == ReqWrite && m.flight.req.Rec.Phase == record.PhaseElect}
	if m.raising() || m.state == StateLeader {
		w.Token = m.term.token
	}
	return w
}

// guardsStand takes a report on the guards.
func (m *Machine) guardsStand(now time.Time, r GuardsReport, fx *Effects) {
	m.guards = r
	m.memory.count(record.KnownToken(r.Over))
	if m.state == StateLeader && r.Over >= m.term.token {
		// The session that raised it leads, or has led where this bucket's memory does
		// not reach. A new term needs a greater token.
		m.becomeFenced(now, time.Time{}, backend.ErrFenced, fx)
		m.reads.need()
	}
	m.begin(now, fx)
}

// begin begins the term that was claimed, if its guards stand and its lease is valid. If one
// of them stands at the same or a greater token that was not raised for this term, the claim
// is dropped and another write elects. Where the application takes no terms any more, the
// candidate gives the key up instead.
func (m *Machine) begin(now time.Time, fx *Effects) {
	switch {
	case !m.raising():
	case m.work.idle:
		m.withdraw(now, fx)
	case m.guards.Over >= m.term.token:
		m.term.unclaim()
	case m.Guarded && m.guards.Stand != m.term.token:
	case now.Before(m.term.leaseUntil):
		m.becomeLeader(now, fx)
	}
}
