package mutation_test

// The mutants, in the order of the protocol's rules. Each edit stands at one place
// of one file.
var mutants = []mutant{
	{
		name:   "trust counted from the acknowledgement",
		edits:  []string{"rec: req.rec}, w, m.opAt, fx)", "rec: req.rec}, w, now, fx)"},
		caught: "sealed",
	},
	{
		name:   "trust of a late renewal counted from the reading",
		edits:  []string{"m.stored(now, s, w, b.at, fx)", "m.stored(now, s, w, now, fx)"},
		caught: "outage",
	},
	{
		name:   "renew deadline not checked",
		edits:  []string{"if m.state == StateLeader && !now.Before(m.good) {", "if m.state == StateLeader && m.good.IsZero() {"},
		caught: "sealed",
	},
	{
		name:   "fenced at the deadline but not on it",
		edits:  []string{"if m.state == StateLeader && !now.Before(m.good) {", "if m.state == StateLeader && now.After(m.good) {"},
		caught: "sealed",
	},
	{
		name:   "no step-down on another's record",
		edits:  []string{"		m.lose(ErrPreempted, fx)\n", ""},
		caught: "frozen",
	},
	{
		name:   "release before the context ends",
		edits:  []string{"		m.depose(cause, fx)\n		return\n", "		return\n"},
		caught: "handover",
	},
	{
		name:   "token from 1 on each term",
		edits:  []string{"m.token = m.seen.rec.termToken(m.seen.revision)", "m.token = m.term"},
		caught: "handover",
	},
	{
		name:   "least token not counted up by the winning write",
		edits:  []string{"return max(m.topToken, m.minToken) + 1", "return max(m.topToken, m.minToken+1)"},
		caught: "tokens",
	},
	{
		name:   "MinToken forgotten",
		edits:  []string{"return max(m.topToken, m.minToken) + 1", "return m.topToken + 1"},
		caught: "tokens",
	},
	{
		name:   "others' tokens not noted",
		edits:  []string{"		m.topToken = max(m.topToken, s.rec.termToken(s.revision))\n	}\n}", "	}\n}"},
		caught: "tokens",
	},
	{
		name:   "waiter uses its own lease",
		edits:  []string{"return m.seenAt.Add(m.seen.rec.lease)", "return m.seenAt.Add(m.times.lease)"},
		caught: "leases",
	},
	{
		name:   "waiter waits three quarters of the lease",
		edits:  []string{"return m.seenAt.Add(m.seen.rec.lease)", "return m.seenAt.Add(m.seen.rec.lease / 4 * 3)"},
		caught: "leases",
	},
	{
		name:   "a foreign record is not waited for",
		edits:  []string{"if m.seen.held() || m.seen.what == whatForeign {", "if m.seen.held() {"},
		caught: "sealed",
	},
	{
		name:   "waiter takes over a marker without Pending",
		edits:  []string{"	case whatMarker:\n		ready = m.seenAt.Add(m.unknownLease())\n", "	case whatMarker:\n"},
		caught: "deleted, lease seen",
	},
	{
		name:   "a marker is waited for as long as the own lease",
		edits:  []string{"	case whatMarker:\n		ready = m.seenAt.Add(m.unknownLease())\n", "	case whatMarker:\n		ready = m.seenAt.Add(m.times.lease)\n"},
		caught: "deleted, lease unseen",
	},
	{
		name:   "Pending ends by time alone",
		edits:  []string{"	if m.draining && (m.drained", "	if m.state == StatePending && !now.Before(m.ready) {\n		m.becomeLeader(m.lastAt, fx)\n	}\n	if m.draining && (m.drained"},
		caught: "gap",
	},
	{
		name:   "elected by a write sent before its time",
		edits:  []string{"!sent.Before(m.ready) && now.Before(good)", "now.Before(good)"},
		caught: "gap",
	},
	{
		name:   "elected on a lease that is over",
		edits:  []string{"!sent.Before(m.ready) && now.Before(good)", "!sent.Before(m.ready)"},
		caught: "late",
	},
	{
		name:   "a pending record with the own lease",
		edits:  []string{"		rec.lease = m.unknownLease()\n", ""},
		caught: "deleted, then pending and gone",
	},
	{
		name:   "a pending candidate releases before its time",
		edits:  []string{"(given || silent || m.counter == 0", "(given || silent && m.done || m.counter == 0"},
		caught: "pending",
	},
	{
		name: "an empty key of an ordinary bucket led at once",
		edits: []string{
			"		if !m.settings.Sealed {\n", "		if m.settings.MaxValue < 0 {\n",
			"return w.win && w.cond == 0 && !m.settings.Sealed", "return false",
		},
		caught: "purged",
	},
	{
		name:   "an empty key of an ordinary bucket waited for since it was seen",
		edits:  []string{"return w.win && w.cond == 0 && !m.settings.Sealed", "return false"},
		caught: "gap",
	},
	{
		name:   "an unknown write treated as failed",
		edits:  []string{"m.look, m.beaten, m.stuck = true, false, true\n", "m.beaten, m.stuck = false, true\n"},
		caught: "tidy",
	},
	{
		name:   "a refusal treated as a loss",
		edits:  []string{"		if m.holds() {\n			m.look, m.urgent", "		if m.holds() {\n			m.learn(now, sight{revision: m.seen.revision, what: whatForeign}, fx)\n			m.look, m.urgent"},
		caught: "sealed",
	},
	{
		name:   "a refusal that names a loss is ignored",
		edits:  []string{"	case r.Named && r.Actual < req.revision:\n", "	case r.Named && r.Actual < req.revision && m.settings.MaxValue < 0:\n"},
		caught: "purged",
	},
	{
		name:   "a late win ignored",
		edits:  []string{"		m.recognise(now, s, fx)\n		return\n	}\n	m.learn(now, s, fx)", "		if m.state == StateCandidate {\n			m.seen, m.seenAt = s, now\n			m.seen.rec.session += \"?\"\n			return\n		}\n		m.recognise(now, s, fx)\n		return\n	}\n	m.learn(now, s, fx)"},
		caught: "writes",
	},
	{
		name:   "a release over another's record",
		edits:  []string{"		m.urgent = m.urgent || !mine\n", "		m.urgent = m.urgent || !mine\n		if m.leaving != staying {\n			m.seen.revision = s.revision\n		}\n"},
		caught: "leaving",
	},
	{
		name: "a re-election keeps the old token",
		edits: []string{
			"	m.token, m.elected, m.since = 0, 0, 0\n", "	m.elected, m.since = 0, 0\n",
			"	m.token = m.seen.rec.termToken(m.seen.revision)\n", "	if m.token == 0 {\n		m.token = m.seen.rec.termToken(m.seen.revision)\n	}\n",
		},
		caught: "tokens",
	},
	{
		name:   "a fenced leader leads again in the old term",
		edits:  []string{"			m.urgent = !m.draining // sent before", "			m.state = StateLeader\n			m.good = good\n			return\n			m.urgent = !m.draining // sent before"},
		caught: "sealed",
	},
	{
		name:   "an old write that replaced nothing taken for a renewal",
		edits:  []string{"	case m.filledGap(w):\n", "	case m.filledGap(w) && m.done:\n"},
		caught: "gap",
	},
	{
		name:   "a write whose counter is forgotten trusted at once",
		edits:  []string{"sent    [4]batch ", "sent    [1]batch ", "		w = write{win: true, ready: now.Add(m.unknownLease())}", "		w = write{win: true}"},
		caught: "haunted",
	},
	{
		name:   "drain time without renewals",
		edits:  []string{"	case m.urgent:\n		return now\n", "	case m.draining:\n		return m.drainBy\n	case m.urgent:\n		return now\n"},
		caught: "handover",
	},
	{
		name:   "released while draining",
		edits:  []string{"	case m.leaving != staying && !m.draining:\n		w.phase = phaseReleased\n", "	case m.leaving != staying:\n		w.phase = phaseReleased\n", "	case m.leaving != staying && !m.draining:\n		if m.look {", "	case m.leaving != staying:\n		if m.look {"},
		caught: "handover",
	},
	{
		name:   "a stale read believed",
		edits:  []string{"case s.revision < m.seen.revision, 0 < s.revision && s.revision <= m.gone:", "case 0 < s.revision && s.revision <= m.gone:"},
		caught: "sealed",
	},
	{
		name:   "what was removed believed again",
		edits:  []string{"		m.gone = max(m.gone, m.seen.revision) // not to be taken for newer than nothing\n", ""},
		caught: "simulation",
	},
	{
		name:   "the longest lease seen not remembered",
		edits:  []string{"		m.longest = max(m.longest, s.rec.lease)\n", ""},
		caught: "deleted, lease seen",
	},
	{
		name:   "MaxLease not waited for",
		edits:  []string{"return max(m.settings.MaxLease, m.settings.TTL, m.times.lease, m.longest)", "return max(m.settings.TTL, m.times.lease, m.longest)"},
		caught: "deleted, lease unseen",
	},
	{
		name:   "an intended release not dropped",
		edits:  []string{"			m.leaving = staying // it must not", "			ready = now // it must not"},
		caught: "haunted",
	},
	{
		name:   "who resigned takes the lease while the release is unknown",
		edits:  []string{"	case m.leaving == resigning && given:", "	case m.leaving == resigning:"},
		caught: "leaving",
	},
	{
		name:   "a strange revision in the feed deposes",
		edits:  []string{"		m.urgent = m.urgent || !mine\n", "		if !mine {\n			m.learn(now, s, fx)\n		}\n"},
		caught: "forged",
	},
	{
		name:   "a release believed that is not the holder's",
		edits:  []string{"	case m.dubious(now, s):\n		m.look = true\n", ""},
		caught: "forged",
	},
	{
		name:   "batches counted as sent with their last write",
		edits:  []string{"		b.last = m.counter\n		return\n", "		b.last, b.at = m.counter, now\n		return\n"},
		caught: "retried",
	},
	{
		name:   "PendingPeriod not honoured",
		edits:  []string{"ready = later(ready, now.Add(p))", "ready = later(ready, now.Add(p-p))"},
		caught: "pending",
	},
	{
		name:   "no wait after the store has forgotten",
		edits:  []string{"	m.floor = now.Add(m.unknownLease())\n", "	m.floor = now\n"},
		caught: "forgetful",
	},
	{
		name:   "a foreign record is waited for as long as the own lease",
		edits:  []string{"return m.seenAt.Add(m.unknownLease())\n	}\n	return m.seenAt.Add(m.seen.rec.lease)", "return m.seenAt.Add(m.times.lease)\n	}\n	return m.seenAt.Add(m.seen.rec.lease)"},
		caught: "overwritten",
	},
}
