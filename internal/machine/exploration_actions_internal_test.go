package machine

import (
	"cmp"
	"fmt"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/record"
)

// adder adds an action if it may happen.
type adder func(may bool, do verb, party, arg int)

// actions adds all actions that may happen next.
func (w *worldOf) actions(all []action) []action {
	add := func(may bool, do verb, party, arg int) {
		if may {
			all = append(all, action{do, uint8(party), uint8(arg)})
		}
	}
	overdue := false
	for i := range w.times {
		p := &w.parties[i]
		if !p.up {
			add(w.may(restart), doBoot, i, 0)
			add(w.may(restart) && p.freed.Kind != record.EntryUnseen, doBoot, i, 1)
			add(w.may(restart) && w.foresees && p.freed != nothing, doBoot, i, 2)
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
			add(n == 0 || w.may(reorderFeed), doHear, i, n)
			add(w.may(loseFeed), doMute, i, n)
		}
	}
	for n, g := range w.ghosts {
		add(g.rec.Session != "", doGhost, 0, n)
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
	passes := (!overdue || w.may(late)) && !w.oldBusy()
	add(passes, doTick, 0, 0)
	add(passes && w.ahead <= w.skew, doTick, 0, 1)
	add(passes && w.ahead > 0, doTick, 0, 2)
	return all
}

// troubleActions adds the faults of a process, whether or not it stands still. A request
// that it sent before goes its way.
func (w *worldOf) troubleActions(i int, add adder) {
	p := &w.parties[i]
	add(p.frozen && !p.paused, doFreeze, i, 1)
	add(p.paused, doPause, i, 1)
	add(!p.frozen && w.may(pause), doPause, i, 0)
	add(p.frozen && p.way == going && !p.cut, doArrive, i, 0)
	add(!p.frozen && w.may(freeze), doFreeze, i, 0)
	add(p.cut, doCut, i, 1)
	add(!p.cut && w.may(cutOff), doCut, i, 0)
	add(w.may(crash), doCrash, i, 0)
	writes := p.m.flight.req.Kind == ReqWrite && p.way == going
	raises := w.posts[i].op.Kind == GuardRaise && w.posts[i].way == going
	add(w.may(crash) && (writes || raises) && w.may(applyLate), doCrash, i, 1)
}

func (w *worldOf) processActions(i int, add adder) {
	p := &w.parties[i]
	add(w.due(i), doWake, i, 0)
	w.forgeActions(i, add)
	add(w.may(resign) && p.m.state == StateLeader && p.m.leave.mode == Staying, doResign, i, 0)
	add(w.may(stop) && !p.checker.Stopped(), doStop, i, 0)
	add(w.gated && !p.m.suspended, doBar, i, 0)
	add(w.gated && p.m.suspended, doOpen, i, 0)
	add(w.may(closeConnection), doClose, i, 0)
	add(w.may(setTime), doSet, i, 0)
	add((w.may(release) || w.loops || w.gos) && p.m.work.going, doRelease, i, 0)
	w.loopActions(i, add)
	add(p.m.flight.slot == slotWaits, doSlot, i, 0)
	add(w.may(reconnect) && p.listening, doReconnect, i, 0)
	add(w.may(endFeed) && p.listening && p.m.feed.up, doEndFeed, i, 0)
}

func (w *worldOf) requestActions(i int, add adder) {
	p := &w.parties[i]
	kind, holds := p.m.flight.req.Kind, w.current.Revision == p.m.flight.req.Revision
	goes, comes := p.way == going && !p.cut, p.way == answered && !p.cut
	writes := goes && kind == ReqWrite
	add(goes, doArrive, i, 0)
	add(writes && !w.named && !holds, doArrive, i, 1)
	add(writes && w.may(refuse) && holds, doRefuse, i, 0)
	add(writes && w.may(refuse) && holds, doRefuse, i, 1)
	for n, s := range w.past {
		add(goes && kind == ReqRead && w.may(readPast) && s.Kind != record.EntryUnseen, doStale, i, n)
	}
	add(goes && w.may(loseRequest), doLose, i, 0)
	add(comes, doDeliver, i, 0)
	add(comes && w.may(loseReply), doLose, i, 0)
	fails := p.way != nowhere && (p.m.flight.late || w.may(giveUpEarly))
	add(fails, doFail, i, 0)
	add(fails && kind == ReqWrite && p.way == going && w.may(applyLate), doFail, i, 1)
}

func (w *worldOf) operatorActions(add adder) {
	held := w.current.Kind == record.EntryRecord || w.current.Kind == record.EntryForeign
	add(w.may(remove) && held, doRemove, 0, 0)
	add(w.may(purge) && w.current.Kind != record.EntryNothing, doPurge, 0, 0)
	add(w.may(overwrite), doOverwrite, 0, 0)
	add(w.may(remake), doRemake, 0, 0)
	if w.may(rollBack) {
		for n, s := range w.past {
			add(s.Kind != record.EntryUnseen && s.Revision < w.current.Revision, doRollBack, 0, n)
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
	if w.say != nil {
		w.tell("%v%s", a, w.about(a))
	}
	if k, ok := costs[a.do]; ok {
		w.spend(k)
	}
	switch a.do {
	case doTick:
		w.pass(a.arg)
	case doWake:
		w.step(i, Input{Kind: InTick})
		w.guideAlone(i, GuardInput{Kind: GuardInTick})
	case doArrive:
		w.arrive(i, a.arg == 1)
	case doStale:
		p.way, p.reply = answered, response{sight: w.past[a.arg]}
	case doRefuse:
		p.way, p.reply = answered, response{refused: true, named: a.arg == 0, revision: w.current.Revision}
	case doLose:
		w.lose(&p.way)
		p.reply = response{}
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
		p.hear(int(a.arg))
	case doEndFeed:
		p.listening, p.told = false, [2]record.Observation{}
		w.step(i, Input{Kind: InFeedLost, Err: backend.ErrUnreachable})
	case doReconnect:
		w.step(i, Input{Kind: InReconnected})
		w.guideAlone(i, GuardInput{Kind: GuardInReconnected})
	case doFreeze:
		if a.arg == 0 {
			w.spend(freeze)
		}
		p.frozen = a.arg == 0
	case doPause:
		w.pause(i, a.arg == 0)
	case doSet:
		w.setTime(i)
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
		w.down(i, a.arg == 1)
	case doBoot:
		if a.arg == 2 {
			p.freed = nothing // it was displaced by other keys, and the process takes the key for new
		}
		w.boot(i, a.arg > 0)
	case doResign, doStop, doClose, doSlot, doBar, doLoop, doNoLoop:
		w.step(i, Input{Kind: inputs[a.do]})
	case doRelease:
		w.step(i, Input{Kind: InDrained, Term: p.m.term.number})
	case doWorked:
		led, stays := p.leads(), p.m.leave.mode == Staying
		if w.step(i, Input{Kind: InWorked, Term: p.m.term.number}); led && stays && p.leads() {
			w.fail("%s leads on after the end of its work", p.m.Session)
		}
	case doGo:
		p.begun = true // the next step finds it
	case doStall:
		if w.step(i, Input{Kind: InStalled}); p.leads() {
			w.fail("%s leads on while its work hangs", p.m.Session)
		}
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
		w.put(record.Observation{Kind: record.EntryMarker})
	case doPurge:
		w.put(record.Observation{Kind: record.EntryNothing})
	case doOverwrite:
		w.put(record.Observation{Kind: record.EntryForeign})
	case doForce:
		w.put(observationOfMarker(w.current.Rec)) // as the command's step-down with --force does
	case doJunk:
		w.put(w.junk()[a.arg])
		w.junked = true
	case doRemake:
		w.current, w.past, w.last = record.Observation{Kind: record.EntryNothing}, [2]record.Observation{}, above
	case doRollBack:
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

// costs has the trouble that an action uses up, if that does not depend on the situation.
var costs = map[verb]limited{
	doStale: readPast, doRefuse: refuse, doMute: loseFeed, doEndFeed: endFeed, doReconnect: reconnect, doCrash: crash, doBoot: restart,
	doResign: resign, doStop: stop, doClose: closeConnection, doRelease: release, doNoLoop: breakOff, doStall: stall, doSet: setTime, doHandOver: transfer,
	doRemove: remove, doPurge: purge, doOverwrite: overwrite, doForce: force, doJunk: junkRecord, doRemake: remake, doRollBack: rollBack,
	doGuardStale: readPast, doGuardRefuse: refuse, doGuardUnfit: guardUnfit, doGuardRemove: guardRemove, doGuardPurge: guardPurge,
	doOldBoot: restart, doOldCrash: crash, doOldRefuse: refuse, doDouble: double,
}

// inputs has the actions that are an input of the machine and nothing else.
var inputs = map[verb]InputKind{
	doResign: InResign, doStop: InStop, doClose: InClosed, doSlot: InSlot, doBar: InSuspend, doLoop: InLoop, doNoLoop: InNoLoop,
}

// lose loses a request, or the reply to it.
func (w *worldOf) lose(at *way) {
	if *at == going {
		w.spend(loseRequest)
	} else {
		w.spend(loseReply)
	}
	*at = lost
}

// pass lets a tick pass, on all clocks or on some.
func (w *worldOf) pass(which uint8) {
	overdue := false
	for i := range w.times {
		p := &w.parties[i]
		overdue = overdue || w.waits(i)
		if p.paused {
			p.asleep = min(p.asleep+1, int8(w.horizon()/tick))
		} else if which == 0 || (which == 1) == (i == 0) {
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
	kind := p.m.flight.req.Kind
	if kind == ReqFeed {
		p.listening, p.told = false, [2]record.Observation{}
	}
	p.way, p.reply = nowhere, response{}
	w.step(i, Input{Kind: replyKinds[kind], Err: backend.ErrUnreachable})
}

// replyKinds has the input that answers a request.
var replyKinds = map[RequestKind]InputKind{ReqSettings: InSettings, ReqFeed: InFeed, ReqRead: InRead, ReqWrite: InWritten}

// about describes what an action is about, if neither its name nor the next step shows that.
func (w *worldOf) about(a action) string {
	switch p := &w.parties[a.party]; a.do { //nolint:exhaustive // of the others there is nothing to add
	case doStale, doRollBack:
		return ": " + describe(w.past[a.arg])
	case doHear, doMute:
		return ": " + describe(p.told[a.arg])
	case doForge:
		return ": " + describe(w.forgeries()[a.arg])
	case doGhost:
		return fmt.Sprintf(": on %d %s", w.ghosts[a.arg].cond, describeRecord(w.ghosts[a.arg].rec))
	case doGuardStale:
		return ": " + describeGuard(w.guard.past[a.arg])
	case doGuardGhost:
		g := w.guard.ghosts[a.arg]
		return fmt.Sprintf(": on %d %s token %d", g.cond, g.rec.Session, g.rec.Token)
	case doLapse:
		return ": " + w.roster.stands[a.arg]
	}
	return ""
}
