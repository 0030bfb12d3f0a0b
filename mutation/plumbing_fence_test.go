package mutation_test

var fencePlumbing = plumbing{of: "fence", by: "fence", mutants: []mutant{
	{
		name:   "a write without a limit",
		edits:  []string{"\tctx, cancel := deadline.Limit(ctx)\n\tdefer cancel()\n\tif err := ctx.Err()", "\tctx, cancel := context.WithCancel(ctx)\n\tdefer cancel()\n\tif err := ctx.Err()"},
		caught: "TestSubmit_EndsInTime",
	},
	{
		name:   "a patient caller's try without a limit",
		edits:  []string{"\t\tif patient { //", "\t\tif !patient { //"},
		caught: "TestSubmit_EndsInTime",
	},
	{
		name:   "a try whose limit becomes that of all tries",
		edits:  []string{"try, cancel = deadline.Within(ctx, deadline.Default)\n\t\t\tdefer cancel()", "ctx, cancel = deadline.Within(ctx, deadline.Default)\n\t\t\ttry = ctx\n\t\t\tdefer cancel()"},
		caught: "TestSendDirect_TriesAfresh",
	},
	{
		name:   "a call whose context has ended begins",
		edits:  []string{"\tif err := ctx.Err(); err != nil {\n\t\treturn unwritten(err)\n\t}\n", ""},
		caught: "TestSubmit_EndedBefore",
	},
	{
		name:   "a single write beside a batch",
		edits:  []string{"if !l.busy && l.free(c) {", "if l.free(c) {"},
		caught: "TestDrain_KeepsOrder",
	},
	{
		name:   "a write whose data its caller may change",
		edits:  []string{"\tc.detach()\n", ""},
		caught: "TestSubmit_GiveUpInFlight",
	},
	{
		name:   "a writer that gives up keeps its turn",
		edits:  []string{"\t\tl.sent()\n\t\treturn unwritten(ctx.Err())", "\t\treturn unwritten(ctx.Err())"},
		caught: "TestSubmit_GiveUpLeavesNothing/as_its_turn_comes",
	},
	{
		name:   "a writer that gives up does not see its outcome",
		edits:  []string{"\tcase <-c.done:\n\t\treturn c.err\n\tdefault:\n\t}\n\tc.left", "\tdefault:\n\t}\n\tc.left"},
		caught: "TestSubmit_GiveUpLeavesNothing/as_it_is_acknowledged",
	},
	{
		name:   "a writer that gives up stays in line",
		edits:  []string{"\tc.left = true\n", ""},
		caught: "TestSubmit_GiveUpLeavesNothing",
	},
	{
		name:   "a writer that gives up in flight says that nothing was written",
		edits:  []string{"\tif c.sent {\n\t\treturn unknown(ctx.Err())\n\t}\n", ""},
		caught: "TestSubmit_GiveUpLeavesNothing/as_it_is_sent",
	},
	{
		name:   "the reason why no server took a write forgotten",
		edits:  []string{"return gaveUp(ctx.Err(), c.why)", "return gaveUp(ctx.Err(), nil)"},
		caught: "TestSubmit_GiveUpInFlight",
	},
	{
		name:   "single writes side by side on replicas",
		edits:  []string{"return !l.s.replicated() && len(", "return len("},
		caught: "TestPack_Headers",
	},
	{
		name:   "a batch sent beside others",
		edits:  []string{"len(c.messages) == 1 && !c.messages[0].conditioned &&", "!c.messages[0].conditioned &&"},
		caught: "TestDrain_KeepsOrder",
	},
	{
		name:   "a conditioned write sent beside others",
		edits:  []string{" && !c.messages[0].conditioned && !l.overdue()", " && !l.overdue()"},
		caught: "TestPack_Headers",
	},
	{
		name:   "a write beside others although the guard has to move",
		edits:  []string{" && !l.overdue()\n", "\n"},
		caught: "TestOverdue_Limits",
	},
	{
		name:   "an unknown outcome does not move the guard",
		edits:  []string{"return l.unknownOutcome || l.head", "return l.head"},
		caught: "TestOverdue_Limits",
	},
	{
		name:   "the guard moves a message early",
		edits:  []string{"l.head > revision+guardLag", "l.head >= revision+guardLag"},
		caught: "TestOverdue_Limits",
	},
	{
		name:   "the guard lags from the beginning of the stream",
		edits:  []string{"\trevision, _ := l.f.Current()\n\treturn l.unknownOutcome || l.head > revision+guardLag", "\treturn l.unknownOutcome || l.head > guardLag"},
		caught: "TestOverdue_Limits",
	},
	{
		name:   "the guard moves a byte early",
		edits:  []string{"l.bytes > guardLagBytes", "l.bytes >= guardLagBytes"},
		caught: "TestOverdue_Limits",
	},
	{
		name:   "the bytes since the guard not counted",
		edits:  []string{" || l.bytes > guardLagBytes", ""},
		caught: "TestOverdue_Limits",
	},
	{
		name:   "a turn kept after the write",
		edits:  []string{"\tl.note(c, err)\n\tl.sent()\n", "\tl.note(c, err)\n"},
		caught: "TestDrain_AwaitsAllTurns",
	},
	{
		name:   "the effect of a single write not recorded",
		edits:  []string{"\tl.note(c, err)\n\tl.sent()\n", "\tl.sent()\n"},
		caught: "TestNote_UnknownOutcomeStands",
	},
	{
		name:   "a batch after the first of the turns",
		edits:  []string{"if l.direct == 0 && l.directDone != nil", "if l.directDone != nil"},
		caught: "TestDrain_AwaitsAllTurns",
	},
	{
		name:   "the end of all turns recorded twice",
		edits:  []string{"\t\tclose(l.directDone)\n\t\tl.directDone = nil\n", "\t\tclose(l.directDone)\n"},
		caught: "TestDrain_AwaitsAllTurns",
	},
	{
		name:   "the newest acknowledgement is the last",
		edits:  []string{"l.head = max(l.head, c.ack.Sequence)", "l.head = c.ack.Sequence"},
		caught: "TestNote_UnknownOutcomeStands",
	},
	{
		name:   "the bytes of the last write only",
		edits:  []string{"\t\t\tl.bytes += len(m.data)", "\t\t\tl.bytes = len(m.data)"},
		caught: "TestNote_UnknownOutcomeStands",
	},
	{
		name:   "an unknown outcome forgotten by the next write",
		edits:  []string{"l.unknownOutcome = l.unknownOutcome || errors", "l.unknownOutcome = errors"},
		caught: "TestNote_UnknownOutcomeStands",
	},
	{
		name:   "a queue that stays busy",
		edits:  []string{"\t\t\tl.busy = false\n", ""},
		caught: "TestSubmit_EndsInTime",
	},
	{
		name:   "a batch beside single writes",
		edits:  []string{"\t\t\t<-landed\n", ""},
		caught: "TestDrain_AwaitsAllTurns",
	},
	{
		name:   "a turn given to a caller that has left",
		edits:  []string{"\t\tcase c.left:\n\t\tcase l.free(c):", "\t\tcase l.free(c):"},
		caught: "TestSubmit_GiveUpLeavesNothing/in_line_for_a_turn",
	},
	{
		name:   "a single write overtakes a batch in line",
		edits:  []string{"\t\t\tif len(group) > 0 {\n\t\t\t\treturn group\n\t\t\t}\n", ""},
		caught: "TestDrain_KeepsOrder",
	},
	{
		name:   "a turn not counted",
		edits:  []string{"\t\t\tl.direct++\n\t\t\tclose(c.turn)", "\t\t\tclose(c.turn)"},
		caught: "TestDrain_KeepsOrder",
	},
	{
		name:   "a batch of 998",
		edits:  []string{"messages <= maxBatchMessages", "messages < maxBatchMessages"},
		caught: "TestTake_SharesBatches",
	},
	{
		name:   "a batch without a limit of messages",
		edits:  []string{" && messages <= maxBatchMessages", ""},
		caught: "TestTake_SharesBatches",
	},
	{
		name:   "a batch of less than 4 MiB",
		edits:  []string{"bytes <= maxBatchBytes", "bytes < maxBatchBytes"},
		caught: "TestTake_SharesBatches",
	},
	{
		name:   "a batch without a limit of bytes",
		edits:  []string{" && bytes <= maxBatchBytes", ""},
		caught: "TestTake_SharesBatches",
	},
	{
		name:   "a caller's ID in a shared batch",
		edits:  []string{"joins := !c.single && ", "joins := "},
		caught: "TestTake_SharesBatches",
	},
	{
		name:   "a change joins one with a caller's ID",
		edits:  []string{" && (!joins || group[0].single)", " && !joins"},
		caught: "TestTake_SharesBatches",
	},
	{
		name:   "a shared batch that the stream does not take",
		edits:  []string{" && l.s.batches() && messages", " && messages"},
		caught: "TestTake_SharesBatches",
	},
	{
		name:   "a condition on what its batch writes",
		edits:  []string{"c.conflict(written) == \"\"", "(c.conflict(written) == \"\" || true)"},
		caught: "TestTake_SharesBatches",
	},
	{
		name:   "a condition on what another change of the batch writes",
		edits:  []string{"\t\t\tjoins := !c.single", "\t\t\twritten = make(map[string]bool)\n\t\t\tjoins := !c.single"},
		caught: "TestTake_SharesBatches",
	},
	{
		name:   "a batch without a limit",
		edits:  []string{"\t\tctx, cancel := deadline.Limit(context.Background())\n\t\tdefer cancel()\n\t\terr := l.post", "\t\tctx, cancel := context.WithCancel(context.Background())\n\t\tdefer cancel()\n\t\terr := l.post"},
		caught: "TestDeliver_LimitOfATry",
	},
	{
		name:   "callers of a batch without their outcome",
		edits:  []string{"\t\tl.unclaim(live, err)\n", ""},
		caught: "TestSubmit_GiveUpLeavesNothing",
	},
	{
		name:   "the conditions of one change compared for all",
		edits:  []string{"\t\tif len(live) > 1 {\n\t\t\treturn errApart\n\t\t}\n", ""},
		caught: "TestDeliver_OneByOne",
	},
	{
		name:   "a change alone compared with nothing",
		edits:  []string{"\t\tif len(live) > 1 {\n\t\t\treturn errApart\n\t\t}\n", "\t\treturn errApart\n"},
		caught: "TestDeliver_OneByOne",
	},
	{
		name:   "a bad change rejects those beside it",
		edits:  []string{"\tcase len(live) > 1 && !errors.Is(err, leader.ErrFenced):\n\t\tfor _, c := range live { // one of them is the reason; sending each by itself shows which\n\t\t\tl.deliver([]*writeSet{c})\n\t\t}\n", ""},
		caught: "TestDeliver_OneByOne",
	},
	{
		name:   "a fenced batch sent again one by one",
		edits:  []string{"len(live) > 1 && !errors.Is(err, leader.ErrFenced)", "len(live) > 1"},
		caught: "TestDeliver_FencedTogether",
	},
	{
		name:   "the error of a batch not delivered",
		edits:  []string{"\t\t\tc.err = err\n\t\t\tclose(c.done)\n\t\t}\n\t}\n}\n\n// claim", "\t\t\tc.err = err\n\t\t}\n\t}\n}\n\n// claim"},
		caught: "TestInsist_Passed",
	},
	{
		name:   "the error of a batch delivered as success",
		edits:  []string{"\t\t\tc.err = err\n\t\t\tclose(c.done)\n\t\t}\n\t}\n}\n\n// claim", "\t\t\tclose(c.done)\n\t\t}\n\t}\n}\n\n// claim"},
		caught: "TestInsist_Passed",
	},
	{
		name:   "a write that its caller left sent",
		edits:  []string{"\t\tif !c.left {\n", "\t\tif true {\n"},
		caught: "TestSubmit_GiveUpInFlight",
	},
	{
		name:   "a write in flight not marked as sent",
		edits:  []string{"\t\t\tc.sent = true\n", ""},
		caught: "TestSubmit_GiveUpInFlight",
	},
	{
		name:   "the effect of a batch not recorded",
		edits:  []string{"\t\tl.note(c, err)\n\t\tc.why = err\n", "\t\tc.why = err\n"},
		caught: "TestSettle_Outcomes",
	},
	{
		name:   "the reason of the last try of a batch forgotten",
		edits:  []string{"\t\tc.why = err\n", ""},
		caught: "TestSubmit_GiveUpInFlight",
	},
	{
		name:   "an unknown outcome of a batch not delivered",
		edits:  []string{"c.sent = err == nil || errors.Is(err, ErrUnknownOutcome); c.sent", "c.sent = err == nil; c.sent"},
		caught: "TestSubmit_EndsInTime",
	},
	{
		name:   "an unknown outcome of a batch delivered as success",
		edits:  []string{"\t\t\tc.err = err\n\t\t\tclose(c.done)\n\t\t}\n\t}\n}\n\n// post", "\t\t\tclose(c.done)\n\t\t}\n\t}\n}\n\n// post"},
		caught: "TestDeliver_LimitOfATry",
	},
	{
		name:   "settings not asked for again before a batch is rejected",
		edits:  []string{"\t\tif _, err := l.s.settings(ctx); err != nil {\n\t\t\treturn fmt.Errorf(\"%w: %w\", errNotNow, err)\n\t\t}\n", ""},
		caught: "TestPost_AsksForBatches",
	},
	{
		name:   "settings that cannot be read reject a batch",
		edits:  []string{"\t\tif _, err := l.s.settings(ctx); err != nil {\n\t\t\treturn fmt.Errorf(\"%w: %w\", errNotNow, err)\n\t\t}\n", "\t\tif _, err := l.s.settings(ctx); err != nil {\n\t\t\treturn err\n\t\t}\n"},
		caught: "TestPost_AsksForBatches",
	},
	{
		name:   "a move without an answer makes the write's outcome unknown",
		edits:  []string{"\t\tif errors.Is(err, ErrUnknownOutcome) {\n\t\t\treturn fmt.Errorf(\"%w: %v\", errNotNow, err)", "\t\tif false {\n\t\t\treturn fmt.Errorf(\"%w: %v\", errNotNow, err)"},
		caught: "TestPost_MoveWithoutAnswer",
	},
	{
		name:   "a failed move taken for one",
		edits:  []string{"\t\tif err != nil {\n\t\t\treturn err\n\t\t}\n\t\tl.moved(moved)", "\t\tl.moved(moved)"},
		caught: "TestPost_MoveWithoutAnswer",
	},
	{
		name:   "a move of the guard not recorded",
		edits:  []string{"\t\tl.moved(moved)\n\t\trevision, move", "\t\trevision, move"},
		caught: "TestOverdue_Limits",
	},
	{
		name:   "a write after a move with the old condition",
		edits:  []string{"revision, move = moved, false", "move = false"},
		caught: "TestOverdue_Limits",
	},
	{
		name:   "a guard moved twice",
		edits:  []string{"revision, move = moved, false", "revision = moved"},
		caught: "TestOverdue_Limits",
	},
	{
		name:   "a conditioned write without the guard",
		edits:  []string{"move: move || conditioned,", "move: move,"},
		caught: "TestPack_Headers",
	},
	{
		name:   "the guard's revision in a batch not recorded",
		edits:  []string{"\tif err == nil && moved != 0 {", "\tif err != nil && moved != 0 {"},
		caught: "TestPack_Headers",
	},
	{
		name:   "a moved guard unknown to the term",
		edits:  []string{"\tl.f.Move(revision, false)\n", ""},
		caught: "TestOverdue_Limits",
	},
	{
		name:   "an unknown outcome stays after the guard has moved",
		edits:  []string{"l.unknownOutcome, l.head, l.bytes = false, revision, 0", "l.head, l.bytes = revision, 0"},
		caught: "TestOverdue_Limits",
	},
	{
		name:   "bytes stay after the guard has moved",
		edits:  []string{"l.unknownOutcome, l.head, l.bytes = false, revision, 0", "l.unknownOutcome, l.head = false, revision"},
		caught: "TestOverdue_Limits",
	},
	{
		name:   "a term that was passed writes on",
		edits:  []string{"\t\tif l.f.Passed() {\n\t\t\treturn leader.ErrFenced\n\t\t}\n", ""},
		caught: "TestInsist_Passed",
	},
	{
		name:   "a write that no server takes ends at once",
		edits:  []string{"} else if !errors.Is(err, errNotNow) {\n\t\t\treturn err\n\t\t}", "} else {\n\t\t\treturn err\n\t\t}"},
		caught: "TestInsist_Pauses",
	},
	{
		name:   "a rejection that is explained is tried again",
		edits:  []string{"\t\tif err != nil && !errors.Is(err, errNotNow) {\n\t\t\treturn err\n\t\t}\n", ""},
		caught: "TestExplain_GuardFound",
	},
	{
		name:   "a read of the guard without an answer ends the write",
		edits:  []string{"\t\tif err != nil && !errors.Is(err, errNotNow) {\n\t\t\treturn err\n\t\t}\n", "\t\tif err != nil {\n\t\t\treturn err\n\t\t}\n"},
		caught: "TestExplain_WithoutAnswer",
	},
	{
		name:   "tries without an end",
		edits:  []string{"\t\tif ended := pause(ctx, tries)", "\t\tif ended := pause(context.WithoutCancel(ctx), tries)"},
		caught: "TestInsist_Pauses",
	},
	{
		name:   "the reason of the last try of a single write forgotten",
		edits:  []string{"\t\t\treturn gaveUp(ended, err)", "\t\t\treturn gaveUp(ended, nil)"},
		caught: "TestInsist_Pauses",
	},
	{
		name:   "a read of the guard without a limit",
		edits:  []string{"\tlimited, cancel := deadline.Within(ctx, deadline.Default)\n\tdefer cancel()\n\te, err := l.s.api.LastOf(limited, l.s.guard)", "\te, err := l.s.api.LastOf(ctx, l.s.guard)"},
		caught: "TestExplain_WithoutAnswer",
	},
	{
		name:   "a guard that cannot be read explains nothing",
		edits:  []string{"\tcase err != nil:\n\t\treturn unwritten(err)\n\t}\n\tswitch l.f.Judge(e) {", "\t}\n\tswitch l.f.Judge(e) {"},
		caught: "TestExplain_WithoutAnswer",
	},
	{
		name:   "a later term not reported",
		edits:  []string{"\t\tl.f.Suspect() // a candidate that goes on leading should know\n", ""},
		caught: "TestExplain_GuardFound",
	},
	{
		name:   "a guard that is gone not reported",
		edits:  []string{"\tl.f.Suspect()\n\tagain, cancel", "\tagain, cancel"},
		caught: "TestExplain_GuardFound",
	},
	{
		name:   "a guard that is gone fences",
		edits:  []string{"\t\treturn l.raisedAgain(ctx, revision)", "\t\treturn leader.ErrFenced"},
		caught: "TestExplain_GuardFound",
	},
	{
		name:   "another election's guard written again and again",
		edits:  []string{"\t\treturn unwritten(fmt.Errorf(\"%w: %s\", leader.ErrIncompatibleBucket, wire.GuardTaken))", "\t\treturn nil"},
		caught: "TestExplain_GuardFound",
	},
	{
		name:   "a guard that has moved contests the write",
		edits:  []string{"\tif now, _ := l.f.Current(); now != revision {\n\t\treturn nil\n\t}\n\treturn contested()", "\treturn contested()"},
		caught: "TestExplain_GuardFound",
	},
	{
		name:   "a guard that was raised again meanwhile awaited",
		edits:  []string{"\tnow, moved := l.f.Current()\n\tif now != revision {\n\t\treturn nil\n\t}\n", "\t_, moved := l.f.Current()\n"},
		caught: "TestRaisedAgain_Meanwhile",
	},
	{
		name:   "a writer waits on after the term",
		edits:  []string{"\tcase <-l.f.Over():\n\t\treturn leader.ErrFenced\n", ""},
		caught: "TestExplain_GuardFound",
	},
	{
		name:   "the end of a term raises its guard",
		edits:  []string{"\tcase <-l.f.Over():\n\t\treturn leader.ErrFenced\n", "\tcase <-l.f.Over():\n"},
		caught: "TestExplain_GuardFound",
	},
	{
		name:   "a guard that is raised again not noticed",
		edits:  []string{"\tnow, moved := l.f.Current()\n\tif now", "\tnow, _ := l.f.Current()\n\tif now", "\tcase <-moved:\n", ""},
		caught: "TestExplain_GuardFound",
	},
	{
		name:   "a guard awaited without an end",
		edits:  []string{"deadline.Within(ctx, readAgain)", "deadline.Within(ctx, time.Hour)"},
		caught: "TestExplain_GuardFound",
	},
	{
		name:   "the first pause late",
		edits:  []string{"\tif tries <= 4 {", "\tif tries <= 5 {"},
		caught: "TestInsist_Pauses",
	},
	{
		name:   "pauses whose length overflows",
		edits:  []string{"<<min(tries-5, 6), 50", "<<(tries-5), 50"},
		caught: "TestInsist_Pauses",
	},
	{
		name:   "pauses without a limit",
		edits:  []string{"min(time.Millisecond<<min(tries-5, 6), 50*time.Millisecond)", "time.Millisecond<<min(tries-5, 6)"},
		caught: "TestInsist_Pauses",
	},
	{
		name:   "a missing message of a batch alone not looked for",
		edits:  []string{"\t\t\tp.careful = true\n", ""},
		caught: "TestStage_AfterMissingMessage",
	},
	{
		name:   "late messages of a batch taken for a part of the next",
		edits:  []string{"\t\t\tp.try++ // another batch", "\t\t\t// another batch"},
		caught: "TestStage_AfterMissingMessage",
	},
	{
		name:   "a request sent again for as long as its ID is known",
		edits:  []string{"p.s.window()/2)", "p.s.window())"},
		caught: "TestSettle_Outcomes",
	},
	{
		name:   "a request sent again after its ID is forgotten",
		edits:  []string{"\twindow, cancel := deadline", "\t_, cancel := deadline", "pause(window, p.try)", "pause(ctx, p.try)"},
		caught: "TestSettle_Outcomes",
	},
	{
		name:   "a sequence beyond the condition proves nothing",
		edits:  []string{"\t\tcase errors.As(err, &refused) && refused.Named && refused.Actual > p.highest():\n\t\t\treturn 0, err // a server that has got that far would have known the ID\n", ""},
		caught: "TestSettle_ProvenByTheSequence",
	},
	{
		name:   "the sequence of the condition proves that nothing was stored",
		edits:  []string{"refused.Actual > p.highest()", "refused.Actual >= p.highest()"},
		caught: "TestSettle_StoredAndRejected",
	},
	{
		name:   "any sequence proves that nothing was stored",
		edits:  []string{"refused.Named && refused.Actual > p.highest()", "refused.Named"},
		caught: "TestSettle_StoredAndRejected",
	},
	{
		name:   "a caller's ID that is known sent again",
		edits:  []string{"\t\tcase errors.Is(err, errStored) && p.named() && !doubt:\n\t\t\treturn 0, err // the IDs are the caller's: something was stored before\n", ""},
		caught: "TestStreamBatch_IDs",
	},
	{
		name:   "a caller's ID that its own try has made known rejected",
		edits:  []string{"p.named() && !doubt:", "p.named():"},
		caught: "TestStreamBatch_IDs",
	},
	{
		name:   "a request that is known not searched for",
		edits:  []string{"\t\tcase errors.As(err, &refused), errors.Is(err, errStored):", "\t\tcase errors.As(err, &refused):"},
		caught: "TestSettle_StoredAndRejected",
	},
	{
		name:   "a rejected request not searched for",
		edits:  []string{"\t\tcase errors.As(err, &refused), errors.Is(err, errStored):", "\t\tcase errors.Is(err, errStored):"},
		caught: "TestSettle_StoredAndRejected",
	},
	{
		name:   "a proof not heeded",
		edits:  []string{"if moved, known, err = p.find(ctx, err); known {\n\t\t\t\treturn moved, err\n\t\t\t}", "moved, known, err = p.find(ctx, err)\n\t\t\t_ = known"},
		caught: "TestSettle_OwnMessageIsNoProof",
	},
	{
		name:   "a bad message makes the outcome unknown",
		edits:  []string{"\t\tcase errors.Is(err, errStage):\n\t\t\treturn 0, err\n\t\tcase", "\t\tcase"},
		caught: "TestStage_AfterMissingMessage",
	},
	{
		name:   "a server that does not lead is believed",
		edits:  []string{"(doubt || p.answered(err)):", "doubt:"},
		caught: "TestSettle_StoredAndRejected",
	},
	{
		name:   "an unsent request sent again under its ID",
		edits:  []string{" && (doubt || p.answered(err)):", ":"},
		caught: "TestSettle_NoResponders",
	},
	{
		name:   "an error in doubt says that nothing was written",
		edits:  []string{"\t\tcase doubt:\n\t\t\treturn 0, unknown(err)\n", ""},
		caught: "TestSettle_Outcomes",
	},
	{
		name:   "every error makes the outcome unknown",
		edits:  []string{"\t\tcase doubt:\n\t\t\treturn 0, unknown(err)\n\t\tdefault:\n\t\t\treturn 0, err\n", "\t\tdefault:\n\t\t\treturn 0, unknown(err)\n"},
		caught: "TestSettle_Outcomes",
	},
	{
		name:   "no doubt after a rejection",
		edits:  []string{"doubt, p.careful = true, ", "doubt, p.careful = doubt, "},
		caught: "TestSettle_Outcomes",
	},
	{
		name:   "a missing message of a batch not looked for",
		edits:  []string{", p.careful || errors.Is(err, errIncomplete)\n", ", p.careful\n"},
		caught: "TestStage_AfterMissingMessage",
	},
	{
		name:   "a request in doubt given up as unwritten",
		edits:  []string{"\t\t\treturn 0, unknown(ended)", "\t\t\treturn 0, unwritten(ended)"},
		caught: "TestSettle_Outcomes",
	},
	{
		name:   "tries under one batch name",
		edits:  []string{"\t\tp.try++\n\t\tmoved, err = p.send(ctx)\n\t\tvar refused", "\t\tmoved, err = p.send(ctx)\n\t\tvar refused"},
		caught: "TestStage_AfterMissingMessage",
	},
	{
		name:   "the condition on the guard only",
		edits:  []string{"\t\t\t\th = max(h, m.expected)", "\t\t\t\th = max(h, 0)"},
		caught: "TestSettle_StoredAndRejected",
	},
	{
		name:   "a guard that is gone not reported by a search",
		edits:  []string{"\t\tp.f.Suspect() // there is proof", "\t\t// there is proof"},
		caught: "TestSettle_OwnMessageIsNoProof",
	},
	{
		name:   "a write without the guard searched for at the guard",
		edits:  []string{"\tif !p.move {\n\t\tc := p.changes", "\tif false {\n\t\tc := p.changes"},
		caught: "TestSettle_StoredAndRejected",
	},
	{
		name:   "a batch searched for at its first message",
		edits:  []string{"c.messages[len(c.messages)-1].subject)", "c.messages[0].subject)"},
		caught: "TestSettle_BatchFound",
	},
	{
		name:   "a batch searched for at its first change",
		edits:  []string{"c := p.changes[len(p.changes)-1]", "c := p.changes[0]"},
		caught: "TestSettle_BatchFound",
	},
	{
		name:   "a copy of the request's message taken for it",
		edits:  []string{"\tif err == nil && p.wrote(h) && !jsapi.IsReply(h) {", "\tif err == nil && p.wrote(h) {"},
		caught: "TestSettle_OwnMessageIsNoProof",
	},
	{
		name:   "another's message taken for the request's",
		edits:  []string{"\tif err == nil && p.wrote(h) && !jsapi.IsReply(h) {", "\tif err == nil && !jsapi.IsReply(h) {"},
		caught: "TestSettle_OwnMessageIsNoProof",
	},
	{
		name:   "a known ID taken for a rejection",
		edits:  []string{"\tif errors.Is(refused, errStored) {\n\t\treturn 0, false, nil\n\t}\n", ""},
		caught: "TestSettle_KnownIsNoRejection",
	},
	{
		name:   "a message without a condition as proof",
		edits:  []string{"\t\t\tif !m.conditioned {\n\t\t\t\tcontinue\n\t\t\t}\n\t\t\te, h, err", "\t\t\te, h, err"},
		caught: "TestSettle_KnownIsNoRejection",
	},
	{
		name:   "a message that the condition allows taken for proof",
		edits:  []string{"e.Revision > m.expected && !p", "e.Revision >= m.expected && !p"},
		caught: "TestSettle_OwnMessageIsNoProof",
	},
	{
		name:   "an own message newer than the condition taken for another's",
		edits:  []string{"e.Revision > m.expected && !p.wrote(h) && ", "e.Revision > m.expected && "},
		caught: "TestSettle_OwnMessageIsNoProof",
	},
	{
		name:   "a copy newer than the condition taken for another's write",
		edits:  []string{" && !p.wrote(h) && !jsapi.IsReply(h) {\n\t\t\t\treturn 0, true", " && !p.wrote(h) {\n\t\t\t\treturn 0, true"},
		caught: "TestSettle_OwnMessageIsNoProof",
	},
	{
		name:   "a rejection that is proven taken for success",
		edits:  []string{"\t\t\t\treturn 0, true, refused", "\t\t\t\treturn 0, true, nil"},
		caught: "TestSettle_OwnMessageIsNoProof",
	},
	{
		name:   "a single message not found by its ID",
		edits:  []string{"jsapi.LastValue(h, jetstream.MsgIDHeader) == p.id || ", ""},
		caught: "TestSettle_StoredAndRejected",
	},
	{
		name:   "a batch not found by its name",
		edits:  []string{" || strings.HasPrefix(jsapi.LastValue(h, batchIDHeader), p.id+\".\")", ""},
		caught: "TestSettle_StoredAndRejected",
	},
	{
		name:   "a found message whose revision is one too great",
		edits:  []string{"\tif p.move {\n\t\tn++\n\t}\n", ""},
		caught: "TestPack_Headers",
	},
	{
		name:   "a commit sent after a message that was not",
		edits:  []string{"\tcase err != nil:\n\t\treturn 0, fmt.Errorf(\"%w: %w\", errStage, err)\n\t}\n\tack", "\t}\n\tack"},
		caught: "TestPublish_NotTaken",
	},
	{
		name:   "a closed connection in doubt says that nothing was written",
		edits:  []string{"\tcase errors.Is(err, errNotNow), errors.Is(err, leader.ErrConnectionClosed):", "\tcase errors.Is(err, errNotNow):"},
		caught: "TestSettle_ClosedInDoubt",
	},
	{
		name:   "a connection that is down ends a batch",
		edits:  []string{"\tcase errors.Is(err, errNotNow), errors.Is(err, leader.ErrConnectionClosed):", "\tcase errors.Is(err, leader.ErrConnectionClosed):"},
		caught: "TestSettle_LostInDoubt",
	},
	{
		name:   "a part of a batch in a full store taken for none",
		edits:  []string{"\t\t\tswitch int(api.ErrorCode) {\n\t\t\tcase jsapi.CodeResourcesExceeded, jsapi.CodeNoResources, jsapi.CodeStoreFailed:\n\t\t\t\treturn 0, unknown(err) // a server alone stores a batch message by message\n\t\t\t}\n", ""},
		caught: "TestSend_StorageFull",
	},
	{
		name:   "a batch in a full store of a cluster of unknown outcome",
		edits:  []string{" && last > 0 && !p.replicated {", " && last > 0 {"},
		caught: "TestSend_StorageFull",
	},
	{
		name:   "a single message in a full store of unknown outcome",
		edits:  []string{" && last > 0 && !p.replicated {", " && !p.replicated {"},
		caught: "TestSend_StorageFull",
	},
	{
		name:   "a batch sent without care after a missing message",
		edits:  []string{"\tif !p.careful {", "\tif true {"},
		caught: "TestStage_AfterMissingMessage",
	},
	{
		name:   "an unreachable server ends a batch",
		edits:  []string{"\t\tif errors.Is(err, leader.ErrUnreachable) {\n\t\t\treturn fmt.Errorf(\"%w: %w\", errNotNow, err)\n\t\t}\n\t\treturn err\n", "\t\treturn err\n"},
		caught: "TestPublish_NotTaken",
	},
	{
		name:   "the error of a staged message lost",
		edits:  []string{"\t\tif err := p.stageOne(ctx, m); err != nil {\n\t\t\treturn err\n\t\t}", "\t\t_ = p.stageOne(ctx, m)"},
		caught: "TestStage_AfterMissingMessage",
	},
	{
		name:   "parts of a batch into the buffer of a connection that is down",
		edits:  []string{"\tif err := p.s.api.Connected(); err != nil {\n\t\treturn err\n\t}\n\tfor _, m", "\tfor _, m"},
		caught: "TestPublish_NotTaken",
	},
	{
		name:   "a message that is too large without its error",
		edits:  []string{"\t\tcase errors.Is(err, nats.ErrMaxPayload):\n\t\t\treturn fmt.Errorf(\"%w: %w\", leader.ErrValueTooLarge, err)\n", ""},
		caught: "TestPublish_NotTaken",
	},
	{
		name:   "a message that was not published forgotten",
		edits:  []string{"\t\tcase err != nil:\n\t\t\treturn err\n\t\t}\n\t}\n\treturn nil\n}\n\n// stageOne", "\t\t}\n\t}\n\treturn nil\n}\n\n// stageOne"},
		caught: "TestPublish_NotTaken",
	},
	{
		name:   "a staged message awaited for as long as its batch",
		edits:  []string{"deadline.Within(ctx, time.Second)", "deadline.Within(ctx, time.Hour)"},
		caught: "TestStage_AfterMissingMessage",
	},
	{
		name:   "a staged message without an answer ends the batch",
		edits:  []string{"\tcase errors.Is(err, leader.ErrUnreachable):\n\t\treturn fmt.Errorf(\"%w: %w\", errNotNow, err)\n\tcase err != nil || len(resp.Data) == 0:", "\tcase err != nil || len(resp.Data) == 0:"},
		caught: "TestStage_AfterMissingMessage",
	},
	{
		name:   "the empty reply to a staged message taken for an error",
		edits:  []string{"\tcase err != nil || len(resp.Data) == 0:", "\tcase err != nil:"},
		caught: "TestStage_AfterMissingMessage",
	},
	{
		name:   "revisions of a batch from its end",
		edits:  []string{"\t\tseq += uint64(len(c.messages))\n", "\t\tseq++\n"},
		caught: "TestStored_RevisionsOfABatch",
	},
	{
		name:   "a change with the acknowledgement of its batch",
		edits:  []string{"\t\tc.ack.Sequence = seq\n", ""},
		caught: "TestStored_RevisionsOfABatch",
	},
	{
		name:   "a try that is known reported as a duplicate",
		edits:  []string{"c.ack.Duplicate = ack.Duplicate && c.single", "c.ack.Duplicate = ack.Duplicate"},
		caught: "TestStreamWriter_Duplicates",
	},
	{
		name:   "a duplicate not reported",
		edits:  []string{"c.ack.Duplicate = ack.Duplicate && c.single", "c.ack.Duplicate = false"},
		caught: "TestStreamWriter_Duplicates",
	},
	{
		name:   "the guard's revision reported by a request without it",
		edits:  []string{"\tif p.move {\n\t\treturn ack.Sequence\n\t}\n\treturn 0\n", "\treturn ack.Sequence\n"},
		caught: "TestPack_Headers",
	},
	{
		name:   "a request without a condition on the guard",
		edits:  []string{"\t\t\t} else if len(messages) == 0 && !p.move {", "\t\t\t} else if false {"},
		caught: "TestPack_Headers",
	},
	{
		name:   "a condition on the guard in each message",
		edits:  []string{"len(messages) == 0 && !p.move {", "!p.move {"},
		caught: "TestPack_Headers",
	},
	{
		name:   "a condition on the guard in a batch that writes it",
		edits:  []string{"len(messages) == 0 && !p.move {", "len(messages) == 0 {"},
		caught: "TestPack_Headers",
	},
	{
		name:   "a caller's condition on its own subject",
		edits:  []string{"\t\t\t\th[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{m.on}", "\t\t\t\th[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{m.subject}"},
		caught: "TestStreamBatch_Condition",
	},
	{
		name:   "the caller's header changed",
		edits:  []string{"\t\t\th := make(nats.Header, 6+len(m.header))\n\t\t\tmaps.Copy(h, m.header)\n", "\t\t\th := m.header\n\t\t\tif h == nil {\n\t\t\t\th = make(nats.Header)\n\t\t\t}\n"},
		caught: "TestStreamWriter_Duplicates",
	},
	{
		name:   "no ID with replicas",
		edits:  []string{"\tif p.replicated && !p.named() {", "\tif false {"},
		caught: "TestPack_Headers",
	},
	{
		name:   "an ID without replicas",
		edits:  []string{"\tif p.replicated && !p.named() {", "\tif !p.named() {"},
		caught: "TestPack_Headers",
	},
	{
		name:   "the caller's ID replaced",
		edits:  []string{"\tif p.replicated && !p.named() {", "\tif p.replicated {"},
		caught: "TestStreamWriter_Duplicates",
	},
	{
		name:   "a batch for one message",
		edits:  []string{"\tif len(messages) == 1 {\n\t\treturn messages\n\t}\n", ""},
		caught: "TestPack_Headers",
	},
	{
		name:   "a batch of one name for all tries",
		edits:  []string{"p.id + \".\" + strconv.Itoa(p.try)", "p.id + \".0\""},
		caught: "TestStage_AfterMissingMessage",
	},
	{
		name:   "a batch that is numbered from 0",
		edits:  []string{"strconv.Itoa(i + 1)", "strconv.Itoa(i)"},
		caught: "TestPack_Headers",
	},
	{
		name:   "a stream of unknown replicas written side by side",
		edits:  []string{"return c == nil || c.Replicas > 1", "return c != nil && c.Replicas > 1"},
		caught: "TestReplicated_Settings",
	},
	{
		name:   "two replicas taken for one",
		edits:  []string{"c.Replicas > 1", "c.Replicas > 2"},
		caught: "TestReplicated_Settings",
	},
	{
		name:   "a stream that is not known takes batches",
		edits:  []string{"return c != nil && c.AllowAtomicPublish", "return c == nil || c.AllowAtomicPublish"},
		caught: "TestReplicated_Settings",
	},
	{
		name:   "the memory of a stream taken for the server's default",
		edits:  []string{"c != nil && c.Duplicates > 0 {", "c != nil && c.Duplicates < 0 {"},
		caught: "TestSettle_Outcomes",
	},
	{
		name:   "a closed connection awaited",
		edits:  []string{"\tcase jsapi.IsUnsent(err) && !errors.Is(err, leader.ErrUnreachable):\n\t\treturn jetstream.PubAck{}, err\n", ""},
		caught: "TestExchange_NotAnswered",
	},
	{
		name:   "a connection that is down makes the outcome unknown",
		edits:  []string{"\tcase jsapi.IsUnsent(err), errors.Is(err, nats.ErrNoResponders):", "\tcase errors.Is(err, nats.ErrNoResponders):"},
		caught: "TestPublish_SingleUnsent",
	},
	{
		name:   "nobody who answers makes the outcome unknown",
		edits:  []string{"\tcase jsapi.IsUnsent(err), errors.Is(err, nats.ErrNoResponders):", "\tcase jsapi.IsUnsent(err):"},
		caught: "TestExchange_NotAnswered",
	},
	{
		name:   "a message that is too large of unknown outcome",
		edits:  []string{"\tcase errors.Is(err, leader.ErrValueTooLarge), errors.Is(err, nats.ErrBadHeaderMsg)", "\tcase errors.Is(err, nats.ErrBadHeaderMsg)"},
		caught: "TestPublish_NotTaken",
	},
	{
		name:   "a bad header of unknown outcome",
		edits:  []string{"errors.Is(err, leader.ErrValueTooLarge), errors.Is(err, nats.ErrBadHeaderMsg), ", "errors.Is(err, leader.ErrValueTooLarge), "},
		caught: "TestPublish_NotTaken",
	},
	{
		name:   "a denied write of unknown outcome",
		edits:  []string{", errors.Is(err, leader.ErrPermission) && strings.Contains(err.Error(), `Publish to \"`+m.Subject+`\"`):", ", strings.Contains(\"\", m.Subject):"},
		caught: "TestExchange_NotAnswered",
	},
	{
		name:   "a denied reply taken for a denied write",
		edits:  []string{" && strings.Contains(err.Error(), `Publish to \"`+m.Subject+`\"`):", " && strings.Contains(err.Error(), \"\"):"},
		caught: "TestExchange_NotAnswered",
	},
	{
		name:   "a missing message not told",
		edits:  []string{"\t\t\treturn ack, fmt.Errorf(\"%w: %w\", errIncomplete, err)", "\t\t\treturn ack, fmt.Errorf(\"%w: %w\", errNotNow, err)"},
		caught: "TestSort_Replies",
	},
	{
		name:   "a missing leader ends a write",
		edits:  []string{"\t\tcase jsapi.CodeClusterNotAvailable, jsapi.CodeClusterNotLeader, ", "\t\tcase jsapi.CodeClusterNotAvailable, "},
		caught: "TestSort_Replies",
	},
	{
		name:   "too many batches end a write",
		edits:  []string{"jsapi.CodeTooManyRequests, jsapi.CodeBatchesInflight, ", "jsapi.CodeTooManyRequests, "},
		caught: "TestSort_Replies",
	},
	{
		name:   "an ID in process ends a write",
		edits:  []string{"jsapi.CodeBatchesInflight, jsapi.CodeIDInProcess:", "jsapi.CodeBatchesInflight:"},
		caught: "TestSort_Replies",
	},
	{
		name:   "a batch that is known taken for a failure",
		edits:  []string{"\t\tcase jsapi.CodeBatchDuplicate:\n\t\t\treturn ack, fmt.Errorf(\"%w: %w\", errStored, err)\n", ""},
		caught: "TestSort_Replies",
	},
	{
		name:   "batches sent on to a stream that takes none",
		edits:  []string{"\t\t\ts.api.Known.Store(nil)\n\t\t\t_, _ = s.api.Info(ctx)\n", ""},
		caught: "TestSort_BatchesSwitchedOff",
	},
	{
		name:   "batches sent on until the settings are read",
		edits:  []string{"\t\t\ts.api.Known.Store(nil)\n\t\t\t_, _ = s.api.Info(ctx)\n", "\t\t\t_, _ = s.api.Info(ctx)\n"},
		caught: "TestSort_BatchesSwitchedOff",
	},
	{
		name:   "a rejection of unknown outcome",
		edits:  []string{"\tif errors.Is(err, backend.ErrRefused) {\n\t\treturn ack, err\n\t}\n\treturn ack, unknown(err)", "\treturn ack, unknown(err)"},
		caught: "TestSort_Replies",
	},
	{
		name:   "a reply that is not understood says that nothing was written",
		edits:  []string{"\treturn ack, unknown(err)", "\treturn ack, unwritten(err)"},
		caught: "TestSort_Replies",
	},
	{
		name:   "a comparison without a limit",
		edits:  []string{"\tctx, cancel := deadline.Limit(context.Background())\n\tdefer cancel()\n\tfor i := range c.messages", "\tctx, cancel := context.WithTimeout(context.Background(), time.Hour)\n\tdefer cancel()\n\tfor i := range c.messages"},
		caught: "TestCompare_Conditions",
	},
	{
		name:   "a message without a condition compared",
		edits:  []string{"\t\tif !m.conditioned {\n\t\t\tcontinue\n\t\t}\n\t\te, err := s.api", "\t\te, err := s.api"},
		caught: "TestCompare_Conditions",
	},
	{
		name:   "a comparison without an answer ends the write",
		edits:  []string{"\t\t\treturn fmt.Errorf(\"%w: %w\", errNotNow, err)\n\t\tcase err != nil:\n\t\t\treturn unwritten(err)\n\t\tcase e.Rev", "\t\t\treturn err\n\t\tcase err != nil:\n\t\t\treturn unwritten(err)\n\t\tcase e.Rev"},
		caught: "TestCompare_Conditions",
	},
	{
		name:   "a comparison that fails holds",
		edits:  []string{"\t\tcase err != nil:\n\t\t\treturn unwritten(err)\n\t\tcase e.Revision == m.expected:", "\t\tcase err != nil:\n\t\tcase e.Revision == m.expected:"},
		caught: "TestCompare_Conditions",
	},
	{
		name:   "a deleted key exists",
		edits:  []string{"\t\tcase m.create && e.Marker:\n\t\t\tm.expected = e.Revision\n", ""},
		caught: "TestCompare_Conditions",
	},
	{
		name:   "a deleted key created without its revision",
		edits:  []string{"\t\t\tm.expected = e.Revision\n", ""},
		caught: "TestCompare_Conditions",
	},
	{
		name:   "a deleted key may be updated",
		edits:  []string{"\t\tcase m.create && e.Marker:", "\t\tcase e.Marker:"},
		caught: "TestCompare_Conditions",
	},
	{
		name:   "a late answer rejects a write",
		edits:  []string{"\t\tcase e.Revision < m.expected && c.older < stalest:\n\t\t\tc.older++ // perhaps the answer is late\n", ""},
		caught: "TestCompare_Conditions",
	},
	{
		name:   "late answers excused once more",
		edits:  []string{"c.older < stalest:", "c.older <= stalest:"},
		caught: "TestCompare_Conditions",
	},
	{
		name:   "late answers excused without an end",
		edits:  []string{"\t\t\tc.older++ // perhaps", "\t\t\t// perhaps"},
		caught: "TestCompare_Conditions",
	},
	{
		name:   "a read of the settings beside a write without a limit",
		edits:  []string{"\t\ttry, cancel := deadline.Within(ctx, deadline.Default)\n\t\tdefer cancel()\n\t\t_, _ = l.s.api.Info(try)", "\t\t_, _ = l.s.api.Info(ctx)"},
		caught: "TestSendDirect_MoreReplicas",
	},
	{
		name:   "more replicas not noticed",
		edits:  []string{"\t\t_, _ = l.s.api.Info(try)\n", "\t\t_ = try\n"},
		caught: "TestSendDirect_MoreReplicas",
	},
	{
		name:   "a check that ends without its settings goes on",
		edits:  []string{"\tinfo, err := s.settings(ctx)\n\tif err != nil {\n\t\treturn err\n\t}\n\tif reason", "\tinfo, err := s.settings(ctx)\n\tif err != nil {\n\t\treturn nil\n\t}\n\tif reason"},
		caught: "TestCheck_NoSettings",
	},
	{
		name:   "a hazard not reported",
		edits:  []string{"\tif reason := s.hazard(info.Config); reason != \"\" {\n\t\treturn", "\tif reason := s.hazard(info.Config); reason == \"x\" {\n\t\treturn"},
		caught: "TestCheck_Reports/sealed",
	},
	{
		name:   "an old leader not reported",
		edits:  []string{"\told := outdatedLeader(info)\n", "\told := \"\"\n"},
		caught: "TestCheck_Reports/an_old_leader",
	},
	{
		name:   "an old replica not reported",
		edits:  []string{"others.Go(func() { old = s.outdatedReplica(ctx, info) })", "others.Go(func() { _ = s.outdatedReplica(ctx, info) })"},
		caught: "TestCheck_Reports/an_old_replica",
	},
	{
		name:   "a check ends before the versions have come",
		edits:  []string{"\t\tothers.Wait()\n\t\tif err", "\t\tif err"},
		caught: "TestCheck_Reports/an_old_replica",
	},
	{
		name:   "a server that heeds nothing is fit",
		edits:  []string{"\t\tif err == nil && !heeds {", "\t\tif err != nil && !heeds {"},
		caught: "TestProbe_Answers",
	},
	{
		name:   "the error of a probe lost",
		edits:  []string{"leastGuardServer, old)\n\t}\n\treturn err\n", "leastGuardServer, old)\n\t}\n\treturn nil\n"},
		caught: "TestProbe_Answers",
	},
	{
		name:   "that a stream keeps messages not remembered",
		edits:  []string{"\t\ts.keeps.Store(info.Config.AllowMsgTTL)\n\t}\n\treturn info, err", "\t}\n\treturn info, err"},
		caught: "TestGuard_GoneReadsSettings",
	},
	{
		name:   "settings that were not read remembered as none",
		edits:  []string{"\t\ts.keeps.Store(info.Config.AllowMsgTTL)\n\t}\n\treturn info, err", "\t\ts.keeps.Store(!info.Config.AllowMsgTTL)\n\t}\n\treturn info, err"},
		caught: "TestGuard_GoneReadsSettings",
	},
	{
		name:   "a guard that was never written not marked",
		edits:  []string{"\t\tif err == nil && e.Revision == 0 {\n\t\t\te.Revision, err = s.api.Store(ctx, s.marked(nil, 0))\n\t\t}\n", ""},
		caught: "TestProbe_Answers",
	},
	{
		name:   "another client's guard ends a probe",
		edits:  []string{"\t\tcase errors.Is(err, backend.ErrRefused): // another client has written it: read again\n\t\t\tcontinue\n", ""},
		caught: "TestProbe_Answers",
	},
	{
		name:   "a guard that cannot be read probed",
		edits:  []string{"\t\tcase err != nil:\n\t\t\treturn false, err\n\t\tcase e.Revision == before:", "\t\tcase e.Revision == before:"},
		caught: "TestProbe_Answers",
	},
	{
		name:   "a guard that has not moved probed again and again",
		edits:  []string{"\t\tcase e.Revision == before:\n\t\t\treturn true, nil", "\t\tcase e.Revision == before && before == 0:\n\t\t\treturn true, nil"},
		caught: "TestProbe_Answers",
	},
	{
		name:   "a guard that has not moved fails the probe",
		edits:  []string{"\t\t\treturn true, nil // the guard has not moved", "\t\t\treturn false, nil // the guard has not moved"},
		caught: "TestProbe_Answers",
	},
	{
		name:   "a probe with a condition that can hold",
		edits:  []string{"m := s.marked(e.Value, math.MaxInt64)", "m := s.marked(e.Value, 0)"},
		caught: "TestProbe_Answers",
	},
	{
		name:   "a probe on the guard itself",
		edits:  []string{"s.guard+\".probe\")", "s.guard)"},
		caught: "TestProbe_Answers",
	},
	{
		name:   "an accepted probe taken for heed",
		edits:  []string{"\t\tcase err == nil:\n\t\t\treturn false, nil\n\t\tcase !errors", "\t\tcase err == nil:\n\t\t\treturn true, nil\n\t\tcase !errors"},
		caught: "TestProbe_Answers",
	},
	{
		name:   "an error of the probe taken for a refusal",
		edits:  []string{"\t\tcase !errors.As(err, &refused):\n\t\t\treturn false, err\n", "\t\tcase !errors.As(err, &refused):\n\t\t\treturn true, nil\n"},
		caught: "TestProbe_Answers",
	},
	{
		name:   "the guard's own sequence taken for another's",
		edits:  []string{"return refused.Actual < e.Revision, nil", "return refused.Actual <= e.Revision, nil"},
		caught: "TestProbe_Answers",
	},
	{
		name:   "a later sequence taken for the guard's",
		edits:  []string{"case refused.Named && refused.Actual <= e.Revision:", "case refused.Named:"},
		caught: "TestProbe_Answers",
	},
	{
		name:   "a refusal without a sequence decides",
		edits:  []string{"case refused.Named && refused.Actual <= e.Revision:", "case refused.Actual <= e.Revision:"},
		caught: "TestProbe_Answers",
	},
	{
		name:   "a refusal without a sequence counts as a guard that stands",
		edits:  []string{"\t\tif refused.Named {\n\t\t\tbefore = e.Revision\n\t\t}", "\t\tbefore = e.Revision"},
		caught: "TestProbe_Answers",
	},
	{
		name:   "a probe without an end",
		edits:  []string{"\t\tif err = pause(ctx, tries); err != nil {\n\t\t\treturn false, fmt.Errorf(\"%w: %w\", leader.ErrUnreachable, err)", "\t\tif err = pause(context.WithoutCancel(ctx), tries); err != nil {\n\t\t\treturn false, fmt.Errorf(\"%w: %w\", leader.ErrUnreachable, err)"},
		caught: "TestProbe_Answers",
	},
	{
		name:   "a probe that ends without a kind",
		edits:  []string{"fmt.Errorf(\"%w: %w\", leader.ErrUnreachable, err)\n\t\t}\n\t}\n}\n\n// marked", "err\n\t\t}\n\t}\n}\n\n// marked"},
		caught: "TestProbe_Answers",
	},
	{
		name:   "a guard without a value that is no marker",
		edits:  []string{"\t\tm.Header.Set(jsapi.KVOperation, \"DEL\")\n", ""},
		caught: "TestProbe_Answers",
	},
	{
		name:   "a limit of bytes with discard new unsafe",
		edits:  []string{"case c.MaxBytes > 0 && old:", "case c.MaxBytes > 0:"},
		caught: "TestHazard_Settings",
	},
	{
		name:   "no limit of messages taken for one",
		edits:  []string{"case c.MaxMsgs > 0 && old:", "case c.MaxMsgs != 0 && old:"},
		caught: "TestHazard_Settings",
	},
	{
		name:   "an age without TTLs is safe",
		edits:  []string{"case c.MaxAge > 0 && !c.AllowMsgTTL:", "case c.MaxAge > 0 && c.AllowMsgTTL:"},
		caught: "TestHazard_Settings",
	},
	{
		name:   "a retention that drops is safe",
		edits:  []string{"case c.Retention != jetstream.LimitsPolicy:", "case c.Retention == jetstream.WorkQueuePolicy:"},
		caught: "TestHazard_Settings",
	},
	{
		name:   "only the first source looked at",
		edits:  []string{"\t\tif s.overwrittenBy(src) {\n\t\t\treturn", "\t\tif !s.overwrittenBy(src) {\n\t\t\tbreak\n\t\t} else {\n\t\t\treturn"},
		caught: "TestHazard_Settings",
	},
	{
		name:   "a limit of a subject without its discard unsafe",
		edits:  []string{"case c.DiscardNewPerSubject && c.MaxMsgsPerSubject > 0:", "case c.MaxMsgsPerSubject > 0:"},
		caught: "TestHazard_Settings",
	},
	{
		name:   "room for a guard that is one byte short",
		edits:  []string{"c.MaxMsgSize < guardRoom:", "c.MaxMsgSize < guardRoom-1:"},
		caught: "TestHazard_Settings",
	},
	{
		name:   "no room for a guard that fits",
		edits:  []string{"c.MaxMsgSize < guardRoom:", "c.MaxMsgSize <= guardRoom:"},
		caught: "TestHazard_Settings",
	},
	{
		name:   "no limit of the size taken for one",
		edits:  []string{"case 0 < c.MaxMsgSize && ", "case 0 != c.MaxMsgSize && "},
		caught: "TestHazard_Settings",
	},
	{
		name:   "a guard that is not in the stream",
		edits:  []string{"!slices.ContainsFunc(c.Subjects, func(sub string) bool { return jsapi.Covers(sub, s.whole) }):", "len(c.Subjects) == 0:"},
		caught: "TestHazard_Settings",
	},
	{
		name:   "a transform of all is safe",
		edits:  []string{"return t.Source == \"\" || jsapi.Covers(t.Source, s.guard) || mayYield", "return jsapi.Covers(t.Source, s.guard) || mayYield"},
		caught: "TestHazard_Settings",
	},
	{
		name:   "a transform to the guard is safe",
		edits:  []string{" || jsapi.Covers(t.Source, s.guard) || mayYield(t.Destination, s.guard)", " || jsapi.Covers(t.Source, s.guard)"},
		caught: "TestHazard_Settings",
	},
	{
		name:   "a source without a filter is safe",
		edits:  []string{"return src.FilterSubject == \"\" || ", "return "},
		caught: "TestHazard_Settings",
	},
	{
		name:   "a source's filter of all is safe",
		edits:  []string{"return t.Source == \"\" || jsapi.Covers(t.Source, s.guard)\n", "return jsapi.Covers(t.Source, s.guard)\n"},
		caught: "TestHazard_Settings",
	},
	{
		name:   "a part of a subject that depends on nothing",
		edits:  []string{"\t\tnumbered := len(tok) > 1 && tok[0] == '$' && '0' <= tok[1] && tok[1] <= '9'", "\t\tnumbered := len(tok) > 1 && tok[0] == '$'"},
		caught: "TestHazard_Settings",
	},
	{
		name:   "words in a transform not seen",
		edits:  []string{"strings.ContainsAny(tok, \"*>{\")", "strings.ContainsAny(tok, \"*>\")"},
		caught: "TestHazard_Settings",
	},
	{
		name:   "a shorter subject taken for the guard",
		edits:  []string{"\treturn len(got) == len(want)", "\treturn true"},
		caught: "TestHazard_Settings",
	},
	{
		name:   "a guard that is gone without a look at the settings",
		edits:  []string{"\t\tif err == nil && e.Revision == 0 {\n\t\t\t_, err = s.settings(ctx) // perhaps", "\t\tif false {\n\t\t\t_, err = s.settings(ctx) // perhaps"},
		caught: "TestGuard_GoneReadsSettings",
	},
	{
		name:   "settings read at each look at the guard",
		edits:  []string{"\t\tif err == nil && e.Revision == 0 {\n\t\t\t_, err = s.settings(ctx) // perhaps", "\t\tif err == nil {\n\t\t\t_, err = s.settings(ctx) // perhaps"},
		caught: "TestGuard_GoneReadsSettings",
	},
	{
		name:   "the error of a look at the guard replaced",
		edits:  []string{"\t\tif err == nil && e.Revision == 0 {\n\t\t\t_, err = s.settings(ctx) // perhaps", "\t\tif e.Revision == 0 {\n\t\t\t_, err = s.settings(ctx) // perhaps"},
		caught: "TestGuard_GoneReadsSettings",
	},
	{
		name:   "a guard that expires",
		edits:  []string{"\tif s.keeps.Load() {\n\t\tm.Header", "\tif !s.keeps.Load() {\n\t\tm.Header"},
		caught: "TestGuard_GoneReadsSettings",
	},
	{
		name:   "versions awaited for as long as the check",
		edits:  []string{"deadline.Within(ctx, versionWait)", "deadline.Within(ctx, time.Hour)"},
		caught: "TestCheck_Reports/an_old_replica",
	},
	{
		name:   "only the first replica asked",
		edits:  []string{"\t\tnames = append(names, r.Name)\n", "\t\tnames = append(names, r.Name)\n\t\tbreak\n"},
		caught: "TestCheck_Reports/an_old_replica",
	},
	{
		name:   "the own server asked for its version",
		edits:  []string{"\t\t\tversions[i] = s.api.Conn.ConnectedServerVersion()\n\t\t\tcontinue\n", "\t\t\tversions[i] = \"2.11.7\"\n\t\t\tcontinue\n"},
		caught: "TestCheck_Reports/the_server_of_this_connection",
	},
	{
		name:   "a server of the same name in another cluster taken for the own",
		edits:  []string{" && cluster == s.api.Conn.ConnectedClusterName() {", " {"},
		caught: "TestCheck_Reports/its_name_in_another_cluster",
	},
	{
		name:   "a denied question asked again and again",
		edits:  []string{"\t\t\t\ts.muted.Store(true)\n", ""},
		caught: "TestServerVersions_Denied",
	},
	{
		name:   "the denial of a question not known",
		edits:  []string{"\t\tif s.muted.Load() {\n\t\t\tcontinue\n\t\t}\n", ""},
		caught: "TestServerVersions_Denied",
	},
	{
		name:   "versions that have not come yet",
		edits:  []string{"\tall.Wait()\n", ""},
		caught: "TestCheck_Reports/an_old_replica",
	},
	{
		name:   "another server's version",
		edits:  []string{"err != nil || status.Server.Name != name {", "err != nil {"},
		caught: "TestCheck_Reports/another_server's_answer",
	},
	{
		name:   "a version that is equal is older",
		edits:  []string{"slices.Compare(v[:], l[:]) < 0", "slices.Compare(v[:], l[:]) <= 0"},
		caught: "TestOlderThan_Versions",
	},
	{
		name:   "a part of a version taken for one",
		edits:  []string{"return n == len(v) && slices", "return n > 0 && slices"},
		caught: "TestOlderThan_Versions",
	},
	{
		name:   "a version that is not told is fit",
		edits:  []string{"\tcase v == \"\":\n\t\treturn fmt", "\tcase v == \"?\":\n\t\treturn fmt"},
		caught: "TestCheck_Reports/no_version",
	},
	{
		name:   "a hidden name of a header",
		edits:  []string{"\t\t\tif hidden := hides(name); hidden != \"\" {", "\t\t\tif hidden := hides(name); hidden == \"?\" {"},
		caught: "TestCheckHeader_Names",
	},
	{
		name:   "a hidden name in a second value",
		edits:  []string{"\t\tfor _, value := range values {", "\t\tfor _, value := range values[:min(1, len(values))] {"},
		caught: "TestCheckHeader_Names",
	},
	{
		name:   "several values of a condition",
		edits:  []string{"\t\t\tif len(values) != 1 {", "\t\t\tif len(values) > 2 {"},
		caught: "TestCheckHeader_Names",
	},
	{
		name:   "a condition on the whole stream",
		edits:  []string{"\t\tcase jetstream.ExpectedLastSeqHeader, jetstream.ExpectedLastMsgIDHeader, ", "\t\tcase jetstream.ExpectedLastMsgIDHeader, "},
		caught: "TestCheckHeader_Names",
	},
	{
		name:   "a schedule",
		edits:  []string{"strings.HasPrefix(name, \"Nats-Schedule\")", "strings.HasSuffix(name, \"Nats-Schedule\")"},
		caught: "TestCheckHeader_Names",
	},
	{
		name:   "a roll-up of all in lower case with a space",
		edits:  []string{"strings.TrimSpace(h.Get(jetstream.MsgRollup)); roll != \"\" && !strings.EqualFold(roll, jetstream.MsgRollupSubject)", "h.Get(jetstream.MsgRollup); roll == \"all\""},
		caught: "TestCheckHeader_Names",
	},
	{
		name:   "a roll-up in upper case refused",
		edits:  []string{"!strings.EqualFold(roll, jetstream.MsgRollupSubject)", "roll != jetstream.MsgRollupSubject"},
		caught: "TestCheckHeader_Names",
	},
	{
		name:   "a subject of a condition without one",
		edits:  []string{"h.Get(jetstream.ExpectedLastSubjSeqHeader) == \"\" && h.Get(", "h.Get(jetstream.ExpectedLastSubjSeqHeader) != \"\" && h.Get("},
		caught: "TestCheckHeader_Names",
	},
	{
		name:   "a batch of 1000",
		edits:  []string{"n == 0 || n > maxBatchMessages {", "n == 0 || n > maxBatchMessages+1 {"},
		caught: "TestWriteSet_Check",
	},
	{
		name:   "a batch of 999 refused",
		edits:  []string{"n == 0 || n > maxBatchMessages {", "n == 0 || n >= maxBatchMessages {"},
		caught: "TestWriteSet_Check",
	},
	{
		name:   "an empty batch",
		edits:  []string{"n == 0 || n > maxBatchMessages {", "n > maxBatchMessages {"},
		caught: "TestWriteSet_Check",
	},
	{
		name:   "a write of the guard",
		edits:  []string{"case m.subject == s.guard:", "case m.subject == s.guard && i == 0:"},
		caught: "TestWriteSet_Check",
	},
	{
		name:   "a condition on the guard",
		edits:  []string{"case m.conditioned && m.on == s.guard:", "case m.conditioned && m.subject == s.guard:"},
		caught: "TestWriteSet_Check",
	},
	{
		name:   "a hiding condition",
		edits:  []string{"case m.conditioned && m.key == \"\" && hides(m.on) != \"\":", "case m.conditioned && m.key == \"\" && hides(m.subject) != \"\" && false:"},
		caught: "TestWriteSet_Check",
	},
	{
		name:   "a hiding subject refused",
		edits:  []string{"case m.conditioned && m.key == \"\" && hides", "case m.key == \"\" && hides"},
		caught: "TestWriteSet_Check",
	},
	{
		name:   "a subject of another stream",
		edits:  []string{"conf != nil && !slices.ContainsFunc", "conf == nil && !slices.ContainsFunc"},
		caught: "TestWriteSet_Check",
	},
	{
		name:   "a conflict within a change",
		edits:  []string{"\tif len(c.messages) > 1 {\n\t\tif subject", "\tif len(c.messages) > 2 {\n\t\tif subject"},
		caught: "TestWriteSet_Check",
	},
	{
		name:   "a condition on a wildcard",
		edits:  []string{"err != nil || !m.conditioned {", "err != nil || m.conditioned {"},
		caught: "TestWriteSet_Check",
	},
	{
		name:   "a roll-up of what is written before",
		edits:  []string{"\t\tcase written[m.subject] && m.header.Get(jetstream.MsgRollup) != \"\":\n\t\t\treturn m.subject\n", ""},
		caught: "TestWriteSet_Check",
	},
	{
		name:   "a condition on what is written before",
		edits:  []string{"\t\tcase m.conditioned && written[m.on]:\n\t\t\treturn m.on\n", ""},
		caught: "TestWriteSet_Check",
	},
	{
		name:   "a write not recorded for conflicts",
		edits:  []string{"\t\twritten[m.subject] = true\n\t}\n\treturn \"\"", "\t\twritten[m.on] = m.conditioned\n\t}\n\treturn \"\""},
		caught: "TestWriteSet_Check",
	},
	{
		name:   "a key that exists reported as a mismatch",
		edits:  []string{"\tcase m.create:\n\t\treturn fmt", "\tcase m.create && m.key == \"\":\n\t\treturn fmt"},
		caught: "TestMismatch_Errors",
	},
	{
		name:   "a mismatch of a key reported as that of a stream",
		edits:  []string{"\tcase m.key != \"\":\n\t\treturn fmt.Errorf(\"fence: %s is", "\tcase m.key == \"?\":\n\t\treturn fmt.Errorf(\"fence: %s is"},
		caught: "TestMismatch_Errors",
	},
	{
		name:   "revisions of a batch one too great",
		edits:  []string{"first := c.ack.Sequence - uint64(len(c.messages)) + 1", "first := c.ack.Sequence - uint64(len(c.messages)) + 2"},
		caught: "TestPack_Headers",
	},
	{
		name:   "a long key",
		edits:  []string{"\t\tif err := jsapi.CheckLength(\"key\", m.key, jsapi.MaxSubject); err != nil {\n\t\t\treturn nil, err\n\t\t}\n", ""},
		caught: "TestOpen_Invalid",
	},
	{
		name:   "an invalid key",
		edits:  []string{"\t\tif !wire.ValidKey(m.key) {\n\t\t\treturn nil, fmt", "\t\tif m.key == \"\" {\n\t\t\treturn nil, fmt"},
		caught: "TestOpen_Invalid",
	},
	{
		name:   "a batch without a writer",
		edits:  []string{"%w: the writer was not made by Bucket.Writer", "%v: the writer was not made by Bucket.Writer"},
		caught: "TestOpen_Invalid",
	},
	{
		name:   "a term that does not know the guard",
		edits:  []string{"\tif l == nil {\n\t\treturn nil, fmt.Errorf(\"%w: %s is not", "\tif l == nil {\n\t\treturn nil, fmt.Errorf(\"%v: %s is not"},
		caught: "TestOpen_Invalid",
	},
	{
		name:   "the last error of a batch",
		edits:  []string{"b.err = cmp.Or(b.err, fmt", "b.err = cmp.Or(nil, fmt"},
		caught: "TestStreamBatch_FirstError",
	},
	{
		name:   "a later error of a batch in place of the first",
		edits:  []string{"\t\tif err != nil && b.err == nil {", "\t\tif err != nil {"},
		caught: "TestStreamBatch_FirstError",
	},
	{
		name:   "a later header of a batch in place of the first error",
		edits:  []string{"\tif b.err == nil {\n\t\tb.err = checkHeader(m.Header)\n\t}\n", "\tb.err = checkHeader(m.Header)\n"},
		caught: "TestStreamBatch_FirstError",
	},
	{
		name:   "a batch with an error committed",
		edits:  []string{"\tcase b.err != nil:\n\t\treturn nil, b.err\n\tcase b.w == nil", "\tcase b.w == nil"},
		caught: "TestStreamBatch_FirstError",
	},
	{
		name:   "a stream's batch without a writer",
		edits:  []string{"%w: the writer was not made by Stream.Writer", "%v: the writer was not made by Stream.Writer"},
		caught: "TestStreamBatch_FirstError",
	},
	{
		name:   "the last ID of a batch only",
		edits:  []string{"b.named = b.named || m.Header", "b.named = m.Header"},
		caught: "TestStreamBatch_IDs",
	},
	{
		name:   "a caller's condition on the message's own subject",
		edits:  []string{"\t\t\tto.on = on\n", ""},
		caught: "TestStreamBatch_Condition",
	},
	{
		name:   "a message with a condition sent without",
		edits:  []string{"to.conditioned, to.expected = true, seq", "to.expected = seq"},
		caught: "TestStreamBatch_Condition",
	},
	{
		name:   "unsafe settings created",
		edits:  []string{"\tif reason := s.hazard(fresh); reason != \"\" {", "\tif reason := s.hazard(fresh); reason == \"?\" {"},
		caught: "TestCreate_FirstSequence",
	},
	{
		name:   "a creation without a limit",
		edits:  []string{"\tctx, cancel := deadline.Limit(ctx)\n\tdefer cancel()\n\terr := s.api.Establish", "\tctx, cancel := context.WithCancel(ctx)\n\tdefer cancel()\n\terr := s.api.Establish"},
		caught: "TestCreate_FirstSequence",
	},
	{
		name:   "revisions from 1",
		edits:  []string{"\t\tif conf.FirstSeq == 0 {\n\t\t\tconf.FirstSeq = jsapi.FirstRevision()\n\t\t}\n", ""},
		caught: "TestCreate_FirstSequence",
	},
	{
		name:   "a wished first sequence replaced",
		edits:  []string{"\t\tif conf.FirstSeq == 0 {\n", "\t\tif conf.FirstSeq != 1 {\n"},
		caught: "TestCreate_FirstSequence",
	},
	{
		name:   "the error of a creation lost",
		edits:  []string{"\t\treturn fmt.Errorf(\"create %s: %w\", s.title, err)\n\t}\n\treturn nil", "\t\treturn nil\n\t}\n\treturn nil"},
		caught: "TestCreate_FirstSequence",
	},
	{
		name:   "a TTL of an existing stream not remembered",
		edits:  []string{"\ts.keeps.Store(old.AllowMsgTTL)\n\tif old", "\tif old"},
		caught: "TestReshape_Existing",
	},
	{
		name:   "another storage",
		edits:  []string{"\tif old.Storage != wish.Storage {\n\t\treturn old, false, fmt", "\tif false {\n\t\treturn old, false, fmt"},
		caught: "TestReshape_Existing",
	},
	{
		name:   "an existing stream with unsafe settings",
		edits:  []string{"\tif reason := s.hazard(conf); reason != \"\" {", "\tif reason := s.hazard(conf); reason == \"?\" {"},
		caught: "TestReshape_Existing",
	},
	{
		name:   "a stream that is fit written",
		edits:  []string{"return conf, !reflect.DeepEqual(conf, old), nil", "return conf, true, nil"},
		caught: "TestReshape_Existing",
	},
	{
		name:   "a zero value as a wish",
		edits:  []string{"f := from.Field(i); !f.IsZero() {", "f := from.Field(i); true {"},
		caught: "TestShape_Settings",
	},
	{
		name:   "the guard's subject not added",
		edits:  []string{"append(slices.Clone(wish.Subjects), s.guard))", "slices.Clone(wish.Subjects))"},
		caught: "TestShape_Settings",
	},
	{
		name:   "the metadata of the existing stream changed",
		edits:  []string{"conf.Metadata = maps.Clone(old.Metadata)", "conf.Metadata = old.Metadata"},
		caught: "TestShape_Settings",
	},
	{
		name:   "wished metadata into none",
		edits:  []string{"\t\t\tconf.Metadata = make(map[string]string)\n\t\t}\n\t\tconf.Metadata[key] = value", "\t\t\tcontinue\n\t\t}\n\t\tconf.Metadata[key] = value"},
		caught: "TestShape_Settings",
	},
	{
		name:   "no batches",
		edits:  []string{"\tconf.AllowAtomicPublish = true\n", ""},
		caught: "TestShape_Settings",
	},
	{
		name:   "an age without TTLs created",
		edits:  []string{"\t\tconf.AllowMsgTTL = true\n\t\tif wish", "\t\tif wish"},
		caught: "TestShape_Settings",
	},
	{
		name:   "a memory longer than the age",
		edits:  []string{"min(conf.Duplicates, conf.MaxAge)", "max(conf.Duplicates, conf.MaxAge)"},
		caught: "TestShape_Settings",
	},
	{
		name:   "a wished memory replaced",
		edits:  []string{"\t\tif wish.Duplicates == 0 { // it", "\t\tif wish.Duplicates != 1 { // it"},
		caught: "TestShape_Settings",
	},
	{
		name:   "subjects that overlap",
		edits:  []string{"\t\tall = slices.DeleteFunc(all, func(have string) bool { return jsapi.Covers(sub, have) })\n", ""},
		caught: "TestShape_Settings",
	},
	{
		name:   "a subject twice",
		edits:  []string{"\t\tif slices.ContainsFunc(all, func(have string) bool { return jsapi.Covers(have, sub) }) {\n\t\t\tcontinue\n\t\t}\n", "\t\tif slices.Contains(all, sub) {\n\t\t\tcontinue\n\t\t}\n"},
		caught: "TestShape_Settings",
	},
	{
		name:   "the default subject of a stream lost",
		edits:  []string{"\tif len(cfg.Subjects) == 0 {\n\t\tfresh", "\tif len(cfg.Subjects) != 0 {\n\t\tfresh"},
		caught: "TestCreate_FirstSequence",
	},
	{
		name:   "a bucket without compression",
		edits:  []string{"\tif cfg.Compression {", "\tif !cfg.Compression {"},
		caught: "TestCreateBucket_Settings",
	},
	{
		name:   "more history than a bucket has",
		edits:  []string{"cfg.History > jetstream.KeyValueMaxHistory:", "cfg.History > jetstream.KeyValueMaxHistory+1:"},
		caught: "TestOpen_Invalid",
	},
	{
		name:   "the most history refused",
		edits:  []string{"cfg.History > jetstream.KeyValueMaxHistory:", "cfg.History >= jetstream.KeyValueMaxHistory:"},
		caught: "TestCreateBucket_Settings",
	},
	{
		name:   "a bucket with sources",
		edits:  []string{"case len(cfg.Sources) > 0:", "case len(cfg.Sources) > 1:"},
		caught: "TestOpen_Invalid",
	},
	{
		name:   "a nil option",
		edits:  []string{"\t\tif opt == nil {\n\t\t\treturn nil, fmt.Errorf(\"%w: an", "\t\tif opt == nil {\n\t\t\treturn nil, fmt.Errorf(\"%v: an"},
		caught: "TestOpen_Invalid",
	},
	{
		name:   "an invalid guard key",
		edits:  []string{"\t\tif !wire.ValidKey(key) {\n\t\t\treturn fmt", "\t\tif key == \"\" {\n\t\t\treturn fmt"},
		caught: "TestOpen_Invalid",
	},
	{
		name:   "the error of an option lost",
		edits:  []string{"\t\tif err := opt(b); err != nil {\n\t\t\treturn nil, err\n\t\t}", "\t\t_ = opt(b)"},
		caught: "TestOpen_Invalid",
	},
	{
		name:   "the longest name of a stream refused",
		edits:  []string{"len(stream) > wire.MaxBucketName+len(\"KV_\")", "len(stream) >= wire.MaxBucketName+len(\"KV_\")"},
		caught: "TestOpen_Invalid",
	},
	{
		name:   "a name of a stream that is too long",
		edits:  []string{"len(stream) > wire.MaxBucketName+len(\"KV_\")", "len(stream) > wire.MaxBucketName+len(\"KV_\")+1"},
		caught: "TestOpen_Invalid",
	},
	{
		name:   "a hiding guard",
		edits:  []string{"\tif hidden := hides(guard); hidden != \"\" {", "\tif hidden := hides(guard); hidden == \"?\" {"},
		caught: "TestOpen_Invalid",
	},
	{
		name:   "a guard that was not opened",
		edits:  []string{"\tif s.api.Opened() != nil {\n\t\treturn nil\n\t}\n\treturn guardBackend{s}", "\treturn guardBackend{s}"},
		caught: "TestOpen_Invalid",
	},
}}
