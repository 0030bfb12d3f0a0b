package mutation_test

// actorPlumbing are mutants of the actor and its callers that the tests beside them catch.
var actorPlumbing = plumbing{of: "leader", by: "leader", mutants: []mutant{
	{
		name:   "the hook on the context given to Campaign kept",
		edits:  []string{"	defer stopped()\n	a.tick()\n", "	_ = stopped\n	a.tick()\n"},
		caught: "TestEnd_LeavesNothing",
	},
	{
		name:   "no wake-up for the silence",
		edits:  []string{"earlier(a.roster.wakeAt(), a.silenceAt())", "a.roster.wakeAt()"},
		caught: "TestEnd_GivesUpRequests",
	},
	{
		name:   "the later of two wake-ups",
		edits:  []string{"!b.IsZero() && b.Before(a)", "!b.IsZero() && b.After(a)"},
		caught: "TestEnd_ClosesWhatOpensLate",
	},
	{
		name:   "a timer for the past set",
		edits:  []string{"a.timer.Reset(max(0, wake.Sub(a.now())))", "a.timer.Reset(max(time.Hour, wake.Sub(a.now())))"},
		caught: "TestEnd_ClosesWhatOpensLate",
	},
	{
		name:   "an event of a replaced feed believed",
		edits:  []string{"		if m.from != a.requests.feedNumber {", "		if m.from > a.requests.feedNumber {"},
		caught: "TestEnd_LeavesNothing",
	},
	{
		name:   "a read not remembered",
		edits:  []string{"	case m.in.kind == inRead && m.in.err == nil:\n		a.remember()\n", ""},
		caught: "TestTryAcquire_WallTimeJumps",
	},
	{
		name:   "the feed that was opened not kept",
		edits:  []string{"		a.requests.keep(m.feed, a.id, a.session)\n", ""},
		caught: "TestEnd_ClosesWhatOpensLate",
	},
	{
		name:   "an unused slot kept",
		edits:  []string{"		a.c.window.Return(&a.requests.place, backend.Reply{})\n", ""},
		caught: "TestSlots_UnusedGoesBack",
	},
	{
		name:   "a request of the machine not cancelled",
		edits:  []string{"		a.requests.cancel()\n	}\n	if fx.request", "	}\n	if fx.request"},
		caught: "TestEnd_ClosesWhatOpensLate",
	},
	{
		name:   "a candidate that leads after its context has ended",
		edits:  []string{"		now = later(now, a.status.leaseUntil) //", "		now = later(now, now) //"},
		caught: "TestContext_AgreesWithEvents",
	},
	{
		name:   "a renewal that does not prolong the context",
		edits:  []string{"		t.until.Store(int64(a.status.leaseUntil.Sub(a.base)))\n	}\n", "	}\n"},
		caught: "TestLogHandler_Blocked",
	},
	{
		name:   "the end of the context left to the watchdog",
		edits:  []string{"		t.end(fx.end)\n", ""},
		caught: "TestEnd_LeavesNothing",
	},
	{
		name:   "the instant of a slot without its monotonic reading",
		edits:  []string{"&a.c.box, a.outside(now))", "&a.c.box, now)"},
		caught: "TestEvents_WallTimeJumps",
	},
	{
		name:   "the instant of Pending without its monotonic reading",
		edits:  []string{"Until: a.outside(n.until), Reason", "Until: n.until, Reason"},
		caught: "TestEvents_WallTimeJumps",
	},
	{
		name:   "the instant of Fenced without its monotonic reading",
		edits:  []string{"				e.Until = a.outside(n.until)\n", "				e.Until = n.until\n"},
		caught: "TestEvents_WallTimeJumps",
	},
	{
		name:   "Fenced with an instant where no work is awaited",
		edits:  []string{"			if !n.until.IsZero() {\n				e.Until", "			if true {\n				e.Until"},
		caught: "TestLogHandler_Blocked",
	},
	{
		name:   "a term without its watchdog",
		edits:  []string{"	t.watch()\n	return t\n", "	return t\n"},
		caught: "TestWatchdog_StopsWithItsTerm",
	},
	{
		name:   "a candidate that is fenced shown as the leader",
		edits:  []string{"	c.holds = holds && a.status.state != StateLeader\n", "	c.holds = false\n"},
		caught: "TestEnd_StatsStandStill",
	},
	{
		name:   "a value proclaimed by a write that was sent before",
		edits:  []string{"proclamation{call, s.term, written + 1}", "proclamation{call, s.term, written}"},
		caught: "TestEnd_AnswersCalls",
	},
	{
		name:   "a resignation answered twice",
		edits:  []string{"		c.resigning = nil\n", ""},
		caught: "TestEvents_EachReaderGetsAll",
	},
	{
		name:   "a transfer answered before the cooldown is over",
		edits:  []string{"!by && !s.holds && now.Before(s.cooldownUntil)", "!by && !s.holds && now.After(s.cooldownUntil)"},
		caught: "TestEnd_AnswersCalls",
	},
	{
		name:   "a transfer at the end not answered",
		edits:  []string{"	for _, h := range c.handing {\n		h.call <- fmt.Errorf(\"%w before another candidate", "	for _, h := range c.handing[:0] {\n		h.call <- fmt.Errorf(\"%w before another candidate"},
		caught: "TestEnd_AnswersCalls",
	},
	{
		name:   "a resignation at the end not answered",
		edits:  []string{"	for _, call := range c.resigning {\n		if s.holds {", "	for _, call := range c.resigning[:0] {\n		if s.holds {"},
		caught: "TestEnd_AnswersCalls",
	},
	{
		name:   "a resignation at the end reported as released",
		edits:  []string{"		if s.holds {\n			call <-", "		if !s.holds {\n			call <-"},
		caught: "TestEnd_AnswersCalls",
	},
	{
		name:   "a guard's request not given up at the end",
		edits:  []string{"		a.guards[i].dismiss()\n", "		_ = i\n"},
		caught: "TestEnd_GivesUpRequests",
	},
	{
		name:   "a request for a sign not given up at the end",
		edits:  []string{"	a.silence.giveUp()\n	a.listener.dismiss()\n", "	a.listener.dismiss()\n"},
		caught: "TestEnd_GivesUpRequests",
	},
	{
		name:   "a request in the roster not given up at the end",
		edits:  []string{"	a.roster.dismiss(a.abandoning)\n", ""},
		caught: "TestEnd_GivesUpRequests",
	},
	{
		name:   "an end that awaits no reply",
		edits:  []string{"for a.awaitsReplies() && a.now().Before(limit) {", "for a.abandoning && a.awaitsReplies() && a.now().Before(limit) {"},
		caught: "TestEnd_ClosesWhatOpensLate",
	},
	{
		name:   "no Ping answered while the candidate ends",
		edits:  []string{"			a.stepRoster()\n		case a.c.pulse <- struct{}{}:\n", "			a.stepRoster()\n"},
		caught: "TestPing_AnsweredAtOnce",
	},
	{
		name:   "a feed that stays open at the end",
		edits:  []string{"	a.requests.end()\n	a.calls", "	a.calls"},
		caught: "TestEnd_ClosesWhatOpensLate",
	},
	{
		name:   "calls not answered at the end",
		edits:  []string{"	a.calls.end(&a.status)\n", ""},
		caught: "TestEnd_AnswersCalls",
	},
	{
		name:   "a timer that stays armed at the end",
		edits:  []string{"	a.timer.Stop()\n	a.c.finish", "	a.c.finish"},
		caught: "TestEnd_LeavesNothing",
	},
	{
		name:   "the reply to a request not awaited",
		edits:  []string{"return a.requests.cancel != nil || a.silence", "return a.silence"},
		caught: "TestEnd_ClosesWhatOpensLate",
	},
	{
		name:   "the replies to the listener not awaited",
		edits:  []string{" || a.listener != nil && a.listener.busy() ||", " ||"},
		caught: "TestEnd_ClosesWhatOpensLate",
	},
	{
		name:   "the replies of the roster not awaited",
		edits:  []string{" || a.roster.busy()\n}", "\n}"},
		caught: "TestEnd_ClosesWhatOpensLate",
	},
	{
		name:   "a late sign taken for none",
		edits:  []string{"	if m.sign {\n		a.silence.cancel = nil\n		return\n	}\n	if m.roster", "	if m.sign {\n		return\n	}\n	if m.roster"},
		caught: "TestEnd_GivesUpRequests",
	},
	{
		name:   "a call that came too late not answered",
		edits:  []string{"			m.call <- ErrNotLeader\n", ""},
		caught: "TestEnd_AnswersCalls",
	},
	{
		name:   "Done before the channels of events are closed",
		edits:  []string{"			<-r.done // soon", "			continue // soon"},
		caught: "TestEvents_EndOfUnread",
	},
	{
		name:   "a reader without the past",
		edits:  []string{"unread: slices.Clone(o.past), bell", "bell"},
		caught: "TestOutbox_KeepsOrder",
	},
	{
		name:   "a reader that stays after its context",
		edits:  []string{"	defer r.out.leave(r) // nothing", "	// nothing"},
		caught: "TestEvents_EndWithTheContext",
	},
	{
		name:   "a channel that stays open after its context",
		edits:  []string{"		case <-ended:\n			close(events)\n			return\n", "		case <-ended:\n			return\n"},
		caught: "TestEvents_EndWithTheContext",
	},
	{
		name:   "a channel that is opened after the end without its goroutine's end",
		edits:  []string{"	if r.out.closed {\n		r.last(events, nil)\n		return events\n	}\n", ""},
		caught: "TestEvents_EndOfUnread",
	},
	{
		name:   "the unsent event lost at the end",
		edits:  []string{"	if unsent != nil {\n		rest = slices.Insert(rest, 0, unsent)\n	}\n", ""},
		caught: "TestEvents_EndOfUnread",
	},
	{
		name:   "more unread events than there is room for",
		edits:  []string{"	if len(events)+len(rest) > maxPast {", "	if len(rest) > maxPast {"},
		caught: "TestEvents_EndOfUnread",
	},
	{
		name:   "unread events without a bound",
		edits:  []string{"		r.unread.add(e, maxUnread)\n", "		r.unread.add(e, 100*maxUnread)\n"},
		caught: "TestOutbox_IsBounded",
	},
	{
		name:   "an outage reported for each kind of request",
		edits:  []string{"	if known || unreachable && f.outage {", "	if known {"},
		caught: "TestFaultFilter_ReportsOnce",
	},
	{
		name:   "an outage reported once for ever",
		edits:  []string{"	f.outage = false\n", ""},
		caught: "TestFaultFilter_ReportsOnce",
	},
	{
		name:   "the loss of the feed reported once for ever",
		edits:  []string{"if k == kind || k == inFeedLost && kind == inFeed {", "if k == kind {"},
		caught: "TestFaultFilter_ReportsOnce",
	},
	{
		name:   "a fault forgotten with the success of another kind",
		edits:  []string{"if k == kind || k == inFeedLost && kind == inFeed {", "if k == k {"},
		caught: "TestFaultFilter_ReportsOnce",
	},
	{
		name:   "faults remembered without a bound",
		edits:  []string{"if f.reported == nil || len(f.reported) >= 16 {", "if f.reported == nil {"},
		caught: "TestFaultFilter_ReportsOnce",
	},
	{
		name:   "the same difference of the bucket reported again",
		edits:  []string{"	f.differs = text\n", ""},
		caught: "TestFaultFilter_ReportsChanges",
	},
	{
		name:   "the same misfit of the settings reported again",
		edits:  []string{"		f.misfit = text\n", ""},
		caught: "TestFaultFilter_ReportsChanges",
	},
	{
		name:   "a misfit reported once for ever",
		edits:  []string{"		f.misfit = \"\"\n", ""},
		caught: "TestFaultFilter_ReportsChanges",
	},
	{
		name:   "mail taken after the end",
		edits:  []string{"	if b.bell == nil || m.isRequest()", "	if m.isRequest()"},
		caught: "TestEnd_ClosesWhatOpensLate",
	},
	{
		name:   "one request too many at the listener",
		edits:  []string{"(*mail).isRequest) >= maxRequests {", "(*mail).isRequest) > maxRequests {"},
		caught: "TestMailbox_IsBounded",
	},
	{
		name:   "requests at the listener without a bound",
		edits:  []string{"	if b.bell == nil || m.isRequest() && b.count((*mail).isRequest) >= maxRequests {", "	if b.bell == nil {"},
		caught: "TestMailbox_IsBounded",
	},
	{
		name:   "the older of two revisions kept",
		edits:  []string{"if m.entry.Revision > old.entry.Revision {", "if m.entry.Revision < old.entry.Revision {"},
		caught: "TestMailbox_IsBounded",
	},
	{
		name:   "a revision merged across a reconnection",
		edits:  []string{"			return m.in.kind == inReconnected && old.in.kind == inReconnected\n", "			if m.in.kind == inReconnected && old.in.kind == inReconnected {\n				return true\n			}\n"},
		caught: "TestMailbox_KeepsWhatDiffers",
	},
	{
		name:   "the releases of two terms merged",
		edits:  []string{" && m.in.term == old.in.term && m.bounded", " && m.bounded"},
		caught: "TestMailbox_IsBounded",
	},
	{
		name:   "a bounded stop merged with one that is not",
		edits:  []string{" && m.in.term == old.in.term && m.bounded == old.bounded:", " && m.in.term == old.in.term:"},
		caught: "TestMailbox_KeepsWhatDiffers",
	},
	{
		name:   "the suspicions of two guards merged",
		edits:  []string{"m.isSuspicion() && old.isSuspicion() && m.guard.number == old.guard.number:", "m.isSuspicion() && old.isSuspicion():"},
		caught: "TestMailbox_IsBounded",
	},
	{
		name:   "a reply about a sign merged with a tick",
		edits:  []string{"m.listener == nil && m.roster == nil && !m.sign\n", "m.listener == nil && m.roster == nil\n"},
		caught: "TestMailbox_KeepsWhatDiffers",
	},
	{
		name:   "a call that was given up kept",
		edits:  []string{"m.in.kind != inResign || b.count((*mail).isWish) > 1 {", "false {"},
		caught: "TestMailbox_CallsThatGaveUp",
	},
	{
		name:   "the wish to resign taken back",
		edits:  []string{"m.in.kind != inResign || b.count((*mail).isWish) > 1 {", "true {"},
		caught: "TestMailbox_CallsThatGaveUp",
	},
	{
		name:   "each wish to resign kept",
		edits:  []string{"m.in.kind != inResign || b.count((*mail).isWish) > 1 {", "m.in.kind != inResign {"},
		caught: "TestMailbox_CallsThatGaveUp",
	},
	{
		name:   "an answer to a caller that has gone",
		edits:  []string{"		if m.call = nil; m.in.kind", "		if m.in.kind"},
		caught: "TestMailbox_CallsThatGaveUp",
	},
	{
		name:   "the room for a burst kept",
		edits:  []string{"	if len(b.mails) == 0 && cap(b.mails) > fewMails {\n		b.mails = nil // it was for a burst\n	}\n", ""},
		caught: "TestMailbox_IsBounded",
	},
	{
		name:   "a fake clock that does not see mail",
		edits:  []string{"	if b.wake != nil {\n		b.wake()\n	}\n	select {\n	case b.bell", "	select {\n	case b.bell"},
		caught: "TestEcho_WakesNoLeader",
	},
	{
		name:   "a mailbox open after the end",
		edits:  []string{"	b.bell = nil\n	return b.mails\n", "	return b.mails\n"},
		caught: "TestEnd_ClosesWhatOpensLate",
	},
	{
		name:   "an own record left out that changes something",
		edits:  []string{"return r.echoless.Load() && e.Err == nil", "return e.Err == nil"},
		caught: "TestEnd_LeavesNothing",
	},
	{
		name:   "each renewal wakes the candidate",
		edits:  []string{"return r.echoless.Load() && e.Err == nil", "return false && e.Err == nil"},
		caught: "TestEcho_WakesNoLeader",
	},
	{
		name:   "a write in the context of one that was given up",
		edits:  []string{"w.ctx == nil || w.ctx.Err() != nil {", "w.ctx == nil {"},
		caught: "TestEnd_GivesUpRequests",
	},
	{
		name:   "a renewal counted from an earlier request",
		edits:  []string{"	r.asked = now\n", ""},
		caught: "TestSlots_LearnFromReplies",
	},
	{
		name:   "a replaced feed not stopped",
		edits:  []string{"r.c.store.Watch(ctx, r.c.election, instead, ", "_ = instead\n		r.c.store.Watch(ctx, r.c.election, nil, "},
		caught: "TestEnd_LeavesNothing",
	},
	{
		name:   "a feed of an earlier number",
		edits:  []string{"		r.feedNumber++\n", "		r.feedNumber = 1\n"},
		caught: "TestEnd_LeavesNothing",
	},
	{
		name:   "a feed that opens after the end not stopped",
		edits:  []string{"				f.Stop() // the candidate has ended without waiting any longer\n			}\n		})\n	case reqRead", "			}\n		})\n	case reqRead"},
		caught: "TestEnd_ClosesWhatOpensLate",
	},
	{
		name:   "the context of an answered request kept",
		edits:  []string{"		r.cancel()\n	}\n	r.cancel = nil\n", "	}\n	r.cancel = nil\n"},
		caught: "TestEnd_ClosesWhatOpensLate",
	},
	{
		name:   "a request in flight for ever",
		edits:  []string{"	r.cancel = nil\n	r.c.window", "	r.c.window"},
		caught: "TestEnd_ClosesWhatOpensLate",
	},
	{
		name:   "the slot of an answered request kept",
		edits:  []string{"	r.c.window.Return(&r.place, ending(", "	_ = (ending("},
		caught: "TestSlots_LearnFromReplies",
	},
	{
		name:   "a reply timed since the candidate began",
		edits:  []string{"now-r.asked, wire.RenewWait", "now, wire.RenewWait"},
		caught: "TestSlots_LearnFromReplies",
	},
	{
		name:   "a loss of a waiting candidate counted",
		edits:  []string{"	case holds && errors.Is(err, ErrUnreachable):", "	case errors.Is(err, ErrUnreachable):"},
		caught: "TestSlots_LearnFromReplies",
	},
	{
		name:   "a loss not counted",
		edits:  []string{"	case holds && errors.Is(err, ErrUnreachable):", "	case false:"},
		caught: "TestSlots_LearnFromReplies",
	},
	{
		name:   "the context of the writes kept at the end",
		edits:  []string{"	if r.writes.cancel != nil {\n		r.writes.cancel()\n	}\n", ""},
		caught: "TestEnd_ClosesWhatOpensLate",
	},
	{
		name:   "the feed kept at the end",
		edits:  []string{"	if r.feed != nil {\n		r.feed.Stop()\n	}\n", ""},
		caught: "TestEnd_ClosesWhatOpensLate",
	},
	{
		name:   "the place in the window kept at the end",
		edits:  []string{"	r.c.window.Leave(&r.place)\n", ""},
		caught: "TestEnd_LeavesNothing",
	},
	{
		name:   "the context of an announcement kept",
		edits:  []string{"		a.roster.announcer.cancel()\n		a.roster", "		a.roster"},
		caught: "TestEnd_ClosesWhatOpensLate",
	},
	{
		name:   "an announcement in flight for ever",
		edits:  []string{"		a.roster.announcer.cancel = nil\n", ""},
		caught: "TestEnd_ClosesWhatOpensLate",
	},
	{
		name:   "a view that opens after the end not stopped",
		edits:  []string{"			f.Stop() // the candidate has ended without waiting any longer\n		}\n	})\n}\n\n// stop leaves the view", "		}\n	})\n}\n\n// stop leaves the view"},
		caught: "TestEnd_ClosesWhatOpensLate",
	},
	{
		name:   "a view that is left not stopped",
		edits:  []string{"	} else {\n		l.feed.Stop()\n	}\n", "	}\n"},
		caught: "TestEnd_ClosesWhatOpensLate",
	},
	{
		name:   "the context of an opening of a view kept",
		edits:  []string{"	l.cancel()\n	l.cancel, l.view", "	l.cancel, l.view"},
		caught: "TestEnd_GivesUpRequests",
	},
	{
		name:   "the opening of a view in flight for ever",
		edits:  []string{"	l.cancel, l.view, l.feed = nil, m.view, m.feed\n", "	l.view, l.feed = m.view, m.feed\n"},
		caught: "TestEnd_ClosesWhatOpensLate",
	},
	{
		name:   "a sighting without its monotonic reading",
		edits:  []string{"a.outside(a.status.seenAt)), s.clock}", "a.status.seenAt), s.clock}"},
		caught: "TestTryAcquire_WallTimeJumps",
	},
	{
		name:   "a sighting of the machine's time taken for the clock's",
		edits:  []string{"	r.at = a.inside(r.at)\n", ""},
		caught: "TestTryAcquire_WallTimeJumps",
	},
	{
		name:   "the request for a sign not given up when it is late",
		edits:  []string{"		s.giveUp()\n		a.c.unanswered", "		a.c.unanswered"},
		caught: "TestEnd_GivesUpRequests",
	},
	{
		name:   "a request for a sign in flight for ever",
		edits:  []string{"	a.silence.giveUp()\n	a.silence.cancel = nil\n", "	a.silence.giveUp()\n"},
		caught: "TestEnd_GivesUpRequests",
	},
	{
		name:   "a revision that is not newer taken for a sign",
		edits:  []string{"	if a.status.seen.revision > seen ||", "	if a.status.seen.revision >= seen ||"},
		caught: "TestEnd_GivesUpRequests",
	},
	{
		name:   "a listener that opens after the end not closed",
		edits:  []string{"			shut(func() {}) // the candidate has ended without waiting any longer\n", ""},
		caught: "TestEnd_ClosesWhatOpensLate",
	},
	{
		name:   "a request after the end not answered",
		edits:  []string{"		if !box.put(mail{listener: &listenerMail{asked: request, answer: answer}}) {\n			answer(nil)\n		}\n", "		box.put(mail{listener: &listenerMail{asked: request, answer: answer}})\n"},
		caught: "TestEnd_ClosesWhatOpensLate",
	},
	{
		name:   "the end of the listener not reported",
		edits:  []string{"	shut(func() { box.put(mail{listener: &listenerMail{closed: true}}) })\n", "	_ = box\n	shut(func() {})\n"},
		caught: "TestEnd_ClosesWhatOpensLate",
	},
	{
		name:   "the context of the opening of a listener kept",
		edits:  []string{"		d.cancel()\n		d.cancel, d.close = nil, m.close\n", "		d.cancel, d.close = nil, m.close\n"},
		caught: "TestEnd_ClosesWhatOpensLate",
	},
	{
		name:   "a term offered before it may be",
		edits:  []string{"!t.offered && a.status.offers && a.status.state", "!t.offered && a.status.state"},
		caught: "TestEnd_GivesUpRequests",
	},
	{
		name:   "reminders that grow without a bound",
		edits:  []string{"		r.pause = min(2*r.pause, lease<<patienceDoubles)\n", "		r.pause *= 2\n"},
		caught: "TestReminder_DoublesUpToABound",
	},
	{
		name:   "reminders that do not grow rarer",
		edits:  []string{"		r.pause = min(2*r.pause, lease<<patienceDoubles)\n", "		r.pause = lease\n"},
		caught: "TestReminder_DoublesUpToABound",
	},
	{
		name:   "the log of a fake clock not followed",
		edits:  []string{"		c.logs.follow(c.clock)\n", ""},
		caught: "TestFenced_Kinds",
	},
	{
		name:   "an ended candidate that leads",
		edits:  []string{"	case <-c.Done():\n		return StateEnded, nil\n", "	case <-c.Done():\n		return StateCandidate, nil\n"},
		caught: "TestState_Ended",
	},
	{
		name:   "the call of a caller that gives up not withdrawn",
		edits:  []string{"		box.withdraw(answer)\n", ""},
		caught: "TestMailbox_CallsThatGaveUp",
	},
	{
		name:   "a Stop that is given up without an end",
		edits:  []string{"		c.toAll(inAbandon)\n", ""},
		caught: "TestMailbox_CallsThatGaveUp",
	},
	{
		name:   "a Stop that is given up and awaits the log",
		edits:  []string{"		c.logs.abandon()\n", ""},
		caught: "TestLogHandler_Blocked",
	},
	{
		name:   "an answer taken from a caller that gave up",
		edits:  []string{"		box.withdraw(answer)\n		return ctx.Err()\n", "		box.withdraw(answer)\n		return nil\n"},
		caught: "TestMailbox_CallsThatGaveUp",
	},
	{
		name:   "an end without its reason",
		edits:  []string{"	c.err, c.cut = err, cut\n	c.tally", "	c.cut = cut\n	c.tally"},
		caught: "TestAcquire_AgainAfterEachEnd",
	},
	{
		name:   "the pulse closed after the log",
		edits:  []string{"	close(c.pulse) // before the wait for the log\n	if c.permit != nil {", "	defer close(c.pulse) // before the wait for the log\n	if c.permit != nil {"},
		caught: "TestPing_EndAwaitsTheLog",
	},
	{
		name:   "time without a leader counted after the end",
		edits:  []string{"	c.tally.seesLeader(true, c.since) //", "	//"},
		caught: "TestEnd_StatsStandStill",
	},
	{
		name:   "the silence counted after the end",
		edits:  []string{"	c.tally.holds, c.tally.silent, c.tally.working = false, false, false\n", "	c.tally.holds, c.tally.working = false, false\n"},
		caught: "TestEnd_StatsStandStill",
	},
	{
		name:   "the age of the renewal counted after the end",
		edits:  []string{"	c.tally.holds, c.tally.silent, c.tally.working = false, false, false\n", "	c.tally.silent, c.tally.working = false, false\n"},
		caught: "TestEnd_StatsStandStill",
	},
	{
		name:   "work counted after the end",
		edits:  []string{"	c.tally.holds, c.tally.silent, c.tally.working = false, false, false\n", "	c.tally.holds, c.tally.silent = false, false\n"},
		caught: "TestEnd_StatsStandStill",
	},
	{
		name:   "the readers left at the end",
		edits:  []string{"	c.out.close()\n	c.logClosed(values, c.cut)\n", "	c.logClosed(values, c.cut)\n"},
		caught: "TestEvents_EachReaderGetsAll",
	},
	{
		name:   "Done before the log is written",
		edits:  []string{"	c.logs.flush()\n	close(c.done)\n", "	close(c.done)\n"},
		caught: "TestLogHandler_BlockedAtTheEnd",
	},
	{
		name:   "a loop that is not counted",
		edits:  []string{"	l.running++\n", ""},
		caught: "TestAcquire_GivesUpAsItWins",
	},
	{
		name:   "a loop that is not made known",
		edits:  []string{"	c.toAll(inLoop)\n", ""},
		caught: "TestAcquire_ExplainsTheLastFault",
	},
	{
		name:   "the term that waits when the last loop leaves not finished",
		edits:  []string{"	case t := <-l.terms:\n		t.finish()\n	default:\n	}\n}\n\n// left", "	default:\n	}\n}\n\n// left"},
		caught: "TestAcquire_GivesUpAsItWins",
	},
	{
		name:   "a loop that goes on taken for one that was left",
		edits:  []string{"	return l.terms != nil && l.running == 0\n", "	return l.terms != nil\n"},
		caught: "TestReady_LoopLeft",
	},
	{
		name:   "a candidate without a loop taken for one that has left it",
		edits:  []string{"	return l.terms != nil && l.running == 0\n", "	return l.running == 0\n"},
		caught: "TestReady_ColdStart",
	},
	{
		name:   "a loop that ends with its body and is not counted back",
		edits:  []string{"			l.leave(c) // before the term", "			_ = c // before the term"},
		caught: "TestReady_LoopLeft",
	},
	{
		name:   "a term not finished after its body",
		edits:  []string{"		t.finish()\n	}()\n	return yield(t)\n", "	}()\n	return yield(t)\n"},
		caught: "TestReady_LoopLeft",
	},
	{
		name:   "a watchdog that looks once",
		edits:  []string{"			t.watchdog.Reset(left)\n", "			_ = left\n"},
		caught: "TestWatchdog_StopsWithItsTerm",
	},
	{
		name:   "the end of a lease that the candidate does not see",
		edits:  []string{"		t.lapsed = true\n", ""},
		caught: "TestContext_AgreesWithEvents",
	},
	{
		name:   "a watchdog that runs on after its term",
		edits:  []string{"	if t.watchdog != nil {\n		t.watchdog.Stop()\n	}\n", ""},
		caught: "TestEnd_LeavesNothing",
	},
	{
		name:   "the release of another term",
		edits:  []string{"t.box.put(mail{in: input{kind: kind, term: t.number}})", "t.box.put(mail{in: input{kind: kind}})"},
		caught: "TestAcquire_GivesUpAsItWins",
	},
	{
		name:   "a try without a limit",
		edits:  []string{"	ctx, cancel := deadline.Limit(ctx)\n	defer cancel()\n	l, err := acquire(ctx, store, election, cfg, true)", "	limited, cancel := deadline.Limit(ctx)\n	defer cancel()\n	_ = limited\n	l, err := acquire(ctx, store, election, cfg, true)"},
		caught: "TestTryAcquire_SilentStore",
	},
	{
		name:   "a lock that ends with the context of its caller",
		edits:  []string{"launch(context.WithoutCancel(ctx), b,", "launch(ctx, b,"},
		caught: "TestAcquire_GivesUpAsItWins",
	},
	{
		name:   "a reader of events left by Acquire",
		edits:  []string{"	defer a.c.out.leave(events)\n	bell := events.bell\n	for {\n		var err", "	bell := events.bell\n	for {\n		var err"},
		caught: "TestAcquire_LeavesNoReader",
	},
	{
		name:   "a session kept by an Acquire that failed",
		edits:  []string{"			ownLocks.remove(a.session)\n			a.c.loops", "			a.c.loops"},
		caught: "TestAcquire_AgainAfterEachEnd",
	},
	{
		name:   "the loop of an Acquire that failed kept",
		edits:  []string{"			a.c.loops.leave(a.c) // finishes a term that comes too late\n", ""},
		caught: "TestAcquire_GivesUpAsItWins",
	},
	{
		name:   "the candidate of an Acquire that failed kept",
		edits:  []string{"			a.c.toAll(inStop)\n			return nil, err\n", "			return nil, err\n"},
		caught: "TestAcquire_GivesUpAsItWins",
	},
	{
		name:   "a session that is not remembered",
		edits:  []string{"	ownLocks.add(a.session, a.owner)\n", ""},
		caught: "TestAcquire_AgainAfterEachEnd",
	},
	{
		name:   "a lost lock that its process holds for ever",
		edits:  []string{"		ownLocks.remove(a.session)\n		a.c.toAll(inStop)\n	})\n	return &Lock", "		a.c.toAll(inStop)\n	})\n	return &Lock"},
		caught: "TestAcquire_AgainAfterEachEnd",
	},
	{
		name:   "a candidate that goes on after its lock",
		edits:  []string{"		ownLocks.remove(a.session)\n		a.c.toAll(inStop)\n	})\n	return &Lock", "		ownLocks.remove(a.session)\n	})\n	return &Lock"},
		caught: "TestAcquire_AgainAfterEachEnd",
	},
	{
		name:   "a fault explained that is over, after a holder was seen",
		edits:  []string{"	case Observed:\n		a.fault = nil\n		_, known", "	case Observed:\n		_, known"},
		caught: "TestAcquire_ExplainsTheLastFault",
	},
	{
		name:   "a fault explained that is over, after Pending",
		edits:  []string{"	case Pending:\n		a.fault = nil\n	case Faulted:\n		a.fault", "	case Pending:\n	case Faulted:\n		a.fault"},
		caught: "TestAcquire_ExplainsTheLastFault",
	},
	{
		name:   "a fault ends Acquire",
		edits:  []string{"	case a.try && !isPassing(e.Err):", "	case !isPassing(e.Err):"},
		caught: "TestAcquire_ExplainsTheLastFault",
	},
	{
		name:   "a try that is Pending for no time refused",
		edits:  []string{"if a.try && e.Until.After(a.c.clock.Now()) {", "if a.try {"},
		caught: "TestAcquire_ExplainsTheLastFault",
	},
	{
		name:   "a lock lost by its own Unlock",
		edits:  []string{"	l.giveUp()\n	l.finish()\n	l.c.toAll(inStop)\n", "	l.finish()\n	l.c.toAll(inStop)\n	<-l.c.Done()\n	l.giveUp()\n"},
		caught: "TestAcquire_LeavesNoReader",
	},
	{
		name:   "a fault forgotten by Ready when nobody leads",
		edits:  []string{"				if e.Holder.ID != \"\" || e.Holder.Foreign {\n					fault = nil\n				}\n", "				fault = nil\n"},
		caught: "TestReady_CauseAndFault",
	},
	{
		name:   "Ready with the error of its context",
		edits:  []string{"context.Cause(ctx))\n			if fault", "ctx.Err())\n			if fault"},
		caught: "TestReady_EndedContext",
	},
	{
		name:   "a candidate ready on one of its seats",
		edits:  []string{"follows, works = follows && other, works || working", "follows, works = follows || other, works || working"},
		caught: "TestReady_LeavesNoReader",
	},
	{
		name:   "a fenced candidate that follows itself",
		edits:  []string{"	return held && !c.holds && c.leading.Load() == nil, c.tally.working\n", "	return held && c.leading.Load() == nil, c.tally.working\n"},
		caught: "TestReady_Seats",
	},
	{
		name:   "a call to the first seat in place of the one that is held",
		edits:  []string{"	return c.seats[max(c.permit.taker, 1)-1]\n", "	return c.seats[0]\n"},
		caught: "TestReady_Seats",
	},
	{
		name:   "the events of a seat kept from the readers",
		edits:  []string{"	if c.permit != nil {\n		c = c.permit.front\n	}\n	c.out", "	c.out"},
		caught: "TestReady_Seats",
	},
	{
		name:   "seats without the reason of their end",
		edits:  []string{"			err = seat.err\n", "			err = nil\n"},
		caught: "TestReady_Ended",
	},
	{
		name:   "a log queue without a bound",
		edits:  []string{"	if len(q.lines) >= room {", "	if len(q.lines) >= 100*room {"},
		caught: "TestLogQueue_DroppedIsReportedByALineThatIsWritten",
	},
	{
		name:   "details that take the room of warnings",
		edits:  []string{"		room /= 2\n", "		_ = room\n"},
		caught: "TestLogQueue_DroppedIsReportedByALineThatIsWritten",
	},
	{
		name:   "dropped lines not counted",
		edits:  []string{"		q.dropped++\n", ""},
		caught: "TestLogQueue_DroppedIsReportedByALineThatIsWritten",
	},
	{
		name:   "dropped lines told twice",
		edits:  []string{"	q.untold = 0\n", ""},
		caught: "TestLogQueue_DroppedIsReportedByALineThatIsWritten",
	},
	{
		name:   "dropped lines told by a line that is not written",
		edits:  []string{"		if !l.to.Enabled(l.ctx, l.record.Level) {\n			continue\n		}\n		if n := q.tell(); n > 0 {\n			l.record.AddAttrs(slog.Uint64(\"dropped\", n))\n		}\n", "		n := q.tell()\n		if !l.to.Enabled(l.ctx, l.record.Level) {\n			continue\n		}\n		if n > 0 {\n			l.record.AddAttrs(slog.Uint64(\"dropped\", n))\n		}\n"},
		caught: "TestLogQueue_DroppedIsReportedByALineThatIsWritten",
	},
	{
		name:   "a goroutine of the log for each line",
		edits:  []string{"	if !q.writes {\n		q.writes = true\n		go q.run()", "	if true {\n		q.writes = true\n		go q.run()"},
		caught: "TestLogHandler_BlockedAtTheEnd",
	},
	{
		name:   "a log that falls silent",
		edits:  []string{"		q.lines, q.writes = nil, false\n", "		q.lines = nil\n"},
		caught: "TestLogQueue_DroppedIsReportedByALineThatIsWritten",
	},
	{
		name:   "an age of a renewal of another claim",
		edits:  []string{"	if t.holds && t.kept {", "	if t.kept {"},
		caught: "TestEnd_StatsStandStill",
	},
}}

// actorServerPlumbing are mutants of the same files that tests on a server in a bubble catch.
var actorServerPlumbing = plumbing{of: "leader", by: "leader_test", mutants: []mutant{
	{
		name:   "the end of the context given to Campaign without StopTimeout",
		edits:  []string{"in: input{kind: inStop}, bounded: true}", "in: input{kind: inStop}}"},
		caught: "TestTerms_StopTimeout",
	},
	{
		name:   "StopTimeout applied to Stop",
		edits:  []string{"		if m.bounded {\n			m.in.until", "		if m.bounded || true {\n			m.in.until"},
		caught: "TestStopTimeout_AfterAnotherEnd",
	},
	{
		name:   "no wake-up for a reminder",
		edits:  []string{"earlier(a.reminder.at, a.stopBy)", "a.stopBy"},
		caught: "TestTerms_DrainIsOver",
	},
	{
		name:   "no wake-up for StopTimeout",
		edits:  []string{"earlier(a.reminder.at, a.stopBy)", "a.reminder.at"},
		caught: "TestStopTimeout_StoreAway",
	},
	{
		name:   "a slot that was given back used",
		edits:  []string{"if !a.status.queued || !a.c.window.Has(&a.requests.place) {", "if !a.status.queued {"},
		caught: "TestWindow_LateReportOfSlot",
	},
	{
		name:   "a connection that is closed taken for a Stop",
		edits:  []string{"	a.cut = a.cut || !ended &&", "	a.cut = a.cut && !ended &&"},
		caught: "TestLog_ConnectionClosed",
	},
	{
		name:   "Deposed without the work that was drained",
		edits:  []string{", Drained: n.drained}", "}"},
		caught: "TestTerms_StopAwaitsTheBody",
	},
	{
		name:   "work that goes on counted while the term leads",
		edits:  []string{"c.tally.works(a.status.working && a.status.state != StateLeader, c.since)", "c.tally.works(a.status.working, c.since)"},
		caught: "TestTerms_FencedKeepsTheKey",
	},
	{
		name:   "Resign of a candidate that is abandoned not answered",
		edits:  []string{"	if s.leaving == staying || s.abandoned {\n", "	if s.leaving == staying {\n"},
		caught: "TestRelease_LateSparesSuccessor",
	},
	{
		name:   "a fault of the roster reported again and again",
		edits:  []string{"		h.reported = err.Error()\n", ""},
		caught: "TestRoster_LostIsFilledAgain",
	},
	{
		name:   "the sighting of another clock believed",
		edits:  []string{"	if !ok || r.clock != s.clock {", "	if !ok {"},
		caught: "TestTryAcquire_MemoryIsNotShared",
	},
	{
		name:   "a clock that cannot be compared",
		edits:  []string{"	if !ok || !reflect.ValueOf(clock).Comparable() {", "	if !ok {"},
		caught: "TestTryAcquire_MemoryIsNotShared",
	},
	{
		name:   "a sighting of the check not remembered",
		edits:  []string{"	s.memory.Remember(key, remembered{seenAs(o, at), s.clock})\n", ""},
		caught: "TestLock_OtherNumberOfSeatsCrashed",
	},
	{
		name:   "a silence reported each time",
		edits:  []string{"			s.reported = true\n", ""},
		caught: "TestForceReconnect_UnsetStays",
	},
	{
		name:   "a connection that moves without ForceReconnect",
		edits:  []string{"		moves := ok && a.mayMove\n", "		moves := ok\n"},
		caught: "TestForceReconnect_UnsetStays",
	},
	{
		name:   "a denial taken for a sign",
		edits:  []string{"		return !a.c.tally.silent\n", "		return true\n"},
		caught: "TestForceReconnect_DenialIsNoSign",
	},
	{
		name:   "a denial taken for silence",
		edits:  []string{"		return !a.c.tally.silent\n", "		return false\n"},
		caught: "TestSilent_NotByDenial",
	},
	{
		name:   "a newer revision not taken for a sign",
		edits:  []string{"	if a.status.seen.revision > seen ||", "	if a.status.seen.revision < seen ||"},
		caught: "TestForceReconnect_LeaderKeepsItsLease",
	},
	{
		name:   "the findings of a silence kept after a sign",
		edits:  []string{"	a.silence = silence{cancel: a.silence.cancel}\n", "	a.silence.asked = false\n"},
		caught: "TestForceReconnect_UnsetStays",
	},
	{
		name:   "a request accepted in spite of RefuseRequests",
		edits:  []string{"	case a.c.refuses && leads:", "	case a.c.refuses && draining:"},
		caught: "TestTransfer_IsRefused",
	},
	{
		name:   "a request carried out that was refused",
		edits:  []string{"	if v.Answer == answerAccepted && leads {", "	if leads {"},
		caught: "TestTransfer_IsRefused",
	},
	{
		name:   "the time for the release of a bounded stop",
		edits:  []string{"-min(releaseTime, a.stopTimeout/4)", "-max(releaseTime, a.stopTimeout/4)"},
		caught: "TestStopTimeout_Relations",
	},
	{
		name:   "a bounded stop that lasts for ever",
		edits:  []string{"	return inAbandon\n", "	return inTick\n"},
		caught: "TestStopTimeout_StoreAway",
	},
	{
		name:   "a candidate that counts as one that writes",
		edits:  []string{"	p.phase = c.window.Join()\n", "	c.window.Join()\n"},
		caught: "TestWindow_Congestion",
	},
	{
		name:   "a closed connection not logged",
		edits:  []string{"	c.logClosed(values, c.cut)\n", ""},
		caught: "TestLog_ConnectionClosed",
	},
	{
		name:   "the loop of a lock kept",
		edits:  []string{"func (a *acquisition) lock(t *Term) *Lock {\n	a.c.loops.leave(a.c)\n", "func (a *acquisition) lock(t *Term) *Lock {\n"},
		caught: "TestUnlock_MoreThanOnce",
	},
	{
		name:   "Unlock that prefers its context",
		edits:  []string{"	select {\n	case <-l.c.Done():\n	default:\n		select {", "	select {\n	case <-ctx.Done():\n		return l.unlockError(\"which goes on\", ctx.Err())\n	default:\n		select {"},
		caught: "TestUnlock_MoreThanOnce",
	},
	{
		name:   "Release without a term",
		edits:  []string{"		l.giveUp()\n		l.Term.Release()\n", "		l.giveUp()\n"},
		caught: "TestUnlock_HandedOverReturnsCause",
	},
	{
		name:   "Release that keeps the session",
		edits:  []string{"		l.giveUp()\n		l.Term.Release()\n", "		l.Term.Release()\n"},
		caught: "TestUnlock_MoreThanOnce",
	},
	{
		name:   "the lock of another ID taken for the own",
		edits:  []string{"	return ok && owner == o\n", "	return ok && owner == owner\n"},
		caught: "TestLock_OtherNumberOfSeats",
	},
	{
		name:   "a check that looks one seat short",
		edits:  []string{"	for n := 1; n <= last; n++ {", "	for n := 1; n < last; n++ {"},
		caught: "TestLock_OtherNumberOfSeats",
	},
	{
		name:   "a check that looks only at the own seats",
		edits:  []string{"			last = max(last, min(seatsOf(s.rec), maxSeats))\n", "			last = max(last, 1)\n"},
		caught: "TestLock_OtherNumberOfSeatsAbove",
	},
	{
		name:   "a renewal that does not show that the holder lives",
		edits:  []string{"		case c.try, s.revision > first.revision:", "		case c.try:"},
		caught: "TestLock_OtherNumberOfSeats",
	},
	{
		name:   "a check that reads at the end of the lease only",
		edits:  []string{"min(rest, first.rec.lease/looksInLease)", "max(rest, first.rec.lease/looksInLease)"},
		caught: "TestLock_OtherNumberOfSeats",
	},
	{
		name:   "a check that waits on after its context",
		edits:  []string{"	case <-ctx.Done():\n		return ctx.Err()\n	}\n}\n", "	case <-ctx.Done():\n		<-t.C()\n		return ctx.Err()\n	}\n}\n"},
		caught: "TestLock_OtherNumberOfSeatsGivesUp",
	},
	{
		name:   "an observer's channel open after the end",
		edits:  []string{"		defer close(holders)\n", ""},
		caught: "TestUnlock_HandedOverReturnsCause",
	},
	{
		name:   "an end with the first seat",
		edits:  []string{"	last := b.there == 0\n", "	last := b.there == len(b.front.seats)-1\n"},
		caught: "TestSeats_FirstSeatFirst",
	},
	{
		name:   "a write that took as long as a bound counted above it",
		edits:  []string{"i < len(writeBounds) && d > writeBounds[i] {", "i < len(writeBounds) && d >= writeBounds[i] {"},
		caught: "TestStats",
	},
	{
		name:   "a renewal counted from its answer",
		edits:  []string{"t.kept, t.renewed, t.expired = true, asked, false", "t.kept, t.renewed, t.expired = true, c.since(), false"},
		caught: "TestStats",
	},
	{
		name:   "the silence counted from the newest loss",
		edits:  []string{"	if !t.silent {\n		t.silent, t.signed", "	if true {\n		t.silent, t.signed"},
		caught: "TestForceReconnect_UnsetStays",
	},
	{
		name:   "the silence counted from before the last sign",
		edits:  []string{"max(t.signed, at-quiet)", "at-quiet"},
		caught: "TestForceReconnect_LeaderKeepsItsLease",
	},
	{
		name:   "a sign that does not end the silence",
		edits:  []string{"	c.tally.silent, c.tally.signed = false, c.since()\n", "	c.tally.signed = c.since()\n"},
		caught: "TestForceReconnect_LeaderKeepsItsLease",
	},
	{
		name:   "Pending that was lost not counted",
		edits:  []string{"after == StateCandidate && !deposed {", "after == StateCandidate && deposed {"},
		caught: "TestStats_CountsUnelected",
	},
	{
		name:   "a first feed counted as a rebuilt one",
		edits:  []string{"max(t.feeds, 1) - 1", "t.feeds"},
		caught: "TestForceReconnect_WaitingCandidateTakesOver",
	},
}}
