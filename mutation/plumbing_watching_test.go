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

var metricsPlumbing = plumbing{of: "metrics", by: "metrics", mutants: []mutant{}}

var watchingPlumbing = plumbing{of: "cmd/natsleader", by: "cmd/natsleader", mutants: []mutant{}}
