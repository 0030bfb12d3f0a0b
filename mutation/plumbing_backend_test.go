package mutation_test

var backendPlumbing = plumbing{of: "internal/backend", by: "internal/backend", mutants: []mutant{
	// window.go
	{
		name:   "window: who gives up stays in line",
		edits:  []string{"	case placeWaits:\n		w.lines[p.rank].remove(p)\n	case placeIdle:\n	}\n", "	case placeWaits:\n	case placeIdle:\n	}\n"},
		caught: "TestWindow_InOrder",
	},
	{
		name:   "window: a slot not given back",
		edits:  []string{"				w.flying[p.rank]--\n", ""},
		caught: "TestWindow_InOrder",
	},
	{
		name:   "window: a slot given back twice",
		edits:  []string{"	p.state, p.waiter = placeIdle, nil\n	w.serve()", "	p.waiter = nil\n	w.serve()"},
		caught: "TestWindow_InOrder",
	},
	{
		name:   "window: a slot from before Clear given back",
		edits:  []string{"if p.cleared == w.cleared {", "if w.cleared == w.cleared {"},
		caught: "TestWindow_Clear",
	},
	{
		name:   "window: Clear does not count",
		edits:  []string{"	w.cleared++\n", ""},
		caught: "TestWindow_Clear",
	},
	{
		name:   "window: Clear serves nobody",
		edits:  []string{"	w.cleared++\n	w.serve()\n", "	w.cleared++\n	w.mu.Unlock()\n"},
		caught: "TestWindow_Clear",
	},
	{
		name:   "window: a waiter called with the lock held",
		edits:  []string{"	w.mu.Unlock()\n	for _, by := range granted {\n		by.Granted()\n	}\n", "	for _, by := range granted {\n		by.Granted()\n	}\n	w.mu.Unlock()\n"},
		caught: "TestWindow_GrantsWithoutItsLock",
	},
	{
		name:   "window: one that waits with another rank stays in the line",
		edits:  []string{"			return false\n		}\n		w.lines[p.rank].remove(p)\n", "			return false\n		}\n"},
		caught: "TestWindow_AgeOfTheOldest",
	},
	{
		name:   "window: one that asks again goes to the end",
		edits:  []string{"		if r == p.rank {\n			return false\n		}\n		w.lines", "		w.lines"},
		caught: "TestWindow_KeepsTurns",
	},
	{
		name:   "window: one that asks again has no slot",
		edits:  []string{"	case placeHas:\n		return true\n	case placeWaits:\n		if", "	case placeWaits:\n		if"},
		caught: "TestWindow_InOrder",
	},
	{
		name:   "window: the time of the first question forgotten",
		edits:  []string{"	case placeIdle:\n		p.since = now\n	}\n	p.rank", "	}\n	p.since = now\n	p.rank"},
		caught: "TestWindow_AgeOfTheOldest",
	},
	{
		name:   "window: a shared request takes a slot",
		edits:  []string{"	if p.rank != RankShared {\n		w.flying[p.rank]++\n	}\n", "	w.flying[min(p.rank, RankOverdue)]++\n"},
		caught: "TestWindow_Shared",
	},
	{
		name:   "window: a shared request gives back a slot",
		edits:  []string{"		if p.rank != RankShared {\n			if p.cleared", "		if p.rank = min(p.rank, RankOverdue); true {\n			if p.cleared"},
		caught: "TestWindow_Shared",
	},
	{
		name:   "window: a shared request waits",
		edits:  []string{"if r == RankShared || w.free(r) {", "if r = min(r, RankOverdue); w.free(r) {"},
		caught: "TestWindow_Shared",
	},
	{
		name:   "window: one slot too many",
		edits:  []string{"taken >= share {", "taken > share {"},
		caught: "TestWindow_LeavesSlotsForHolders",
	},
	{
		name:   "window: reads in flight keep leaders waiting",
		edits:  []string{"		taken = min(taken, share)\n", ""},
		caught: "TestWindow_ShrinksBesideReads",
	},
	{
		name:   "window: no slot for a small share",
		edits:  []string{"return max(1, w.size*", "return max(0, w.size*"},
		caught: "TestWindow_HoldersFirst",
	},
	{
		name:   "window: the lowest rank first",
		edits:  []string{"	for r := ranks; r > 0; r-- {\n		if p := w.lines[r-1].head; p != nil && w.free(r-1) {", "	for r := Rank(1); r <= ranks; r++ {\n		if p := w.lines[r-1].head; p != nil && w.free(r-1) {"},
		caught: "TestWindow_HoldersFirst",
	},
	{
		name:   "window: granted although none is free",
		edits:  []string{"p != nil && w.free(r-1) {", "p != nil && (r == ranks || w.free(r-1)) {"},
		caught: "TestWindow_KeepsTurns",
	},
	{
		name:   "window: halved below the least",
		edits:  []string{"w.size = max(w.size/2, w.least)", "w.size = max(w.size/2, 1)"},
		caught: "TestWindow_FollowsTheServer",
	},
	{
		name:   "window: grows beyond the most",
		edits:  []string{"w.size = min(w.size+1, w.most)", "w.size++"},
		caught: "TestWindow_FollowsTheServer",
	},
	{
		name:   "window: halved by each late reply of a crowd",
		edits:  []string{"		w.shrunk++\n", ""},
		caught: "TestWindow_FollowsTheServer",
	},
	{
		name:   "window: grows although none waits",
		edits:  []string{"!late && !r.Lost && w.waits():", "!late && !r.Lost:"},
		caught: "TestWindow_FollowsTheServer",
	},
	{
		name:   "window: grows by a request that was given up",
		edits:  []string{"!late && !r.Lost && w.waits():", "!late && w.waits():"},
		caught: "TestWindow_LateReplies",
	},
	{
		name:   "window: a reply that says nothing counts",
		edits:  []string{"	if r == (Reply{}) {\n		return\n	}\n", ""},
		caught: "TestWindow_FollowsTheServer",
	},
	{
		name:   "late: the longer limit",
		edits:  []string{"min(slow, r.Limit/2)", "max(slow, r.Limit/2)"},
		caught: "TestWindow_LateReplies",
	},
	{
		name:   "late: the shorter of the link and the limit",
		edits:  []string{"normal = max(normal, min(slow, r.Limit/2))", "normal = min(normal, min(slow, r.Limit/2))"},
		caught: "TestWindow_LateReplies",
	},
	{
		name:   "late: at the limit",
		edits:  []string{"return r.Took > normal", "return r.Took >= normal"},
		caught: "TestWindow_LateReplies",
	},
	{
		name:   "late: the whole time of a leader",
		edits:  []string{"min(slow, r.Limit/2)", "min(slow, r.Limit)"},
		caught: "TestWindow_LateReplies",
	},
	{
		name:   "late: as slow as the fastest",
		edits:  []string{"normal := 2 * w.fastest", "normal := w.fastest"},
		caught: "TestWindow_LateReplies",
	},
	{
		name:   "late: a request that was given up is the fastest",
		edits:  []string{"	if !r.Lost {\n		switch {", "	if r.Took > 0 {\n		switch {"},
		caught: "TestWindow_LateReplies",
	},
	{
		name:   "late: the fastest replies never forgotten",
		edits:  []string{"			w.fastest += (r.Took - w.fastest) / memory\n", ""},
		caught: "TestWindow_LateReplies",
	},
	{
		name:   "late: a faster reply does not count",
		edits:  []string{"case w.fastest == 0 || r.Took < w.fastest:", "case w.fastest == 0:"},
		caught: "TestWindow_LateReplies",
	},
	{
		name:   "line: the age of the newest",
		edits:  []string{"now.Sub(l.head.since))", "now.Sub(l.tail.since))"},
		caught: "TestWindow_AgeOfTheOldest",
	},
	{
		name:   "line: the age of the last line",
		edits:  []string{"oldest = max(oldest, now.Sub(l.head.since))", "oldest = now.Sub(l.head.since)"},
		caught: "TestWindow_AgeOfTheOldest",
	},
	{
		name:   "line: the age of a place without a time",
		edits:  []string{"if l.head != nil && !l.head.since.IsZero() {", "if l.head != nil {"},
		caught: "TestWindow_Waiting",
	},
	{
		name:   "line: the number in one line",
		edits:  []string{"		n += l.len\n", "		n = max(n, l.len)\n"},
		caught: "TestWindow_Waiting",
	},
	{
		name:   "line: one that leaves is counted",
		edits:  []string{"	l.len--\n", ""},
		caught: "TestWindow_Waiting",
	},
	{
		name:   "line: the last one that leaves is kept",
		edits:  []string{"		l.tail = p.prev\n", ""},
		caught: "TestWindow_KeepsTurns",
	},
	{
		name:   "line: one in the middle takes the rest along",
		edits:  []string{"		p.next.prev = p.prev\n", ""},
		caught: "TestWindow_KeepsTurns",
	},
	{
		name:   "line: one that has left keeps its neighbours",
		edits:  []string{"	p.prev, p.next = nil, nil\n", ""},
		caught: "TestWindow_AgeOfTheOldest",
	},
	{
		name:   "report: news again while a leader waits",
		edits:  []string{"w.reported && (w.lines[RankHolder].head != nil || w.lines[RankOverdue].head != nil)", "w.reported && w.lines[RankOverdue].head != nil"},
		caught: "TestWindow_Report",
	},
	{
		name:   "report: no news while a candidate waits",
		edits:  []string{"w.reported && (w.lines[RankHolder].head != nil || w.lines[RankOverdue].head != nil)", "w.reported && w.waits()"},
		caught: "TestWindow_Waiting",
	},
	{
		name:   "report: news each time",
		edits:  []string{"	w.reported = true\n", ""},
		caught: "TestWindow_Waiting",
	},
	{
		name:   "leave: the slot kept",
		edits:  []string{"	w.Return(p, Reply{})\n	w.mu.Lock()", "	w.mu.Lock()"},
		caught: "TestWindow_AgeOfTheOldest",
	},
	{
		name:   "leave: the candidate counted",
		edits:  []string{"	w.members--\n", ""},
		caught: "TestWindow_Phases",
	},
	{
		name:   "join: one phase for all",
		edits:  []string{"	w.joined++\n", ""},
		caught: "TestWindow_Phases",
	},
	{
		name:   "join: a phase for few",
		edits:  []string{"w.members <= Phases {", "w.members < Phases {"},
		caught: "TestWindow_Phases",
	},
	{
		name:   "used: the slots of one rank",
		edits:  []string{"		n += taken\n", "		n = taken\n"},
		caught: "TestWindow_AgeOfTheOldest",
	},
	// memory.go
	{
		name:   "memory: without a bound",
		edits:  []string{"			delete(m.keys, other)\n", "			_ = other\n"},
		caught: "TestMemory_Bounded",
	},
	{
		name:   "memory: one key too many",
		edits:  []string{"len(m.keys) >= MemorySize {", "len(m.keys) > MemorySize {"},
		caught: "TestMemory_Bounded",
	},
	{
		name:   "memory: a known key displaces another",
		edits:  []string{"!known && len", "(known || !known) && len"},
		caught: "TestMemory_KnownKeyDisplacesNone",
	},
	{
		name:   "memory: all displaced by one",
		edits:  []string{"			break\n", ""},
		caught: "TestMemory_KnownKeyDisplacesNone",
	},
	{
		name:   "memory: nothing is remembered as something",
		edits:  []string{"		delete(m.keys, key)\n		return\n", "		return\n"},
		caught: "TestMemory_Bounded",
	},
	// keyvalue.go, backend.go
	{
		name:   "entry: the value of a purge",
		edits:  []string{"		value = nil // candidates do not look at it either\n", "		_ = value\n"},
		caught: "TestEntry_KeyValue",
	},
	{
		name:   "entry: a purge is no marker",
		edits:  []string{"Marker: e.Operation() != jetstream.KeyValuePut,", "Marker: e.Operation() == jetstream.KeyValueDelete,"},
		caught: "TestEntry_KeyValue",
	},
	{
		name:   "entry: a marker is a value",
		edits:  []string{"	if k.e.Marker {\n		return jetstream.KeyValueDelete\n	}\n", ""},
		caught: "TestEntry_KeyValue",
	},
	{
		name:   "refusal: revision 0 not named",
		edits:  []string{"	if !e.Named {", "	if e.Actual == 0 {"},
		caught: "TestRefusedError_NamesRevision",
	},
	{
		name:   "refusal: any error is one",
		edits:  []string{"{ return target == ErrRefused }", "{ return target != nil }"},
		caught: "TestRefusedError_NamesRevision",
	},
}}
