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

// runLoopMutants are those of natsleader's own process.
var runLoopMutants = []mutant{
	{
		name:   "supervisors that lived long count as short-lived",
		edits:  []string{"		c.useless = 0\n	}\n	c.supervisor.shutDown()", "	}\n	c.supervisor.shutDown()"},
		caught: "TestSupervisorExited_LongLivedDoesNotCount",
	},
	{
		name:   "supervisors replaced without a bound",
		edits:  []string{"	if c.useless < 3 {\n", "	if c.useless < 1000 {\n"},
		caught: "TestSupervisorExited_LongLivedDoesNotCount",
	},
	{
		name:   "the second supervisor that ends at once ends the run",
		edits:  []string{"	if c.useless < 3 {\n", "	if c.useless < 2 {\n"},
		caught: "TestSupervisorExited_LongLivedDoesNotCount",
	},
	{
		name:   "a supervisor that has died keeps its orders",
		edits:  []string{"	c.supervisor.shutDown()\n	err := fmt", "	err := fmt"},
		caught: "TestSupervisorExited_LongLivedDoesNotCount",
	},
	{
		name:   "the supervisor reaped with the adopted",
		edits:  []string{"	c.supervisorPID.Store(int64(o.process.Pid))\n", ""},
		caught: "TestSupervisorExited_LongLivedDoesNotCount",
	},
	{
		name:   "--wait counts after the first leadership",
		edits:  []string{"	c.waited = nil\n	c.bucketBack()\n", "	c.bucketBack()\n"},
		caught: "TestRunLoop_Wait",
	},
	{
		name:   "a command begun by an election at the end",
		edits:  []string{"	case c.leaving:\n	case c.holder:", "	case c.holder:"},
		caught: "TestRunLoop_FirstOutcomeCounts",
	},
	{
		name:   "the second outcome counts",
		edits:  []string{"	if !c.leaving {\n		c.leaving, c.outcome = true, outcome\n", "	c.outcome = outcome\n	if !c.leaving {\n		c.leaving = true\n"},
		caught: "TestRunLoop_FirstOutcomeCounts",
	},
	{
		name:   "the pause between starts goes on after the term",
		edits:  []string{"	if c.won == 0 {\n		c.brake.pause = nil // the next term begins with a start of the command\n	}\n", ""},
		caught: "TestRunLoop_StepsDownBetweenStarts",
	},
	{
		name:   "a term without a command not released",
		edits:  []string{"		t.Release() // nothing runs\n	case", "	case"},
		caught: "TestRunLoop_StepsDownBetweenStarts",
	},
	{
		name:   "a term released while its command runs",
		edits:  []string{"	c.term, c.lapsed = nil, errors.Is(cause, leader.ErrLeaseExpired)\n", "	c.term, c.lapsed = nil, errors.Is(cause, leader.ErrLeaseExpired)\n	t.Release()\n"},
		caught: "TestRunLoop_KeepsTheKeyForItsCommand",
	},
	{
		name:   "the command not told of the loss",
		edits:  []string{"		c.supervisor.send(order{Do: orderLost})\n", ""},
		caught: "TestRunLoop_KeepsTheKeyForItsCommand",
	},
	{
		name:   "the command goes on after its term",
		edits:  []string{"	case c.won == 0:\n		c.stop()\n	default:", "	case c.won == 0:\n	default:"},
		caught: "TestRunLoop_KeepsTheKeyForItsCommand",
	},
	{
		name:   "the key kept after the command",
		edits:  []string{"	if c.term == nil && c.last != nil {\n		c.last.Release()\n	}\n", ""},
		caught: "TestRunLoop_KeepsTheKeyForItsCommand",
	},
	{
		name:   "a hold that outlives the leadership",
		edits:  []string{"	case c.held != nil:\n		c.leave(c.outcome)\n	case c.once:", "	case c.once:"},
		caught: "TestRunLoop_HoldEndsWithOutcome/the_loss",
	},
	{
		name:   "a signal during a hold takes the outcome",
		edits:  []string{"		if c.held != nil {\n			c.leave(c.outcome) // of the command that has ended\n			return\n		}\n", ""},
		caught: "TestRunLoop_HoldEndsWithOutcome/a_signal",
	},
	{
		name:   "--once stands again",
		edits:  []string{"	case c.once:\n		c.leave(exitError{code: exitLost, err: fmt.Errorf(\"leadership of %s lost: %w\", c.election, cause)})\n", ""},
		caught: "TestRunLoop_Once",
	},
	{
		name:   "--once does not wait for the command",
		edits:  []string{"	for !c.leaving || c.current != nil {\n", "	for !c.leaving {\n"},
		caught: "TestRunLoop_Once",
	},
	{
		name:   "a notified term released at once",
		edits:  []string{"		time.AfterFunc(c.drain, t.Release)", "		t.Release()"},
		caught: "TestRunLoop_NotifiedCommandGoesOn",
	},
	{
		name:   "a notified term not released",
		edits:  []string{"		time.AfterFunc(c.drain, t.Release) // natsleader does not know when the command is ready\n", ""},
		caught: "TestRunLoop_NotifiedCommandGoesOn",
	},
	{
		name:   "a notified command stopped with the term",
		edits:  []string{"	case c.won == 0:\n		c.stop()\n	default:\n", "	case c.won == 0:\n		c.stop()\n	default:\n		c.stop()\n"},
		caught: "TestRunLoop_NotifiedCommandGoesOn",
	},
	{
		name:   "two orders to stop",
		edits:  []string{"	if s == nil || s.ending {\n		return\n	}\n	s.ending", "	if s == nil {\n		return\n	}\n	s.ending"},
		caught: "TestRunLoop_PatienceWithStop",
	},
	{
		name:   "a supervisor has two seconds for a drain",
		edits:  []string{"	s.answerBy = clockNow().add(c.drain + patienceWithSupervisor)\n", "	s.answerBy = clockNow().add(patienceWithSupervisor)\n"},
		caught: "TestRunLoop_PatienceWithStop",
	},
	{
		name:   "a late start ends the patience with the stop",
		edits:  []string{"			if !s.ending {\n				s.answerBy = 0\n			}\n", "			s.answerBy = 0\n"},
		caught: "TestRunLoop_PatienceWithStop",
	},
	{
		name:   "the patience with a start goes on after it",
		edits:  []string{"			if !s.ending {\n				s.answerBy = 0\n			}\n", ""},
		caught: "TestRunLoop_LateStart",
	},
	{
		name:   "a success started again",
		edits:  []string{"!s.hung && code != 0 && c.restart > 0", "!s.hung && code >= 0 && c.restart > 0"},
		caught: "TestRunLoop_EndsWithCommand/it_ends_well",
	},
	{
		name:   "a failure started again without --restart",
		edits:  []string{"code != 0 && c.restart > 0 &&", "code != 0 &&"},
		caught: "TestRunLoop_EndsWithCommand/it_fails",
	},
	{
		name:   "a hold of a command that has not begun",
		edits:  []string{"	if s.begun && !stopped && !s.hung && c.hold > 0 &&", "	if !stopped && !s.hung && c.hold > 0 &&"},
		caught: "TestRunLoop_EndsWithCommand/it_cannot_be_run",
	},
	{
		name:   "a hold forgets the exit code",
		edits:  []string{"		c.outcome, c.held = outcome, time.After(c.hold)\n", "		c.held = time.After(c.hold)\n"},
		caught: "TestRunLoop_EndsWithCommand/it_fails,_and_hold",
	},
	{
		name:   "no hold for a failure",
		edits:  []string{"	if s.begun && !stopped && !s.hung && c.hold > 0 &&", "	if s.begun && !stopped && !s.hung && code == 0 && c.hold > 0 &&"},
		caught: "TestRunLoop_EndsWithCommand/it_fails,_and_hold",
	},
	{
		name:   "failures counted without a bound",
		edits:  []string{"	if b.failures >= most {\n		return 0, false\n	}\n", ""},
		caught: "TestBrake_PausesGrow",
	},
	{
		name:   "one restart too many",
		edits:  []string{"	if b.failures >= most {\n", "	if b.failures > most {\n"},
		caught: "TestBrake_PausesGrow",
	},
	{
		name:   "a steady run forgets nothing",
		edits:  []string{"	if ran >= steadyRun {\n", "	if ran > steadyRun {\n"},
		caught: "TestBrake_PausesGrow",
	},
	{
		name:   "pauses grow without a bound",
		edits:  []string{"	pause = min(firstRestart<<min(b.failures, 10), longestRestart)\n", "	pause = firstRestart << min(b.failures, 10)\n"},
		caught: "TestBrake_PausesGrow",
	},
	{
		name:   "a leader whose command was ended by mistake leads on",
		edits:  []string{"		go func() { _ = c.candidate.Resign(context.Background()) }()\n", ""},
		caught: "TestRunLoop_CommandEndedByLateSupervisor",
	},
	{
		name:   "a leader that resigns warns of a loss",
		edits:  []string{"		c.resigned = c.term\n", ""},
		caught: "TestRunLoop_CommandEndedByLateSupervisor",
	},
	{
		name:   "a command that was ended by mistake ends the run",
		edits:  []string{"	case c.won != 0 || !stopped:\n", "	case c.won != 0 || !stopped || c.term != nil:\n"},
		caught: "TestRunLoop_CommandEndedByLateSupervisor",
	},
	{
		name:   "each further signal kills",
		edits:  []string{"	case c.current != nil && !c.hurried:\n", "	case c.current != nil:\n"},
		caught: "TestRunLoop_Signals",
	},
	{
		name:   "a second signal stops only",
		edits:  []string{"		c.supervisor.send(order{Do: orderKill})\n", "		c.supervisor.send(order{Do: orderStop})\n"},
		caught: "TestRunLoop_Signals",
	},
	{
		name:   "a signal of natsleader's own handed on",
		edits:  []string{"	case !ends && (s == c.won || s == c.lost): // the command would take it for natsleader's\n", ""},
		caught: "TestRunLoop_Signals",
	},
	{
		name:   "other signals not handed on",
		edits:  []string{"		c.supervisor.send(order{Do: orderSignal, Signal: int(s)})\n", ""},
		caught: "TestRunLoop_Signals",
	},
	{
		name:   "a term not released at the end",
		edits:  []string{"	if c.term != nil {\n		c.term.Release()\n	}\n	most", "	most"},
		caught: "TestRunLoop_SignalBetweenStarts",
	},
	{
		name:   "a lease that is over waited for at the end",
		edits:  []string{"	if c.holds && !c.lapsed && !c.hurried {\n", "	if c.holds && !c.hurried {\n"},
		caught: "TestRunLoop_HandOverIsBounded/the_lease_is_over",
	},
	{
		name:   "a second signal waits for the server",
		edits:  []string{"	if c.holds && !c.lapsed && !c.hurried {\n", "	if c.holds && !c.lapsed {\n"},
		caught: "TestRunLoop_HandOverIsBounded/a_second_signal",
	},
	{
		name:   "a valid lease given up after a second",
		edits:  []string{"		most = 5 * time.Second\n", "		most = time.Second\n"},
		caught: "TestRunLoop_HandOverIsBounded/the_lease_is_valid",
	},
	{
		name:   "the end waits for a server without a bound",
		edits:  []string{"	ctx, cancel := context.WithTimeout(context.Background(), most)\n	defer cancel()\n	stopped", "	ctx, cancel := context.WithTimeout(context.Background(), most+untilGone)\n	defer cancel()\n	stopped"},
		caught: "TestRunLoop_HandOverIsBounded/the_lease_is_valid",
	},
	{
		name:   "a signal at the end ignored",
		edits:  []string{"			if _, ends := ending(sig); ends {\n				cancel()\n			}\n", "			_ = sig\n"},
		caught: "TestRunLoop_HandOverIsBounded",
	},
	{
		name:   "any signal at the end hurries",
		edits:  []string{"			if _, ends := ending(sig); ends {\n				cancel()\n			}\n", "			_ = sig\n			cancel()\n"},
		caught: "TestRunLoop_HandOverIsBounded",
	},
	{
		name:   "an election at the end not released",
		edits:  []string{"				c.holds = true\n				e.Term.Release()\n", "				c.holds = true\n				_ = e.Term\n"},
		caught: "TestRunLoop_ElectedAtTheEnd",
	},
	{
		name:   "a command begun under a killed supervisor",
		edits:  []string{"	if c.supervisor.killed != 0 {\n		return\n	}\n	start", "	start"},
		caught: "TestRunLoop_KilledSupervisor",
	},
	{
		name:   "a command that had not begun is not begun again",
		edits:  []string{"	case !s.begun && !s.ending:\n		c.begin(s.term)\n	default:", "	default:"},
		caught: "TestRunLoop_KilledSupervisor/by_others,_just_before",
	},
	{
		name:   "a supervisor that does not die reported at each look",
		edits:  []string{"	case reportStuck:\n		if s := c.current; s != nil && !s.stuck {\n", "	case reportStuck:\n		if s := c.current; s != nil {\n"},
		caught: "TestRunLoop_UnkillableSupervisor",
	},
	{
		name:   "a start without patience",
		edits:  []string{"	c.current.answerBy = clockNow().add(patienceWithStart)\n", ""},
		caught: "TestRunLoop_LateStart",
	},
	{
		name:   "supervisors that do not start the command killed for ever",
		edits:  []string{"	if c.useless++; !late && clockNow()", "	if c.useless++; clockNow()"},
		caught: "TestRunLoop_LateStart",
	},
}

// leaseFileMutants are those of the lease as the supervisor and the command see it.
var leaseFileMutants = []mutant{
	{
		name:   "the shorter lease of a changed bucket is not taken",
		edits:  []string{"	if s.length == 0 || length < s.length {", "	if s.length == 0 {"},
		caught: "TestCommandRun_Extend",
	},
	{
		name:   "the longer lease of a changed bucket is taken",
		edits:  []string{"	if s.length == 0 || length < s.length {", "	if s.length == 0 || length != s.length {"},
		caught: "TestCommandRun_Extend",
	},
	{
		name:   "the command killed with the end of the lease",
		edits:  []string{"Kill: warn.add(margin * 2 / 3), Beat", "Kill: warn.add(margin), Beat"},
		caught: "TestCommandRun_Extend",
	},
	{
		name:   "the supervisor killed before the command",
		edits:  []string{"	s.leaseBy = s.lease.Kill.add(margin / 6)\n", "	s.leaseBy = s.lease.Kill.add(-margin / 6)\n"},
		caught: "TestCommandRun_Extend",
	},
	{
		name:   "the supervisor has a lease's margin",
		edits:  []string{"	s.leaseBy = s.lease.Kill.add(margin / 6)\n", "	s.leaseBy = s.lease.Kill.add(margin)\n"},
		caught: "TestCommandRun_Extend",
	},
	{
		name:   "a lease that is over extends",
		edits:  []string{"	if left <= 0 || warn <= s.lease", "	if warn <= s.lease"},
		caught: "TestCommandRun_Extend",
	},
	{
		name:   "an extension sent for each look",
		edits:  []string{"	if left <= 0 || warn <= s.lease.Warn.add(time.Millisecond) {", "	if left <= 0 || warn <= s.lease.Warn {"},
		caught: "TestCommandRun_Extend",
	},
	{
		name:   "a beat of a whole lease",
		edits:  []string{"	return min(max(length/beatsPerLease, shortestBeat), longestBeat)\n", "	return min(max(length, shortestBeat), longestBeat)\n"},
		caught: "TestCommandRun_Extend",
	},
	{
		name:   "a notified command's supervisor killed at the end of the lease",
		edits:  []string{"	if c.won == 0 && s.leaseBy != 0 &&", "	if s.leaseBy != 0 &&"},
		caught: "TestRunLoop_LooksInTime",
	},
	{
		name:   "the later of lease and order",
		edits:  []string{"(late == 0 || s.leaseBy < late) {", "(late == 0 || s.leaseBy > late) {"},
		caught: "TestRunLoop_LooksInTime",
	},
	{
		name:   "a late order waits for the lease",
		edits:  []string{"(late == 0 || s.leaseBy < late) {", "true {"},
		caught: "TestRunLoop_LooksInTime",
	},
	{
		name:   "a look after the supervisor is late",
		edits:  []string{"	if late > now {\n		wait = min(wait, late.sub(now))\n	}\n", ""},
		caught: "TestRunLoop_LooksInTime",
	},
	{
		name:   "a supervisor killed after its time",
		edits:  []string{"	if late != 0 && now >= late &&", "	if late != 0 && now > late &&"},
		caught: "TestRunLoop_LooksInTime",
	},
	{
		name:   "an extension near the end comes late",
		edits:  []string{"			wait = shortestBeat\n", ""},
		caught: "TestRunLoop_LooksInTime",
	},
	{
		name:   "a supervisor killed with a report unread",
		edits:  []string{"now >= late && !c.supervisor.unread() {", "now >= late {"},
		caught: "TestRunLoop_ReadsReportsFirst",
	},
	{
		name:   "a drain ends with the term's lease",
		edits:  []string{"			c.supervisor.send(order{Do: orderHold, Lease: s.lease})\n", ""},
		caught: "TestRunLoop_HoldsLeaseInDrain",
	},
	{
		name:   "a drain without the key extended",
		edits:  []string{"	case c.term == nil && s.term != nil && c.holds:\n", "	case c.term == nil && s.term != nil:\n"},
		caught: "TestRunLoop_HoldsLeaseInDrain",
	},
	{
		name:   "a drain counts on a lease to its end",
		edits:  []string{"stats.LeaseDuration-leaseMargin(stats.LeaseDuration)-stats.SinceRenewal, stats", "stats.LeaseDuration-stats.SinceRenewal, stats"},
		caught: "TestRunLoop_HoldsLeaseInDrain",
	},
	{
		name:   "a drain counts from now",
		edits:  []string{"-leaseMargin(stats.LeaseDuration)-stats.SinceRenewal, stats", "-leaseMargin(stats.LeaseDuration), stats"},
		caught: "TestRunLoop_HoldsLeaseInDrain",
	},
	{
		name:   "the remaining time in wrong units",
		edits:  []string{"clockNow().uptime()) * 1e9).Round", "clockNow().uptime()) * 1e6).Round"},
		caught: "TestLeaseNote_Remaining",
	},
	{
		name:   "the remaining time by the wall clock",
		edits:  []string{"	if n.Boottime > 0 {\n", "	if n.Boottime < 0 {\n"},
		caught: "TestLeaseNote_Remaining",
	},
	{
		name:   "a negative remaining time",
		edits:  []string{"	return max(0, left)\n", "	return left\n"},
		caught: "TestLeaseNote_Remaining",
	},
	{
		name:   "a lease of no term remains",
		edits:  []string{"	if n.Token == 0 {\n		return 0\n	}\n", ""},
		caught: "TestLeaseNote_Remaining",
	},
	{
		name:   "the oldest note of the lease counts",
		edits:  []string{"	select {\n	case <-f.next:\n	default:\n	}\n	f.next <- w\n", "	select {\n	case f.next <- w:\n	default:\n	}\n"},
		caught: "TestLeaseFile_NewestCounts",
	},
	{
		name:   "the last note not waited for",
		edits:  []string{"	close(f.next)\n	waitBriefly(f.done)\n", "	close(f.next)\n"},
		caught: "TestLeaseFile_NewestCounts",
	},
	{
		name:   "a disk that hangs waited for longer",
		edits:  []string{"	case <-time.After(time.Second):\n	}\n}", "	case <-time.After(time.Minute):\n	}\n}"},
		caught: "TestLeaseFile_NewestCounts",
	},
	{
		name:   "each note leaves the directory open",
		edits:  []string{"	defer func() { _ = dir.Close() }()\n	name", "	name"},
		caught: "TestLeaseFile_LeavesNothingOpen",
	},
	{
		name:   "each look at the lease leaves the directory open",
		edits:  []string{"	defer func() { _ = dir.Close() }()\n	f, err := dir.Open(", "	f, err := dir.Open("},
		caught: "TestLeaseFile_LeavesNothingOpen",
	},
	{
		name:   "each look at the lease leaves the file open",
		edits:  []string{"	defer func() { _ = f.Close() }()\n	info", "	info"},
		caught: "TestLeaseFile_LeavesNothingOpen",
	},
	{
		name:   "a directory that is not trusted left open",
		edits:  []string{"	if err != nil {\n		_ = dir.Close()\n		return nil, err\n	}\n	return dir", "	if err != nil {\n		return nil, err\n	}\n	return dir"},
		caught: "TestLeaseFile_LeavesNothingOpen",
	},
	{
		name:   "a removed directory left open",
		edits:  []string{"		_ = dir.Close()\n		_ = os.Remove(filepath.Dir(path))", "		_ = os.Remove(filepath.Dir(path))"},
		caught: "TestLeaseFile_LeavesNothingOpen",
	},
	{
		name:   "half a note left behind",
		edits:  []string{"		_ = dir.Remove(filepath.Base(path) + nextLease)\n", ""},
		caught: "TestLeaseFile_LeavesNothingOpen",
	},
	{
		name:   "the file that another replaces left behind",
		edits:  []string{"	removeLeaseFile(path)\n	return other, nil", "	return other, nil"},
		caught: "TestLeaseFile_MovesWithoutTrace",
	},
	{
		name:   "half a note keeps the next from its place",
		edits:  []string{"	_ = dir.Remove(next) ", "	_ = next "},
		caught: "TestLeaseFile_WrittenThroughNoLink",
	},
	{
		name:   "a file of another user trusted",
		edits:  []string{"	if err == nil {\n		err = checkOwner(path, info)\n	}", "	if err == nil {\n		_ = info\n	}"},
		caught: "TestRemaining_FileOfAnotherUser",
	},
}

// askMutants are those of the commands that ask a leader, of the connection, and of what surrounds a run.
var askMutants = []mutant{
	{
		name:   "drain --wait unbounded",
		edits:  []string{"		d.pass(limited, look.bucket, led, all)\n", "		d.pass(ctx, look.bucket, led, all)\n"},
		caught: "TestAsk_WaitIsBounded/drain",
	},
	{
		name:   "step-down --wait unbounded",
		edits:  []string{"	ctx, cancel := context.WithTimeout(ctx, s.wait)\n	defer cancel()\n	was", "	ctx, cancel := context.WithTimeout(ctx, s.wait+time.Hour)\n	defer cancel()\n	was"},
		caught: "TestAsk_WaitIsBounded/step-down",
	},
	{
		name:   "transfer --wait unbounded",
		edits:  []string{"	ctx, cancel := context.WithTimeout(ctx, t.wait)\n	defer cancel()\n	was", "	ctx, cancel := context.WithTimeout(ctx, t.wait+time.Hour)\n	defer cancel()\n	was"},
		caught: "TestAsk_WaitIsBounded/transfer",
	},
	{
		name:   "drain ends with the last exit code",
		edits:  []string{"code, failed = max(code, codeOf(err)), failed+1", "code, failed = codeOf(err), failed+1"},
		caught: "TestDrain_EndsWithTheGreatestCode",
	},
	{
		name:   "drain ends with the least exit code",
		edits:  []string{"code, failed = max(code, codeOf(err)), failed+1", "code, failed = min(cmp.Or(code, exitNotFound), codeOf(err)), failed+1"},
		caught: "TestDrain_EndsWithTheGreatestCode",
	},
	{
		name:   "a leader that leads again is drained",
		edits:  []string{"	case len(again) > 0:\n", "	case len(again) > 1:\n"},
		caught: "TestDrain_EndsWithTheGreatestCode",
	},
	{
		name:   "requests of a drain keep their slots",
		edits:  []string{"			defer func() { <-slots }()\n", ""},
		caught: "TestDrain_SlotsComeBack",
	},
	{
		name:   "a term that is over is a failure of drain",
		edits:  []string{"	case errors.Is(err, leader.ErrNoLeader):\n		return handover{Election: x.election,", "	case errors.Is(err, errUnreachable):\n		return handover{Election: x.election,"},
		caught: "TestDrain_SlotsComeBack",
	},
	{
		name:   "drain ends with the first leader that refuses",
		edits:  []string{"			if done[askedOf(x)] = err; err != nil {\n", "			if err != nil {\n"},
		caught: "TestDrain_SlotsComeBack",
	},
	{
		name:   "a request that timed out has an answer unknown",
		edits:  []string{"	case errors.Is(err, context.DeadlineExceeded) && id != \"\":\n", "	case errors.Is(err, context.DeadlineExceeded):\n"},
		caught: "TestExplainFailure",
	},
	{
		name:   "a server that is away taken for a leader",
		edits:  []string{"	case errors.Is(err, leader.ErrUnreachable) && id != \"\":\n", "	case errors.Is(err, leader.ErrUnreachable):\n"},
		caught: "TestExplainFailure",
	},
	{
		name:   "an attempt that fails leaves its connection",
		edits:  []string{"	if err = c.checkBucket(nc, js, bucket); err != nil {\n		nc.Close()\n", "	if err = c.checkBucket(nc, js, bucket); err != nil {\n"},
		caught: "TestConnect_FailedAttemptClosesConnection",
	},
	{
		name:   "a bucket that cannot be opened leaves a connection",
		edits:  []string{"	nc.Close()\n	return nil, nil, nil, err\n", "	return nil, nil, nil, err\n"},
		caught: "TestConnect_FailedAttemptClosesConnection",
	},
	{
		name:   "an inspector that fails leaves its connection",
		edits:  []string{"	if err := s.within(ctx, s.ask); err != nil {\n		s.close()\n		return nil, err", "	if err := s.within(ctx, s.ask); err != nil {\n		return nil, err"},
		caught: "TestConnect_FailedAttemptClosesConnection",
	},
	{
		name:   "any signal ends the connecting",
		edits:  []string{"			if sig, ends := ending(sig); ends {\n				return", "			if sig, _ := ending(sig); true {\n				return"},
		caught: "TestReach_Interrupted",
	},
	{
		name:   "--wait over before the connection is a lease's",
		edits:  []string{"			return nil, nil, exitError{exitWaited, err}\n", "			return nil, nil, err\n"},
		caught: "TestReach_Interrupted",
	},
	{
		name:   "the address of --http is not free for the candidate",
		edits:  []string{"	_ = w.lent.SetDeadline(time.Time{})\n", ""},
		caught: "TestWaitingServer_LendsItsListener",
	},
	{
		name:   "the address of --http closed",
		edits:  []string{"func (l *lentListener) Close() error { return l.SetDeadline(time.Unix(1, 0)) }", "func (l *lentListener) Close() error { return l.TCPListener.Close() }"},
		caught: "TestWaitingServer_LendsItsListener",
	},
	{
		name:   "a connection kept from before the candidate",
		edits:  []string{"	w.server.SetKeepAlivesEnabled(false) // the next request is for the candidate\n", ""},
		caught: "TestWaitingServer_LendsItsListener",
	},
	{
		name:   "a run loop that hangs lives",
		edits:  []string{"	case <-time.After(m.every):\n		return false\n", "	case <-time.After(m.every):\n		return true\n"},
		caught: "TestServiceManager_Alive",
	},
	{
		name:   "a candidate that hangs lives",
		edits:  []string{"		return c.Ping(ctx) == nil\n", "		_ = c.Ping(ctx)\n		return true\n"},
		caught: "TestServiceManager_Alive",
	},
	{
		name:   "a manager that reads nothing holds up the run loop",
		edits:  []string{"	select {\n	case m.said <- message:\n	default:\n	}\n", "	m.said <- message\n"},
		caught: "TestServiceManager_NeverBlocks",
	},
	{
		name:   "an ignored signal caught",
		edits:  []string{"		if !signal.Ignored(sig) {\n			signal.Notify(to, sig)\n		}\n", "		signal.Notify(to, sig)\n"},
		caught: "TestCatch_LeavesIgnoredSignals",
	},
	{
		name:   "a signal of any number",
		edits:  []string{"err == nil && fmt.Sprint(n) == name && n > 0 && n <= 64 {", "err == nil && fmt.Sprint(n) == name && n > 0 {"},
		caught: "TestParseSignal",
	},
	{
		name:   "no signal as a signal",
		edits:  []string{"err == nil && fmt.Sprint(n) == name && n > 0 && n <= 64 {", "err == nil && fmt.Sprint(n) == name && n >= 0 && n <= 64 {"},
		caught: "TestParseSignal",
	},
	{
		name:   "a forced step-down deletes the key of a holder that was not shown",
		edits:  []string{"		if x.holder.ID != shown.holder.ID || x.holder.Token != shown.holder.Token ||", "		if x.holder.ID != shown.holder.ID ||"},
		caught: "TestStepDownForce_ShownHolderOnly",
	},
	{
		name:   "a renewal ends a forced step-down",
		edits:  []string{"		case !errors.Is(err, backend.ErrRefused):\n			return x, err\n		}", "		default:\n			return x, err\n		}"},
		caught: "TestStepDownForce_ShownHolderOnly",
	},
	{
		name:   "an expired record keeps --try from leading",
		edits:  []string{"delete(r.taken, seat); another && h.Revision != r.expired[seat] {", "delete(r.taken, seat); another {"},
		caught: "TestRivals",
	},
	{
		name:   "a seat that was given up stays taken",
		edits:  []string{"	if delete(r.taken, seat); another &&", "	if another &&"},
		caught: "TestRivals",
	},
}
