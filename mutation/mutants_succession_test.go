package mutation_test

// The mutants of the order of succession. Without most of these rules nothing unsafe
// happens: another candidate leads, or leads later. So the transcripts catch the
// mutants.
var successionMutants = []mutant{
	{
		name:   "nobody waits for a turn",
		edits:  []string{"return later(at.Add(m.turn()), m.cooldownUntil)", "return later(at, m.cooldownUntil)"},
		caught: "transcript succession",
	},
	{
		name:   "who resigned tries when it is its turn",
		edits:  []string{"return later(at.Add(m.turn()), m.cooldownUntil)", "return at.Add(m.turn())"},
		caught: "transcript succession",
	},
	{
		name:   "the named one waits for its turn",
		edits:  []string{"	if m.named() {\n		return at", "	if m.named() && m.done {\n		return at"},
		caught: "transcript succession",
	},
	{
		name:   "the named one sits out",
		edits:  []string{"		return at // also", "		return later(at, m.cooldownUntil) // also"},
		caught: "transcript succession",
	},
	{
		name:   "an own release names oneself",
		edits:  []string{"return m.given() && r.session != m.session && r.names", "return m.given() && r.names"},
		caught: "transcript succession",
	},
	{
		name:   "named by the session alone",
		edits:  []string{"return r.to == session || r.to == id", "return r.to == session"},
		caught: "transcript succession",
	},
	{
		name:   "named by the ID alone",
		edits:  []string{"return r.to == session || r.to == id", "return r.to == id"},
		caught: "transcript succession",
	},
	{
		name:   "the others do not wait for the named one",
		edits:  []string{"		turns++ // somebody else is named\n", ""},
		caught: "transcript succession",
	},
	{
		name:   "who races does not wait for the named one",
		edits:  []string{"return time.Duration(turns) * m.times.turn", "return 0"},
		caught: "transcript succession",
	},
	{
		name:   "who races waits for its turn",
		edits:  []string{"	if !m.orders || m.line == \"\" {", "	if m.line == \"\" {"},
		caught: "transcript succession",
	},
	{
		name:   "who is not in line does not draw lots",
		edits:  []string{"	if !in {\n		d +=", "	if !in && m.done {\n		d +="},
		caught: "transcript succession",
	},
	{
		name:   "who is in line draws lots",
		edits:  []string{"	if !in {\n		d +=", "	{\n		d +=", "	ahead, in := m.line.place(m.session)\n	d :=", "	ahead, _ := m.line.place(m.session)\n	d :="},
		caught: "transcript succession",
	},
	{
		name:   "without a line lots are drawn",
		edits:  []string{"	if !m.orders || m.line == \"\" {", "	if !m.orders {"},
		caught: "transcript succession",
	},
	{
		name:   "the line keeps the winner",
		edits:  []string{"rec.next, rec.priority = m.line.without(m.session), m.priority", "rec.next, rec.priority = m.line, m.priority", "		m.line = m.line.without(m.session)\n", ""},
		caught: "transcript succession",
	},
	{
		name:   "the line is lost on the winner",
		edits:  []string{"		m.line = m.line.without(m.session)\n", "		m.line = \"\"\n"},
		caught: "transcript succession",
	},
	{
		name:   "a line that nobody keeps is handed on",
		edits:  []string{"	if m.listed {\n		rec.next, rec.priority =", "	{\n		rec.next, rec.priority ="},
		caught: "transcript succession",
	},
	{
		name:   "the line of one before the last is followed",
		edits:  []string{"		m.line, s.rec.next = s.rec.next, \"\"\n", "		if s.rec.next != \"\" {\n			m.line, s.rec.next = s.rec.next, \"\"\n		}\n"},
		caught: "transcript succession",
	},
	{
		name:   "a marker makes a queue a race",
		edits:  []string{"	if s.kind == entryRecord {\n		m.line, s.rec.next", "	{\n		m.line, s.rec.next"},
		caught: "transcript succession",
	},
	{
		name:   "the roster is told to who does not hold the key",
		edits:  []string{"	if !m.holds() {\n		return\n	}\n	// The first line", "	// The first line"},
		caught: "transcript succession",
	},
	{
		name:   "the first line waits for a renewal",
		edits:  []string{"	m.renewNow = m.renewNow || m.state == StateLeader && m.line == \"\" && r.line != \"\"\n", ""},
		caught: "transcript succession",
	},
	{
		name:   "every line is published at once",
		edits:  []string{"m.state == StateLeader && m.line == \"\" && r.line != \"\"", "m.state == StateLeader && m.line != r.line"},
		caught: "transcript succession",
	},
	{
		name:   "a release before the roster was looked at",
		edits:  []string{"	return m.leftAt.Add(m.times.turn)\n", "	return time.Time{}\n"},
		caught: "transcript succession",
	},
	{
		name:   "a stop before the roster was looked at",
		edits:  []string{"	m.leaving, m.leftAt = stopping, now\n", "	m.leaving = stopping\n"},
		caught: "transcript succession",
	},
	{
		name:   "a release waits for the roster for ever",
		edits:  []string{"	return m.leftAt.Add(m.times.turn)\n", "	return m.leftAt.Add(1000 * m.times.lease)\n"},
		caught: "transcript succession",
	},
	{
		name:   "a transfer waits for the roster",
		edits:  []string{"|| m.line != \"\" || m.to != \"\" {", "|| m.line != \"\" {"},
		caught: "transcript succession",
	},
	{
		name:   "without a roster a release waits for it",
		edits:  []string{"	if !m.listed || m.ranks ||", "	if m.ranks ||"},
		caught: "transcript succession",
	},
	{
		name:   "the roster of an earlier term counts",
		edits:  []string{"			m.ranks = false\n", ""},
		caught: "transcript succession",
	},
	{
		name:   "a rival preempts at once",
		edits:  []string{"!now.Before(later(r.preemptor.since, m.ledAt)", "!now.Before(m.ledAt"},
		caught: "transcript succession",
	},
	{
		name:   "who leads since a moment ago gives way",
		edits:  []string{"!now.Before(later(r.preemptor.since, m.ledAt)", "!now.Before(r.preemptor.since"},
		caught: "transcript succession",
	},
	{
		name:   "the next handover follows one in vain at once",
		edits:  []string{"stayed && !now.Before(m.yieldsFrom) {", "stayed {"},
		caught: "transcript succession",
	},
	{
		name:   "the wait after handovers in vain does not grow",
		edits:  []string{"m.timing().lease << min(m.vain, patienceDoubles)", "m.timing().lease << min(m.vain, 1)"},
		caught: "transcript succession",
	},
	{
		name:   "the wait after handovers in vain grows without end",
		edits:  []string{"m.timing().lease << min(m.vain, patienceDoubles)", "m.timing().lease << m.vain"},
		caught: "transcript succession",
	},
	{
		name:   "handovers in vain are never forgotten",
		edits:  []string{"	if !now.Before(m.yieldsFrom.Add(m.longestPatience())) {\n		m.vain = 0\n	}\n", ""},
		caught: "transcript succession",
	},
	{
		name:   "candidates that wait do not count handovers in vain",
		edits:  []string{"	m.succeeded(now, s)\n	m.seen, m.seenAt, m.absent", "	m.seen, m.seenAt, m.absent"},
		caught: "transcript succession",
	},
	{
		name:   "the winner does not count the handover in vain",
		edits:  []string{"	m.succeeded(now, s)\n	m.seen, m.seenAt = s, now\n	m.acked", "	m.seen, m.seenAt = s, now\n	m.acked"},
		caught: "transcript succession",
	},
	{
		name:   "a handover to a candidate that takes the key is in vain",
		edits:  []string{" || m.seen.rec.names(next.rec.id, next.rec.session) {", " {"},
		caught: "transcript succession",
	},
	{
		name:   "a release in favour of no candidate is in vain",
		edits:  []string{"	if !m.given() || !next.held() ||", "	if !next.held() ||"},
		caught: "transcript succession",
	},
	{
		name: "a handover that succeeds begins the count anew",
		edits: []string{
			"	if !m.given() || !next.held() ||",
			"	if m.given() && next.held() && m.seen.rec.names(next.rec.id, next.rec.session) {\n		m.vain, m.yieldsFrom = 0, time.Time{}\n	}\n	if !m.given() || !next.held() ||",
		},
		caught: "transcript succession",
	},
	{
		name:   "a candidate that may not write stands",
		edits:  []string{"			m.standsFrom = now.Add(m.longestPatience())\n", ""},
		caught: "transcript succession",
	},
	{
		name:   "a candidate that may not write never stands again",
		edits:  []string{"m.standsFrom = now.Add(m.longestPatience())", "m.standsFrom = now.Add(2 * m.longestPatience())"},
		caught: "transcript succession",
	},
	{
		name:   "a reconnection changes no permission",
		edits:  []string{"		m.standsFrom = time.Time{}\n		m.fails, m.retryAt = 0, now\n", "		m.fails, m.retryAt = 0, now\n"},
		caught: "transcript succession",
	},
	{
		name:   "a write that is refused is taken for one that is denied",
		edits:  []string{"	m.standsFrom = time.Time{} // a refusal is the stream's, so the write was allowed\n", ""},
		caught: "transcript succession",
	},
	{
		name:   "a write that is stored is taken for one that is denied",
		edits:  []string{"	m.standsFrom = time.Time{}\n	m.soothe(now, true)", "	m.soothe(now, true)"},
		caught: "transcript succession",
	},
	{
		name: "a pending candidate gives way to a rival",
		edits: []string{
			"	if m.state == StateLeader && r.preemptor.session != \"\" && stayed && !now.Before(m.yieldsFrom) {",
			"	if m.state == StatePending && r.preemptor.session != \"\" && stayed {\n		m.leaving, m.leftAt, m.to = resigning, now, r.preemptor.session\n		m.becomeCandidate(fx)\n	}\n	if m.state == StateLeader && r.preemptor.session != \"\" && stayed && !now.Before(m.yieldsFrom) {",
		},
		caught: "transcript succession",
	},
	{
		name: "a leader that leaves gives way to a rival",
		edits: []string{
			"	if m.state == StateLeader && r.preemptor.session != \"\" && stayed && !now.Before(m.yieldsFrom) {",
			"	if m.draining && r.preemptor.session != \"\" && stayed {\n		m.to = r.preemptor.session\n	}\n	if m.state == StateLeader && r.preemptor.session != \"\" && stayed && !now.Before(m.yieldsFrom) {",
		},
		caught: "transcript succession",
	},
	{
		name:   "the release names nobody",
		edits:  []string{"		rec.to = m.to\n", ""},
		caught: "transcript succession",
	},
	{
		name:   "a transfer to the next without a roster",
		edits:  []string{"	case in.next && (!m.listed || m.line == \"\" && !m.ranks):\n		fx.denied = ErrNoRoster\n", ""},
		caught: "transcript succession",
	},
	{
		name:   "a transfer to the next where nobody stands",
		edits:  []string{"	case in.next && m.line == \"\":\n		fx.denied = ErrNotStanding\n", ""},
		caught: "transcript succession",
	},
	{
		name:   "the next is an empty roster's before it has told",
		edits:  []string{"(!m.listed || m.line == \"\" && !m.ranks)", "!m.listed"},
		caught: "transcript succession",
	},
	{
		name:   "a second transfer takes the place of the first",
		edits:  []string{"	plain := in.to == \"\" && !in.next\n", "	plain := in.to == \"\" && !in.next\n	if m.leaving == resigning && in.to != \"\" {\n		m.to = in.to\n	}\n"},
		caught: "transcript succession",
	},
	{
		name:   "who has named a successor sits out a lease",
		edits:  []string{"	if m.to == \"\" {\n		return m.times.lease\n", "	if m.done || m.to != \"none\" {\n		return m.times.lease\n"},
		caught: "transcript succession",
	},
	{
		name:   "who has named a successor stands behind nobody",
		edits:  []string{"return min(m.times.lease, time.Duration(ahead+1+crowding)*m.times.turn)", "return min(m.times.lease, time.Duration(1)*m.times.turn+0*time.Duration(ahead))"},
		caught: "transcript succession",
	},
	{
		name:   "who has named a successor sits out for longer than a lease",
		edits:  []string{"return min(m.times.lease, time.Duration(ahead+1+crowding)*m.times.turn)", "return time.Duration(ahead+1+crowding) * m.times.turn"},
		caught: "transcript succession",
	},
	{
		name:   "a successor once named is named for ever",
		edits:  []string{"		m.cooldownUntil = now.Add(m.sitsOut())\n		m.to = \"\"\n", "		m.cooldownUntil = now.Add(m.sitsOut())\n"},
		caught: "transcript succession",
	},
	{
		name:   "who sits out stands",
		edits:  []string{"!now.Before(later(m.cooldownUntil, m.standsFrom))", "!now.Before(m.standsFrom)"},
		caught: "transcript succession",
	},
	{
		name:   "who holds the key stands",
		edits:  []string{"m.seen.kind != entryUnseen && !m.holds() &&", "m.seen.kind != entryUnseen &&"},
		caught: "transcript succession",
	},
	{
		name:   "who leaves stands",
		edits:  []string{"m.settled && m.leaving == staying && m.seen", "m.settled && m.seen"},
		caught: "transcript succession",
	},
	{
		name:   "who knows nothing of the key stands",
		edits:  []string{" && m.seen.kind != entryUnseen && !m.holds()", " && !m.holds()"},
		caught: "transcript succession",
	},
	{
		name:   "who does not know the bucket stands",
		edits:  []string{"return m.listed && m.settled && m.leaving", "return m.listed && m.leaving"},
		caught: "transcript succession",
	},
	{
		name:   "who has guards that are not fit stands",
		edits:  []string{"		(!m.guarded || m.guards.fit) && !now.Before(later(", "		!now.Before(later("},
		caught: "transcript succession",
	},
	{
		name:   "who keeps no roster stands",
		edits:  []string{"return m.listed && m.settled && m.leaving", "return m.settled && m.leaving"},
		caught: "transcript succession",
	},
	{
		name:   "a read that the feed was faster than puts off the next try",
		edits:  []string{"case req.revision != m.seen.revision: // the feed", "case m.seen.revision == 0: // the feed"},
		caught: "transcript succession",
	},
}
