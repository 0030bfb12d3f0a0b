package mutation_test

var webpagePlumbing = plumbing{of: "internal/webpage", by: "internal/webpage", mutants: []mutant{
	{
		name:   "a stream that keeps what it held",
		edits:  []string{"\tdefer to.close()\n\tctx, stop", "\tctx, stop"},
		caught: "TestStreams_LeaveNothing",
	},
	{
		name:   "a record that keeps what it held",
		edits:  []string{"\tdefer to.close()\n\th := w.Header()", "\th := w.Header()"},
		caught: "TestStreams_LeaveNothing",
	},
	{
		name:   "a stream that outlives the program",
		edits:  []string{"\tdefer context.AfterFunc(p.ctx, stop)()\n", ""},
		caught: "TestStreams_LeaveNothing",
	},
	{
		name:   "a stream that waits for the end of the program after its own",
		edits:  []string{"\tdefer context.AfterFunc(p.ctx, stop)()\n", "\tcontext.AfterFunc(p.ctx, stop)\n"},
		caught: "TestStreams_LeaveNothing",
	},
	{
		name:   "an endless feed that outlives the program",
		edits:  []string{"\t\tif !more || ctx.Err() != nil {", "\t\tif !more {"},
		caught: "TestStreams_LeaveNothing",
	},
	{
		name:   "a stream to a client that has gone",
		edits:  []string{"\t\tif to.Flush() != nil { // also when a write has failed\n\t\t\treturn\n\t\t}\n", "\t\t_ = to.Flush()\n"},
		caught: "TestStreams_LeaveNothing",
	},
	{
		name:   "no pulse",
		edits:  []string{"\t\t\t\tcase <-time.After(Pulse):\n", ""},
		caught: "TestStreams_Pulse",
	},
	{
		name:   "a page that hears only the pulse",
		edits:  []string{"\t\t\t\tcase <-news:\n\t\t\t\tcase <-time", "\t\t\t\tcase <-time"},
		caught: "TestStreams_Pulse",
	},
	{
		name:   "a page that waits for the pulse at its end",
		edits:  []string{"\t\t\t\tcase <-ctx.Done():\n\t\t\t\t\treturn nil, false\n\t\t\t\t}\n\t\t\t}\n\t\t\tvar", "\t\t\t\t}\n\t\t\t}\n\t\t\tvar"},
		caught: "TestStreams_LeaveNothing",
	},
	{
		name:   "a record without its size",
		edits:  []string{"perPage+len(e.record)", "perPage"},
		caught: "TestPages_RecordInParts",
	},
	{
		name:   "the end of a record in base64 not written",
		edits:  []string{"\t\t_ = encoder.Close()\n", ""},
		caught: "TestPages_RecordInParts",
	},
	{
		name:   "a long record without a sign that it is cut",
		edits:  []string{"\tif len(shown) < len(e.record) {\n", "\tif len(shown) > len(e.record) {\n"},
		caught: "TestPages_RecordInParts",
	},
	{
		name:   "an action without the secret",
		edits:  []string{"printed when it was started last\")\n\t\t\treturn\n", "printed when it was started last\")\n"},
		caught: "TestAct_Refuses",
	},
	{
		name:   "an action on half a request",
		edits:  []string{"\t\t\tfail(http.StatusBadRequest, err.Error())\n\t\t\treturn\n", "\t\t\tfail(http.StatusBadRequest, err.Error())\n"},
		caught: "TestAct_Refuses",
	},
	{
		name:   "a request without a bound",
		edits:  []string{"http.MaxBytesReader(w, r.Body, 4<<10)", "r.Body"},
		caught: "TestAct_Refuses",
	},
	{
		name:   "a bound of a request that is one too small",
		edits:  []string{"r.Body, 4<<10)", "r.Body, 4<<10-1)"},
		caught: "TestAct_Refuses",
	},
	{
		name:   "a failure with a status of its own as a conflict",
		edits:  []string{"\t\t\tfail(known.Status, known.Text)", "\t\t\tfail(http.StatusConflict, known.Text)"},
		caught: "TestAct_Refuses",
	},
	{
		name:   "the status of an answer before its type",
		edits:  []string{"\tw.Header().Set(\"Content-Type\", \"application/json\")\n\tw.WriteHeader(status)\n", "\tw.WriteHeader(status)\n\tw.Header().Set(\"Content-Type\", \"application/json\")\n"},
		caught: "TestAct_Refuses",
	},
	{
		name:   "a host that is not known answered all the same",
		edits:  []string{"p.AllowHost), http.StatusForbidden)\n\t\treturn\n", "p.AllowHost), http.StatusForbidden)\n"},
		caught: "TestAct_Refuses",
	},
	{
		name:   "a page of another origin answered all the same",
		edits:  []string{"may not ask for this\", http.StatusForbidden)\n\t\treturn\n", "may not ask for this\", http.StatusForbidden)\n"},
		caught: "TestAct_Refuses",
	},
	{
		name:   "one page more than there is room for",
		edits:  []string{"for m.held+holds > mostHeld {", "for m.held > mostHeld {"},
		caught: "TestMemory_EndsSlowest",
	},
	{
		name:   "no room for the last page",
		edits:  []string{"for m.held+holds > mostHeld {", "for m.held+holds >= mostHeld {"},
		caught: "TestMemory_EndsSlowest",
	},
	{
		name:   "the newest write taken for the slowest",
		edits:  []string{"p.writes.Before(slowest.writes)", "p.writes.After(slowest.writes)"},
		caught: "TestMemory_EndsSlowest",
	},
	{
		name:   "a page that is not slow ended",
		edits:  []string{"time.Since(slowest.writes) < slowWrite", "time.Since(slowest.writes) < slowWrite-1"},
		caught: "TestMemory_EndsSlowest",
	},
	{
		name:   "a page that is slow kept",
		edits:  []string{"time.Since(slowest.writes) < slowWrite", "time.Since(slowest.writes) <= slowWrite"},
		caught: "TestMemory_EndsSlowest",
	},
	{
		name:   "a page that was ended writes on",
		edits:  []string{"\tslowest.ended = true\n", ""},
		caught: "TestMemory_EndsSlowest",
	},
	{
		name:   "a write that waits on after its page was ended",
		edits:  []string{"\t_ = http.NewResponseController(slowest.w).SetWriteDeadline(time.Now()) // its write returns\n", ""},
		caught: "TestMemory_EndsSlowest",
	},
	{
		name:   "what a page held given back twice",
		edits:  []string{"\tif m.pages[p] {\n\t\tdelete(m.pages, p)\n\t\tm.held -= p.holds\n\t}\n", "\tdelete(m.pages, p)\n\tm.held -= p.holds\n"},
		caught: "TestMemory_EndsSlowest",
	},
	{
		name:   "a page that has written counts as slow",
		edits:  []string{"\tp.writes = time.Time{}\n", ""},
		caught: "TestMemory_EndsSlowest",
	},
	{
		name:   "a write without a limit",
		edits:  []string{"SetWriteDeadline(p.writes.Add(mostWrite))", "SetWriteDeadline(time.Time{})"},
		caught: "TestPages_ThousandReadNothing",
	},
	{
		name:   "all parts of a record within the limit of one",
		edits:  []string{"range slices.Chunk(data, mostPart)", "range slices.Chunk(data, len(data)+1)"},
		caught: "TestPages_RecordInParts",
	},
	{
		name:   "a roster that is observed without a page",
		edits:  []string{"\tdefer p.closeRoster(election, its)\n", ""},
		caught: "TestStreams_LeaveNothing",
	},
	{
		name:   "an observer that goes on after the last page",
		edits:  []string{"\t\tits.stop()\n", ""},
		caught: "TestRoster_Shared",
	},
	{
		name:   "an observer that ends with the first page",
		edits:  []string{"if its.pages--; its.pages == 0 {", "if its.pages--; its.pages >= 0 {"},
		caught: "TestRoster_Shared",
	},
	{
		name:   "a roster without an observer for the next page",
		edits:  []string{"\t\tits.stop()\n\t\tp.forgetRoster(election, its)\n", "\t\tits.stop()\n"},
		caught: "TestRoster_Shared",
	},
	{
		name:   "an ended roster for the next page",
		edits:  []string{"\tclose(its.news)\n\tp.forgetRoster(election, its)\n", "\tclose(its.news)\n"},
		caught: "TestRoster_LatePageOfEndedRoster",
	},
	{
		name:   "the roster of another page forgotten",
		edits:  []string{"\tif p.rosters.all[election] == its {\n", "\t{\n"},
		caught: "TestRoster_LatePageOfEndedRoster",
	},
	{
		name:   "one roster too many",
		edits:  []string{"if len(p.rosters.all) >= mostRosters {", "if len(p.rosters.all) > mostRosters {"},
		caught: "TestRoster_Errors",
	},
	{
		name:   "a page that shares a roster refused",
		edits:  []string{"\tits := p.rosters.all[election]\n\tif its == nil {\n\t\tif len(p.rosters.all) >= mostRosters {\n\t\t\treturn nil\n\t\t}\n", "\tits := p.rosters.all[election]\n\tif len(p.rosters.all) >= mostRosters {\n\t\treturn nil\n\t}\n\tif its == nil {\n"},
		caught: "TestRoster_Errors",
	},
	{
		name:   "a page of a roster whose client has gone",
		edits:  []string{"\t\t\t\tcase <-news:\n\t\t\t\tcase <-ctx.Done():\n\t\t\t\t\treturn nil, false\n\t\t\t\t}\n\t\t\t}\n", "\t\t\t\tcase <-news:\n\t\t\t\t}\n\t\t\t}\n"},
		caught: "TestRoster_Shared",
	},
	{
		name:   "a bucket without a roster asked again and again",
		edits:  []string{"Error: err.Error()})\n\t\t<-ctx.Done()\n", "Error: err.Error()})\n"},
		caught: "TestRoster_Errors",
	},
	{
		name:   "a message that is sent twice",
		edits:  []string{"\t\t\t\t\tseen = told\n", "\t\t\t\t\tseen++\n"},
		caught: "TestRoster_Shared",
	},
	{
		name:   "the end of a roster that no page hears of",
		edits:  []string{"\tits.over = true\n\tclose(its.news)\n", "\tits.over = true\n"},
		caught: "TestRoster_Shared",
	},
	{
		name:   "trouble that no page hears of",
		edits:  []string{"\ts.err = cut(text, mostValue)\n\ts.signal()\n", "\ts.err = cut(text, mostValue)\n"},
		caught: "TestStreams_Pulse",
	},
	{
		name:   "the end of trouble that no page hears of",
		edits:  []string{"\tif s.now == nil || s.err != \"\" {\n", "\tif s.now == nil {\n"},
		caught: "TestState_OnlyChanges",
	},
	{
		name:   "a page that hears of what has not changed",
		edits:  []string{"\tcase s.elections[i].row == row && len(changes) == 0:\n\t\treturn\n", ""},
		caught: "TestState_OnlyChanges",
	},
	{
		name:   "changes of a row that has not changed dropped",
		edits:  []string{"s.elections[i].row == row && len(changes) == 0", "s.elections[i].row == row"},
		caught: "TestState_OnlyChanges",
	},
	{
		name:   "one change too many kept",
		edits:  []string{"s.changes[max(0, len(s.changes)+1-mostUnread):]", "s.changes[max(0, len(s.changes)-mostUnread):]"},
		caught: "TestState_SlowReader",
	},
	{
		name:   "a gap in the time line that is not shown",
		edits:  []string{"\tm.Dropped = p.changed < kept\n", ""},
		caught: "TestState_SlowReader",
	},
	{
		name:   "all changes for a new page",
		edits:  []string{"&reader{changed: s.changed}", "&reader{}"},
		caught: "TestState_OnlyChanges",
	},
	{
		name:   "a page that is left behind by changes of its own look",
		edits:  []string{"\tif p.next == 0 {\n\t\tp.then = s.shown\n\t}\n", "\tp.then = s.shown\n"},
		caught: "TestState_NoElectionWaits",
	},
	{
		name:   "a message without a bound",
		edits:  []string{"p.next < len(s.elections) && size < mostMessage; p.next++", "p.next < len(s.elections); p.next++"},
		caught: "TestState_SlowReader",
	},
	{
		name:   "a page that waits although there is more",
		edits:  []string{"p.changed < s.changed || p.shown < s.shown", "p.changed < s.changed"},
		caught: "TestState_NoElectionWaits",
	},
	{
		name:   "a broken character at the end of a text",
		edits:  []string{"strings.ToValidUTF8(s[:most], \"\")", "s[:most]"},
		caught: "TestState_CutsTexts",
	},
}}

var healthPlumbing = plumbing{of: "health", by: "health", mutants: []mutant{
	{
		name:   "the status sent before the type of the content",
		edits:  []string{"		h.Set(\"Content-Type\", \"application/json\")\n", "", "		w.WriteHeader(status)\n", "		w.WriteHeader(status)\n		h.Set(\"Content-Type\", \"application/json\")\n"},
		caught: "TestLeader_200UntilLeaseEnds",
	},
	{
		name:   "a refusal that may be cached",
		edits:  []string{"		h.Set(\"Cache-Control\", \"no-store\")\n", "", "		h.Set(\"Content-Type\", \"application/json\")\n", "		h.Set(\"Content-Type\", \"application/json\")\n		h.Set(\"Cache-Control\", \"no-store\")\n"},
		caught: "TestHandlers_OnlyGETAndHEAD",
	},
	{
		name:   "the methods named after the refusal",
		edits:  []string{"			h.Set(\"Allow\", \"GET, HEAD\")\n			http.Error(w, \"only GET and HEAD are served here\", http.StatusMethodNotAllowed)\n", "			http.Error(w, \"only GET and HEAD are served here\", http.StatusMethodNotAllowed)\n			h.Set(\"Allow\", \"GET, HEAD\")\n"},
		caught: "TestHandlers_OnlyGETAndHEAD",
	},
	{
		name:   "an answer to a refused method, too",
		edits:  []string{"http.StatusMethodNotAllowed)\n			return\n", "http.StatusMethodNotAllowed)\n"},
		caught: "TestHandlers_OnlyGETAndHEAD",
	},
	{
		name:   "HEAD refused",
		edits:  []string{"r.Method != http.MethodGet && r.Method != http.MethodHead", "r.Method != http.MethodGet"},
		caught: "TestHEAD_HasNoBody",
	},
	{
		name:   "a ping without the limit",
		edits:  []string{"err := c.Ping(limited)", "err := c.Ping(ctx)", "	limited, cancel", "	_, cancel"},
		caught: "TestLive_503WhenStuck",
	},
	{
		name:   "a ping for a client that has left",
		edits:  []string{"deadline.Within(ctx, liveLimit)", "deadline.Within(context.WithoutCancel(ctx), liveLimit)"},
		caught: "TestLive_503WhenStuck",
	},
	{
		name:   "a stop taken for a failure",
		edits:  []string{"		return c.Err()\n", "		return err\n"},
		caught: "TestLive_AfterTheEnd",
	},
	{
		name:   "a failure taken for a stop",
		edits:  []string{"		return c.Err()\n", "		return nil\n"},
		caught: "TestLive_AfterTheEnd",
	},
	{
		name:   "a failure without its reason",
		edits:  []string{"			err = c.Err()\n		}\n		if err != nil {\n", "			err = c.Err()\n		}\n		if err != nil && s.State != leader.StateEnded {\n"},
		caught: "TestConnected_503AfterTheEnd",
	},
	{
		name:   "a stop reported as an error",
		edits:  []string{"			err = c.Err()\n		}\n", "			err = cmp.Or(c.Err(), err)\n		}\n", "import (\n", "import (\n	\"cmp\"\n"},
		caught: "TestConnected_503AfterTheEnd",
	},
	{
		name:   "another leader of the same ID not named",
		edits:  []string{"if ok && (h.ID != r.ID || ", "if ok && h.ID != r.ID && (true || "},
		caught: "TestLeader_NamesOtherOfSameID",
	},
	{
		name:   "a holder that does not lead named as the leader",
		edits:  []string{"if ok && (h.ID != r.ID || ", "if (ok || h.Pending) && (h.ID != r.ID || "},
		caught: "TestLeader_NamesNoPendingHolder",
	},
	{
		name:   "a value that is not UTF-8 as a text",
		edits:  []string{"if utf8.Valid(h.Value) {", "if len(h.Value) > 0 {"},
		caught: "TestLeader_NamesOtherLeader",
	},
}}

var metricsPlumbing = plumbing{of: "metrics", by: "metrics", mutants: []mutant{
	{
		name:   "a candidate that runs replaced",
		edits:  []string{"		case <-old.Done():\n		default:\n			return", "		default:\n		case <-old.Done():\n			return"},
		caught: "TestCollector_DistinctElections",
	},
	{
		name:   "Remove of another candidate of the election",
		edits:  []string{"k := keyOf(candidate); c.candidates[k] == candidate {", "k := keyOf(candidate); c.candidates[k] != nil {"},
		caught: "TestCollector_DistinctElections",
	},
	{
		name:   "a candidate that is never removed",
		edits:  []string{"		delete(c.candidates, k)\n", ""},
		caught: "TestCollector_DistinctElections",
	},
	{
		name:   "a queue without candidates",
		edits:  []string{"	if len(candidates) > 0 {\n", "	{\n"},
		caught: "TestCollector_DistinctElections",
	},
	{
		name:   "the last queue in place of the longest",
		edits:  []string{"max(q.requests, s.Queued), max(q.age, s.QueueAge)", "s.Queued, s.QueueAge"},
		caught: "TestQueue_IsTheLongest",
	},
	{
		name:   "the age of the queue in nanoseconds",
		edits:  []string{"q.age.Seconds()", "float64(q.age)"},
		caught: "TestQueue_IsTheLongest",
	},
	{
		name:   "the lock kept while a scrape is sent",
		edits:  []string{"	c.mu.Unlock()\n	buckets,", "	defer c.mu.Unlock()\n	buckets,"},
		caught: "TestCollect_HoldsNoLock",
	},
	{
		name:   "the age of a renewal after the key was lost",
		edits:  []string{"	if s.SinceRenewal > 0 || s.State != leader.StateCandidate && s.State != leader.StateEnded {\n", "	{\n"},
		caught: "TestWaiter_HasNoRenewal",
	},
	{
		name:   "the age of a renewal ends with the term",
		edits:  []string{"s.SinceRenewal > 0 || s.State", "s.State"},
		caught: "TestRenewalAge_UntilReleased",
	},
	{
		name:   "a lease that is not known as 0",
		edits:  []string{"	if s.LeaseDuration > 0 {\n", "	{\n"},
		caught: "TestSeries_AsManyAsDocumented",
	},
	{
		name:   "transitions that were never seen",
		edits:  []string{"	if n > 0 {\n", "	{\n"},
		caught: "TestSeries_AsManyAsDocumented",
	},
	{
		name:   "half of a character at the end of a label",
		edits:  []string{"strings.ToValidUTF8(id[:maxID-len(\"…\")], \"\")", "id[:maxID-len(\"…\")]"},
		caught: "TestLeaderIDs_OnlyOnRequest",
	},
	{
		name:   "IDs that were not asked for",
		edits:  []string{"		if ids {\n", "		{\n"},
		caught: "TestLeaderIDs_OnlyOnRequest",
	},
	{
		name:   "the seat counted from 0",
		edits:  []string{"strconv.Itoa(h.Seat)", "strconv.Itoa(h.Seat-1)"},
		caught: "TestSeats_LeadersThatAreKnown",
	},
	{
		name:   "the slowest renewals not counted",
		edits:  []string{"	count += h.counts[n]\n", ""},
		caught: "TestRenewalDuration_LastBucket",
	},
	{
		name:   "buckets that do not include those before",
		edits:  []string{"		count += h.counts[i]\n", "		count = h.counts[i]\n"},
		caught: "TestRenewalDuration_LastBucket",
	},
}}

// leaderByMetrics are mutants of package leader that only a scrape shows.
var leaderByMetrics = plumbing{of: "leader", by: "metrics", mutants: []mutant{
	{
		name:   "a leader that is known after the end",
		edits:  []string{"	case <-c.Done():\n		over = true\n", "	case <-c.Done():\n"},
		caught: "TestLeaders_EndWithTheCandidate",
	},
}}

var watchingPlumbing = plumbing{of: "cmd/natsleader", by: "cmd/natsleader", mutants: []mutant{
	{
		name:   "an election that is gone shown for ever",
		edits:  []string{"\t\tdelete(e.shows, key)\n\t\tdelete(e.left, key)\n\t\treturn\n", "\t\tdelete(e.left, key)\n\t\treturn\n"},
		caught: "TestExporter_IsBounded",
	},
	{
		name:   "a key that is gone counted for ever",
		edits:  []string{"\t\tdelete(e.shows, key)\n\t\tdelete(e.left, key)\n\t\treturn\n", "\t\tdelete(e.shows, key)\n\t\treturn\n"},
		caught: "TestExporter_IsBounded",
	},
	{
		name:   "a key counted as left out although it is shown",
		edits:  []string{"\tcase x == nil:\n\t\tdelete(e.left, key)\n", "\tcase x == nil:\n"},
		caught: "TestExporter_IsBounded",
	},
	{
		name:   "one election too many",
		edits:  []string{"len(e.shows) >= e.most", "len(e.shows) > e.most"},
		caught: "TestExporter_IsBounded",
	},
	{
		name:   "a name that is no election's in a label",
		edits:  []string{" || checkElection(key) != nil)", ")"},
		caught: "TestExporter_IsBounded",
	},
	{
		name:   "an expired marker shown as an election",
		edits:  []string{"c.state == stateNever || !c.now.gone.IsZero()", "c.state == stateNever"},
		caught: "TestExporter_IsBounded",
	},
	{
		name:   "a renewal counted as a term",
		edits:  []string{"\tif c.state == stateLeading && c.now.holder.Token != x.token {", "\tif c.state == stateLeading {"},
		caught: "TestExporter_IsBounded",
	},
	{
		name:   "elections shown while the bucket is not read",
		edits:  []string{"\tif !e.up {\n\t\treturn\n\t}\n", ""},
		caught: "TestExporter_IsBounded",
	},
	{
		name:   "metrics before all keys are read",
		edits:  []string{"ok && w.complete && w.feed", "ok && w.feed"},
		caught: "TestExporter_Health",
	},
	{
		name:   "metrics without a feed",
		edits:  []string{"w.complete && w.feed != nil && ", "w.complete && "},
		caught: "TestExporter_Health",
	},
	{
		name:   "metrics of a watcher in trouble",
		edits:  []string{" && !w.troubled; e.up", ";e.up"},
		caught: "TestExporter_Health",
	},
	{
		name:   "an error that is told after its end",
		edits:  []string{"\t\te.err = nil\n", ""},
		caught: "TestExporter_Health",
	},
	{
		name:   "trouble while the metrics go on",
		edits:  []string{"\tif e.err = err; err != nil {\n\t\te.up = false\n\t}\n", "\te.err = err\n"},
		caught: "TestExporter_Health",
	},
	{
		name:   "metrics without a connection",
		edits:  []string{"e.beat, e.up = time.Now(), false", "e.beat = time.Now()"},
		caught: "TestExporter_Health",
	},
	{
		name:   "an exporter that is stuck lives",
		edits:  []string{"\tok := time.Since(e.beat) < stuck\n\te.mu.Unlock()", "\tok := time.Since(e.beat) <= stuck\n\te.mu.Unlock()"},
		caught: "TestExporter_Health",
	},
	{
		name:   "an exporter that is stuck is connected",
		edits:  []string{"ok := e.up && time.Since(e.beat) < stuck", "ok := e.up"},
		caught: "TestExporter_Health",
	},
	{
		name:   "the status of a check before its type",
		edits:  []string{"\tw.Header().Set(\"Content-Type\", \"application/json\")\n\tw.Header().Set(\"Cache-Control\", \"no-store\")\n\tif !ok {\n\t\tw.WriteHeader(http.StatusServiceUnavailable)\n\t}\n", "\tif !ok {\n\t\tw.WriteHeader(http.StatusServiceUnavailable)\n\t}\n\tw.Header().Set(\"Content-Type\", \"application/json\")\n\tw.Header().Set(\"Cache-Control\", \"no-store\")\n"},
		caught: "TestExporter_Health",
	},
	{
		name:   "scrapes without a bound",
		edits:  []string{"MaxRequestsInFlight: 4, ", ""},
		caught: "TestMetricsPage_HangingScrapes",
	},
	{
		name:   "a scrape without a limit",
		edits:  []string{", Timeout: 25 * time.Second", ""},
		caught: "TestMetricsPage_HangingScrapes",
	},
	{
		name:   "a header without a limit",
		edits:  []string{"ReadHeaderTimeout: 10 * time.Second, ", ""},
		caught: "TestServeHTTP_SlowClients",
	},
	{
		name:   "a body without a limit",
		edits:  []string{" ReadTimeout: most,", ""},
		caught: "TestServeHTTP_SlowClients",
	},
	{
		name:   "a client that does not read without a limit",
		edits:  []string{", WriteTimeout: most", ""},
		caught: "TestServeHTTP_SlowClients",
	},
	{
		name:   "an idle connection without a limit of its own",
		edits:  []string{"\t\tIdleTimeout: 5 * time.Minute, ", "\t\t"},
		caught: "TestServeHTTP_SlowClients",
	},
	{
		name:   "a header of any size",
		edits:  []string{"MaxHeaderBytes: 64 << 10, ", ""},
		caught: "TestServeHTTP_SlowClients",
	},
	{
		name:   "an operation without a limit",
		edits:  []string{"\tctx, cancel := context.WithTimeout(ctx, s.limit)\n\tdefer cancel()\n\tselect {\n\tcase before", "\tctx, cancel := context.WithTimeout(ctx, time.Hour+0*s.limit)\n\tdefer cancel()\n\tselect {\n\tcase before"},
		caught: "TestInspector_Within",
	},
	{
		name:   "a permission that was missing before",
		edits:  []string{"\tselect {\n\tcase before := <-s.denied:\n\t\t_ = before // not about this operation\n\tdefault:\n\t}\n", ""},
		caught: "TestInspector_Within",
	},
	{
		name:   "an operation that waits although a permission is missing",
		edits:  []string{"\tcase denied := <-s.denied:\n\t\tcancel()\n", "\tcase denied := <-s.denied:\n"},
		caught: "TestInspector_Within",
	},
	{
		name:   "a refusal of something else",
		edits:  []string{"\t\tif err := <-done; err == nil {\n\t\t\treturn nil // the refusal was about something else\n\t\t}\n", "\t\t<-done\n"},
		caught: "TestInspector_Within",
	},
	{
		name:   "a cluster without a leader as an error of the bucket",
		edits:  []string{" || refusedWith(err, codeNoMetaLeader) {", " {"},
		caught: "TestInspector_Within",
	},
	{
		name:   "a watch that is left open",
		edits:  []string{"\t\t_ = w.Stop() // it may have gone with the connection\n\t\tswitch {\n\t\tcase complete", "\t\tswitch {\n\t\tcase complete"},
		caught: "TestInspector_ReadsAllKeys",
	},
	{
		name:   "no more patience with each watch",
		edits:  []string{"silence *= 2", "silence *= 1"},
		caught: "TestInspector_ReadsAllKeys",
	},
	{
		name:   "keys that came twice",
		edits:  []string{"slices.CompactFunc(entries, func(a, b jetstream.KeyValueEntry) bool { return a.Key() == b.Key() })", "entries"},
		caught: "TestInspector_ReadsAllKeys",
	},
	{
		name:   "the oldest entry of a key",
		edits:  []string{"cmp.Compare(b.Revision(), a.Revision())", "cmp.Compare(a.Revision(), b.Revision())"},
		caught: "TestInspector_ReadsAllKeys",
	},
	{
		name:   "keys that did not come in time as none",
		edits:  []string{"\t\tcase ctx.Err() != nil:\n\t\t\treturn nil, fmt.Errorf(\"%w: not all %s came in time: %w\", leader.ErrUnreachable, what, ctx.Err())\n", "\t\tcase ctx.Err() != nil:\n\t\t\treturn entries, nil\n"},
		caught: "TestInspector_ReadsAllKeys",
	},
	{
		name:   "a connection left open where the bucket is missing",
		edits:  []string{"\tif err := s.within(ctx, s.ask); err != nil {\n\t\ts.close()\n", "\tif err := s.within(ctx, s.ask); err != nil {\n"},
		caught: "TestFollow_LeavesNoConnection",
	},
	{
		name:   "a move after a request that was given up",
		edits:  []string{" && !errors.Is(err, context.Canceled):\n\t\ts.mover.Move", ":\n\t\ts.mover.Move"},
		caught: "TestInspector_MovesFromServerThatIsCutOff",
	},
	{
		name:   "a missing bucket that is no sign of a majority",
		edits:  []string{"err == nil || code == exitBucket:", "err == nil:"},
		caught: "TestInspector_MovesFromServerThatIsCutOff",
	},
	{
		name:   "a source that is not closed if it cannot open",
		edits:  []string{"\tdefer from.close()\n\tif err := from.open(ctx); err != nil {\n\t\treturn err\n\t}\n", "\tif err := from.open(ctx); err != nil {\n\t\treturn err\n\t}\n\tdefer from.close()\n"},
		caught: "TestFollow_ClosesOnEveryWayOut",
	},
	{
		name:   "a source that is never closed",
		edits:  []string{"\tdefer from.close()\n", ""},
		caught: "TestFollow_ClosesOnEveryWayOut",
	},
	{
		name:   "a view that is not ended",
		edits:  []string{"\tdefer out.end()\n", ""},
		caught: "TestFollow_ClosesOnEveryWayOut",
	},
	{
		name:   "a view that is drawn a tick after a key",
		edits:  []string{"\t\t\tif err = out.typed(typed); err == nil {\n\t\t\t\terr = out.shown(s.clock.now(), from)\n\t\t\t}\n", "\t\t\terr = out.typed(typed)\n"},
		caught: "TestFollow_ClosesOnEveryWayOut",
	},
	{
		name:   "a source that does not hear of its connection",
		edits:  []string{"\t\t\tfrom.connection(link)\n", "\t\t\t_ = link\n"},
		caught: "TestFollow_ClosesOnEveryWayOut",
	},
	{
		name:   "a view of a tick that failed",
		edits:  []string{"\t\t\tif err = from.ticked(ctx); err == nil {\n\t\t\t\terr = out.shown", "\t\t\tif err = from.ticked(ctx); err == nil || err != nil {\n\t\t\t\terr = out.shown"},
		caught: "TestFollow_ClosesOnEveryWayOut",
	},
	{
		name:   "a connection left open at the end",
		edits:  []string{"\tdefer s.close()\n\tconnected(s)\n", "\tconnected(s)\n"},
		caught: "TestFollow_LeavesNoConnection",
	},
	{
		name:   "a connection that is used after its end",
		edits:  []string{"\tdefer connected(nil)\n", ""},
		caught: "TestFollow_LeavesNoConnection",
	},
	{
		name:   "the own end reported as a loss",
		edits:  []string{"\t\t\tif nc.IsClosed() {\n\t\t\t\treturn // by this command, for another reason\n\t\t\t}\n", ""},
		caught: "TestFollow_LeavesNoConnection",
	},
	{
		name:   "a failure to connect that is not reported",
		edits:  []string{"\t\t\tout.trouble(g.explain(err))\n", "\t\t\t_ = g.explain(err)\n"},
		caught: "TestFollow_CannotConnect",
	},
	{
		name:   "trouble at the end",
		edits:  []string{"\t\tif ctx.Err() == nil {\n\t\t\tout.trouble(g", "\t\t{\n\t\t\tout.trouble(g"},
		caught: "TestFollow_CannotConnect",
	},
	{
		name:   "wrong settings tried again",
		edits:  []string{"\t\tif codeOf(err) == exitUsage {\n\t\t\treturn err\n\t\t}\n", ""},
		caught: "TestFollow_CannotConnect",
	},
	{
		name:   "a collection that goes on although nobody reads",
		edits:  []string{"\t\t\tcase <-ctx.Done():\n\t\t\t\treturn\n\t\t\t}\n\t\t}\n\t\tif !open", "\t\t\t}\n\t\t}\n\t\tif !open"},
		caught: "TestRosterWatch_Collects",
	},
	{
		name:   "the end of a collection that nobody hears of",
		edits:  []string{"\tdefer close(w.rosters)\n", ""},
		caught: "TestRosterWatch_Collects",
	},
	{
		name:   "a roster without the holder's last change",
		edits:  []string{"\t\tcase now.candidates, open = <-candidates:\n\t\t\tsettled.Reset(together)\n", "\t\tcase now.candidates, open = <-candidates:\n"},
		caught: "TestRosterWatch_Collects",
	},
	{
		name:   "a collection without its source",
		edits:  []string{"\t\tif !open {\n\t\t\treturn\n\t\t}\n", "\t\tif !open {\n\t\t\tholders, candidates = nil, nil\n\t\t}\n"},
		caught: "TestRosterWatch_Collects",
	},
	{
		name:   "the end of the rosters without an error",
		edits:  []string{"\tcase !more:\n\t\treturn leader.ErrConnectionClosed\n", "\tcase !more:\n\t\treturn nil\n"},
		caught: "TestRosterWatch_Collects",
	},
	{
		name:   "a look that outlives its watcher",
		edits:  []string{"\tw.abandon()\n\twaitBriefly(w.closeFeed())\n", "\twaitBriefly(w.closeFeed())\n"},
		caught: "TestWatch_CloseEndsLookAndFeed",
	},
	{
		name:   "a feed that outlives its watcher",
		edits:  []string{"\tw.abandon()\n\twaitBriefly(w.closeFeed())\n", "\tw.abandon()\n"},
		caught: "TestWatch_CloseEndsLookAndFeed",
	},
	{
		name:   "a look that outlives the connection",
		edits:  []string{"\tw.abandon()\n\tw.closeFeed()\n\tw.looked = time.Time{}\n", "\tw.closeFeed()\n\tw.looked = time.Time{}\n"},
		caught: "TestWatch_CloseEndsLookAndFeed",
	},
	{
		name:   "a feed that may have missed something",
		edits:  []string{"\tw.abandon()\n\tw.closeFeed()\n\tw.looked = time.Time{}\n", "\tw.abandon()\n\tw.looked = time.Time{}\n"},
		caught: "TestWatch_CloseEndsLookAndFeed",
	},
	{
		name:   "a look that is not given up",
		edits:  []string{"\tl.cancel()\n\tgo func() {\n", "\tgo func() {\n"},
		caught: "TestWatch_CloseEndsLookAndFeed",
	},
	{
		name:   "the late feed of a look that was given up",
		edits:  []string{"\t\t\t_ = r.feed.Stop() // nobody reads it\n\t\t\tr.end()\n", "\t\t\t_ = r.feed.Stop() // nobody reads it\n"},
		caught: "TestWatch_CloseEndsLookAndFeed",
	},
	{
		name:   "a feed that is stopped but not ended",
		edits:  []string{"\t\t_ = feed.Stop() // it may have gone with the connection\n\t\tend()\n", "\t\t_ = feed.Stop() // it may have gone with the connection\n"},
		caught: "TestWatch_CloseEndsLookAndFeed",
	},
	{
		name:   "a feed that is replaced but goes on",
		edits:  []string{"w.created.Equal(r.info.Created)\n\tw.closeFeed()\n", "w.created.Equal(r.info.Created)\n"},
		caught: "TestWatch_LooksInTime",
	},
	{
		name:   "looks at every tick",
		edits:  []string{"opening && since > reopen || since > lookEvery", "opening || since > lookEvery"},
		caught: "TestWatch_LooksInTime",
	},
	{
		name:   "a feed opened as late as a look",
		edits:  []string{"opening && since > reopen || since > lookEvery", "since > lookEvery"},
		caught: "TestWatch_LooksInTime",
	},
	{
		name:   "a feed that has ended kept",
		edits:  []string{"\tcase !more:\n\t\tw.closeFeed()\n\t\treturn nil\n", "\tcase !more:\n\t\treturn nil\n"},
		caught: "TestWatch_LooksInTime",
	},
	{
		name:   "advice repeated at each look",
		edits:  []string{"!w.troubled || w.lostSaid != w.lost || advice", "!w.troubled || w.lostSaid != w.lost || advice || w.said != nil"},
		caught: "TestWatch_BucketGone",
	},
	{
		name:   "trouble that does not end",
		edits:  []string{"\t\tw.troubled = false\n\t\tw.out.trouble(nil)\n", "\t\tw.troubled = false\n"},
		caught: "TestWatch_BucketGone",
	},
	{
		name:   "the bound of a bucket that is gone with each look",
		edits:  []string{"\tif b.until.IsZero() {\n", "\t{\n"},
		caught: "TestWatch_BucketGone",
	},
	{
		name:   "the shortest lease of a bucket that is gone",
		edits:  []string{"max(lease, b.longestLease())", "min(lease, b.longestLease())"},
		caught: "TestSeenBucket_Settings",
	},
	{
		name:   "an action without a connection",
		edits:  []string{"\t\tif s == nil {\n\t\t\treturn nil, &webpage.Error{", "\t\tif s == nil && a.ID != \"\" {\n\t\t\treturn nil, &webpage.Error{"},
		caught: "TestUI_ActionsNeedAConnection",
	},
	{
		name:   "a roster without a connection",
		edits:  []string{"\tif s == nil || checkElection", "\tif checkElection"},
		caught: "TestUI_ActionsNeedAConnection",
	},
	{
		name:   "bucket rm without the server's clock",
		edits:  []string{"\t\ts.clock = serverClock{server: found[0].TimeStamp, local: time.Now()}\n", ""},
		caught: "TestBucketRemove",
	},
	{
		name:   "the bucket rm of a bucket in use",
		edits:  []string{"\tif len(led) > 0 && !r.force {", "\tif len(led) > 9 && !r.force {"},
		caught: "TestBucketRemove",
	},
	{
		name:   "the streams of another bucket removed, too",
		edits:  []string{"\t\t\tif m[x.key] != x.value {\n\t\t\t\tcontinue\n\t\t\t}\n", ""},
		caught: "TestBucketRemove_OnlyOwn",
	},
	{
		name:   "the subscription of a probe that got no answer",
		edits:  []string{"\tdefer sub.Unsubscribe() //nolint:errcheck // it may be gone with the connection\n\tm.Reply = sub.Subject\n", "\tm.Reply = sub.Subject\n"},
		caught: "TestDoctor_LeavesNoSubscription",
	},
	{
		name:   "the subscription of a probe of permissions",
		edits:  []string{"\t\tif err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrBadSubscription) {\n\t\t\treturn err\n\t\t}\n\t\treturn flushed\n", "\t\t_ = sub\n\t\treturn flushed\n"},
		caught: "TestDoctor_LeavesNoSubscription",
	},
	{
		name:   "the stream of doctor left behind",
		edits:  []string{"\tif left := e.removeScratch(s, created); left", "\tif left := e.removeScratch(s, false); left"},
		caught: "TestDoctor_Store",
	},
}}
