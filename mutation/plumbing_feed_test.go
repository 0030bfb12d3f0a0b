package mutation_test

// feedPlumbing are mutants of package leader on NATS.
var feedPlumbing = plumbing{of: "leader", by: "leader", mutants: []mutant{
	// bucket.go
	{name: "a roster that is gone is shown", edits: []string{` != "" && !b.roster.isMissing(ctx)`, ` != ""`}, caught: "TestCreateBucket_RosterOnRequest"},

	// bucket_feed.go
	{name: "others join a feed that was found deaf", edits: []string{"b.hub.distrust(old.source)\n", "\n"}, caught: "TestFeedSource_IsShared"},
	{name: "a replaced feed stays open", edits: []string{"old.Stop()\n", "\n"}, caught: "TestFeedSource_IsShared"},
	{name: "a feed begins before its owner has it", edits: []string{"reply(f, nil)\n\t\tf.begin()", "f.begin()\n\t\treply(f, nil)"}, caught: "TestFeed_EndsWithError"},
	{name: "a feed that gives up while another opens it stays", edits: []string{"f.Stop()\n\t\t\t\treturn nil, fmt.Errorf(\"%w: the feed of", "return nil, fmt.Errorf(\"%w: the feed of"}, caught: "TestFeedSource_OpenedByAnother"},
	{name: "a feed waits for its opener without an end", edits: []string{"case <-ctx.Done():\n\t\t\t\tf.Stop()", "case <-context.Background().Done():\n\t\t\t\tf.Stop()"}, caught: "TestFeedSource_OpenedByAnother"},
	{name: "a feed that cannot be opened stays", edits: []string{"f.Stop()\n\t\tif first ||", "if first ||"}, caught: "TestStoreRequests_EndOfContext"},
	{name: "a feed fails because its opener gave up", edits: []string{"if first || ctx.Err() != nil || !f.source.abandoned {", "if true {"}, caught: "TestFeedSource_OpenedByAnother"},
	{name: "each feed tries again what the server has denied", edits: []string{"if first || ctx.Err() != nil || !f.source.abandoned {", "if first || ctx.Err() != nil {"}, caught: "TestFeedSource_OpenedByAnother"},
	{name: "a feed keeps the oldest early events", edits: []string{"f.early = f.early[1:]", "return"}, caught: "TestFeed_KeepsEarlyEvents"},
	{name: "a feed goes on after an error", edits: []string{"f.over = f.over || ev.Err != nil\n", "\n"}, caught: "TestFeed_EndsWithError"},
	{name: "early events follow an error", edits: []string{"if f.over {\n\t\t\tbreak", "if false {\n\t\t\tbreak"}, caught: "TestFeed_EndsWithError"},
	{name: "a stopped feed delivers", edits: []string{"f.mu.Lock()\n\t\tf.over = true\n\t\tf.mu.Unlock()\n\t\tjsapi.Soon", "jsapi.Soon"}, caught: "TestFeed_EndsWithError"},
	{name: "the consumer of a feed has no name", edits: []string{"s.consumer = name", "s.consumer = \"\""}, caught: "TestFeed_PutsAndDeletes"},
	{name: "others join a watch feed whose connection was lost", edits: []string{"s.bucket.hub.distrust(s)\n\t\ts.tell", "s.tell"}, caught: "TestWatchFeed_NotSharedAfterReconnection"},
	{name: "a watch feed outlives its connection", edits: []string{"if watches {", "if false && watches {"}, caught: "TestWatchFeed_Reconnection"},
	{name: "a republish feed ends with the connection", edits: []string{"if watches {", "if true || watches {"}, caught: "TestFeed_Reconnection"},

	// bucket_feed_source.go
	{name: "an opener that gave up counts as denied", edits: []string{"s.abandoned = ctx.Err() != nil", "s.abandoned = false"}, caught: "TestFeedSource_OpenedByAnother"},
	{name: "the successor is told twice", edits: []string{"if f == first {\n\t\t\tcontinue", "if false {\n\t\t\tcontinue"}, caught: "TestFeedSource_HeadStart"},
	{name: "no message skips feeds", edits: []string{"if outdated() {\n\t\t\t\treturn\n", "if false {\n\t\t\t\treturn\n"}, caught: "TestFeedSource_SkipsStaleMessage"},
	{name: "a head start for nobody", edits: []string{"if follows && s.goesAhead(outdated)", "if s.goesAhead(outdated)"}, caught: "TestFeedSource_HeadStart"},
	{name: "no head start", edits: []string{"follows = follows && len(s.feeds) > crowd", "follows = false"}, caught: "TestFeedSource_HeadStart"},
	{name: "a head start in a small crowd", edits: []string{"follows = follows && len(s.feeds) > crowd", ""}, caught: "TestFeedSource_HeadStart"},
	{name: "the head start ends at once", edits: []string{"for range 10 {", "for range 1 {"}, caught: "TestFeedSource_HeadStart"},
	{name: "a head start is not cut short", edits: []string{"if outdated() {\n\t\t\treturn true", "if false {\n\t\t\treturn true"}, caught: "TestFeedSource_HeadStart"},
	{name: "the successor's session is not looked for", edits: []string{"(who.session == next || who.id == next)", "who.id == next"}, caught: "TestFeedSource_HeadStart"},
	{name: "the successor's ID is not looked for", edits: []string{"(who.session == next || who.id == next)", "who.session == next"}, caught: "TestFeedSource_HeadStart"},
	{name: "the first in line has no head start", edits: []string{"cmp.Or(seen.rec.to, seen.rec.next.first())", "seen.rec.to"}, caught: "TestFeedSource_HeadStart"},
	{name: "the first in line goes before the named successor", edits: []string{"cmp.Or(seen.rec.to, seen.rec.next.first())", "cmp.Or(seen.rec.next.first(), seen.rec.to)"}, caught: "TestFeedSource_HeadStart"},
	{name: "a feed believes a consumer's message", edits: []string{"if m.Subject != subject {\n\t\t\treturn", "if false {\n\t\t\treturn"}, caught: "TestFeed_ConsumerCannotForge"},
	{name: "a feed reports no reconnection", edits: []string{"s.tell(backend.FeedEvent{Reconnected: true})\n", "\n"}, caught: "TestFeed_Reconnection"},
	{name: "a source keeps its subscription", edits: []string{"s.Close()\n\ts.mu.Lock()\n\tname", "s.mu.Lock()\n\tname"}, caught: "TestFeed_StopEndsGoroutines"},
	{name: "a source keeps its consumer", edits: []string{"s.bucket.api.DeleteConsumer(name)\n", "_ = name\n"}, caught: "TestFeed_PutsAndDeletes"},
	{name: "distrust of an old source is for the new one", edits: []string{"defer h.mu.Unlock()\n\tif h.trusted[s.key] == s {", "defer h.mu.Unlock()\n\tif true {"}, caught: "TestFeedSource_IsShared"},
	{name: "the source that replaces a deaf one is not shared after that one ends", edits: []string{"delete(h.sources, s)\n\t\tif h.trusted[s.key] == s {", "delete(h.sources, s)\n\t\tif true {"}, caught: "TestFeedSource_IsShared"},
	{name: "others join a closed source", edits: []string{"delete(h.sources, s)\n\t\tif h.trusted[s.key] == s {", "delete(h.sources, s)\n\t\tif false {"}, caught: "TestCrowd_LeavesNothing"},
	{name: "a feed does not leave its source", edits: []string{"delete(s.feeds, f)\n\tempty", "empty"}, caught: "TestFeed_PutsAndDeletes"},
	{name: "a source closes with the last but one", edits: []string{"empty := len(s.feeds) == 0", "empty := len(s.feeds) <= 1"}, caught: "TestFeedSource_IsShared"},
	{name: "a hub keeps closed sources", edits: []string{"delete(h.sources, s)\n", "\n"}, caught: "TestFeed_PutsAndDeletes"},
	{name: "a hub keeps listening to the connection", edits: []string{"status, ended = h.status, h.ended", ""}, caught: "TestFeed_PutsAndDeletes"},
	{name: "a hub stops listening with any source", edits: []string{"if len(h.sources) == 0 {\n\t\t\tstatus, ended", "if true {\n\t\t\tstatus, ended"}, caught: "TestFeedSource_IsShared"},
	{name: "candidates ask at the same time after a reconnection", edits: []string{"b.api.Reconnected(n) // before the candidates hear of it, and ask\n", "_ = n\n"}, caught: "TestReconnection_SharesRequests"},
	{name: "a hub misses the end that a full channel dropped", edits: []string{"closed := s == nats.CLOSED || b.api.Conn.IsClosed()", "closed := s == nats.CLOSED"}, caught: "TestHub_MissesNoClose"},
	{name: "a closed connection counts as back", edits: []string{"closed := s == nats.CLOSED || b.api.Conn.IsClosed()", "closed := s == nats.CLOSED && false"}, caught: "TestFeed_Reconnection"},

	// bucket_roster.go
	{name: "an announcement keeps its slot", edits: []string{"defer done()\n\t\treply(b.roster.announce", "_ = done\n\t\treply(b.roster.announce"}, caught: "TestRosterView_Announcements"},
	{name: "an announcement for what is no key", edits: []string{"if err := checkKey(election); err != nil {\n\t\treturn 0, err\n\t}\n\tif !validSession", "if !validSession"}, caught: "TestRoster_NoneAnnounced"},
	{name: "an announcement of what is no session", edits: []string{"if !validSession(session) {\n\t\treturn 0", "if false {\n\t\treturn 0"}, caught: "TestRoster_NoneAnnounced"},
	{name: "a withdrawal stays as long as an announcement", edits: []string{"life = rosterMarkerTTL\n", "\n"}, caught: "TestRosterView_Announcements"},
	{name: "an announcement lapses up to a second early", edits: []string{"max(wholeSeconds(life), time.Second)", "max(life.Truncate(time.Second), time.Second)"}, caught: "TestRosterView_Announcements"},
	{name: "an announcement of less than a second stays for good", edits: []string{"max(wholeSeconds(life), time.Second)/time.Second", "life/time.Second"}, caught: "TestRosterView_Announcements"},
	{name: "a roster without TTLs is another fault", edits: []string{"case refused && int(api.ErrorCode) == jsapi.CodeMessageTTLDisabled:", "case refused && false:"}, caught: "TestRoster_NoneAnnounced"},
	{name: "an announcement without a roster is out of reach", edits: []string{"case errors.Is(err, nats.ErrNoResponders):\n\t\t// There", "case false:\n\t\t// There"}, caught: "TestRoster_NoneAnnounced"},
	{name: "a missing roster is a missing bucket", edits: []string{"return fmt.Errorf(\"%w: there is no stream %s\", ErrNoRoster", "return fmt.Errorf(\"%w: there is no stream %s\", ErrNoBucket"}, caught: "TestRoster_NoneAnnounced"},
	{name: "a view keeps its slot", edits: []string{"defer done()\n\t\tv := &rosterView", "_ = done\n\t\tv := &rosterView"}, caught: "TestRosterView_Announcements"},
	{name: "a view that cannot be opened stays", edits: []string{"v.Stop()\n\t\t\t}\n\t\t\treturn empty, err", "}\n\t\t\treturn empty, err"}, caught: "TestRoster_NoneAnnounced"},
	{name: "the view of an empty roster is never complete", edits: []string{"if empty {\n\t\t\tv.completed()", "if empty && false {\n\t\t\tv.completed()"}, caught: "TestRosterView_Announcements"},
	{name: "a view begins before its owner has it", edits: []string{"reply(v, nil)\n\t\tif empty {\n\t\t\tv.completed()\n\t\t}\n\t\tv.begin()", "v.begin()\n\t\tif empty {\n\t\t\tv.completed()\n\t\t}\n\t\treply(v, nil)"}, caught: "TestRosterView_Announcements"},
	{name: "the consumer of a view has no name", edits: []string{"func(name string) { v.consumer = name }", "func(string) {}"}, caught: "TestRosterView_Announcements"},
	{name: "heartbeats are no sign of a view's consumer", edits: []string{"v.heard.Store(true)\n\tswitch", "switch"}, caught: "TestRosterView_Announcements"},
	{name: "a view misses what was lost", edits: []string{"case !v.follows(meta.Sequence.Consumer - 1):", "case false:"}, caught: "TestRosterView_MissedDelivery"},
	{name: "a view takes keys of other elections", edits: []string{"ok && validSession(session)", "ok && session != \"\""}, caught: "TestRosterView_Announcements"},
	{name: "an empty entry is a withdrawal", edits: []string{"append([]byte{}, e.Value...)", "append([]byte(nil), e.Value...)"}, caught: "TestRosterView_Announcements"},
	{name: "a withdrawal is an entry", edits: []string{"if !e.Marker {", "if true {"}, caught: "TestRosterView_Announcements"},
	{name: "a view is not complete after its last entry", edits: []string{"if meta.NumPending == 0 {\n\t\tv.completed()", "if false {\n\t\tv.completed()"}, caught: "TestRosterView_Announcements"},
	{name: "a view whose entries lapsed is not complete", edits: []string{"v.completed() // the last", "// the last"}, caught: "TestRosterView_MissedDelivery"},
	{name: "a view trusts a heartbeat with another number", edits: []string{"if err == nil && v.follows(last) {", "if err == nil && last > 0 {"}, caught: "TestRosterView_MissedDelivery"},
	{name: "a view that has ended delivers", edits: []string{"if v.over || a.Complete && v.complete {", "if a.Complete && v.complete {"}, caught: "TestRosterView_Ends"},
	{name: "a view is complete again and again", edits: []string{"if v.over || a.Complete && v.complete {", "if v.over {"}, caught: "TestRosterView_Announcements"},
	{name: "a view does not end with its error", edits: []string{"v.over, v.complete = a.Err != nil,", "v.over, v.complete = false,"}, caught: "TestRosterView_Ends"},
	{name: "a view ends after one heartbeat", edits: []string{"context.Background(), 3*viewHeartbeat", "context.Background(), viewHeartbeat/2"}, caught: "TestRosterView_Announcements"},
	{name: "a view outlives a lost connection", edits: []string{"case ok:\n\t\t\terr = fmt", "case false:\n\t\t\terr = fmt"}, caught: "TestRosterView_Ends"},
	{name: "the end of the connection is an outage of the view", edits: []string{"case s == nats.CLOSED || v.roster.api.Conn.IsClosed():", "case s == nats.CLOSED && false:"}, caught: "TestRosterView_Ends"},
	{name: "a silent view goes on", edits: []string{"if !v.heard.Swap(false) {", "if !v.heard.Load() {"}, caught: "TestRosterView_Ends"},
	{name: "a stopped view delivers", edits: []string{"v.mu.Lock()\n\t\tv.over = true\n\t\tv.mu.Unlock()\n", ""}, caught: "TestRosterView_Announcements"},
	{name: "a view keeps its subscription", edits: []string{"v.Close()\n", "\n"}, caught: "TestRosterView_Announcements"},
	{name: "a view keeps its consumer", edits: []string{"v.roster.api.DeleteConsumer(v.consumer)\n", "\n"}, caught: "TestRosterView_Announcements"},
	{name: "a view keeps listening to the connection", edits: []string{"if v.status != nil {", "if false {"}, caught: "TestRosterView_Announcements"},

	// bucket_stepdown.go
	{name: "a listener keeps its slot", edits: []string{"defer done()\n\t\tlimited", "_ = done\n\t\tlimited"}, caught: "TestListen_WaitsInLine"},
	{name: "a listener does not close", edits: []string{"jsapi.Soon(s.Close)\n", "jsapi.Soon(func() { _ = s })\n"}, caught: "TestListen_WaitsInLine"},

	// bucket_store.go
	{name: "a write of what is no key", edits: []string{"if err := checkKey(key); err != nil {\n\t\treply(0, err)\n\t\treturn\n\t}", ""}, caught: "TestUpdate_NamesRevision"},
	{name: "a read through the stream's leader forgets nothing", edits: []string{"b.judgeRead(false, err)\n", "\n"}, caught: "TestGet_ForgetsSettings"},
	{name: "a direct get forgets nothing", edits: []string{"b.judgeRead(true, err)\n", "\n"}, caught: "TestGet_ForgetsSettings"},
	{name: "unanswered direct gets count without an end", edits: []string{"case err == nil:\n\t\tb.unanswered.Store(0)\n", "case err == nil:\n"}, caught: "TestGet_ForgetsSettings"},
	{name: "one direct get too many", edits: []string{"b.unanswered.Add(1) < mostUnanswered", "b.unanswered.Add(1) <= mostUnanswered"}, caught: "TestGet_ForgetsSettings"},
	{name: "a stored status is an answer", edits: []string{"if e, ok := jsapi.StoredEntry(resp, b.api.Name, b.pre+key); ok {", "if e, ok := jsapi.StoredEntry(resp, b.api.Name, b.pre+key); ok && resp.Header.Get(\"Status\") == \"\" {"}, caught: "TestForgedHeaders_AreNotRead"},

	// bucket_ensure.go
	{name: "the creation of a bucket keeps its slot", edits: []string{"defer done()\n\tif b.api.Seen.Load() {", "_ = done\n\tif b.api.Seen.Load() {"}, caught: "TestEnsure_DeniedTriesSlowDown"},

	// bucket_establish.go
	{name: "a roster that was there goes with a refused bucket", edits: []string{"err == nil || !created ||", "err == nil ||"}, caught: "TestCreateBucket_RosterTaken"},

	// observe.go
	{name: "an observer reports each renewal again", edits: []string{"out = nil\n\t\t\t}\n\t\t}\n\t}()\n\treturn holders, nil", "}\n\t\t}\n\t}()\n\treturn holders, nil"}, caught: "ExampleObserve"},

	// names.go and seats.go
	{name: "seat 01 is a seat", edits: []string{"err == nil && SeatKey(key[:i], n) == key {", "err == nil {"}, caught: "TestSeatKey_NamesKeysOfSeats"},
	{name: "a waiting seat is not remembered", edits: []string{"b.waiting[seat-1] = box\n", "\n"}, caught: "TestSeatPermit_WakesWaiter"},
	{name: "a returned permit wakes nobody", edits: []string{"b.taker, b.value = 0, value\n\tb.wake()", "b.taker, b.value = 0, value\n\tb.mu.Unlock()"}, caught: "TestSeatPermit_WakesWaiter"},
	{name: "a returned permit loses its value", edits: []string{"b.taker, b.value = 0, value", "b.taker = 0"}, caught: "TestSeatPermit_WakesWaiter"},
	{name: "the first read wakes no seat", edits: []string{"b.unread = false\n\tb.wake()", "b.unread = false\n\tb.mu.Unlock()"}, caught: "TestSeatPermit_FirstSeatFirst"},
	{name: "a seat is taken before the first is read", edits: []string{" || b.unread && seat > 1 {", " {"}, caught: "TestSeatPermit_FirstSeatFirst"},
	{name: "the loss of a feed is reported once for good", edits: []string{"k == kind || k == inFeedLost && kind == inFeed", "k == kind"}, caught: "TestFaultFilter_FeedIsBack"},
}}

// feedStackPlumbing are those that the tests on a whole stack catch.
var feedStackPlumbing = plumbing{of: "leader", by: "leader_test", mutants: []mutant{
	{name: "a bucket with several messages of a key is taken", edits: []string{"i.strange && s.Msgs > s.NumSubjects", "false"}, caught: "TestCreateBucket_RefusesForeignBucket"},
	{name: "MaxLease is lowered without a look", edits: []string{"lowers := i.was == 0 || i.maxLease < i.was", "lowers := i.was == 0"}, caught: "TestCreateBucket_LowersNoMaxLease"},
	{name: "the end of a look is not reported to its caller", edits: []string{"if err != nil || meta.NumPending == 0 {", "if err != nil {"}, caught: "TestCreateBucket_RefusesForeignBucket"},
	{name: "a look ends at its first message", edits: []string{"if err != nil || meta.NumPending == 0 {", "if true {"}, caught: "TestCreateBucket_RefusesForeignBucket"},
	{name: "a leader reports an unfit bucket again and again", edits: []string{"n.event == noteFaulted && isMisfit(n.err)", "false && isMisfit(n.err)"}, caught: "TestLeader_ReportsUnfitBucketOnce"},
}}
