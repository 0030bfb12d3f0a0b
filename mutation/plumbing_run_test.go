package mutation_test

import "slices"

var runPlumbing = plumbing{of: "cmd/natsleader", by: "cmd/natsleader", mutants: slices.Concat(superviseMutants, runLoopMutants, leaseFileMutants, askMutants)}

// superviseMutants are those of the supervisor, and of natsleader's side of it.
var superviseMutants = []mutant{
	{
		name:   "in a drain the kill at the lease's end moves by the drain",
		edits:  []string{"		killAt = min(killAt, p.lease.Kill)\n", "		killAt = min(killAt, p.lease.Kill.add(p.drain))\n"},
		caught: "TestManagedProcess_KilledInTime/lease_ends_first",
	},
	{
		name:   "a command without a lease killed at once",
		edits:  []string{"	if p.lease.Kill != 0 { // later if the lease was extended\n		killAt = min(killAt, p.lease.Kill)\n	}", "	killAt = min(killAt, p.lease.Kill)"},
		caught: "TestManagedProcess_KilledInTime/no_lease",
	},
	{
		name:   "the later of drain and lease",
		edits:  []string{"		killAt = min(killAt, p.lease.Kill)\n", "		killAt = max(killAt, p.lease.Kill)\n"},
		caught: "TestManagedProcess_KilledInTime/drain_ends_first",
	},
	{
		name:   "a second stop begins the drain again",
		edits:  []string{"	if p.stopping {\n		return\n	}\n	p.reap()", "	p.reap()"},
		caught: "TestManagedProcess_KilledInTime/stopped_for_second_time",
	},
	{
		name:   "the kill comes a look late",
		edits:  []string{"	return min(killAt.sub(now), lookAgain)\n", "	return lookAgain\n"},
		caught: "TestManagedProcess_KilledInTime/drain_ends_first",
	},
	{
		name:   "the kill comes right after its instant",
		edits:  []string{"	if now >= killAt {\n", "	if now > killAt {\n"},
		caught: "TestManagedProcess_KilledInTime/drain_ends_first",
	},
	{
		name:   "a command that ended by itself counts as stopped",
		edits:  []string{"	p.stopping, p.asked = true, !p.ended\n", "	p.stopping, p.asked = true, true\n"},
		caught: "TestManagedProcess_KilledInTime/no_lease",
	},
	{
		name:   "the end of the lease looked at a beat late",
		edits:  []string{"		return max(0, min(p.lease.Warn.sub(now), p.lease.Beat))\n", "		return p.lease.Beat\n"},
		caught: "TestSupervisor_ActsOnLease",
	},
	{
		name:   "no beat while the lease is valid",
		edits:  []string{"		return max(0, min(p.lease.Warn.sub(now), p.lease.Beat))\n", "		return max(0, p.lease.Warn.sub(now))\n"},
		caught: "TestSupervisor_ActsOnLease",
	},
	{
		name:   "a lease that is over stops nothing",
		edits:  []string{"	case s.orphaned, p.ended, over && !s.notifies():", "	case s.orphaned, p.ended:"},
		caught: "TestSupervisor_ActsOnLease",
	},
	{
		name:   "a command that has ended stays the command",
		edits:  []string{"Stopped: p.asked}\n		s.command = nil\n", "Stopped: p.asked}\n"},
		caught: "TestSupervisor_ActsOnLease",
	},
	{
		name:   "a notified command outlives natsleader",
		edits:  []string{"	case s.orphaned, p.ended, over && !s.notifies():", "	case s.orphaned && !s.notifies(), p.ended, over && !s.notifies():"},
		caught: "TestSupervisor_NotifiedCommandLivesOn",
	},
	{
		name:   "a notified command is stopped at the end of the lease",
		edits:  []string{"	case s.orphaned, p.ended, over && !s.notifies():", "	case s.orphaned, p.ended, over:"},
		caught: "TestSupervisor_NotifiedCommandLivesOn",
	},
	{
		name:   "the lease of a notified command ends again and again",
		edits:  []string{"	if s.notifies() {\n		p.lease = lease{}\n	}\n", ""},
		caught: "TestSupervisor_NotifiedCommandLivesOn",
	},
	{
		name:   "the signal of the loss sent twice",
		edits:  []string{"		p.won = false\n		p.signal(unix.Signal(s.Lost))\n", "		p.signal(unix.Signal(s.Lost))\n"},
		caught: "TestSupervisor_NotifiedCommandLivesOn",
	},
	{
		name:   "the loss not noted in the lease file",
		edits:  []string{"	s.notes.put(newLeaseNote(p.token, clockNow()))\n", ""},
		caught: "TestSupervisor_HandlesOrders",
	},
	{
		name:   "the loss noted with the end of the lease",
		edits:  []string{"	s.notes.put(newLeaseNote(p.token, clockNow()))\n", "	s.notes.put(newLeaseNote(p.token, p.lease.Warn))\n"},
		caught: "TestSupervisor_HandlesOrders",
	},
	{
		name:   "an extended lease without its token",
		edits:  []string{"	p.lease, p.token = o.Lease, o.Token\n", "	p.lease = o.Lease\n"},
		caught: "TestSupervisor_HandlesOrders",
	},
	{
		name:   "an extended lease not noted",
		edits:  []string{"	s.notes.put(newLeaseNote(o.Token, o.Lease.Warn))\n}", "}"},
		caught: "TestSupervisor_HandlesOrders",
	},
	{
		name:   "an order to hold extends the lease of the term",
		edits:  []string{"		p.lease = o.Lease\n	case orderLost", "		s.extend(o)\n	case orderLost"},
		caught: "TestSupervisor_HandlesOrders",
	},
	{
		name:   "a kill waits for the drain",
		edits:  []string{"		p.stop(clockNow())\n		p.killAt = 0\n", "		p.stop(clockNow())\n"},
		caught: "TestSupervisor_HandlesOrders",
	},
	{
		name:   "an order after the end of the command",
		edits:  []string{"	if p == nil {\n		return // it ended just before\n	}\n", ""},
		caught: "TestSupervisor_HandlesOrders",
	},
	{
		name:   "a process that does not die reported at once",
		edits:  []string{"now >= p.killed.add(patienceWithKilled) {\n		all", "now >= p.killed {\n		all"},
		caught: "TestSupervisor_ReportsStuckOnce",
	},
	{
		name:   "a process that does not die reported at each look",
		edits:  []string{"			p.stuck = true\n", ""},
		caught: "TestSupervisor_ReportsStuckOnce",
	},
	{
		name:   "a command begins when its term is over",
		edits:  []string{"	if s.tooLate(o) { // the disk took its time\n		return\n	}\n", ""},
		caught: "TestSupervisor_EndedLease",
	},
	{
		name:   "a disk that hangs holds up the supervisor",
		edits:  []string{"	case <-time.After(patienceWithDisk):\n		return", "	case <-time.After(2 * patienceWithDisk):\n		return"},
		caught: "TestSupervisor_HangingDisk",
	},
	{
		name:   "a supervisor that cannot start leaves its pipes",
		edits:  []string{"	if o.process, err = launch(binary, conf, argv, ordersIn, reportsOut); err != nil {\n		_, _ = ordersOut.Close(), reportsIn.Close()\n", "	if o.process, err = launch(binary, conf, argv, ordersIn, reportsOut); err != nil {\n"},
		caught: "TestSupervisorProcess_LeavesNoPipe",
	},
	{
		name:   "a supervisor that has ended leaves the pipe of its reports",
		edits:  []string{"	defer func() { _ = in.Close() }()\n	group", "	group"},
		caught: "TestSupervisorProcess_LeavesNoPipe",
	},
	{
		name:   "the second descriptor of the orders left open",
		edits:  []string{"	defer func() { _ = unix.Close(conf.Orders) }()\n", ""},
		caught: "TestSupervisorProcess_LeavesNoPipe",
	},
	{
		name:   "the end of the orders left open",
		edits:  []string{"	defer func() { _ = out.Close() }()\n	enc", "	enc"},
		caught: "TestSupervisorProcess_LeavesNoPipe",
	},
	{
		name:   "orders read by natsleader, too",
		edits:  []string{"	defer func() { _ = ordersIn.Close() }()\n", ""},
		caught: "TestSupervisorProcess_LeavesNoPipe",
	},
	{
		name:   "an order drops those of other kinds",
		edits:  []string{"return w.Do == last.Do && w.Signal == last.Signal })", "return w.Do == last.Do || w.Signal == last.Signal })"},
		caught: "TestSend_KeepsLastOfEachKind",
	},
	{
		name:   "a signal drops the signals before it",
		edits:  []string{"return w.Do == last.Do && w.Signal == last.Signal })", "return w.Do == last.Do })"},
		caught: "TestSend_KeepsLastOfEachKind",
	},
	{
		name:   "a report on its way counts as read",
		edits:  []string{"	if !r.lock.TryLock() {\n		return true\n	}\n", "	if !r.lock.TryLock() {\n		return false\n	}\n"},
		caught: "TestRunLoop_ReadsReportsFirst",
	},
	{
		name:   "a delivered report counts as read",
		edits:  []string{"return len(o.inbox) > 0 || o.reports.unread() }", "return o.reports.unread() }"},
		caught: "TestRunLoop_ReadsReportsFirst",
	},
	{
		name:   "a line in two pieces lost",
		edits:  []string{"			if !whole {\n				break\n			}\n", "			if !whole {\n				rest = nil\n				break\n			}\n"},
		caught: "TestReports_AreLines",
	},
	{
		name:   "leftovers not reaped",
		edits:  []string{"		for _, pid := range left {\n			reapChild(pid)\n		}\n", ""},
		caught: "TestKillLeftovers_OfTheCommandOnly",
	},
	{
		name:   "children of before killed with the leftovers",
		edits:  []string{"newProcessKiller(o.strangers); ; {", "newProcessKiller(nil); ; {"},
		caught: "TestKillLeftovers_OfTheCommandOnly",
	},
	{
		name:   "a group that has ended waited for",
		edits:  []string{"			if errors.Is(unix.Kill(-group, 0), unix.ESRCH) {\n				group = 0\n			}\n", ""},
		caught: "TestKillLeftovers_OfTheCommandOnly",
	},
	{
		name:   "the killer sends no stop before the kill",
		edits:  []string{"			if k.known[p.pid] {\n				sig = unix.SIGKILL\n			}\n", "			sig = unix.SIGKILL\n"},
		caught: "TestProcessKiller_StopsAllBeforeItKills",
	},
	{
		name:   "the killer never slows down",
		edits:  []string{"	if changed {\n		k.pause = 0\n	}\n", "	k.pause = 0\n"},
		caught: "TestProcessKiller_GivesUpThePace",
	},
	{
		name:   "the killer slows down without a bound",
		edits:  []string{"	k.pause = min(max(killAgain, k.pause*5/4), killSeldom)\n", "	k.pause = max(killAgain, k.pause*5/4)\n"},
		caught: "TestProcessKiller_GivesUpThePace",
	},
	{
		name:   "the killer slows down while processes replace themselves",
		edits:  []string{"	if changed {\n		k.pause = 0\n	}\n", ""},
		caught: "TestProcessKiller_PaceWhileSetChanges",
	},
}

var runLoopMutants = []mutant{}

var leaseFileMutants = []mutant{}

var askMutants = []mutant{}
