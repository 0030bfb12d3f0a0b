package mutation_test

// The mutants of the rules for the work of a term.
var workMutants = []mutant{
	{
		name:   "a candidate tries for the key while its work goes on",
		edits:  []string{"		case try && !m.shut():\n", "		case try && !m.suspended && !m.work.idle:\n"},
		caught: "loops",
	},
	{
		name:   "a candidate without a loop tries for the key",
		edits:  []string{"		case try && !m.shut():\n", "		case try && !m.suspended && !m.work.going:\n"},
		caught: "loops",
	},
	{
		name:   "a late win begins a term while the work goes on",
		edits:  []string{"		if m.shut() && m.leave.mode == Staying {\n", "		if m.suspended && m.leave.mode == Staying {\n"},
		caught: "loops, late win",
	},
	{
		name:   "a late win is kept while the work goes on",
		edits:  []string{"if m.leave.mode == resigning && now.Before(ready) && !m.shut() {", "if m.leave.mode == resigning && now.Before(ready) && !m.suspended {"},
		caught: "loops, late win",
	},
	{
		name:   "a fenced leader is elected again while its work goes on",
		edits:  []string{"	if m.work.going {\n		m.term.drain(", "	if m.work.going && m.leave.mode != Staying {\n		m.term.drain("},
		caught: "loops",
	},
	{
		name:   "a drain ends with the work alone",
		edits:  []string{"if m.term.draining && (!m.work.going || !now.Before(m.term.drainBy)) {", "if m.term.draining && !m.work.going {"},
		caught: "loops, out of time",
	},
	{
		name:   "a fenced leader is elected again when the time for its work is up",
		edits:  []string{"	case m.work.going:\n		m.withdraw(now, fx)\n", "	case m.work.going && m.done:\n		m.withdraw(now, fx)\n"},
		caught: "loops, out of time",
	},
	{
		name:   "a fenced leader tries for a term that nobody takes",
		edits:  []string{"(m.state == StateLeader || m.state == StateFenced) {", "m.state == StateLeader {"},
		caught: "transcript work",
	},
	{
		name:   "the work of an earlier term counts",
		edits:  []string{"	if term != m.term.number {\n", "	if term > m.term.number {\n"},
		caught: "transcript work",
	},
	{
		name:   "a leader leads on after its work",
		edits:  []string{"	if leave && m.state == StateLeader {\n", "	if leave && m.state == StateFenced && m.done {\n"},
		caught: "loops",
	},
	{
		name:   "a leader without a loop and without work leads on",
		edits:  []string{"(m.state == StateLeader || m.state == StateFenced) {", "m.state == StateFenced {"},
		caught: "loops",
	},
	{
		name:   "a term begins without a loop",
		edits:  []string{"	case m.work.idle:\n", "	case m.work.idle && m.done:\n"},
		caught: "loops, pending",
	},
	{
		name:   "a loop that finds a leader has no work",
		edits:  []string{"	if leads {\n		w.awaited, w.going = true, true\n	}\n", "	_ = leads\n"},
		caught: "transcript work",
	},
	{
		name:   "a release is awaited only in loops",
		edits:  []string{"return m.bucket.times.DrainTimeout > 0 || m.work.loops }", "return m.work.loops }"},
		caught: "transcript release",
	},
	{
		name:   "work in a loop without a DrainTimeout is given no time",
		edits:  []string{"		return d\n	}\n	return m.bucket.times.Lease\n", "		return d\n	}\n	return 0\n"},
		caught: "transcript work",
	},
	{
		name:   "a stop does not hurry a drain",
		edits:  []string{"		m.term.hurry(until)\n", ""},
		caught: "transcript work",
	},
	{
		name:   "a stop prolongs a drain",
		edits:  []string{"t.drainBy = Earlier(t.drainBy, until)", "t.drainBy = Later(t.drainBy, until)"},
		caught: "transcript work",
	},
	{
		name:   "a candidate whose work goes on stands",
		edits:  []string{"!m.holds() && !m.work.going && !m.work.idle &&", "!m.holds() && !m.work.idle &&"},
		caught: "transcript work",
	},
}
