package mutation_test

// silencePlumbing has mutants of how a candidate finds out that its servers are silent.
var silencePlumbing = plumbing{of: "leader", by: "leader_test", mutants: []mutant{
	{
		name:   "a silence that lasts not reported again",
		edits:  []string{"		if s.found++; s.found%reportAgain == 0 {\n			s.reported = false\n		}\n", "		s.found++\n"},
		caught: "TestForceReconnect_SilenceIsReportedAgain",
	},
	{
		name:   "a silence reported one finding late",
		edits:  []string{"s.found%reportAgain == 0 {", "s.found%(reportAgain+1) == 0 {"},
		caught: "TestForceReconnect_SilenceIsReportedAgain",
	},
	{
		name:   "a silence reported at each finding",
		edits:  []string{"			s.reported = true\n", ""},
		caught: "TestForceReconnect_SilenceIsReportedAgain",
	},
	{
		name:   "a silence found once only",
		edits:  []string{"		s.asked, s.at = false, a.c.since()\n", "		s.at = a.c.since()\n"},
		caught: "TestForceReconnect_SilenceIsReportedAgain",
	},
	{
		name:   "a sign asked for again at once",
		edits:  []string{"return a.base.Add(max(t.signed, s.at) + a.quiet() - wait)", "return a.base.Add(t.signed + a.quiet() - wait)"},
		caught: "TestForceReconnect_SilenceIsReportedAgain",
	},
	{
		name:   "a sign does not end the count of findings",
		edits:  []string{"	a.silence = silence{cancel: a.silence.cancel}\n", "	a.silence.asked = false\n"},
		caught: "TestForceReconnect_UnsetStays",
	},
	{
		name:   "a request for a sign not given up when the servers are found silent",
		edits:  []string{"			s.reported = false\n		}\n		s.giveUp()\n", "			s.reported = false\n		}\n"},
		caught: "TestForceReconnect_UnsetStays",
	},
	{
		name:   "a request for a sign in flight for ever",
		edits:  []string{"	a.silence.cancel = nil\n	if a.isSign(err) {\n", "	if a.isSign(err) {\n"},
		caught: "TestSilence_AsksOneAtATime",
	},
	{
		name:   "a second request for a sign while one is in flight",
		edits:  []string{"	s.asked, s.at = true, a.c.since()\n	if s.cancel != nil {\n", "	s.asked, s.at = true, a.c.since()\n	if s.cancel != nil && a.status.done {\n"},
		caught: "TestSilence_AsksOneAtATime",
	},
	{
		name:   "the silence is not in the statistics",
		edits:  []string{"		a.c.unanswered(s.at, a.quiet())\n", ""},
		caught: "TestSilent_WaitingCandidate",
	},
	{
		name:   "the connection moves unasked",
		edits:  []string{"moves := ok && a.mayMove", "moves := ok"},
		caught: "TestForceReconnect_UnsetStays",
	},
	{
		name:   "no remedy named",
		edits:  []string{"if movable && !a.mayMove {", "if movable && a.mayMove {"},
		caught: "TestForceReconnect_UnsetStays",
	},
	{
		name:   "a silence reported while a move may help",
		edits:  []string{"!s.reported && (s.found != 1 || !moves)", "!s.reported"},
		caught: "TestForceReconnect_LeaderKeepsItsLease",
	},
	{
		name:   "a denial is a sign though another request is unanswered",
		edits:  []string{"return !a.c.tally.silent", "return true"},
		caught: "TestForceReconnect_DenialIsNoSign",
	},
	{
		name:   "a denial is never a sign",
		edits:  []string{"return !a.c.tally.silent", "return false"},
		caught: "TestSilent_NotByDenial",
	},
	{
		name:   "a renewal of another candidate not missed",
		edits:  []string{"case a.status.shown.kind == entryRecord && !a.status.holds && a.status.settled:", "case a.status.done:"},
		caught: "TestForceReconnect_WaitingCandidateTakesOver",
	},
	{
		name:   "an answer to the request for a sign is none",
		edits:  []string{"	if a.isSign(err) {\n		a.signed()\n", "	if a.isSign(err) && a.status.done {\n		a.signed()\n"},
		caught: "TestSilent_NotByDenial",
	},
	{
		name:   "a newer revision is no sign",
		edits:  []string{"a.status.seen.revision > seen || in.kind", "in.kind"},
		caught: "TestForceReconnect_WaitingCandidateTakesOver",
	},
}}

// moverPlumbing has mutants of when a connection moves to another server.
var moverPlumbing = plumbing{of: "internal/jsapi", by: "internal/jsapi", mutants: []mutant{
	{
		name:   "the moves in a row not bounded",
		edits:  []string{"m.moved, m.row = now, min(m.row+1, 16)", "m.moved, m.row = now, m.row+1"},
		caught: "TestMove_LongSilence",
	},
	{
		name:   "the moves in a row bounded far too high",
		edits:  []string{"min(m.row+1, 16)", "min(m.row+1, 64)"},
		caught: "TestMove_LongSilence",
	},
	{
		name:   "the moves in a row bounded by the greater",
		edits:  []string{"min(m.row+1, 16)", "max(m.row+1, 16)"},
		caught: "TestMove_WaitsLongerEachTime",
	},
	{
		name:   "the wait between moves not bounded",
		edits:  []string{"max(quiet, min(quiet<<m.row, longestQuiet))", "max(quiet, quiet<<m.row)"},
		caught: "TestMove_LongSilence",
	},
	{
		name:   "a long wait shortened to a minute",
		edits:  []string{"max(quiet, min(quiet<<m.row, longestQuiet))", "min(quiet<<m.row, longestQuiet)"},
		caught: "TestMove_LongWait",
	},
	{
		name:   "a sign does not begin the waits anew",
		edits:  []string{"		m.row = 0\n", ""},
		caught: "TestMove_WaitsLongerEachTime",
	},
	{
		name:   "a connection that has moved is busy for ever",
		edits:  []string{"if m.busy = false; moves {", "if moves {"},
		caught: "TestMove_WaitsLongerEachTime",
	},
	{
		name:   "many candidates move a connection at once",
		edits:  []string{"	m.busy = true\n", ""},
		caught: "TestMove_WaitsLongerEachTime",
	},
	{
		name:   "a connection without reconnections moves",
		edits:  []string{"tries == 0 && !forever {", "tries < 0 && !forever {"},
		caught: "TestMove_Stays/no_second_try",
	},
	{
		name:   "a sign during the pause unheeded",
		edits:  []string{"if !a.isQuiet(quiet) || a.Connected()", "if a.Connected()"},
		caught: "TestMove_Stays/a_sign_meanwhile",
	},
	{
		name:   "a connection left for the same server",
		edits:  []string{"len(a.Conn.Servers()) < 2 ||", "len(a.Conn.Servers()) < 1 ||"},
		caught: "TestMove_Stays/no_other_server",
	},
	{
		name:   "a refusal to leave the server unheeded",
		edits:  []string{"|| !moving(a.Conn.ConnectedUrlRedacted()) {\n		return false\n", "|| !moving(a.Conn.ConnectedUrlRedacted()) && len(a.Conn.Servers()) < 2 {\n		return false\n"},
		caught: "TestMove_Stays/not_needed",
	},
}}
