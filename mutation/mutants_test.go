package mutation_test

// The mutants, in the order of the protocol's rules. Each edit is at one place of one
// file.
var mutants = []mutant{
	{
		name:   "trust counted from the acknowledgement",
		edits:  []string{"Rec: req.Rec}, w, m.flight.sentAt, fx)", "Rec: req.Rec}, w, now, fx)"},
		caught: "sealed",
	},
	{
		name:   "trust of a late renewal counted from the reading",
		edits:  []string{"m.stored(now, s, w, b.at, fx)", "m.stored(now, s, w, now, fx)"},
		caught: "outage",
	},
	{
		name:   "renew deadline not checked",
		edits:  []string{"if m.state == StateLeader && !now.Before(m.term.leaseUntil) {", "if m.state == StateLeader && m.term.leaseUntil.IsZero() {"},
		caught: "sealed",
	},
	{
		name:   "a fenced candidate waits no longer than a leader",
		edits:  []string{"		wait = max(wait, min(now.Sub(m.term.leaseUntil), longWait))\n", ""},
		caught: "transcript renewal",
	},
	{
		name:   "a fenced candidate that drains waits for as long as another",
		edits:  []string{"m.state == StateFenced && !m.term.draining && m.flight.fails > 0", "m.state == StateFenced && m.flight.fails > 0"},
		caught: "transcript work",
	},
	{
		name:   "fenced at the deadline but not on it",
		edits:  []string{"if m.state == StateLeader && !now.Before(m.term.leaseUntil) {", "if m.state == StateLeader && now.After(m.term.leaseUntil) {"},
		caught: "sealed",
	},
	{
		name:   "no step-down on another's record",
		edits:  []string{"		m.lose(backend.ErrPreempted, fx)\n", ""},
		caught: "frozen",
	},
	{
		name:   "release before the context ends",
		edits:  []string{"		m.depose(cause, fx)\n		return\n", "		return\n"},
		caught: "handover",
	},
	{
		name:   "token from 1 on each term",
		edits:  []string{"m.term.claim(m.key.seen.Revision, m.key.seen.Rec.TermToken(m.key.seen.Revision)", "m.term.claim(m.key.seen.Revision, m.term.number"},
		caught: "handover",
	},
	{
		name:   "least token not counted up by the winning write",
		edits:  []string{"return max(m.memory.token, m.MinToken) + 1", "return max(m.memory.token, m.MinToken+1)"},
		caught: "tokens",
	},
	{
		name:   "MinToken forgotten",
		edits:  []string{"return max(m.memory.token, m.MinToken) + 1", "return m.memory.token + 1"},
		caught: "tokens",
	},
	{
		name:   "others' tokens not noted",
		edits:  []string{"token := record.KnownToken(s.Rec.TermToken(s.Revision))", "token := uint64(0)"},
		caught: "tokens",
	},
	{
		name:   "waiter uses its own lease",
		edits:  []string{"return m.key.seenAt.Add(m.key.seen.Rec.Lease)", "return m.key.seenAt.Add(m.bucket.times.Lease)"},
		caught: "leases",
	},
	{
		name:   "waiter waits three quarters of the lease",
		edits:  []string{"return m.key.seenAt.Add(m.key.seen.Rec.Lease)", "return m.key.seenAt.Add(m.key.seen.Rec.Lease / 4 * 3)"},
		caught: "leases",
	},
	{
		name:   "a foreign record is not waited for",
		edits:  []string{"k.seen.Held() || k.seen.Kind == record.EntryForeign || k.seen.Kind == record.EntryMarker", "k.seen.Held() || k.seen.Kind == record.EntryMarker"},
		caught: "sealed",
	},
	{
		name:   "waiter takes over a marker without Pending",
		edits:  []string{"		if m.key.seen.Rec.Lease == 0 {\n			ready = m.key.seenAt.Add(m.unknownLease())\n", "		if m.key.seen.Rec.Lease < 0 {\n			ready = m.key.seenAt.Add(m.unknownLease())\n"},
		caught: "deleted, lease seen",
	},
	{
		name:   "a marker is waited for as long as the own lease",
		edits:  []string{"		if m.key.seen.Rec.Lease == 0 {\n			ready = m.key.seenAt.Add(m.unknownLease())\n", "		if m.key.seen.Rec.Lease == 0 {\n			ready = m.key.seenAt.Add(m.bucket.times.Lease)\n"},
		caught: "deleted, lease unseen",
	},
	{
		name:   "Pending ends by time alone",
		edits:  []string{"	if m.term.draining && (!m.work.going", "	if m.state == StatePending && !now.Before(m.renew.electFrom) {\n		m.claim(now, m.writes.lastAt.Add(m.bucket.times.RenewDeadline))\n		m.becomeLeader(now, fx)\n	}\n	if m.term.draining && (!m.work.going"},
		caught: "gap",
	},
	{
		name:   "elected by a write sent before its time",
		edits:  []string{"!sent.Before(m.renew.electFrom) && now.Before(good)", "now.Before(good)"},
		caught: "gap",
	},
	{
		name:   "elected on a lease that is over",
		edits:  []string{"!sent.Before(m.renew.electFrom) && now.Before(good)", "!sent.Before(m.renew.electFrom)", "	case now.Before(m.term.leaseUntil):\n		m.becomeLeader(now, fx)\n", "	case m.raising():\n		m.becomeLeader(now, fx)\n"},
		caught: "late",
	},
	{
		name:   "a pending record with the own lease",
		edits:  []string{"		rec.Lease = max(m.unknownLease(), m.memory.notBefore.Sub(now))\n", ""},
		caught: "deleted, then pending and gone",
	},
	{
		name:   "a pending candidate releases before its time",
		edits:  []string{"(given || silent || m.writes.counter == 0", "(given || silent && m.done || m.writes.counter == 0", "Later(m.releaseDue(), m.renew.electFrom)", "m.releaseDue()"},
		caught: "pending",
	},
	{
		name:   "each attempt to release lengthens a stop",
		edits:  []string{"	if req.Rec.Phase != record.PhaseReleased {\n		l.lastAt, l.lastFor = now, req.Rec.Lease\n	}\n", "	l.lastAt, l.lastFor = now, req.Rec.Lease\n"},
		caught: "leaving",
	},
	{
		name: "an empty key of an ordinary bucket led at once",
		edits: []string{
			"		if !m.bucket.settings.PurgeProtected {\n", "		if m.bucket.settings.MaxValue < 0 {\n",
			"return w.win && (w.blind || w.cond == 0 && !m.bucket.settings.PurgeProtected)", "return w.win && w.blind",
		},
		caught: "purged",
	},
	{
		name:   "an empty key of an ordinary bucket waited for since it was seen",
		edits:  []string{"return w.win && (w.blind || w.cond == 0 && !m.bucket.settings.PurgeProtected)", "return w.win && w.blind"},
		caught: "gap",
	},
	{
		name:   "an unknown write treated as failed",
		edits:  []string{"r.needed, r.lostRace = true, false", "r.lostRace = false"},
		caught: "tidy",
	},
	{
		name:   "a refusal treated as a loss",
		edits:  []string{"			m.reads.need()\n			m.renew.want()\n			m.flight.writeFailed()\n", "			m.learn(now, record.Observation{Revision: m.key.seen.Revision, Kind: record.EntryForeign}, fx)\n			m.reads.need()\n			m.renew.want()\n			m.flight.writeFailed()\n"},
		caught: "sealed",
	},
	{
		name:   "a refusal that names a loss is ignored",
		edits:  []string{"	case r.Named && r.Actual < req.Revision:\n", "	case r.Named && r.Actual < req.Revision && m.bucket.settings.MaxValue < 0:\n"},
		caught: "purged",
	},
	{
		name:   "a late win ignored",
		edits:  []string{"		m.recognise(now, s, fx)\n		return\n	}\n", "		if m.state == StateCandidate {\n			m.key.seen, m.key.seenAt = s, now\n			m.key.seen.Rec.Session += \"?\"\n			return\n		}\n		m.recognise(now, s, fx)\n		return\n	}\n"},
		caught: "writes",
	},
	{
		name:   "a release over another's record",
		edits:  []string{"		if !mine && !ignored {\n			m.renew.want()\n			m.reads.doubt()\n			m.overtaken(s) // the answer may cost it the key, and not show the record that followed\n		}\n", "		m.renew.soon = m.renew.soon || !mine\n		if m.leave.mode != Staying {\n			m.key.seen.Revision = s.Revision\n		}\n"},
		caught: "leaving",
	},
	{
		name: "a re-election keeps the old token",
		edits: []string{
			"	t.token, t.elected, t.since = 0, 0, 0\n", "	t.elected, t.since = 0, 0\n",
			"	t.token, t.elected, t.since = token, elected, 0\n", "	if t.token == 0 {\n		t.token = token\n	}\n	t.elected, t.since = elected, 0\n",
		},
		caught: "tokens",
	},
	{
		name:   "a fenced leader leads again in the old term",
		edits:  []string{"			m.renew.wantOnlyIf(!m.term.draining) // sent before", "			m.state = StateLeader\n			m.term.leaseUntil = good\n			return\n			m.renew.wantOnlyIf(!m.term.draining) // sent before"},
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
		edits:  []string{"	case m.renew.soon:\n		return now\n", "	case m.term.draining:\n		return m.term.drainBy\n	case m.renew.soon:\n		return now\n"},
		caught: "handover",
	},
	{
		name:   "released while draining",
		edits:  []string{"	case m.leave.mode != Staying && !m.term.draining:\n		w.phase = record.PhaseReleased\n", "	case m.leave.mode != Staying:\n		w.phase = record.PhaseReleased\n", "	case m.leave.mode != Staying && !m.term.draining:\n		if m.reads.needed {", "	case m.leave.mode != Staying:\n		if m.reads.needed {"},
		caught: "handover",
	},
	{
		name:   "a stale read believed",
		edits:  []string{"case s.Revision < m.key.seen.Revision, 0 < s.Revision && s.Revision <= m.key.removedUpTo:", "case 0 < s.Revision && s.Revision <= m.key.removedUpTo:"},
		caught: "transcript regress",
	},
	{
		name:   "what was removed believed again",
		edits:  []string{"	k.removedUpTo = max(k.removedUpTo, k.seen.Revision)\n", ""},
		caught: "transcript deleted",
	},
	{
		name:   "the longest lease seen not remembered",
		edits:  []string{"m.memory.keepLease(s.Rec.Lease, now)", "m.memory.keepLease(m.memory.lease, now)"},
		caught: "deleted, lease seen",
	},
	{
		name:   "MaxLease not waited for",
		edits:  []string{"b.bound = min(max(b.bound, s.MaxLease, s.TTL)", "b.bound = min(max(b.bound, s.TTL)"},
		caught: "deleted, lease unseen",
	},
	{
		name:   "an intended release not dropped",
		edits:  []string{"			m.leave.stay() // it must not", "			ready = now // it must not"},
		caught: "haunted",
	},
	{
		name:   "who resigned takes the lease while the release is unknown",
		edits:  []string{"	case m.leave.mode == resigning && given:", "	case m.leave.mode == resigning:"},
		caught: "leaving",
	},
	{
		name:   "a strange revision in the feed deposes",
		edits:  []string{"		if !mine && !ignored {\n			m.renew.want()\n			m.reads.doubt()\n			m.overtaken(s) // the answer may cost it the key, and not show the record that followed\n		}\n", "		if !mine {\n			m.learn(now, s, fx)\n		}\n"},
		caught: "forged",
	},
	{
		name:   "a release believed that is not the holder's",
		edits:  []string{"	case m.dubious(now, s):\n", "	case m.dubious(now, s) && m.done:\n"},
		caught: "forged",
	},
	{
		name:   "batches counted as sent with their last write",
		edits:  []string{"		b.last = l.counter\n		return\n", "		b.last, b.at = l.counter, now\n		return\n"},
		caught: "retried",
	},
	{
		name:   "PendingPeriod not honoured",
		edits:  []string{"ready = Later(ready, now.Add(p))", "ready = Later(ready, now.Add(p-p))"},
		caught: "pending",
	},
	{
		name:   "no wait after the store has forgotten",
		edits:  []string{"m.memory.void(now.Add(m.unknownLease()))", "m.memory.void(now)"},
		caught: "forgetful",
	},
	{
		name:   "a foreign record is waited for as long as the own lease",
		edits:  []string{"return m.key.seenAt.Add(m.unknownLease())\n	}\n	return m.key.seenAt.Add(m.key.seen.Rec.Lease)", "return m.key.seenAt.Add(m.bucket.times.Lease)\n	}\n	return m.key.seenAt.Add(m.key.seen.Rec.Lease)"},
		caught: "overwritten",
	},
	// Guards.
	{
		name:   "a guard raised on what a refusal names",
		edits:  []string{"		r.needRead = refused.Named || r.losses%4 == 0\n", "		if refused.Named {\n			r.Seen = record.GuardObservation{Revision: refused.Actual, Kind: record.EntryForeign}\n		}\n"},
		caught: "guard overtaken",
	},
	{
		name:   "a guard raised over a greater token",
		edits:  []string{"case r.Stands, r.taken(), r.Over() >= r.Wish.Token:", "case r.Stands, r.taken():"},
		caught: "guard overtaken",
	},
	{
		name:   "a term begins before its guards stand",
		edits:  []string{"	case m.Guarded && m.guards.Stand != m.term.token:\n", ""},
		caught: "guarded",
	},
	{
		name:   "a term begins on a lease that ended while its guards were raised",
		edits:  []string{"	case now.Before(m.term.leaseUntil):\n		m.becomeLeader(now, fx)\n", "	case m.Guarded || now.Before(m.term.leaseUntil):\n		m.becomeLeader(now, fx)\n"},
		caught: "guarded",
	},
	{
		name:   "renewals while raising do not count",
		edits:  []string{"		if m.raising() {\n			m.term.extend(good)\n		}\n", ""},
		caught: "transcript guards-refused",
	},
	{
		name:   "who does not lead any more raises its guard again",
		edits:  []string{"	if m.raising() || m.state == StateLeader {\n		w.Token", "	if m.term.token != 0 {\n		w.Token"},
		caught: "guard deleted",
	},
	{
		name:   "a leader goes on below a guard that was raised further",
		edits:  []string{"	if m.state == StateLeader && r.Over >= m.term.token {\n", "	if m.state == StateLeader && r.Over >= m.term.token && m.done {\n"},
		caught: "guarded, forgetful",
	},
	{
		name:   "a claim goes on below a guard that was raised further",
		edits:  []string{"	case m.guards.Over >= m.term.token:\n		m.term.unclaim()\n", ""},
		caught: "guard overtaken",
	},
	{
		name:   "the token at a guard is not noted",
		edits:  []string{"	m.memory.count(record.KnownToken(r.Over))\n", ""},
		caught: "guard ahead",
	},
	{
		name:   "renewals while raising elect anew",
		edits:  []string{"case m.state == StateLeader || m.term.draining || m.raising():", "case m.state == StateLeader || m.term.draining:"},
		caught: "guarded",
	},
	{
		name:   "a claim outlives the key",
		edits:  []string{"	m.term.unclaim()\n	m.state = StateCandidate\n", "	m.state = StateCandidate\n"},
		caught: "transcript guards-deleted",
	},
	{
		name:   "raising is never given up",
		edits:  []string{"	if m.raising() && !now.Before(m.term.guardDeadline) {", "	if m.raising() && m.done {"},
		caught: "guarded",
	},
	{
		name:   "the guard of another session taken for one's own",
		edits:  []string{"s.Rec.Session == session && s.Rec.Token == token", "s.Rec.Token == token"},
		caught: "guarded, forgetful",
	},
	{
		name:   "the key is tried for while guards are not fit",
		edits:  []string{"return !m.Observe && (!m.Guarded || m.guards.Fit) && !m.exhausted()", "return !m.Observe && !m.exhausted()"},
		caught: "guarded",
	},
	{
		name:   "what was raised before taken for what is wished now",
		edits:  []string{"	case GuardInRaised:\n		r.needRead, r.losses", "	case GuardInRaised:\n		op.Rec.Token = max(op.Rec.Token, r.Wish.Token)\n		r.needRead, r.losses"},
		caught: "guard deleted",
	},
	{
		name:   "a guard that was raised is not looked after",
		edits:  []string{"return GuardRead, Later(soonest, r.readAt.Add(lease))", "return GuardNone, time.Time{}"},
		caught: "guarded core",
	},
	{
		name:   "an old reading of the guard believed",
		edits:  []string{"if 0 < s.Revision && s.Revision < r.Seen.Revision && r.past < stalest {", "if 0 < s.Revision && s.Revision < r.Seen.Revision && r.past < 0 {"},
		caught: "transcript guarded",
	},
	{
		name:   "no look at the guard after a raise that failed",
		edits:  []string{"		r.needRead = r.needRead || in.Kind != GuardInChecked\n", ""},
		caught: "transcript guards-deleted",
	},
	{
		name:   "a reconnected raiser goes on with the old check",
		edits:  []string{"		r.fit, r.known, r.needRead = false, false, true\n", "		r.known, r.needRead = false, true\n"},
		caught: "transcript guards-reconnect",
	},
	{
		name:   "no look for the key by a leader whose guard was raised further",
		edits:  []string{"		m.becomeFenced(now, time.Time{}, backend.ErrFenced, fx)\n		m.reads.need()\n", "		m.becomeFenced(now, time.Time{}, backend.ErrFenced, fx)\n"},
		caught: "transcript guards-overtaken",
	},
	{
		name:   "no look at the guard by the winner",
		edits:  []string{"		r.needRead = r.needRead || in.Wish.soon && !r.Wish.soon\n", ""},
		caught: "transcript guards-overtaken",
	},
	{
		name:   "a raise refused is not looked into",
		edits:  []string{"		r.needRead = refused.Named || r.losses%4 == 0\n", ""},
		caught: "guarded",
	},
	{
		name:   "a raise is waited for no longer after one that failed",
		edits:  []string{"		r.raiseFailing = r.raiseFailing || in.Kind == GuardInRaised\n", ""},
		caught: "transcript guards-refused",
	},
	{
		name:   "a raiser suspects nothing",
		edits:  []string{"	case GuardInSuspect:\n		r.needRead = true\n", "	case GuardInSuspect:\n"},
		caught: "transcript guards-deleted",
	},
	{
		name:   "a claim is renewed without end in one instant",
		edits:  []string{"	case m.state == StatePending && !m.raising() && m.renew.electFrom", "	case m.state == StatePending && m.renew.electFrom"},
		caught: "guarded",
	},
	// The gate.
	{
		name:   "who is barred tries for the key",
		edits:  []string{"		case try && !m.shut():\n", "		case try && !m.work.going && !m.work.idle:\n"},
		caught: "gated",
	},
	{
		name:   "who is barred leads after a late win",
		edits:  []string{"		if m.shut() && m.leave.mode == Staying {\n", "		if (m.work.going || m.work.idle) && m.leave.mode == Staying {\n"},
		caught: "gated",
	},
	{
		name:   "who is barred is pending after a late win",
		edits:  []string{"if m.leave.mode == resigning && now.Before(ready) && !m.shut() {", "if m.leave.mode == resigning && now.Before(ready) && !m.work.going && !m.work.idle {"},
		caught: "gated, ordinary",
	},
	{
		name:   "who is barred releases a late win before its time",
		edits:  []string{"			a.add(ReqWrite, Later(m.releaseDue(), m.renew.electFrom), soonest)\n", "			a.add(ReqWrite, m.releaseDue(), soonest)\n"},
		caught: "gated, ordinary",
	},
	{
		name:   "a leader is barred",
		edits:  []string{"m.suspended = m.suspended || m.state == StateCandidate", "m.suspended = true"},
		caught: "gated",
	},
	{
		name:   "who has written and was not answered is not engaged",
		edits:  []string{"m.writes.counter > 0 && m.writes.sent[0].cond == m.key.seen.Revision\n", "m.writes.counter > 0 && m.done\n"},
		caught: "sealed",
	},
	{
		name:   "who waits for the answer to a write is not engaged",
		edits:  []string{"m.leave.mode != Staying || m.flight.req.Kind == ReqWrite ||\n		m.writes.counter > 0 && m.writes.sent[0].cond == m.key.seen.Revision\n", "m.leave.mode != Staying\n"},
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
		edits:  []string{"req.Marker = m.KVElect && req.Rec.Phase == record.PhaseReleased", "req.Marker = m.KVElect && m.done"},
		caught: "kvelect core",
	},
	{
		name:   "a held key is absent for nats-kv-leader-elect",
		edits:  []string{"req.Marker = m.KVElect && req.Rec.Phase == record.PhaseReleased", "req.Marker = m.KVElect"},
		caught: "kvelect core",
	},
	{
		name:   "beside nats-kv-leader-elect a foreign record is a fault",
		edits:  []string{"if s.Kind == record.EntryForeign && !m.KVElect {", "if s.Kind == record.EntryForeign {"},
		caught: "transcript kvelect",
	},
	{
		name:   "beside nats-kv-leader-elect a foreign record is nobody's",
		edits:  []string{"if m.KVElect || m.Observe { // each is somebody", "if m.Observe { // each is somebody"},
		caught: "transcript kvelect",
	},
	{
		name:   "a lease that outlives the wait of nats-kv-leader-elect is allowed",
		edits:  []string{"case kvElect && d.Lease > s.TTL/4*3:", "case kvElect && d.Lease > s.TTL:"},
		caught: "transcript kvelect",
	},
	{
		name:   "a bucket without a TTL is shared with nats-kv-leader-elect",
		edits:  []string{"case kvElect && s.TTL == 0:", "case kvElect && s.TTL < 0:", "case kvElect && d.Lease > s.TTL/4*3:", "case kvElect && 0 < s.TTL && d.Lease > s.TTL/4*3:"},
		caught: "transcript kvelect",
	},
}
