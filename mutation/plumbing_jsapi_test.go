package mutation_test

var jsapiPlumbing = plumbing{of: "internal/jsapi", by: "internal/jsapi", mutants: []mutant{
	// turn.go
	{
		name:   "turn: who gives up stays in line",
		edits:  []string{"			done() // or leaves the line\n", ""},
		caught: "TestTurn_GiveUpLeavesTheLine",
	},
	{
		name:   "turn: who gives up as the turn comes keeps it",
		edits:  []string{"			done() // or leaves the line\n", "			select {\n			case <-t.granted:\n			default:\n				done()\n			}\n"},
		caught: "TestTurn_GiveUpAsTheTurnComes",
	},
	{
		name:   "turn: giving up may have sent something",
		edits:  []string{"unsent{fmt.Errorf(\"%w: too many requests to stream %s are in flight: %w\", backend.ErrUnreachable, a.Name, ctx.Err())}", "fmt.Errorf(\"%w: too many requests to stream %s are in flight: %w\", backend.ErrUnreachable, a.Name, ctx.Err())"},
		caught: "TestTurn_GiveUpLeavesTheLine",
	},
	{
		name:   "turn: the limit of the wait not released",
		edits:  []string{"	waited, cancel := deadline.Within(context.Background(), urgent)\n	defer cancel()\n", "	waited, _ := deadline.Within(context.Background(), urgent)\n"},
		caught: "TestTurn_GiveUpLeavesTheLine",
	},
	{
		name:   "turn: not urgent after a while",
		edits:  []string{"take(backend.RankTake)", "take(backend.RankRead)"},
		caught: "TestTurn_IsUrgentAfterAWhile",
	},
	{
		name:   "turn: urgent at once",
		edits:  []string{"if take(backend.RankRead)", "if take(backend.RankTake)"},
		caught: "TestTurn_GiveUpLeavesTheLine",
	},
	{
		name:   "turn: a slot taken late not noticed",
		edits:  []string{"			if late = nil; take(backend.RankTake) {\n				return done, nil\n			}\n", "			late = nil\n			take(backend.RankTake)\n"},
		caught: "TestTurn_IsUrgentAfterAWhile",
	},
	{
		name:   "turn: a turn not noticed",
		edits:  []string{"{ close(t.granted) }", "{}"},
		caught: "TestTurn_GiveUpLeavesTheLine",
	},
	{
		name:   "turn: the wait counted as a candidate's",
		edits:  []string{"w.Take(&t.place, r, &t, time.Time{})", "w.Take(&t.place, r, &t, time.Now().Add(-time.Second))"},
		caught: "TestTurn_GiveUpLeavesTheLine",
	},
	{
		name:   "turn: a turn never given back",
		edits:  []string{"done = func() { w.Return(&t.place, backend.Reply{}) }", "done = func() {}"},
		caught: "TestTurn_GiveUpLeavesTheLine",
	},
	// lane.go
	{
		name:   "lane: one subscription too many",
		edits:  []string{"if l.size < laneSize {", "if l.size <= laneSize {"},
		caught: "TestLane_SharesGoroutine",
	},
	{
		name:   "lane: an opening not counted",
		edits:  []string{"			l.opening[subject]++\n", ""},
		caught: "TestLane_EarlyMessages",
	},
	{
		name:   "lane: the subject of an opening kept",
		edits:  []string{"l.opening[subject] == 0 {\n		delete(l.opening, subject)", "l.opening[subject] < 0 {\n		delete(l.opening, subject)"},
		caught: "TestLane_EarlyMessages",
	},
	{
		name:   "lane: early messages of nobody kept",
		edits:  []string{"} else if l.opening[m.Sub.Subject] > 0 {\n			others", "} else if m.Sub != nil {\n			others"},
		caught: "TestLane_EarlyMessages",
	},
	{
		name:   "lane: a failed opening keeps its place",
		edits:  []string{"	if s.sub == nil {\n		l.shrink()\n	} else {", "	if s.sub != nil {"},
		caught: "TestLane_Bounds",
	},
	{
		name:   "lane: a subscription removed twice",
		edits:  []string{"	if l.subs[sub] != nil {\n		delete(l.subs, sub)\n		l.shrink()\n	}\n", "	delete(l.subs, sub)\n	l.shrink()\n"},
		caught: "TestLane_EarlyMessages",
	},
	{
		name:   "lane: the last subscription leaves the goroutine",
		edits:  []string{"	close(l.ended)\n", ""},
		caught: "TestLane_SharesGoroutine",
	},
	{
		name:   "lane: the last subscription leaves the lane",
		edits:  []string{"			l.of.all = append(l.of.all[:i], l.of.all[i+1:]...)\n", "			_ = i\n"},
		caught: "TestLane_SharesGoroutine",
	},
	{
		name:   "lane: early messages without a bound",
		edits:  []string{" && len(l.early) < laneQueue", ""},
		caught: "TestLane_Bounds",
	},
	{
		name:   "lane: early messages of subjects that nobody opens",
		edits:  []string{"s == nil && l.opening[m.Sub.Subject] > 0 && len", "s == nil && len"},
		caught: "TestLane_EarlyMessages",
	},
	{
		name:   "lane: a message overtakes those that wait",
		edits:  []string{"if h.occupied() || h.apart() {", "if h.apart() {"},
		caught: "TestLane_KeepsOrder",
	},
	{
		name:   "lane: a slow handler holds up the others",
		edits:  []string{"if h.occupied() || h.apart() {", "if h.occupied() {"},
		caught: "TestLane_SlowHandler",
	},
	{
		name:   "lane: a message handled after Close",
		edits:  []string{"	if h.closed {\n		h.mu.Unlock()\n		return\n	}\n", ""},
		caught: "TestLane_Bounds",
	},
	{
		name:   "lane: a message kept after Close",
		edits:  []string{"if h.closed || len(h.queue) >= laneQueue {", "if len(h.queue) >= laneQueue {"},
		caught: "TestLane_Bounds",
	},
	{
		name:   "lane: a queue without a bound",
		edits:  []string{"if h.closed || len(h.queue) >= laneQueue {", "if h.closed {"},
		caught: "TestLane_Bounds",
	},
	{
		name:   "lane: one message too many",
		edits:  []string{"len(h.queue) >= laneQueue {", "len(h.queue) > laneQueue {"},
		caught: "TestLane_Bounds",
	},
	{
		name:   "lane: never at rest after a message",
		edits:  []string{"	h.handle(m)\n	h.mu.Lock()\n	defer h.mu.Unlock()\n	h.rest()\n", "	h.handle(m)\n"},
		caught: "TestLane_KeepsOrder",
	},
	{
		name:   "lane: never at rest after the queue",
		edits:  []string{"			h.queue = nil\n			h.rest()\n", "			h.queue = nil\n"},
		caught: "TestLane_Bounds",
	},
	{
		name:   "lane: Close leaves the messages that wait",
		edits:  []string{"h.closed, h.queue = true, nil", "h.closed = true"},
		caught: "TestLane_Bounds",
	},
	{
		name:   "lane: Close does not wait",
		edits:  []string{"	if idle != nil {\n		<-idle\n	}\n", "	_ = idle\n"},
		caught: "TestLane_Bounds",
	},
	{
		name:   "lane: the second Close takes the place of the first",
		edits:  []string{"if h.busy && h.idle == nil {", "if h.busy {"},
		caught: "TestLane_Bounds",
	},
	{
		name:   "lane: the last message that waits not seen",
		edits:  []string{"return len(h.queue) > 0", "return len(h.queue) > 1"},
		caught: "TestLane_SlowHandler",
	},
	// shared.go
	{
		name:   "a shared STREAM.INFO answered from before the question",
		edits:  []string{"	r := s.next\n	if r == nil {\n", "	r := s.next\n	if s.flying != nil {\n		r = s.flying\n	}\n	if r == nil {\n"},
		caught: "TestShared_AnswersAreNewer",
	},
	{
		name:   "shared: the first caller's end ends the round",
		edits:  []string{"context.WithCancel(context.WithoutCancel(ctx))", "context.WithCancel(ctx)"},
		caught: "TestShared_LastCallerGivesUp",
	},
	{
		name:   "shared: who gives up does not leave",
		edits:  []string{"		s.leave(r)\n", ""},
		caught: "TestShared_CallersGiveUp",
	},
	{
		name:   "shared: the first who leaves ends the round",
		edits:  []string{"if r.waiters--; r.waiters > 0 {", "if r.waiters--; r.waiters > 1 {"},
		caught: "TestShared_LastCallerGivesUp",
	},
	{
		name:   "shared: a round without callers goes on",
		edits:  []string{"	r.cancel()\n	switch r {", "	switch r {"},
		caught: "TestShared_CallersGiveUp",
	},
	{
		name:   "shared: a round without callers is sent",
		edits:  []string{"	case s.next:\n		s.next = nil\n", "	case s.next:\n"},
		caught: "TestShared_CallersGiveUp",
	},
	{
		name:   "shared: a round that was given up holds up the next",
		edits:  []string{"	case s.flying:\n		s.depart()\n", ""},
		caught: "TestShared_GivenUpEndsLate",
	},
	{
		name:   "shared: a late answer lets a round go",
		edits:  []string{"	if s.flying != r {\n		return\n	}\n", ""},
		caught: "TestShared_LostAnswer",
	},
	{
		name:   "shared: an old limit lets a round go",
		edits:  []string{"	if s.flying == r {\n		s.depart()\n	}\n}", "	s.depart()\n}"},
		caught: "TestShared_LimitIsOfOneRequest",
	},
	{
		name:   "shared: no limit for a lost answer",
		edits:  []string{"	deadline.After(overdue, func() { s.over(r) })\n", ""},
		caught: "TestShared_LostAnswer",
	},
	{
		name:   "shared: a reconnection does not let a round go",
		edits:  []string{"s.expected, s.pause = n, 0\n	s.depart()\n", "s.expected, s.pause = n, 0\n"},
		caught: "TestShared_Reconnection",
	},
	{
		name:   "shared: a reconnection keeps the pause",
		edits:  []string{"s.expected, s.pause = n, 0", "s.expected = n"},
		caught: "TestShared_PauseBeginsAnew",
	},
	{
		name:   "shared: callers expected for ever",
		edits:  []string{"				s.expected = 0\n", ""},
		caught: "TestShared_ExpectedDoNotCome",
	},
	{
		name:   "shared: an expectation ends although callers come",
		edits:  []string{"if s.last == last && s.flying == nil {", "if _ = last; s.flying == nil {"},
		caught: "TestShared_CrowdSharesRequests",
	},
	{
		name:   "shared: a crowd that has come is still expected",
		edits:  []string{"s.expected = max(s.expected-r.waiters, 0)", "s.expected = max(s.expected, 0)"},
		caught: "TestShared_FewDoNotWait",
	},
	{
		name:   "shared: a pause without a bound",
		edits:  []string{"min(max(2*s.pause, leastPause), mostPause)", "max(2*s.pause, leastPause)"},
		caught: "TestShared_CrowdSharesRequests",
	},
	{
		name:   "shared: one less is a crowd",
		edits:  []string{"if s.expected < crowd {", "if s.expected < crowd-1 {"},
		caught: "TestShared_FewDoNotWait",
	},
	// request.go
	{
		name:   "request: a context kept after the reply",
		edits:  []string{"	r.stop()\n	r.reply(resp, err)", "	r.reply(resp, err)"},
		caught: "TestRequest_ForgetsItsContext",
	},
	{
		name:   "request: replied to twice",
		edits:  []string{"func (r *request) end(resp *nats.Msg, err error) {\n	r.c.mu.Lock()\n	if r.stage == requestReplied {\n		r.c.mu.Unlock()\n		return\n	}\n", "func (r *request) end(resp *nats.Msg, err error) {\n	r.c.mu.Lock()\n"},
		caught: "TestRequest_RepliesOnce",
	},
	{
		name:   "request: kept with those that wait for a reply",
		edits:  []string{"	if r.token != \"\" {\n		delete(r.c.pending, r.token)\n	}\n", ""},
		caught: "TestConnection_Replies",
	},
	{
		name:   "request: kept with those that nats.go has sent",
		edits:  []string{"	delete(r.c.delegated, r)\n", ""},
		caught: "TestDenial_EndsDelegatedRequest",
	},
	{
		name:   "request: the end of its context noticed late",
		edits:  []string{"	if r.stage == requestSent {\n		r.c.push(r)\n	}\n", ""},
		caught: "TestConnection_Replies",
	},
	{
		name:   "request: waits for nats.go without a limit",
		edits:  []string{"	if !over {\n		deadline.After(patience, r.leave)\n	}\n", "	_ = over\n"},
		caught: "TestRequest_EndsDuringWrite",
	},
	{
		name:   "request: the end of its context in a write noticed late",
		edits:  []string{"	} else if r.advance(requestSends, requestSent) && r.ctx.Err() != nil {\n		r.failed(r.ctx.Err()) // expire has left it to this goroutine\n	}", "	} else {\n		r.advance(requestSends, requestSent)\n	}"},
		caught: "TestRequest_EndsDuringWrite",
	},
	{
		name:   "request: left behind and not counted",
		edits:  []string{"	r.c.left++\n", ""},
		caught: "TestConnection_BoundsThoseLeftBehind",
	},
	{
		name:   "request: left behind and still there",
		edits:  []string{"	waits := r.stage == requestWaits\n	r.close()\n", "	waits := r.stage == requestWaits\n	r.stage = requestReplied\n"},
		caught: "TestRequest_EndsDuringWrite",
	},
	{
		name:   "request: left behind while it waits, and perhaps sent",
		edits:  []string{"	waits := r.stage == requestWaits\n	r.close()\n", "	waits := false\n	r.close()\n"},
		caught: "TestConnection_Blocked",
	},
	{
		name:   "request: left behind in a write, and not sent",
		edits:  []string{"	waits := r.stage == requestWaits\n	r.close()\n", "	waits := true\n	r.close()\n"},
		caught: "TestRequest_EndsDuringWrite",
	},
	{
		name:   "request: one too many left behind",
		edits:  []string{"	if left < maxLeft {\n", "	if left <= maxLeft {\n", "	if left >= maxLeft {\n", "	if left > maxLeft {\n"},
		caught: "TestConnection_BoundsThoseLeftBehind",
	},
	{
		name:   "request: the caller's own message sent",
		edits:  []string{"Data: bytes.Clone(m.Data)}", "Data: m.Data}"},
		caught: "TestRequest_CopiesItsMessage",
	},
	// connection.go
	{
		name:   "connection: the next requests wait for ever",
		edits:  []string{"		c.running = false\n", ""},
		caught: "TestConnection_Queue",
	},
	{
		name:   "connection: requests rejected after it goes on",
		edits:  []string{"	c.left = 0\n", ""},
		caught: "TestConnection_Queue",
	},
	{
		name:   "connection: a request from the middle breaks the queue",
		edits:  []string{"		r.next.prev = r.prev\n", ""},
		caught: "TestConnection_Queue",
	},
	{
		name:   "connection: the end of the queue lost",
		edits:  []string{"		c.last = r.prev\n", ""},
		caught: "TestConnection_Queue",
	},
	{
		name:   "connection: a request sent after its end",
		edits:  []string{"	if err = r.ctx.Err(); err != nil {\n		r.end(nil, unsent{r.failure(err)})\n		return\n	}\n", ""},
		caught: "TestConnection_Failures",
	},
	{
		name:   "connection: a request sent while disconnected",
		edits:  []string{"		r.end(nil, unsent{err})\n		return\n	}\n	r.before", "	}\n	r.before"},
		caught: "TestConnection_Failures",
	},
	{
		name:   "connection: a failed write not noticed",
		edits:  []string{"PublishMsg(r.msg); err != nil {\n		r.failed(err)", "PublishMsg(r.msg); err != nil {\n		_ = err"},
		caught: "TestConnection_Failures",
	},
	{
		name:   "connection: no inbox before a drain",
		edits:  []string{"if !c.primed.Load() || status", "if status"},
		caught: "TestConnection_Drained",
	},
	{
		name:   "connection: its own inbox in a drain",
		edits:  []string{"if !c.primed.Load() || status != nats.CONNECTED || c.nc", "if !c.primed.Load() || status == nats.CLOSED || c.nc"},
		caught: "TestConnection_Drained",
	},
	{
		name:   "connection: a delegated request not looked at",
		edits:  []string{"		c.delegated[r] = struct{}{}\n		c.watch()\n", "		c.delegated[r] = struct{}{}\n"},
		caught: "TestDenial_EndsDelegatedRequest",
	},
	{
		name:   "connection: primed by a request that was not sent",
		edits:  []string{"if err == nil || r.ctx.Err() == nil { // or nothing may have been sent\n			c.primed.Store(true)\n		}", "c.primed.Store(true)"},
		caught: "TestRequest_EndsDelegated",
	},
	{
		name:   "connection: the failure of a delegated request not noticed",
		edits:  []string{"		if err != nil {\n			r.failed(err)\n			return\n		}\n		r.end", "		if err != nil {\n			return\n		}\n		r.end"},
		caught: "TestRequest_EndsDelegated",
	},
	{
		name:   "connection: the end of the subscription to replies not noticed",
		edits:  []string{"		s.SetClosedHandler(func(string) { c.deafen() })\n", ""},
		caught: "TestConnection_Failures",
	},
	{
		name:   "connection: requests wait for replies that nobody hears",
		edits:  []string{"	for _, r := range all {\n		r.failed(nats.ErrConnectionClosed)\n	}\n", ""},
		caught: "TestConnection_Drained",
	},
	{
		name:   "connection: deaf, but not known to be",
		edits:  []string{"	c.mu.Lock()\n	c.hears = false\n", "	c.mu.Lock()\n"},
		caught: "TestConnection_ListensAgain",
	},
	{
		name:   "connection: a second subscription to replies",
		edits:  []string{"	if hears {\n		return nil\n	}\n", "	_ = hears\n"},
		caught: "TestConnection_Replies",
	},
	{
		name:   "connection: an ended request registered",
		edits:  []string{"	if r.stage != requestWaits {\n		return false\n	}\n", ""},
		caught: "TestConnection_RegistersWaitingRequests",
	},
	{
		name:   "connection: a request registered although nobody hears",
		edits:  []string{"used || !c.hears {", "used {"},
		caught: "TestConnection_RegistersWaitingRequests",
	},
	{
		name:   "connection: a request that nobody hears not sent again",
		edits:  []string{"		c.push(r) // again, with another token, or when the connection is known to be closed\n", ""},
		caught: "TestConnection_RegistersWaitingRequests",
	},
	{
		name:   "connection: a token kept without its request",
		edits:  []string{"		r.token = \"\"\n", ""},
		caught: "TestConnection_RegistersWaitingRequests",
	},
	{
		name:   "connection: a second reply counts",
		edits:  []string{"	if r != nil {\n		r.close()\n	}\n", ""},
		caught: "TestConnection_Replies",
	},
	{
		name:   "connection: no responder taken for a reply",
		edits:  []string{"	case len(m.Data) == 0 && m.Header.Get(\"Status\") == \"503\": // as nats.go decides\n		r.finish(nil, r.failure(nats.ErrNoResponders))\n", ""},
		caught: "TestConnection_Failures",
	},
	// denial.go
	{
		name:   "denial: looks beside looks",
		edits:  []string{"	if !c.watched {\n		c.watched = true\n		deadline.After(calmPause, c.look)\n	}\n", "	c.watched = true\n	deadline.After(calmPause, c.look)\n"},
		caught: "TestDenial_LooksRegularly",
	},
	{
		name:   "denial: looks never end",
		edits:  []string{"	if len(all) == 0 {\n		return\n	}\n", ""},
		caught: "TestDenial_LooksRegularly",
	},
	{
		name:   "denial: looks never begin again",
		edits:  []string{"	c.watched = len(all) > 0\n", ""},
		caught: "TestDenial_EndsDelegatedRequest",
	},
	{
		name:   "denial: no look at delegated requests",
		edits:  []string{"	for r := range c.delegated {\n		all = append(all, r)\n	}\n", ""},
		caught: "TestDenial_EndsDelegatedRequest",
	},
	{
		name:   "denial: a long pause after a denial",
		edits:  []string{"		pause = busyPause\n", ""},
		caught: "TestDenial_EndsRequest",
	},
	{
		name:   "denial: slots kept",
		edits:  []string{"			r.a.window.Clear() // first, so that it clears no slot that a caller takes once it has the error\n", ""},
		caught: "TestDenial_EndsRequest",
	},
	{
		name:   "denial: slots cleared after the reply",
		edits:  []string{"			r.a.window.Clear() // first, so that it clears no slot that a caller takes once it has the error\n			r.end(nil, err)\n", "			r.end(nil, err)\n			r.a.window.Clear()\n"},
		caught: "TestDenial_EndsRequest",
	},
	{
		name:   "denial: one look before the ping",
		edits:  []string{"	if c.nc.FlushWithContext(ctx) != nil {\n		return nil\n	}\n", "	_ = ctx\n"},
		caught: "TestDenial_LooksRegularly",
	},
	{
		name:   "denial: the limit of a ping not released",
		edits:  []string{"	ctx, cancel := deadline.Within(context.Background(), deadline.Default)\n	defer cancel()\n", "	ctx, _ := deadline.Within(context.Background(), deadline.Default)\n"},
		caught: "TestDenial_LooksRegularly",
	},
	// intime.go
	{
		name:   "call: one too many left behind",
		edits:  []string{"; n >= maxLeft {\n		var none T", "; n > maxLeft {\n		var none T"},
		caught: "TestInTime_Bound",
	},
	{
		name:   "call: its context kept",
		edits:  []string{"		stop()\n		if c.state", "		_ = stop\n		if c.state"},
		caught: "TestInTime_ForgetsItsContext",
	},
	{
		name:   "call: no time after its context",
		edits:  []string{"func() { deadline.After(patience, c.leave) })", "c.leave)"},
		caught: "TestInTime_LeavesBehind",
	},
	{
		name:   "call: replied to twice",
		edits:  []string{"if c.state.Swap(callReturned) != callLeft {", "if c.state.Swap(callReturned) != callReturned {"},
		caught: "TestInTime_LeavesBehind",
	},
	{
		name:   "call: left behind for ever",
		edits:  []string{"		a.left.Add(-1)\n		if late", "		if late"},
		caught: "TestInTime_LeavesBehind",
	},
	{
		name:   "call: what comes late not released",
		edits:  []string{"			late(value)\n", ""},
		caught: "TestInTime_LeavesBehind",
	},
	{
		name:   "call: a late error released",
		edits:  []string{"if late != nil && err == nil {", "if late != nil {"},
		caught: "TestInTime_LeavesBehind",
	},
	{
		name:   "call: not counted as left behind",
		edits:  []string{"	c.a.left.Add(1)\n", ""},
		caught: "TestInTime_LeavesBehind",
	},
	{
		name:   "call: counted as left behind although it has returned",
		edits:  []string{"		c.a.left.Add(-1)\n		return\n", "		return\n"},
		caught: "TestInTime_LeavesBehind",
	},
	{
		name:   "call: sent after it was left behind",
		edits:  []string{"{ return c.state.CompareAndSwap(callBegins, callSends) }", "{ return true }"},
		caught: "TestInTime_LeavesBehind",
	},
	{
		name:   "call: nothing sent, but perhaps",
		edits:  []string{"		err = unsent{err}\n	case", "		err = unanswered{err}\n	case"},
		caught: "TestInTime_LeavesBehind",
	},
	{
		name:   "call: perhaps sent, but nothing",
		edits:  []string{"		err = unanswered{err}\n	default", "		err = unsent{err}\n	default"},
		caught: "TestInTime_LeavesBehind",
	},
	{
		name:   "soon: no limit",
		edits:  []string{"	select {\n	case <-ended:\n	case <-grace.Done():\n	}\n", "	<-ended\n	_ = grace\n"},
		caught: "TestSoon_WaitsForAMoment",
	},
	{
		name:   "soon: no wait",
		edits:  []string{"		defer close(ended)\n		end()\n", "		close(ended)\n		end()\n"},
		caught: "TestSoon_WaitsForAMoment",
	},
	{
		name:   "soon: the limit not released",
		edits:  []string{"	grace, cancel := deadline.Within(context.Background(), patience)\n	defer cancel()\n", "	grace, _ := deadline.Within(context.Background(), patience)\n"},
		caught: "TestSoon_WaitsForAMoment",
	},
	// subscription.go
	{
		name:   "subscription: not ended by Close",
		edits:  []string{"	err := s.sub.Unsubscribe()\n", "	var err error\n"},
		caught: "TestListen_Fails",
	},
	{
		name:   "subscription: its place in the lane not left",
		edits:  []string{"		s.lane.remove(s.sub)\n", "", "	sub.SetClosedHandler(func(string) { l.remove(sub) })\n", ""},
		caught: "TestListen_Fails",
	},
	{
		name:   "subscription: a closed connection leaves the lane",
		edits:  []string{"	sub.SetClosedHandler(func(string) { l.remove(sub) })\n", ""},
		caught: "TestLane_ConnectionClosed",
	},
	{
		name:   "subscription: Close does not wait for the lane",
		edits:  []string{"		s.lane.remove(s.sub)\n		s.end()\n", "		s.lane.remove(s.sub)\n"},
		caught: "TestLane_SlowHandler",
	},
	{
		name:   "subscription: Close does not wait for nats.go",
		edits:  []string{"		<-s.exited\n", ""},
		caught: "TestFollow_HandlesItsMessages",
	},
	{
		name:   "subscription: Leave not called",
		edits:  []string{"		s.Leave()\n", ""},
		caught: "TestListen_Fails",
	},
	{
		name:   "subscription: a failed one leaves its place in the lane",
		edits:  []string{"	l.opened(s, subject)\n	if err != nil {\n		return err\n	}\n", "	if err != nil {\n		return err\n	}\n	l.opened(s, subject)\n"},
		caught: "TestListen_Fails",
	},
	{
		name:   "subscription: a denial not noticed",
		edits:  []string{"	return a.denied(subject, before)\n}\n\n// ping", "	return nil\n}\n\n// ping"},
		caught: "TestListen_Fails",
	},
	{
		name:   "subscription: no ping",
		edits:  []string{"	if err := a.ping(ctx); err != nil {\n		return a.failure(subject, before, err)\n	}\n", ""},
		caught: "TestListen_SharesPing",
	},
	// config.go
	{
		name:   "settings: remembered after a reconnection",
		edits:  []string{"	a.Known.Store(nil)\n	a.infos.expect(n)\n", "	a.infos.expect(n)\n"},
		caught: "TestConfig_IsRemembered",
	},
	{
		name:   "settings: a crowd not expected",
		edits:  []string{"	a.infos.expect(n)\n", ""},
		caught: "TestConfig_IsRemembered",
	},
	{
		name:   "settings: remembered of a stream that is gone",
		edits:  []string{"			a.Known.Store(nil)\n", ""},
		caught: "TestConfig_IsRemembered",
	},
	{
		name:   "settings: of another stream",
		edits:  []string{"	if resp.Config.Name != a.Name {", "	if resp.Config.Name == \"\" {"},
		caught: "TestConfig_IsRemembered",
	},
	{
		name:   "settings: the largest payload not read",
		edits:  []string{"	a.payload.Store(a.Conn.MaxPayload()) // here, because it may wait for the connection's lock\n", ""},
		caught: "TestConfig_IsRemembered",
	},
	{
		name:   "settings: never remembered",
		edits:  []string{"	if c := a.Known.Load(); c != nil {\n		return *c, nil\n	}\n", ""},
		caught: "TestConfig_IsRemembered",
	},
	{
		name:   "settings: a race without a second try",
		edits:  []string{"errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) || errors.Is(err, backend.ErrNoBucket)\n", "errors.Is(err, backend.ErrNoBucket)\n"},
		caught: "TestEstablish_Requests",
	},
	{
		name:   "settings: a deletion without a second try",
		edits:  []string{"errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) || errors.Is(err, backend.ErrNoBucket)\n", "errors.Is(err, jetstream.ErrStreamNameAlreadyInUse)\n"},
		caught: "TestEstablish_Requests",
	},
	{
		name:   "settings: an update without the inspection",
		edits:  []string{"		err = inspect(info, conf)\n", "		_ = inspect(info, conf)\n"},
		caught: "TestEstablish_Requests",
	},
	{
		name:   "settings: an update without a change",
		edits:  []string{"if err != nil || !changed {", "if _ = changed; err != nil {"},
		caught: "TestEstablish_Requests",
	},
	{
		name:   "settings: a request while disconnected",
		edits:  []string{"if err := a.Connected(); err != nil || !maySend() {", "if err := error(nil); !maySend() {"},
		caught: "TestEstablish_Requests",
	},
	{
		name:   "settings: a new stream not remembered",
		edits:  []string{"			a.found(&stream.CachedInfo().Config)\n", ""},
		caught: "TestEstablish_Requests",
	},
	{
		name:   "settings: a stream that exists cannot be created",
		edits:  []string{"	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {\n		return nil\n	}\n", ""},
		caught: "TestStream_CreateAndDelete",
	},
	{
		name:   "settings: a stream created by nats.go's own limit",
		edits:  []string{"a.JS.CreateStream(undated{ctx}, conf)", "a.JS.CreateStream(context.WithoutCancel(ctx), conf)"},
		caught: "TestStream_CreateAndDelete",
	},
	// consumer.go
	{
		name:   "consumer: of another stream",
		edits:  []string{"meta.Stream == a.Name && meta", "meta"},
		caught: "TestFollow_HandlesItsMessages",
	},
	{
		name:   "consumer: of another name",
		edits:  []string{" && meta.Consumer == name {", " {"},
		caught: "TestFollow_HandlesItsMessages",
	},
	{
		name:   "consumer: what is not stored forgotten",
		edits:  []string{"			handle(m, nil)\n", "			_ = err\n"},
		caught: "TestFollow_HandlesItsMessages",
	},
	{
		name:   "consumer: none after a refusal, but named",
		edits:  []string{"		named(\"\")\n", ""},
		caught: "TestFollow_Fails",
	},
	{
		name:   "consumer: perhaps there, but not named",
		edits:  []string{"	named(name) // from here on the consumer may exist, whatever the reply\n", ""},
		caught: "TestFollow_Fails",
	},
	{
		name:   "consumer: a denied inbox not noticed",
		edits:  []string{"return made.CachedInfo(), a.denied(inbox, before)", "_ = before\n		return made.CachedInfo(), nil"},
		caught: "TestFollow_Denied",
	},
	{
		name:   "consumer: a pedantic client with wildcards",
		edits:  []string{"apart := a.Conn.Opts.Pedantic && !LiteralSubject(filter)", "apart := false"},
		caught: "TestFollow_Fails",
	},
	{
		name:   "consumer: a literal filter apart",
		edits:  []string{"a.Conn.Opts.Pedantic && !LiteralSubject(filter)", "a.Conn.Opts.Pedantic"},
		caught: "TestFollow_Fails",
	},
	{
		name:   "consumer: its name in the error",
		edits:  []string{"		err = fmt.Errorf(\"%w: no reply on %s\", backend.ErrUnreachable, every)\n", ""},
		caught: "TestFollow_Fails",
	},
	{
		name:   "consumer: its name in a denial",
		edits:  []string{"		err = Permission(fmt.Sprintf(\"Publish to %q\", every), nats.ErrPermissionViolation)\n", ""},
		caught: "TestFollow_Denied",
	},
	{
		name:   "consumer: one without a name deleted",
		edits:  []string{"if name != \"\" && a.Connected() == nil {", "if name == \"\" && a.Connected() == nil {"},
		caught: "TestFollow_HandlesItsMessages",
	},
	// publish.go, entry.go
	{
		name:   "write: an acknowledgement is no sign",
		edits:  []string{"	if err == nil {\n		a.Signed()\n	}\n", ""},
		caught: "TestStore_Replies",
	},
	{
		name:   "write: a refusal is a sign",
		edits:  []string{"	if err == nil {\n		a.Signed()\n	}\n", "	a.Signed()\n"},
		caught: "TestStore_Replies",
	},
	{
		name:   "write: acknowledged by another stream",
		edits:  []string{"case ack.Stream != a.Name || ack.Sequence == 0:", "case ack.Sequence == 0:"},
		caught: "TestStore_Replies",
	},
	{
		name:   "write: acknowledged without a revision",
		edits:  []string{"case ack.Stream != a.Name || ack.Sequence == 0:", "case ack.Stream != a.Name:"},
		caught: "TestStore_Replies",
	},
	{
		name:   "write: a refusal taken for an acknowledgement",
		edits:  []string{"		return jetstream.PubAck{}, a.refusal(ack.Error)\n", "		return ack.PubAck, nil\n"},
		caught: "TestStore_Replies",
	},
	{
		name:   "write: a revision that is too long",
		edits:  []string{" || len(rest) > len(\"9999999999999999999}\")", ""},
		caught: "TestAcknowledgement_WithoutJSON",
	},
	{
		name:   "entry: no message is an error",
		edits:  []string{"	case resp.Error != nil && resp.Error.ErrorCode == CodeNoMessage:\n		return backend.Entry{}, nil, nil\n", ""},
		caught: "TestLastOf_Replies",
	},
	{
		name:   "entry: an error is no message",
		edits:  []string{"resp.Error != nil && resp.Error.ErrorCode == CodeNoMessage:", "resp.Error != nil && resp.Error.ErrorCode != 0:"},
		caught: "TestLastOf_Replies",
	},
	{
		name:   "entry: the first value of a header",
		edits:  []string{"return v[len(v)-1]", "return v[0]"},
		caught: "TestStoredEntry_Origin",
	},
	{
		name:   "entry: of another subject",
		edits:  []string{" || LastValue(m.Header, jetstream.SubjectHeader) != subject {", " {"},
		caught: "TestStoredEntry_Origin",
	},
	{
		name:   "entry: without a revision",
		edits:  []string{"err != nil || seq == 0 {", "err != nil {"},
		caught: "TestStoredEntry_Origin",
	},
	{
		name:   "a reply in a key believed",
		edits:  []string{"	case how.isReply(h):\n		e.Value = nil\n", ""},
		caught: "TestNewEntry_OfReplies",
	},
	{
		name:   "a value without a condition believed",
		edits:  []string{"	case !how.sourced && len(h", "	case how.sourced && len(h"},
		caught: "TestNewEntry_OfReplies",
	},
	// errors.go
	{
		name:   "failure: closed although it was lost",
		edits:  []string{"case errors.Is(err, nats.ErrConnectionClosed) && a.Conn.IsClosed():", "case errors.Is(err, nats.ErrConnectionClosed):"},
		caught: "TestFailure_Reasons",
	},
	{
		name:   "failure: a denial taken for silence",
		edits:  []string{"		if denied := a.denied(subject, before); denied != nil {\n			return denied\n		}\n", ""},
		caught: "TestFollow_Denied",
	},
	{
		name:   "failure: no responder taken for a missing JetStream",
		edits:  []string{"errors.Is(err, nats.ErrNoResponders) && strings.HasPrefix(subject, a.Prefix+\"STREAM.\"):", "errors.Is(err, nats.ErrNoResponders):"},
		caught: "TestFailure_Reasons",
	},
	{
		name:   "denial: an old one is fresh",
		edits:  []string{"	fresh := last != before //nolint:errorlint // the same value, not the same kind\n", "	fresh := last != nil\n"},
		caught: "TestDenied_OfReplies",
	},
	{
		name:   "denial: of a longer subject",
		edits:  []string{"strings.Contains(text, `\"`+subject+`\"`)", "strings.Contains(text, subject)"},
		caught: "TestDenied_OfReplies",
	},
	{
		name:   "denial: of the replies not noticed",
		edits:  []string{"	if subject == a.conn.inbox+\"*\" {\n		return true\n	}\n", ""},
		caught: "TestDenied_OfReplies",
	},
	{
		name:   "denial: an old one of an inbox",
		edits:  []string{"return fresh && len(subject) == len(inbox) && subject", "return len(subject) == len(inbox) && subject"},
		caught: "TestDenied_OfReplies",
	},
	{
		name:   "refusal: the missing stream gone",
		edits:  []string{"if a.Again != \"\" && a.Seen.Load() {", "if a.Again != \"\" {"},
		caught: "TestMissing_Advice",
	},
	{
		name:   "refusal: revision 0 not named",
		edits:  []string{"&backend.RefusedError{Actual: actual, Named: true}", "&backend.RefusedError{Actual: actual, Named: actual > 0}"},
		caught: "TestRefusal_NamesRevision",
	},
	// names.go
	{
		name:   "name: one byte too long",
		edits:  []string{"if len(name) > limit {", "if len(name) > limit+1 {"},
		caught: "TestNames_Limits",
	},
	{
		name:   "name: one byte too short",
		edits:  []string{"if len(name) > limit {", "if len(name) >= limit {"},
		caught: "TestNames_Limits",
	},
	{
		name:   "name: a tab in a subject",
		edits:  []string{"\"*>{} \\t\\r\\n\"", "\"*>{} \\r\\n\""},
		caught: "TestNames_Limits",
	},
	{
		name:   "name: a tail covers its beginning",
		edits:  []string{"			return i < len(s)\n", "			return i <= len(s)\n"},
		caught: "TestNames_Covers",
	},
	{
		name:   "name: a star covers a tail",
		edits:  []string{"case i >= len(s) || s[i] == \">\":", "case i >= len(s):"},
		caught: "TestNames_Covers",
	},
	{
		name:   "name: a pattern covers what is longer",
		edits:  []string{"return len(p) == len(s)", "return len(p) <= len(s)"},
		caught: "TestNames_Covers",
	},
	{
		name:   "name: the prefix of inboxes not checked",
		edits:  []string{"return CheckLength(\"the prefix of inboxes\", js.Conn().Opts.InboxPrefix, MaxSubject)", "return nil"},
		caught: "TestNames_Prefixes",
	},
	// stream.go
	{
		name:   "stream: two dots in its prefix",
		edits:  []string{"strings.TrimSuffix(o.APIPrefix, \".\") + \".\"", "o.APIPrefix + \".\""},
		caught: "TestNames_Prefixes",
	},
	{
		name:   "stream: the domain before the prefix",
		edits:  []string{"	case o.APIPrefix != \"\":", "	case o.APIPrefix != \"\" && o.Domain == \"\":"},
		caught: "TestNames_Prefixes",
	},
	{
		name:   "stream: the limit of a look not released",
		edits:  []string{"	ctx, cancel := deadline.Within(context.Background(), patience)\n	defer cancel()\n	last", "	ctx, _ := deadline.Within(context.Background(), patience)\n	last"},
		caught: "TestConfig_IsRemembered",
	},
	// majority.go
	{
		name:   "majority: half is enough",
		edits:  []string{"2*lost >= all {", "2*lost > all {"},
		caught: "TestMajority",
	},
	{
		name:   "majority: silent for a little longer",
		edits:  []string{"r.Offline || r.Active >= unheard {", "r.Offline || r.Active > unheard {"},
		caught: "TestMajority",
	},
	{
		name:   "majority: an offline server counts",
		edits:  []string{"r.Offline || r.Active >= unheard {", "r.Active >= unheard {"},
		caught: "TestMajority",
	},
	{
		name:   "move: twice at a time",
		edits:  []string{"	if m.busy || m.row > 0", "	if m.row > 0"},
		caught: "TestMove_WaitsLongerEachTime",
	},
	{
		name:   "move: once for ever",
		edits:  []string{"		if m.busy = false; moves {", "		if moves {"},
		caught: "TestMove_WaitsLongerEachTime",
	},
	{
		name:   "move: no longer wait after a move",
		edits:  []string{"min(quiet<<m.row, longestQuiet)", "quiet"},
		caught: "TestMove_WaitsLongerEachTime",
	},
	{
		name:   "move: a wait without a bound",
		edits:  []string{"min(quiet<<m.row, longestQuiet)", "quiet<<m.row"},
		caught: "TestMove_WaitsLongerEachTime",
	},
	{
		name:   "move: a wait cut short by the bound",
		edits:  []string{"max(quiet, min(quiet<<m.row, longestQuiet))", "min(quiet<<m.row, longestQuiet)"},
		caught: "TestMove_LongWait",
	},
	{
		name:   "move: signs do not count",
		edits:  []string{"		m.row = 0\n", ""},
		caught: "TestMove_WaitsLongerEachTime",
	},
	{
		name:   "move: a sign in the pause does not count",
		edits:  []string{"	if !a.isQuiet(quiet) || a.Connected() != nil || len", "	if a.Connected() != nil || len"},
		caught: "TestMove_Stays",
	},
	{
		name:   "move: without another server",
		edits:  []string{"len(a.Conn.Servers()) < 2", "len(a.Conn.Servers()) < 1"},
		caught: "TestMove_Stays",
	},
	{
		name:   "move: no pause",
		edits:  []string{"	deadline.Pause(rand.N(min(quiet/8, longestPause) + 1))\n", "	deadline.Pause(rand.N(min(quiet/8, longestPause)+1) * 0)\n"},
		caught: "TestMove_WaitsLongerEachTime",
	},
}}
