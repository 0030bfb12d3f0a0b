package machine

import (
	"cmp"
	"fmt"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/record"
)

// actions adds all actions that may happen next.
func (w *worldOf) actions(all []action) []action {
	add := func(do verb, party, arg int) { all = append(all, action{do, uint8(party), uint8(arg)}) }
	overdue := false
	for i := range w.times {
		p := &w.parties[i]
		if !p.up {
			if w.may(restart) {
				add(doBoot, i, 0)
			}
			continue
		}
		overdue = overdue || w.waits(i)
		w.troubleActions(i, add)
		if w.guarded {
			w.guardRequestActions(i, add)
		}
		if p.frozen {
			continue
		}
		w.processActions(i, add)
		w.requestActions(i, add)
		if w.listed {
			w.rosterActions(i, add)
		}
		for n, s := range p.told {
			if s.Kind == record.EntryUnseen {
				break
			}
			if n == 0 || w.may(reorderFeed) {
				add(doHear, i, n)
			}
			if w.may(loseFeed) {
				add(doMute, i, n)
			}
		}
	}
	for n, g := range w.ghosts {
		if g.rec.Session != "" {
			add(doGhost, 0, n)
		}
	}
	w.operatorActions(add)
	w.junkActions(add)
	if w.listed {
		w.lapseActions(add)
	}
	if w.guarded {
		w.guardActions(add)
	}
	w.oldActions(add)
	if (!overdue || w.may(late)) && !w.oldBusy() {
		add(doTick, 0, 0)
		if w.ahead <= w.skew {
			add(doTick, 0, 1)
		}
		if w.ahead > 0 {
			add(doTick, 0, 2)
		}
	}
	return all
}

// troubleActions adds the faults of a process, whether or not it stands still. A request
// that it sent before goes its way.
func (w *worldOf) troubleActions(i int, add func(do verb, party, arg int)) {
	p := &w.parties[i]
	if p.frozen {
		add(doFreeze, i, 1)
		if p.way == going && !p.cut {
			add(doArrive, i, 0)
		}
	} else if w.may(freeze) {
		add(doFreeze, i, 0)
	}
	if p.cut {
		add(doCut, i, 1)
	} else if w.may(cutOff) {
		add(doCut, i, 0)
	}
	if w.may(crash) {
		add(doCrash, i, 0)
		raises := w.posts[i].op.Kind == GuardRaise && w.posts[i].way == going
		if (p.m.flight.req.Kind == ReqWrite && p.way == going || raises) && w.may(applyLate) {
			add(doCrash, i, 1)
		}
	}
}

func (w *worldOf) processActions(i int, add func(do verb, party, arg int)) {
	p := &w.parties[i]
	if w.due(i) {
		add(doWake, i, 0)
	}
	w.forgeActions(i, add)
	if w.may(resign) && p.m.state == StateLeader && p.m.leave.mode == Staying {
		add(doResign, i, 0)
	}
	if w.may(stop) && !p.checker.Stopped() {
		add(doStop, i, 0)
	}
	if w.gated && !p.m.suspended {
		add(doBar, i, 0)
	}
	if w.gated && p.m.suspended {
		add(doOpen, i, 0)
	}
	if w.may(closeConnection) {
		add(doClose, i, 0)
	}
	if (w.may(release) || w.loops) && p.m.work.going {
		add(doRelease, i, 0)
	}
	w.loopActions(i, add)
	if p.m.flight.slot == slotWaits {
		add(doSlot, i, 0)
	}
	if w.may(reconnect) && p.listening {
		add(doReconnect, i, 0)
	}
	if w.may(endFeed) && p.listening && p.m.feed.up {
		add(doEndFeed, i, 0)
	}
}

func (w *worldOf) requestActions(i int, add func(do verb, party, arg int)) {
	p := &w.parties[i]
	kind := p.m.flight.req.Kind
	switch p.way {
	case going:
		if p.cut {
			break
		}
		add(doArrive, i, 0)
		if kind == ReqWrite {
			if !w.named && w.current.Revision != p.m.flight.req.Revision {
				add(doArrive, i, 1)
			}
			if w.may(refuse) && w.current.Revision == p.m.flight.req.Revision {
				add(doRefuse, i, 0)
				add(doRefuse, i, 1)
			}
		}
		if kind == ReqRead && w.may(readPast) {
			for n, s := range w.past {
				if s.Kind != record.EntryUnseen {
					add(doStale, i, n)
				}
			}
		}
		if w.may(loseRequest) {
			add(doLose, i, 0)
		}
	case answered:
		if p.cut {
			break
		}
		add(doDeliver, i, 0)
		if w.may(loseReply) {
			add(doLose, i, 0)
		}
	case lost, nowhere:
	}
	if p.way != nowhere && (p.m.flight.late || w.may(giveUpEarly)) {
		add(doFail, i, 0)
		if kind == ReqWrite && p.way == going && w.may(applyLate) {
			add(doFail, i, 1)
		}
	}
}

func (w *worldOf) operatorActions(add func(do verb, party, arg int)) {
	held := w.current.Kind == record.EntryRecord || w.current.Kind == record.EntryForeign
	if w.may(remove) && held {
		add(doRemove, 0, 0)
	}
	if w.may(purge) && w.current.Kind != record.EntryNothing {
		add(doPurge, 0, 0)
	}
	if w.may(overwrite) {
		add(doOverwrite, 0, 0)
	}
	if w.may(remake) {
		add(doRemake, 0, 0)
	}
	if w.may(rollBack) {
		for n, s := range w.past {
			if s.Kind != record.EntryUnseen && s.Revision < w.current.Revision {
				add(doRollBack, 0, n)
			}
		}
	}
}

// apply applies an action.
func (w *worldOf) apply(a action) {
	defer func() {
		if r := recover(); r != nil {
			w.fail("panic: %v", r)
		}
	}()
	i := int(a.party)
	p := &w.parties[i]
	w.tell("%s", w.explain(a))
	switch a.do {
	case doTick:
		w.pass(a.arg)
	case doWake:
		w.step(i, Input{Kind: InTick})
		w.guideAlone(i, GuardInput{Kind: GuardInTick})
	case doArrive:
		w.arrive(i, a.arg == 1)
	case doStale:
		w.spend(readPast)
		p.way, p.reply = answered, response{sight: w.past[a.arg]}
	case doRefuse:
		w.spend(refuse)
		p.way, p.reply = answered, response{refused: true, named: a.arg == 0, revision: w.current.Revision}
	case doLose:
		if p.way == going {
			w.spend(loseRequest)
		} else {
			w.spend(loseReply)
		}
		p.way, p.reply = lost, response{}
	case doDeliver:
		w.deliver(i)
	case doFail:
		w.giveUp(i, a.arg == 1)
	case doHear:
		if a.arg > 0 {
			w.spend(reorderFeed)
		}
		w.step(i, Input{Kind: InHeard, Observed: p.hear(int(a.arg))})
	case doMute:
		w.spend(loseFeed)
		p.hear(int(a.arg))
	case doEndFeed:
		w.spend(endFeed)
		p.listening, p.told = false, [2]record.Observation{}
		w.step(i, Input{Kind: InFeedLost, Err: backend.ErrUnreachable})
	case doReconnect:
		w.spend(reconnect)
		w.step(i, Input{Kind: InReconnected})
		w.guideAlone(i, GuardInput{Kind: GuardInReconnected})
	case doFreeze:
		if a.arg == 0 {
			w.spend(freeze)
		}
		p.frozen = a.arg == 0
	case doCut:
		if a.arg == 0 {
			w.spend(cutOff)
		}
		p.cut = a.arg == 0
	case doForge:
		if w.may(forgeAny) {
			w.spend(forgeAny)
		} else {
			w.spend(forge)
		}
		w.step(i, Input{Kind: InHeard, Observed: w.forgeries()[a.arg]})
	case doCrash:
		w.spend(crash)
		w.down(i, a.arg == 1)
	case doBoot:
		w.spend(restart)
		w.boot(i)
	case doResign:
		w.spend(resign)
		w.step(i, Input{Kind: InResign})
	case doStop:
		w.spend(stop)
		w.step(i, Input{Kind: InStop})
	case doClose:
		w.spend(closeConnection)
		w.step(i, Input{Kind: InClosed})
	case doRelease:
		w.spend(release)
		w.step(i, Input{Kind: InDrained, Term: p.m.term.number})
	case doSlot:
		w.step(i, Input{Kind: InSlot})
	case doWorked, doLoop, doNoLoop:
		w.applyLoop(a)
	case doBar:
		w.step(i, Input{Kind: InSuspend})
	case doOpen:
		eager, counter, before := p.m.wantsKey(p.now), p.m.writes.counter, p.m.flight.rank
		w.step(i, Input{Kind: InResume})
		tries := p.m.writes.counter > counter && p.m.flight.req.write.win
		if w.withholds { // it asks for a slot, or keeps its place in line
			tries = p.m.flight.rank == backend.RankTake && (eager || before != backend.RankTake)
		}
		if eager != tries {
			w.fail("%s was eager to take its key: %v, and when the gate was opened it tried: %v", p.m.Session, eager, tries)
		}
	case doGhost:
		g := w.ghosts[a.arg]
		w.ghosts[a.arg] = ghost{}
		w.compareAndSet(g.cond, g.rec, g.marker)
	case doRemove:
		w.spend(remove)
		w.put(record.Observation{Kind: record.EntryMarker})
	case doPurge:
		w.spend(purge)
		w.put(record.Observation{Kind: record.EntryNothing})
	case doOverwrite:
		w.spend(overwrite)
		w.put(record.Observation{Kind: record.EntryForeign})
	case doForce:
		w.spend(force)
		w.put(w.forced())
	case doJunk:
		w.putJunk(int(a.arg))
	case doRemake:
		w.spend(remake)
		w.current, w.past, w.last = record.Observation{Kind: record.EntryNothing}, [2]record.Observation{}, above
	case doRollBack:
		w.spend(rollBack)
		w.current = w.past[a.arg]
		w.last = w.current.Revision
		w.past = [2]record.Observation{}
	case doGuardArrive, doGuardStale, doGuardRefuse, doGuardLose, doGuardDeliver, doGuardFail, doGuardWrite, doGuardUnfit, doGuardGhost, doGuardRemove, doGuardOverwrite, doGuardPurge:
		w.applyGuard(a)
	case doAnnounce, doRank, doHandOver, doLapse:
		w.applyRoster(a)
	case doCalm:
		w.calm()
	case doOldExpire, doOldBoot, doOldCampaign, doOldCrash, doOldArrive, doOldRefuse, doOldLose, doOldDeliver, doOldFail, doOldGhost, doDouble:
		w.applyOld(a)
	}
}

// pass lets a tick pass, on all clocks or on some.
func (w *worldOf) pass(which uint8) {
	overdue := false
	for i := range w.times {
		p := &w.parties[i]
		overdue = overdue || w.waits(i)
		if which == 0 || (which == 1) == (i == 0) {
			p.now = p.now.Add(cmp.Or(w.paces[i], tick))
		}
	}
	if overdue {
		w.spend(late)
	}
	w.passOld(which)
	switch which {
	case 1:
		w.ahead++
	case 2:
		w.ahead--
	}
}

// giveUp answers the request in flight with an unknown outcome.
func (w *worldOf) giveUp(i int, haunts bool) {
	p := &w.parties[i]
	if !p.m.flight.late {
		w.spend(giveUpEarly)
	}
	if haunts {
		w.haunt(i)
	}
	in := Input{Err: backend.ErrUnreachable}
	switch p.m.flight.req.Kind {
	case ReqSettings:
		in.Kind = InSettings
	case ReqFeed:
		in.Kind = InFeed
		p.listening, p.told = false, [2]record.Observation{}
	case ReqRead:
		in.Kind = InRead
	case ReqWrite:
		in.Kind = InWritten
	case ReqNone:
	}
	p.way, p.reply = nowhere, response{}
	w.step(i, in)
}

// explain describes an action in words.
func (w *worldOf) explain(a action) string {
	p := &w.parties[a.party]
	who := p.m.Session
	what := map[RequestKind]string{ReqSettings: "question for the settings", ReqFeed: "opening of a feed", ReqRead: "read", ReqWrite: "write"}[p.m.flight.req.Kind]
	switch a.do {
	case doTick:
		return []string{"a tick passes", "a tick passes on A's clock alone", "a tick passes on all clocks but A's"}[a.arg]
	case doWake:
		return "the timer of " + who + " fires"
	case doArrive:
		return "the " + what + " of " + who + " reaches the store"
	case doStale:
		return "the " + what + " of " + who + " is answered from the past: " + describe(w.past[a.arg])
	case doRefuse:
		return "the " + what + " of " + who + " is refused for no reason"
	case doLose:
		if p.way == answered {
			return "the reply to the " + what + " of " + who + " is lost"
		}
		return "the " + what + " of " + who + " is lost"
	case doDeliver:
		return "the reply to the " + what + " of " + who + " arrives"
	case doFail:
		return "the " + what + " of " + who + " fails" + []string{"", ", but is still on its way"}[a.arg]
	case doHear:
		return "the feed of " + who + " tells of " + describe(p.told[a.arg])
	case doMute:
		return "the feed of " + who + " loses " + describe(p.told[a.arg])
	case doEndFeed:
		return "the feed of " + who + " ends"
	case doReconnect:
		return who + " is reconnected"
	case doFreeze:
		return who + []string{" stands still", " goes on"}[a.arg]
	case doCut:
		return who + []string{" is cut off", " is connected again"}[a.arg]
	case doForge:
		return "somebody tells " + who + " of " + describe(w.forgeries()[a.arg])
	case doCalm:
		return "all faults cease"
	case doCrash:
		return who + " crashes" + []string{"", ", its write is still on its way"}[a.arg]
	case doBoot:
		return partyNames[a.party] + " starts again"
	case doResign, doStop, doClose, doRelease, doWorked, doLoop, doNoLoop, doBar, doOpen, doSlot:
		return who + " is told to " + verbNames[a.do]
	case doGhost:
		g := w.ghosts[a.arg]
		return fmt.Sprintf("an old write arrives, on %d: %s", g.cond, describeRecord(g.rec))
	case doRemove:
		return "the key is deleted, or expires"
	case doPurge:
		return "the key is purged without a trace"
	case doOverwrite:
		return "somebody else writes something foreign"
	case doForce:
		return "the operator replaces it by " + describe(w.forced())
	case doJunk:
		return "somebody writes " + describe(w.junk()[a.arg])
	case doGuardArrive, doGuardStale, doGuardRefuse, doGuardLose, doGuardDeliver, doGuardFail, doGuardWrite, doGuardUnfit, doGuardGhost, doGuardRemove, doGuardOverwrite, doGuardPurge:
		return w.explainGuard(a)
	case doAnnounce, doRank, doHandOver, doLapse:
		return w.explainRoster(a)
	case doRollBack:
		return "the store goes back to " + describe(w.past[a.arg])
	case doRemake:
		return "the bucket is deleted and made anew"
	case doOldExpire, doOldBoot, doOldCampaign, doOldCrash, doOldArrive, doOldRefuse, doOldLose, doOldDeliver, doOldFail, doOldGhost, doDouble:
		return w.explainOld(a)
	}
	return a.String()
}
