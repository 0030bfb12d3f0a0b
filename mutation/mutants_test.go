package mutation_test

// The mutants, in the order of the protocol's rules. Each edit is at one place of one
// file.
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
		edits:  []string{"if m.state == StateLeader && !now.Before(m.leaseUntil) {", "if m.state == StateLeader && m.leaseUntil.IsZero() {"},
		caught: "sealed",
	},
	{
		name:   "fenced at the deadline but not on it",
		edits:  []string{"if m.state == StateLeader && !now.Before(m.leaseUntil) {", "if m.state == StateLeader && now.After(m.leaseUntil) {"},
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
		edits:  []string{"return max(m.topToken, m.minToken, knownToken(m.standingToken())) + 1", "return max(m.topToken, m.minToken+1, knownToken(m.standingToken()))"},
		caught: "tokens",
	},
	{
		name:   "MinToken forgotten",
		edits:  []string{"return max(m.topToken, m.minToken, knownToken(m.standingToken())) + 1", "return max(m.topToken, knownToken(m.standingToken())) + 1"},
		caught: "tokens",
	},
	{
		name:   "others' tokens not noted",
		edits:  []string{"token := knownToken(s.rec.termToken(s.revision))", "token := uint64(0)"},
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
		edits:  []string{"m.seen.held() || m.seen.kind == entryForeign || m.seen.kind == entryMarker", "m.seen.held() || m.seen.kind == entryMarker"},
		caught: "sealed",
	},
	{
		name:   "waiter takes over a marker without Pending",
		edits:  []string{"		if m.seen.rec.lease == 0 {\n			ready = m.seenAt.Add(m.unknownLease())\n", "		if m.seen.rec.lease < 0 {\n			ready = m.seenAt.Add(m.unknownLease())\n"},
		caught: "deleted, lease seen",
	},
	{
		name:   "a marker is waited for as long as the own lease",
		edits:  []string{"		if m.seen.rec.lease == 0 {\n			ready = m.seenAt.Add(m.unknownLease())\n", "		if m.seen.rec.lease == 0 {\n			ready = m.seenAt.Add(m.times.lease)\n"},
		caught: "deleted, lease unseen",
	},
	{
		name:   "Pending ends by time alone",
		edits:  []string{"	if m.draining && (m.drained", "	if m.state == StatePending && !now.Before(m.ready) {\n		m.claim(now, m.lastAt.Add(m.times.renewDeadline))\n		m.becomeLeader(now, fx)\n	}\n	if m.draining && (m.drained"},
		caught: "gap",
	},
	{
		name:   "elected by a write sent before its time",
		edits:  []string{"!sent.Before(m.ready) && now.Before(good)", "now.Before(good)"},
		caught: "gap",
	},
	{
		name:   "elected on a lease that is over",
		edits:  []string{"!sent.Before(m.ready) && now.Before(good)", "!sent.Before(m.ready)", "	case now.Before(m.leaseUntil):\n		m.becomeLeader(now, fx)\n", "	case m.raising():\n		m.becomeLeader(now, fx)\n"},
		caught: "late",
	},
	{
		name:   "a pending record with the own lease",
		edits:  []string{"		rec.lease = m.unknownLease()\n", ""},
		caught: "deleted, then pending and gone",
	},
	{
		name:   "a pending candidate releases before its time",
		edits:  []string{"(given || silent || m.counter == 0", "(given || silent && m.done || m.counter == 0", "later(m.releaseDue(), m.ready)", "m.releaseDue()"},
		caught: "pending",
	},
	{
		name: "an empty key of an ordinary bucket led at once",
		edits: []string{
			"		if !m.settings.PurgeProtected {\n", "		if m.settings.MaxValue < 0 {\n",
			"return w.win && (w.blind || w.cond == 0 && !m.settings.PurgeProtected)", "return w.win && w.blind",
		},
		caught: "purged",
	},
	{
		name:   "an empty key of an ordinary bucket waited for since it was seen",
		edits:  []string{"return w.win && (w.blind || w.cond == 0 && !m.settings.PurgeProtected)", "return w.win && w.blind"},
		caught: "gap",
	},
	{
		name:   "an unknown write treated as failed",
		edits:  []string{"m.needRead, m.lostRace, m.writeFailing = true, false, true\n", "m.lostRace, m.writeFailing = false, true\n"},
		caught: "tidy",
	},
	{
		name:   "a refusal treated as a loss",
		edits:  []string{"		if m.holds() {\n			m.needRead, m.renewNow", "		if m.holds() {\n			m.learn(now, observation{revision: m.seen.revision, kind: entryForeign}, fx)\n			m.needRead, m.renewNow"},
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
		edits:  []string{"		if !mine && !ignored {\n			m.renewNow, m.strange = true, true\n			m.overtaken(s) // the answer may cost it the key, and not show the record that followed\n		}\n", "		m.renewNow = m.renewNow || !mine\n		if m.leaving != staying {\n			m.seen.revision = s.revision\n		}\n"},
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
		edits:  []string{"			m.renewNow = !m.draining // sent before", "			m.state = StateLeader\n			m.leaseUntil = good\n			return\n			m.renewNow = !m.draining // sent before"},
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
		edits:  []string{"	case m.renewNow:\n		return now\n", "	case m.draining:\n		return m.drainBy\n	case m.renewNow:\n		return now\n"},
		caught: "handover",
	},
	{
		name:   "released while draining",
		edits:  []string{"	case m.leaving != staying && !m.draining:\n		w.phase = phaseReleased\n", "	case m.leaving != staying:\n		w.phase = phaseReleased\n", "	case m.leaving != staying && !m.draining:\n		if m.needRead {", "	case m.leaving != staying:\n		if m.needRead {"},
		caught: "handover",
	},
	{
		name:   "a stale read believed",
		edits:  []string{"case s.revision < m.seen.revision, 0 < s.revision && s.revision <= m.removedUpTo:", "case 0 < s.revision && s.revision <= m.removedUpTo:"},
		caught: "transcript regress",
	},
	{
		name:   "what was removed believed again",
		edits:  []string{"		m.removedUpTo = max(m.removedUpTo, m.seen.revision) // not to be taken for newer than nothing\n", ""},
		caught: "transcript deleted",
	},
	{
		name:   "the longest lease seen not remembered",
		edits:  []string{"m.longest, m.heardOf = s.rec.lease, now", "m.heardOf = now"},
		caught: "deleted, lease seen",
	},
	{
		name:   "MaxLease not waited for",
		edits:  []string{"m.bound = min(max(m.bound, m.settings.MaxLease, m.settings.TTL)", "m.bound = min(max(m.bound, m.settings.TTL)"},
		caught: "deleted, lease unseen",
	},
	{
		name:   "an intended release not dropped",
		edits:  []string{"			m.leaving, m.to = staying, \"\" // it must not", "			ready = now // it must not"},
		caught: "haunted",
	},
	{
		name:   "who resigned takes the lease while the release is unknown",
		edits:  []string{"	case m.leaving == resigning && given:", "	case m.leaving == resigning:"},
		caught: "leaving",
	},
	{
		name:   "a strange revision in the feed deposes",
		edits:  []string{"		if !mine && !ignored {\n			m.renewNow, m.strange = true, true\n			m.overtaken(s) // the answer may cost it the key, and not show the record that followed\n		}\n", "		if !mine {\n			m.learn(now, s, fx)\n		}\n"},
		caught: "forged",
	},
	{
		name:   "a release believed that is not the holder's",
		edits:  []string{"	case m.dubious(now, s):\n", "	case m.dubious(now, s) && m.done:\n"},
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
		edits:  []string{"	m.notBefore = now.Add(m.unknownLease())\n", "	m.notBefore = now\n"},
		caught: "forgetful",
	},
	{
		name:   "a foreign record is waited for as long as the own lease",
		edits:  []string{"return m.seenAt.Add(m.unknownLease())\n	}\n	return m.seenAt.Add(m.seen.rec.lease)", "return m.seenAt.Add(m.times.lease)\n	}\n	return m.seenAt.Add(m.seen.rec.lease)"},
		caught: "overwritten",
	},
	// Guards.
	{
		name:   "a guard raised on what a refusal names",
		edits:  []string{"		r.needRead = refused.Named || r.losses%4 == 0\n", "		if refused.Named {\n			r.seen = guardObservation{revision: refused.Actual, kind: entryForeign}\n		}\n"},
		caught: "guard overtaken",
	},
	{
		name:   "a guard raised over a greater token",
		edits:  []string{"case r.stands, r.taken(), r.over() >= r.wish.token:", "case r.stands, r.taken():"},
		caught: "guard overtaken",
	},
	{
		name:   "a term begins before its guards stand",
		edits:  []string{"	case m.guarded && m.guards.stand != m.token:\n", ""},
		caught: "guarded",
	},
	{
		name:   "a term begins on a lease that ended while its guards were raised",
		edits:  []string{"	case now.Before(m.leaseUntil):\n		m.becomeLeader(now, fx)\n", "	case m.guarded || now.Before(m.leaseUntil):\n		m.becomeLeader(now, fx)\n"},
		caught: "guarded",
	},
	{
		name:   "renewals while raising do not count",
		edits:  []string{"		if m.raising() {\n			m.leaseUntil = later(m.leaseUntil, good)\n		}\n", ""},
		caught: "transcript guards-refused",
	},
	{
		name:   "who does not lead any more raises its guard again",
		edits:  []string{"	if m.raising() || m.state == StateLeader {\n		w.token", "	if m.token != 0 {\n		w.token"},
		caught: "guard deleted",
	},
	{
		name:   "a leader goes on below a guard that was raised further",
		edits:  []string{"	if m.state == StateLeader && r.over >= m.token {\n", "	if m.state == StateLeader && r.over >= m.token && m.done {\n"},
		caught: "guarded, forgetful",
	},
	{
		name:   "a claim goes on below a guard that was raised further",
		edits:  []string{"	case m.guards.over >= m.token:\n		m.unclaim()\n", ""},
		caught: "guard overtaken",
	},
	{
		name:   "the token at a guard is not noted",
		edits:  []string{"	m.topToken = max(m.topToken, knownToken(r.over))\n", ""},
		caught: "guard ahead",
	},
	{
		name:   "renewals while raising elect anew",
		edits:  []string{"case m.state == StateLeader || m.draining || m.raising():", "case m.state == StateLeader || m.draining:"},
		caught: "guarded",
	},
	{
		name:   "a claim outlives the key",
		edits:  []string{"	m.unclaim()\n	m.state = StateCandidate\n", "	m.state = StateCandidate\n"},
		caught: "transcript guards-deleted",
	},
	{
		name:   "raising is never given up",
		edits:  []string{"	if m.raising() && !now.Before(m.guardDeadline) {", "	if m.raising() && m.done {"},
		caught: "guarded",
	},
	{
		name:   "the guard of another session taken for one's own",
		edits:  []string{"s.rec.Session == session && s.rec.Token == token", "s.rec.Token == token"},
		caught: "guarded, forgetful",
	},
	{
		name:   "the key is tried for while guards are not fit",
		edits:  []string{"return !m.observe && (!m.guarded || m.guards.fit) && !m.exhausted()", "return !m.observe && !m.exhausted()"},
		caught: "guarded",
	},
	{
		name:   "what was raised before taken for what is wished now",
		edits:  []string{"	case guardInRaised:\n		r.needRead, r.losses", "	case guardInRaised:\n		op.rec.Token = max(op.rec.Token, r.wish.token)\n		r.needRead, r.losses"},
		caught: "guard deleted",
	},
	{
		name:   "a guard that was raised is not looked after",
		edits:  []string{"return guardRead, later(soonest, r.readAt.Add(lease))", "return guardNone, time.Time{}"},
		caught: "guarded core",
	},
	{
		name:   "an old reading of the guard believed",
		edits:  []string{"if 0 < s.revision && s.revision < r.seen.revision && r.past < stalest {", "if 0 < s.revision && s.revision < r.seen.revision && r.past < 0 {"},
		caught: "transcript guarded",
	},
	{
		name:   "no look at the guard after a raise that failed",
		edits:  []string{"		r.needRead = r.needRead || in.kind != guardInChecked\n", ""},
		caught: "transcript guards-deleted",
	},
	{
		name:   "a reconnected raiser goes on with the old check",
		edits:  []string{"		r.fit, r.known, r.needRead = false, false, true\n", "		r.known, r.needRead = false, true\n"},
		caught: "transcript guards-reconnect",
	},
	{
		name:   "no look for the key by a leader whose guard was raised further",
		edits:  []string{"		m.becomeFenced(now, ErrFenced, fx)\n		m.needRead = true\n", "		m.becomeFenced(now, ErrFenced, fx)\n"},
		caught: "transcript guards-overtaken",
	},
	{
		name:   "no look at the guard by the winner",
		edits:  []string{"		r.needRead = r.needRead || in.wish.soon && !r.wish.soon\n", ""},
		caught: "transcript guards-overtaken",
	},
	{
		name:   "a raise refused is not looked into",
		edits:  []string{"		r.needRead = refused.Named || r.losses%4 == 0\n", ""},
		caught: "guarded",
	},
	{
		name:   "a raise is waited for no longer after one that failed",
		edits:  []string{"		r.raiseFailing = r.raiseFailing || in.kind == guardInRaised\n", ""},
		caught: "transcript guards-refused",
	},
	{
		name:   "a raiser suspects nothing",
		edits:  []string{"	case guardInSuspect:\n		r.needRead = true\n", "	case guardInSuspect:\n"},
		caught: "transcript guards-deleted",
	},
	{
		name:   "a claim is renewed without end in one instant",
		edits:  []string{"	case m.state == StatePending && !m.raising() && m.ready", "	case m.state == StatePending && m.ready"},
		caught: "guarded",
	},
	// The gate.
	{
		name:   "who is barred tries for the key",
		edits:  []string{"		case try && !m.suspended:\n", "		case try:\n"},
		caught: "gated",
	},
	{
		name:   "who is barred leads after a late win",
		edits:  []string{"		if m.suspended && m.leaving == staying {\n", "		if m.suspended && m.leaving == stopping {\n"},
		caught: "gated",
	},
	{
		name:   "who is barred is pending after a late win",
		edits:  []string{"if m.leaving == resigning && now.Before(ready) && !m.suspended {", "if m.leaving == resigning && now.Before(ready) {"},
		caught: "gated, ordinary",
	},
	{
		name:   "who is barred releases a late win before its time",
		edits:  []string{"			a.add(reqWrite, later(m.releaseDue(), m.ready), soonest)\n", "			a.add(reqWrite, m.releaseDue(), soonest)\n"},
		caught: "gated, ordinary",
	},
	{
		name:   "a leader is barred",
		edits:  []string{"m.suspended = m.suspended || m.state == StateCandidate", "m.suspended = true"},
		caught: "gated",
	},
	{
		name:   "who has written and was not answered is not engaged",
		edits:  []string{"m.counter > 0 && m.sent[0].cond == m.seen.revision\n", "m.counter > 0 && m.done\n"},
		caught: "sealed",
	},
	{
		name:   "who waits for the answer to a write is not engaged",
		edits:  []string{"m.leaving != staying || m.op.kind == reqWrite ||\n		m.counter > 0 && m.sent[0].cond == m.seen.revision\n", "m.leaving != staying\n"},
		caught: "gated",
	},
	// A key shared with nats-kv-leader-elect.
	{
		name:   "over a foreign record no longer is waited than before it",
		edits:  []string{"			ready = m.lapse().Add(m.unknownLease())\n", "			ready = m.lapse()\n"},
		caught: "kvelect, slow",
	},
	{
		name:   "a release keeps nats-kv-leader-elect out",
		edits:  []string{"req.marker = m.kvElect && req.rec.phase == phaseReleased", "req.marker = m.kvElect && m.done"},
		caught: "kvelect core",
	},
	{
		name:   "a held key is absent for nats-kv-leader-elect",
		edits:  []string{"req.marker = m.kvElect && req.rec.phase == phaseReleased", "req.marker = m.kvElect"},
		caught: "kvelect core",
	},
	{
		name:   "beside nats-kv-leader-elect a foreign record is a fault",
		edits:  []string{"if s.kind == entryForeign && !m.kvElect {", "if s.kind == entryForeign {"},
		caught: "transcript kvelect",
	},
	{
		name:   "beside nats-kv-leader-elect a foreign record is nobody's",
		edits:  []string{"if m.kvElect || m.observe { // each is somebody", "if m.observe { // each is somebody"},
		caught: "transcript kvelect",
	},
	{
		name:   "a lease that outlives the wait of nats-kv-leader-elect is allowed",
		edits:  []string{"case kvElect && d.lease > s.TTL/4*3:", "case kvElect && d.lease > s.TTL:"},
		caught: "transcript kvelect",
	},
	{
		name:   "a bucket without a TTL is shared with nats-kv-leader-elect",
		edits:  []string{"case kvElect && s.TTL == 0:", "case kvElect && s.TTL < 0:", "case kvElect && d.lease > s.TTL/4*3:", "case kvElect && 0 < s.TTL && d.lease > s.TTL/4*3:"},
		caught: "transcript kvelect",
	},
}
