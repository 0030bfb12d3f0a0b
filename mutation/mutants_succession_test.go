package mutation_test

// The mutants of the order of succession. Without most of these rules nothing unsafe
// happens: another candidate leads, or leads Later. So the transcripts catch the
// mutants.
var successionMutants = []mutant{
	{
		name:   "nobody waits for a turn",
		edits:  []string{"return Later(at.Add(m.turn()), m.leave.cooldownUntil)", "return Later(at, m.leave.cooldownUntil)"},
		caught: "transcript succession",
	},
	{
		name:   "who resigned tries when it is its turn",
		edits:  []string{"return Later(at.Add(m.turn()), m.leave.cooldownUntil)", "return at.Add(m.turn())"},
		caught: "transcript succession",
	},
	{
		name:   "the named one waits for its turn",
		edits:  []string{"	if m.named() {\n		return at", "	if m.named() && m.done {\n		return at"},
		caught: "transcript succession",
	},
	{
		name:   "the named one sits out",
		edits:  []string{"		return at // also", "		return Later(at, m.leave.cooldownUntil) // also"},
		caught: "transcript succession",
	},
	{
		name:   "an own release names oneself",
		edits:  []string{"return m.given() && m.key.seen.Rec.Session != m.Session && m.key.seen.Rec.Names", "return m.given() && m.key.seen.Rec.Names"},
		caught: "transcript succession",
	},
	{
		name:   "named by the session alone",
		edits:  []string{"return r.To == session || r.To == id", "return r.To == session"},
		caught: "transcript succession",
	},
	{
		name:   "named by the ID alone",
		edits:  []string{"return r.To == session || r.To == id", "return r.To == id"},
		caught: "transcript succession",
	},
	{
		name:   "the others do not wait for the named one",
		edits:  []string{"		turns++ // somebody else is named\n", ""},
		caught: "transcript succession",
	},
	{
		name:   "who races does not wait for the named one",
		edits:  []string{"return time.Duration(turns) * m.bucket.times.Turn", "return 0"},
		caught: "transcript succession",
	},
	{
		name:   "who races waits for its turn",
		edits:  []string{"	if !m.Orders || m.queue.line == \"\" {", "	if m.queue.line == \"\" {"},
		caught: "transcript succession",
	},
	{
		name:   "who is not in line does not draw lots",
		edits:  []string{"	if !in {\n		d +=", "	if !in && m.done {\n		d +="},
		caught: "transcript succession",
	},
	{
		name:   "who is in line draws lots",
		edits:  []string{"	if !in {\n		d +=", "	{\n		d +=", "	ahead, in := m.queue.line.Place(m.Session)\n	d :=", "	ahead, _ := m.queue.line.Place(m.Session)\n	d :="},
		caught: "transcript succession",
	},
	{
		name:   "without a line lots are drawn",
		edits:  []string{"	if !m.Orders || m.queue.line == \"\" {", "	if !m.Orders {"},
		caught: "transcript succession",
	},
	{
		name:   "the line keeps the winner",
		edits:  []string{"rec.Next, rec.Priority = m.queue.line.Without(m.Session), m.Priority", "rec.Next, rec.Priority = m.queue.line, m.Priority", "		m.queue.left(m.Session)\n", ""},
		caught: "transcript succession",
	},
	{
		name:   "the line is lost on the winner",
		edits:  []string{"		m.queue.left(m.Session)\n", "		m.queue.publish(\"\")\n"},
		caught: "transcript succession",
	},
	{
		name:   "a line that nobody keeps is handed on",
		edits:  []string{"	if m.Listed {\n		rec.Next, rec.Priority =", "	{\n		rec.Next, rec.Priority ="},
		caught: "transcript succession",
	},
	{
		name:   "the line of one before the last is followed",
		edits:  []string{"		m.queue.publish(s.Rec.Next)\n", "		if s.Rec.Next != \"\" {\n			m.queue.publish(s.Rec.Next)\n		}\n"},
		caught: "transcript succession",
	},
	{
		name:   "a marker makes a queue a race",
		edits:  []string{"	if s.Kind == record.EntryRecord {\n		m.queue.publish", "	{\n		m.queue.publish"},
		caught: "transcript succession",
	},
	{
		name:   "the roster is told to who does not hold the key",
		edits:  []string{"	if !m.holds() {\n		return\n	}\n	// The first line", "	// The first line"},
		caught: "transcript succession",
	},
	{
		name:   "the first line waits for a renewal",
		edits:  []string{"	if m.state == StateLeader && m.queue.line == \"\" && r.Line != \"\" {\n		m.renew.want()\n	}\n", ""},
		caught: "transcript succession",
	},
	{
		name:   "every line is published at once",
		edits:  []string{"m.state == StateLeader && m.queue.line == \"\" && r.Line != \"\"", "m.state == StateLeader && m.queue.line != r.Line"},
		caught: "transcript succession",
	},
	{
		name:   "a release before the roster was looked at",
		edits:  []string{"	return m.leave.since.Add(m.bucket.times.Turn)\n", "	return time.Time{}\n"},
		caught: "transcript succession",
	},
	{
		name:   "a stop before the roster was looked at",
		edits:  []string{"d.mode, d.since = Stopping, now", "d.mode = Stopping"},
		caught: "transcript succession",
	},
	{
		name:   "a release waits for the roster for ever",
		edits:  []string{"	return m.leave.since.Add(m.bucket.times.Turn)\n", "	return m.leave.since.Add(1000 * m.bucket.times.Lease)\n"},
		caught: "transcript succession",
	},
	{
		name:   "a transfer waits for the roster",
		edits:  []string{"|| m.queue.line != \"\" || m.leave.to != \"\" {", "|| m.queue.line != \"\" {"},
		caught: "transcript succession",
	},
	{
		name:   "without a roster a release waits for it",
		edits:  []string{"	if !m.Listed || m.queue.reported ||", "	if m.queue.reported ||"},
		caught: "transcript succession",
	},
	{
		name:   "the roster of an earlier term counts",
		edits:  []string{"			m.queue.stale()\n", ""},
		caught: "transcript succession",
	},
	{
		name:   "a rival preempts at once",
		edits:  []string{"!now.Before(Later(r.Preemptor.Since, m.term.began)", "!now.Before(m.term.began"},
		caught: "transcript succession",
	},
	{
		name:   "who leads since a moment ago gives way",
		edits:  []string{"!now.Before(Later(r.Preemptor.Since, m.term.began)", "!now.Before(r.Preemptor.Since"},
		caught: "transcript succession",
	},
	{
		name:   "the next handover follows one in vain at once",
		edits:  []string{"stayed && !now.Before(m.queue.yieldsFrom) {", "stayed {"},
		caught: "transcript succession",
	},
	{
		name:   "the wait after handovers in vain does not grow",
		edits:  []string{"lease << min(q.vain, PatienceDoubles)", "lease << min(q.vain, 1)"},
		caught: "transcript succession",
	},
	{
		name:   "the wait after handovers in vain grows without end",
		edits:  []string{"lease << min(q.vain, PatienceDoubles)", "lease << q.vain"},
		caught: "transcript succession",
	},
	{
		name:   "handovers in vain are never forgotten",
		edits:  []string{"	if !now.Before(m.queue.yieldsFrom.Add(m.longestPatience())) {\n		m.queue.forgetVain()\n	}\n", ""},
		caught: "transcript succession",
	},
	{
		name:   "candidates that wait do not count handovers in vain",
		edits:  []string{"	m.succeeded(now, s)\n	m.key.see(s, now)", "	m.key.see(s, now)"},
		caught: "transcript succession",
	},
	{
		name:   "the winner does not count the handover in vain",
		edits:  []string{"	m.succeeded(now, s)\n	m.key.seeOwn(s, now)\n	m.writes.ack", "	m.key.seeOwn(s, now)\n	m.writes.ack"},
		caught: "transcript succession",
	},
	{
		name:   "a handover to a candidate that takes the key is in vain",
		edits:  []string{" || m.key.seen.Rec.Names(next.Rec.ID, next.Rec.Session) {", " {"},
		caught: "transcript succession",
	},
	{
		name:   "a release in favour of no candidate is in vain",
		edits:  []string{"	if !m.given() || !next.Held() ||", "	if !next.Held() ||"},
		caught: "transcript succession",
	},
	{
		name: "a handover that succeeds begins the count anew",
		edits: []string{
			"	if !m.given() || !next.Held() ||",
			"	if m.given() && next.Held() && m.key.seen.Rec.Names(next.Rec.ID, next.Rec.Session) {\n		m.queue.vain, m.queue.yieldsFrom = 0, time.Time{}\n	}\n	if !m.given() || !next.Held() ||",
		},
		caught: "transcript succession",
	},
	{
		name:   "a denied write is of no consequence",
		edits:  []string{"			m.queue.denied(now, m.bucket.timing().Lease) // it tries for a free key as before\n", ""},
		caught: "transcript succession",
	},
	{
		name:   "a denial is believed for longer",
		edits:  []string{"const denialLeases = 8\n", "const denialLeases = 9\n"},
		caught: "transcript succession",
	},
	{
		name:   "a reconnection changes no permission",
		edits:  []string{"		m.queue.permitted()\n		m.flight.startAnew(now)\n", "		m.flight.startAnew(now)\n"},
		caught: "transcript succession",
	},
	{
		name:   "a write that is refused is taken for one that is denied",
		edits:  []string{"	m.queue.permitted() // a refusal is the stream's, so the write was allowed\n", ""},
		caught: "transcript succession",
	},
	{
		name:   "a write that is stored is taken for one that is denied",
		edits:  []string{"	m.queue.permitted()\n	m.soothe(now, true)", "	m.soothe(now, true)"},
		caught: "transcript succession",
	},
	{
		name: "a pending candidate gives way to a rival",
		edits: []string{
			"	if m.state == StateLeader && r.Preemptor.Session != \"\" && stayed && !now.Before(m.queue.yieldsFrom) {",
			"	if m.state == StatePending && r.Preemptor.Session != \"\" && stayed {\n		m.leave.mode, m.leave.since, m.leave.to = resigning, now, r.Preemptor.Session\n		m.becomeCandidate(fx)\n	}\n	if m.state == StateLeader && r.Preemptor.Session != \"\" && stayed && !now.Before(m.queue.yieldsFrom) {",
		},
		caught: "transcript succession",
	},
	{
		name: "a leader that leaves gives way to a rival",
		edits: []string{
			"	if m.state == StateLeader && r.Preemptor.Session != \"\" && stayed && !now.Before(m.queue.yieldsFrom) {",
			"	if m.term.draining && r.Preemptor.Session != \"\" && stayed {\n		m.leave.to = r.Preemptor.Session\n	}\n	if m.state == StateLeader && r.Preemptor.Session != \"\" && stayed && !now.Before(m.queue.yieldsFrom) {",
		},
		caught: "transcript succession",
	},
	{
		name:   "the release names nobody",
		edits:  []string{"		rec.To = m.leave.to\n", ""},
		caught: "transcript succession",
	},
	{
		name:   "a transfer to the next without a roster",
		edits:  []string{"	case in.Next && !m.Listed:\n		fx.Denied = backend.ErrNotListed\n", ""},
		caught: "transcript succession",
	},
	{
		name:   "a transfer to the next where nobody stands",
		edits:  []string{"	case in.Next && m.queue.line == \"\":\n		fx.Denied = backend.ErrNoneStands\n", ""},
		caught: "transcript succession",
	},
	{
		name:   "the next is an empty roster's before it has told",
		edits:  []string{"	case in.Next && m.queue.line == \"\" && !m.queue.reported:\n		fx.Denied = backend.ErrRosterUnread\n", ""},
		caught: "transcript succession",
	},
	{
		name:   "a second transfer takes the place of the first",
		edits:  []string{"	plain := in.To == \"\" && !in.Next\n", "	plain := in.To == \"\" && !in.Next\n	if m.leave.mode == resigning && in.To != \"\" {\n		m.leave.to = in.To\n	}\n"},
		caught: "transcript succession",
	},
	{
		name:   "who has named a successor sits out a lease",
		edits:  []string{"if m.leave.recurs || m.KVElect && m.leave.to == \"\" {", "if m.leave.recurs || m.leave.to != \"\" {"},
		caught: "transcript succession",
	},
	{
		name:   "a candidate that was asked to resign sits out a lease",
		edits:  []string{"if m.leave.recurs || m.KVElect && m.leave.to == \"\" {", "if m.leave.recurs || m.leave.to == \"\" {"},
		caught: "transcript release",
	},
	{
		name:   "beside another library a candidate that was asked to resign sits out no lease",
		edits:  []string{"if m.leave.recurs || m.KVElect && m.leave.to == \"\" {", "if m.leave.recurs {"},
		caught: "transcript kvelect",
	},
	{
		name:   "a candidate whose work ended sits out no lease",
		edits:  []string{"if m.leave.recurs || m.KVElect && m.leave.to == \"\" {", "if m.KVElect && m.leave.to == \"\" {"},
		caught: "loops, resigned",
	},
	{
		name:   "a cause that recurs recurs for ever",
		edits:  []string{"d.mode, d.since, d.to, d.recurs = resigning, now, to, false", "d.mode, d.since, d.to = resigning, now, to"},
		caught: "transcript work",
	},
	{
		name:   "who has named a successor stands behind nobody",
		edits:  []string{"return min(m.bucket.times.Lease, time.Duration(ahead+1+crowding)*m.bucket.times.Turn)", "return min(m.bucket.times.Lease, time.Duration(1)*m.bucket.times.Turn+0*time.Duration(ahead))"},
		caught: "transcript succession",
	},
	{
		name:   "who has named a successor sits out for longer than a lease",
		edits:  []string{"return min(m.bucket.times.Lease, time.Duration(ahead+1+crowding)*m.bucket.times.Turn)", "return time.Duration(ahead+1+crowding) * m.bucket.times.Turn"},
		caught: "transcript succession",
	},
	{
		name:   "a successor once named is named for ever",
		edits:  []string{"d.mode, d.to = Staying, \"\"", "d.mode = Staying"},
		caught: "transcript succession",
	},
	{
		name:   "who sits out stands",
		edits:  []string{"m.eligible() && !now.Before(m.leave.cooldownUntil)", "m.eligible()"},
		caught: "transcript succession",
	},
	{
		name:   "who holds the key stands",
		edits:  []string{"m.key.seen.Kind != record.EntryUnseen && !m.holds() &&", "m.key.seen.Kind != record.EntryUnseen &&"},
		caught: "transcript succession",
	},
	{
		name:   "who leaves stands",
		edits:  []string{"m.bucket.known && m.leave.mode == Staying && m.key.seen", "m.bucket.known && m.key.seen"},
		caught: "transcript succession",
	},
	{
		name:   "who knows nothing of the key stands",
		edits:  []string{" && m.key.seen.Kind != record.EntryUnseen && !m.holds()", " && !m.holds()"},
		caught: "transcript succession",
	},
	{
		name:   "who does not know the bucket stands",
		edits:  []string{"return m.Listed && m.bucket.known && m.leave.mode", "return m.Listed && m.leave.mode"},
		caught: "transcript succession",
	},
	{
		name:   "who has guards that are not fit stands",
		edits:  []string{"!m.work.going && !m.work.idle &&\n		(!m.Guarded || m.guards.Fit)\n", "!m.work.going && !m.work.idle\n"},
		caught: "transcript succession",
	},
	{
		name:   "who keeps no roster stands",
		edits:  []string{"return m.Listed && m.bucket.known && m.leave.mode", "return m.bucket.known && m.leave.mode"},
		caught: "transcript succession",
	},
	{
		name:   "a read that the feed was faster than puts off the next try",
		edits:  []string{"case req.Revision != m.key.seen.Revision: // the feed", "case m.key.seen.Revision == 0: // the feed"},
		caught: "transcript succession",
	},
}
