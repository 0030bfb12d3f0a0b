package mutation_test

// The mutants of the trust that a candidate puts in records, feed messages and guards
// that no candidate has written.
var trustMutants = []mutant{
	{
		name:   "a record that was found to be another's is compared anew",
		edits:  []string{"(m.key.disowned(s.Revision) || m.writes.forged(s.Rec))", "m.writes.forged(s.Rec)"},
		caught: "transcript trust",
	},
	{
		name:   "a bucket that was made anew taken for the same",
		edits:  []string{"	if m.holds() && m.anew(now, s.Revision) {\n", "	if m.holds() && m.anew(now, s.Revision) && m.done {\n"},
		caught: "made anew",
	},
	{
		name:   "the time since the own record forgotten",
		edits:  []string{"(now.Sub(m.key.seenAt)+time.Second)", "time.Second"},
		caught: "transcript regress",
	},
	{
		name:   "a second loss shortens the wait of the first",
		edits:  []string{"y.notBefore = Later(y.notBefore, until)", "y.notBefore = until"},
		caught: "transcript regress",
	},
	{
		name:   "a pending record does not cover the wait after a loss",
		edits:  []string{"max(m.unknownLease(), m.memory.notBefore.Sub(now))", "m.unknownLease()"},
		caught: "transcript regress",
	},
	{
		name:   "a lease that was read is remembered beyond the bucket's bound",
		edits:  []string{"	if m.bucket.settings.MaxLease == 0 && m.bucket.settings.TTL == 0 {\n		d = max", "	if m.bucket.settings.MaxLease >= 0 {\n		d = max"},
		caught: "junk",
	},
	{
		name:   "the greatest bound that was known forgotten",
		edits:  []string{"b.bound = min(max(b.bound, s.MaxLease, s.TTL), record.MaxLease)", "b.bound = 0"},
		caught: "transcript trust",
	},
	{
		name:   "a lease that was read is never forgotten",
		edits:  []string{"	if m.memory.leaseOver(now) {\n", "	if m.memory.leaseOver(now) && m.done {\n"},
		caught: "transcript trust",
	},
	{
		name:   "the lease of a feed message remembered",
		edits:  []string{"	m.feed.delivered()\n	if mine {", "	m.feed.delivered()\n	m.note(now, s)\n	if mine {"},
		caught: "transcript trust",
	},
	{
		name:   "a candidate sleeps on a lease for half of it, however long",
		edits:  []string{"half = min(half, m.key.seen.Rec.Lease/2)", "half = m.key.seen.Rec.Lease / 2"},
		caught: "transcript trust",
	},
	{
		name:   "a candidate reads as often as a lease is short",
		edits:  []string{"return max(half, m.bucket.timing().RenewInterval/4)", "return half"},
		caught: "transcript trust",
	},
	{
		name:   "a lease is cut short to what the bucket allows",
		edits:  []string{"	return m.key.seenAt.Add(m.key.seen.Rec.Lease)\n", "	return m.key.seenAt.Add(min(m.key.seen.Rec.Lease, m.unknownLease()))\n"},
		caught: "held, lowered",
	},
	{
		name:   "a record that was only heard of is replaced when its lease is over",
		edits:  []string{"		case try && !m.confirmed() && m.key.absentSince.IsZero():\n			a.add(ReqRead, m.tryAt(), soonest)\n", ""},
		caught: "transcript trust",
	},
	{
		name:   "a message believed while a holder keeps others out",
		edits:  []string{"return keeps || s.Kind", "return keeps && m.done || s.Kind"},
		caught: "transcript trust",
	},
	{
		name:   "a message believed before the first read",
		edits:  []string{"	case m.key.seen.Kind == record.EntryUnseen, s.Revision", "	case s.Revision"},
		caught: "transcript trust",
	},
	{
		name:   "the wait after a write over what was never read counted from before it",
		edits:  []string{"(w.blind || w.cond == 0 && !m.bucket.settings.PurgeProtected)", "w.cond == 0 && !m.bucket.settings.PurgeProtected"},
		caught: "transcript trust",
	},
	{
		name:   "a revision that the store does not have is waited for, for ever",
		edits:  []string{"		case m.disproved(now):\n", "		case m.disproved(now) && m.done:\n"},
		caught: "transcript trust",
	},
	{
		name:   "the first record of a bucket whose revisions begin high not believed",
		edits:  []string{"max(m.key.seen.Revision, m.bucket.settings.LastRevision)+leap", "m.key.seen.Revision+leap"},
		caught: "transcript trust",
	},
	{
		name:   "the greatest revision believed",
		edits:  []string{"s.Revision > max(m.key.seen.Revision, m.bucket.settings.LastRevision)+leap, ", ""},
		caught: "transcript trust",
	},
	{
		name:   "the greatest token believed of the feed",
		edits:  []string{", s.Rec.TermToken(s.Revision) > max(m.least(), s.Revision):\n		return true", ":\n		return true"},
		caught: "transcript trust",
	},
	{
		name:   "the longest lease believed of the feed",
		edits:  []string{"case s.Rec.Lease > m.unknownLease() && (!known", "case m.done && (!known"},
		caught: "transcript trust",
	},
	{
		name:   "strange messages keep a candidate busy",
		edits:  []string{"	if m.reads.strange && vain {\n", "	if m.reads.strange && vain && m.done {\n"},
		caught: "transcript trust",
	},
	{
		name:   "a token remembered however great",
		edits:  []string{"token := record.KnownToken(s.Rec.TermToken(s.Revision))", "token := s.Rec.TermToken(s.Revision)"},
		caught: "junk",
	},
	{
		name:   "a guard's token remembered however great",
		edits:  []string{"m.memory.count(record.KnownToken(r.Over))", "m.memory.count(r.Over)"},
		caught: "guard junk",
	},
	{
		name:   "a token that was only heard of counted up from",
		edits:  []string{"if read || token <= m.least() {", "if read || !m.done {"},
		caught: "transcript trust",
	},
	{
		name:   "a record that reads do not find any more is waited for",
		edits:  []string{"at = Earlier(at, m.key.absentSince.Add(m.unknownLease()))", "at = Earlier(at, at)"},
		caught: "junk, purged",
	},
	{
		name:   "a token beyond the bound written",
		edits:  []string{"return max(m.standingToken(), m.guards.Over) > record.LastToken", "return m.done"},
		caught: "junk",
	},
	{
		name:   "a pending candidate gives up the key for the last token",
		edits:  []string{"	if m.holds() && m.key.seen.Rec.Phase == record.PhasePending {\n		return 0\n	}\n", ""},
		caught: "transcript trust",
	},
	{
		name:   "a holder without a token keeps the key",
		edits:  []string{"	if m.state != StateCandidate && m.leave.mode == Staying {\n		m.withdraw", "	if m.state != StateCandidate && m.done {\n		m.withdraw"},
		caught: "guard junk",
	},
	{
		name:   "a guard without a greater token is not looked at again",
		edits:  []string{"!r.taken() && r.Over() <= record.LastToken:", "!r.taken():"},
		caught: "guard junk",
	},
	{
		name:   "a counter above its own believed",
		edits:  []string{"return r.Counter > l.counter || known &&", "return known &&"},
		caught: "transcript trust",
	},
	{
		name:   "a late win believed with a token that was not asked for",
		edits:  []string{"(r.Phase != b.phase || r.Asks() != b.token)", "r.Phase != b.phase"},
		caught: "junk, unanswered",
	},
	{
		name:   "a renewal believed as a write that elects",
		edits:  []string{"(r.Phase != b.phase || r.Asks() != b.token)", "r.Asks() != b.token"},
		caught: "transcript trust",
	},
	{
		name:   "a copy of an old win believed",
		edits:  []string{"	if !m.follows(b.write) {\n", "	if !m.follows(b.write) && m.done {\n"},
		caught: "junk, copied",
	},
	{
		name:   "the lease of a marker not waited for",
		edits:  []string{"k.seen.Kind == record.EntryMarker && k.seen.Rec.Lease > 0\n", "k.seen.Kind == record.EntryMarker && false\n"},
		caught: "forced",
	},
	{
		name:   "a marker with a lease is waited for twice",
		edits:  []string{"		if m.key.seen.Rec.Lease == 0 {\n", "		if m.key.seen.Rec.Lease >= 0 {\n"},
		caught: "transcript trust",
	},
	{
		name: "a record without a greater token is replaced when a read does not find it",
		edits: []string{
			"return max(m.standingToken(), m.guards.Over) > record.LastToken", "return m.key.absentSince.IsZero() && max(m.standingToken(), m.guards.Over) > record.LastToken",
			"case !m.key.absentSince.IsZero() && !m.holds() && m.standingToken() > record.LastToken:", "case !m.key.absentSince.IsZero() && m.done:",
		},
		caught: "transcript trust",
	},
	{
		name:   "nobody finds out that a record without a greater token is gone",
		edits:  []string{"case !m.key.absentSince.IsZero() && !m.holds() && m.standingToken() > record.LastToken:", "case !m.key.absentSince.IsZero() && m.done:"},
		caught: "junk, purged",
	},
	{
		name:   "a strange message within a moment of another is never read",
		edits:  []string{"		if m.reads.deferred {\n			a.add(", "		if m.reads.deferred && m.done {\n			a.add("},
		caught: "queue, drain",
	},
	{
		name:   "reads that are behind count however they came about",
		edits:  []string{"m.key.behind >= mute && ", ""},
		caught: "transcript trust",
	},
	{
		name:   "a message that overtook the read of a leader forgotten",
		edits:  []string{"			m.overtaken(s) // the answer may cost it the key, and not show the record that followed\n", ""},
		caught: "transcript trust",
	},
}
