package leader

import "time"

// guardsReport is how the guards of a candidate stand, taken together.
type guardsReport struct {
	fit   bool   // all can protect what they stand for; asked since the connection was last made
	stand uint64 // all stand at this token, raised by this session; 0: not all, or not at the same
	over  uint64 // the greatest token of another session that was found at one of them
}

// guardsWish is what the candidate wants of its guards.
type guardsWish struct {
	soon  bool   // a write that elects is on its way: see how they stand
	token uint64 // to stand at, until further notice; 0: let them be
}

// raising reports whether a term is claimed that has not begun, because its
// guards do not stand yet, or the lease was not good any more when they did. It
// is renewed like that of a leader: nobody else's lease can be running.
func (m *machine) raising() bool { return m.state == StatePending && m.token != 0 }

// wish is what the machine wants of its guards. A leader has a good lease, by its
// own clock, whenever it is asked: so only who leads raises a guard again that
// somebody has deleted.
func (m *machine) wish() guardsWish {
	w := guardsWish{soon: m.op.kind == reqWrite && m.op.rec.phase == phaseElect}
	if m.raising() || m.state == StateLeader {
		w.token = m.token
	}
	return w
}

// guardsStand takes what the guards have to tell.
func (m *machine) guardsStand(now time.Time, r guardsReport, fx *effects) {
	m.guards = r
	m.topToken = max(m.topToken, knownToken(r.over))
	if m.state == StateLeader && r.over >= m.token {
		// Whoever raised it leads, or has led where this bucket's memory does not
		// reach. A new term needs a greater token.
		m.becomeFenced(now, ErrFenced, fx)
		m.look = true
	}
	m.begin(now, fx)
}

// begin begins the term that was claimed, if its guards stand and its lease is
// good. If one of them stands at a greater token, another write elects.
func (m *machine) begin(now time.Time, fx *effects) {
	switch {
	case !m.raising():
	case m.guards.over >= m.token:
		m.unclaim()
	case m.guarded && m.guards.stand != m.token:
	case now.Before(m.good):
		m.becomeLeader(now, fx)
	}
}
