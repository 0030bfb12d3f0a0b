package mutation_test

var webpagePlumbing = plumbing{of: "internal/webpage", by: "internal/webpage", mutants: []mutant{}}

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

var watchingPlumbing = plumbing{of: "cmd/natsleader", by: "cmd/natsleader", mutants: []mutant{}}
