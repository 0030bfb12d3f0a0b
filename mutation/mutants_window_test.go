package mutation_test

// The mutants of the rules for slots of a connection.
var windowMutants = []mutant{
	{
		name: "the lease counts from the place in line",
		edits: []string{
			"	f.slot, f.rank, f.slotSince, f.slow = slotHas, 0, time.Time{}, false\n", "	f.slot, f.rank, f.slow = slotHas, 0, false\n",
			"	m.flight.send(req, now, now.Add(m.wait(now)))\n", "	m.flight.send(req, m.flight.slotSince, now.Add(m.wait(now)))\n",
		},
		caught: "transcript window",
	},
	{
		name:   "the time of a request counts from the place in line",
		edits:  []string{"	f.slot, f.rank, f.slotSince, f.slow = slotHas, 0, time.Time{}, false\n", "	f.slot, f.rank, f.slow = slotHas, 0, false\n", "	m.flight.send(req, now, now.Add(m.wait(now)))\n", "	m.flight.send(req, now, m.flight.slotSince.Add(m.wait(now)))\n"},
		caught: "transcript window",
	},
	{
		name:   "a slot for which there is no request is kept",
		edits:  []string{"			m.flight.unused()\n", ""},
		caught: "window",
	},
	{
		name:   "a slot is kept after the reply",
		edits:  []string{"	f.req, f.late, f.slot = Request{}, false, slotNone\n", "	f.req, f.late = Request{}, false\n"},
		caught: "window",
	},
	{
		name:   "a request is sent without a slot",
		edits:  []string{"	case m.flight.slot == slotHas:\n		m.send(now, a.kind, fx)\n", "	case m.flight.slot == slotHas || m.state == StateFenced:\n		m.send(now, a.kind, fx)\n"},
		caught: "window",
	},
	{
		name:   "a leader waits behind candidates",
		edits:  []string{"	case m.state == StateLeader && now.Before(m.tooLateAt()), m.term.draining:\n		return backend.RankHolder\n", "	case m.term.draining:\n		return backend.RankHolder\n"},
		caught: "transcript window",
	},
	{
		name:   "a leader that has missed a renewal waits in line again",
		edits:  []string{"	case m.state == StateLeader && !now.Before(m.overdueAt()) && now.Before(m.tooLateAt()):\n		return backend.RankOverdue\n", ""},
		caught: "transcript window",
	},
	{
		name:   "a leader that is too late makes others late",
		edits:  []string{"	case m.state == StateLeader && now.Before(m.tooLateAt()), m.term.draining:\n", "	case m.holds():\n"},
		caught: "transcript window",
	},
	{
		name:   "a place in line does not move",
		edits:  []string{"	if f.slot == slotWaits && r == f.rank {\n", "	if f.slot == slotWaits {\n"},
		caught: "transcript window",
	},
	{
		name:   "a congestion is reported with each step",
		edits:  []string{"		m.flight.tooSlow()\n", ""},
		caught: "transcript window",
	},
	{
		name:   "a phase puts a renewal off",
		edits:  []string{"	return due.Add(-((past%interval + interval) % interval)) // past may be negative\n", "	return due.Add(interval - (past%interval+interval)%interval)\n"},
		caught: "transcript window",
	},
}
