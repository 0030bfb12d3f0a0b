package leader

import (
	"errors"
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"

	"github.com/natsleader/natsleader/internal/record"
)

// The guard in the world of the exploration. Each candidate has the shipped guard machine, and
// is connected to it as in actor_guards.go. The guard machine is given the wish of the machine,
// and the machine is given the state of the guard.
//
// The writes of terms are no actions. A candidate that leads or has led may write at any
// time, in a process that stands still or ignores its context, as long as the guard is at
// a revision that its term has raised. So the term that could write now is read off the
// guard, in every situation.

// post is the part of a candidate that concerns the guard.
type post struct {
	guardMachine
	wake   time.Time
	way    way
	reply  guardReply
	ruling bool    // the raise in flight is of a term that was elected
	stand  footing // of the term that is open
}

// guardReply is the guard's reply to the request in flight.
type guardReply struct {
	sight    record.GuardObservation
	revision uint64
	refused  bool
	named    bool
}

// footing is the condition on which the writers of a term write.
type footing struct {
	token, revision uint64
}

// guardKey is the guard itself.
type guardKey struct {
	at     record.GuardObservation
	ruled  bool                       // the term that raised it was elected: it may write now
	past   [2]record.GuardObservation // the entries that were stored before, newest first
	last   uint64                     // revision of its stream
	bared  bool                       // it was deleted, or written over
	ghosts [2]raiseGhost
}

// raiseGhost is a raise that is on its way after its sender has given it up.
type raiseGhost struct {
	cond  uint64
	rec   record.Guard
	ruled bool
}

// report returns the state of one guard, as the actor passes it to the machine.
func (q *post) report() guardsReport {
	r := guardsReport{fit: q.ready(), over: q.over()}
	if q.stands {
		r.stand = q.wish.token
	}
	return r
}

// post makes the guard machine of a candidate that starts.
func (w *worldOf) post(i int) {
	w.posts[i] = post{guardMachine: guardMachine{guardParams: guardParams{session: w.parties[i].m.session, election: "e"}}}
}

// agree makes the machine and the guard machine agree after either has changed.
func (w *worldOf) agree(i int) {
	p, q := &w.parties[i], &w.posts[i]
	if wish := p.m.wish(); wish != q.wish {
		w.guide(i, guardInput{kind: guardInWish, wish: wish})
	}
	if r := q.report(); r != p.m.guards {
		w.step(i, input{kind: inGuards, guards: r})
	}
}

// guideAlone steps the guard machine, and then the machine if that makes a difference.
func (w *worldOf) guideAlone(i int, in guardInput) {
	if w.guarded && w.parties[i].up {
		w.guide(i, in)
		w.agree(i)
	}
}

// guardMail delivers mail about the guard. Deadlines that have passed come first.
func (w *worldOf) guardMail(i int, in guardInput) {
	w.step(i, input{kind: inTick})
	w.guideAlone(i, in)
}

// guide steps a guard machine, and does the work of the actor.
func (w *worldOf) guide(i int, in guardInput) {
	p, q := &w.parties[i], &w.posts[i]
	asked := q.op
	fx := q.step(p.now, p.m.bucket.timing().lease, in)
	if w.say != nil {
		w.tell("%s's raiser %s%s", p.m.session, describeGuardInput(in), describeGuardEffects(fx))
	}
	if w.didRaise != nil {
		w.didRaise(p.now, fx)
	}
	if q.stands && p.checker.Open() && q.stand.token == q.wish.token {
		if acked := in.kind == guardInRaised && in.err == nil; acked || q.seen.Revision > q.stand.revision {
			q.stand.revision = q.seen.Revision
		}
	}
	switch {
	case in.kind == guardInRaised && in.err == nil && q.seen != (record.GuardObservation{Revision: in.revision, Kind: record.EntryRecord, Rec: asked.rec}):
		w.fail("%s takes what it has raised for something else", p.m.session)
	case q.stands && !q.seen.RaisedBy(p.m.session, q.wish.token):
		w.fail("%s believes that a guard stands that it has not raised", p.m.session)
	case errors.Is(fx.fault, backend.ErrGuardDeleted) && !w.guard.bared && in.observed.Kind != record.EntryNothing: // which may be of the past
		w.fail("%s says that the guard was deleted, and it was not", p.m.session)
	case !fx.wake.IsZero() && !fx.wake.After(p.now):
		w.fail("the raiser of %s wakes in the past", p.m.session)
	case fx.wake.IsZero() && q.op.kind == guardNone && q.wish.token != 0:
		w.fail("the raiser of %s sleeps for ever", p.m.session)
	}
	q.wake = fx.wake
	if fx.op.kind == guardNone {
		return
	}
	q.way, q.ruling = going, false
	if fx.op.kind == guardRaise {
		q.ruling = p.checker.Open()
		if !p.leads() && !p.m.raising() || fx.op.rec.Token != p.m.term.token {
			w.fail("%s raises the guard to %d without leading, or claiming to, with that token", p.m.session, fx.op.rec.Token)
		}
	}
}

// stood is called for every election. It checks that the guard stands for the term.
func (w *worldOf) stood(i int, token uint64) {
	p, q := &w.parties[i], &w.posts[i]
	if !q.seen.RaisedBy(p.m.session, token) {
		w.fail("%s is elected with token %d and has not raised the guard", p.m.session, token)
	}
	q.stand = footing{token: token, revision: q.seen.Revision}
	q.ruling = q.ruling || q.op.rec.Token == token
	for n := range w.guard.ghosts {
		g := &w.guard.ghosts[n]
		g.ruled = g.ruled || g.rec.Session == p.m.session && g.rec.Token == token
	}
	if w.guard.at.Revision == q.stand.revision && !w.guard.at.RaisedBy(p.m.session, token) {
		w.fail("%s takes the guard of another for its own", p.m.session)
	}
	w.guard.ruled = w.guard.ruled || w.guard.at.RaisedBy(p.m.session, token)
	w.fenced()
}

// fenced checks that only the newest term may write, or none.
func (w *worldOf) fenced() {
	if g := &w.guard; g.ruled && g.at.Rec.Token < w.top {
		w.fail("the term with token %d may write, although that with %d has begun", g.at.Rec.Token, w.top)
	}
}

// guardArrive lets the guard answer the request in flight.
func (w *worldOf) guardArrive(i int, unnamed bool) {
	q := &w.posts[i]
	q.way, q.reply = answered, guardReply{}
	switch q.op.kind {
	case guardRead:
		q.reply.sight = w.guard.at
	case guardRaise:
		if revision, ok := w.raise(raiseGhost{q.op.revision, q.op.rec, q.ruling}); ok {
			q.reply.revision = revision
		} else {
			q.reply = guardReply{refused: true, named: !unnamed, revision: w.guard.at.Revision}
		}
	case guardNone, guardCheck:
	}
}

// raise stores a raise if its condition holds. Nothing else decides.
func (w *worldOf) raise(g raiseGhost) (uint64, bool) {
	at := w.guard.at
	if at.Revision != g.cond {
		return 0, false
	}
	if at.Kind == record.EntryRecord && (g.rec.Token < at.Rec.Token || g.rec.Token == at.Rec.Token && g.rec.Session != at.Rec.Session) {
		w.fail("%s raises the guard from %d to %d", g.rec.Session, at.Rec.Token, g.rec.Token)
	}
	w.putGuard(record.GuardObservation{Kind: record.EntryRecord, Rec: g.rec}, g.ruled)
	return w.guard.last, true
}

// putGuard stores a message, or takes the last one away.
func (w *worldOf) putGuard(s record.GuardObservation, ruled bool) {
	g := &w.guard
	if s.Kind != record.EntryNothing {
		g.last++
		s.Revision = g.last
	}
	g.past[1], g.past[0] = g.past[0], g.at
	g.at, g.ruled, g.bared, w.bogus = s, ruled, g.bared || s.Kind != record.EntryRecord, false
	w.tell("    at the guard: %s", describeGuard(s))
	w.fenced()
}

// guardDeliver hands the answer to the guard machine.
func (w *worldOf) guardDeliver(i int) {
	q := &w.posts[i]
	in := guardInput{kind: guardInKinds[q.op.kind], observed: q.reply.sight, revision: q.reply.revision}
	if q.reply.refused {
		refused := &backend.RefusedError{Named: q.reply.named}
		if refused.Named {
			refused.Actual = q.reply.revision
		}
		in.revision, in.err = 0, refused
	}
	q.way, q.reply = nowhere, guardReply{}
	w.guardMail(i, in)
}

var guardInKinds = map[guardOpKind]guardInputKind{guardCheck: guardInChecked, guardRead: guardInRead, guardRaise: guardInRaised}

// guardFail answers the request in flight with an unknown outcome.
func (w *worldOf) guardFail(i int, haunts bool) {
	q := &w.posts[i]
	if !q.opLate {
		w.spend(giveUpEarly)
	}
	if haunts {
		w.guardHaunt(i)
	}
	in := guardInput{kind: guardInKinds[q.op.kind], err: ErrUnreachable}
	q.way, q.reply = nowhere, guardReply{}
	w.guardMail(i, in)
}

// guardHaunt keeps the raise in flight on its way.
func (w *worldOf) guardHaunt(i int) {
	q := &w.posts[i]
	if q.op.kind != guardRaise || q.way != going {
		return
	}
	for n := range w.guard.ghosts {
		if g := &w.guard.ghosts[n]; g.rec.Session == "" {
			*g = raiseGhost{q.op.revision, q.op.rec, q.ruling}
			w.spend(applyLate)
			return
		}
	}
}

// guardWrite rejects a write of the term. The writer then reads the guard to see why.
func (w *worldOf) guardWrite(i int) {
	p, q := &w.parties[i], &w.posts[i]
	at := w.guard.at
	e := backend.Entry{Revision: at.Revision, Marker: at.Kind == record.EntryMarker}
	if at.Kind == record.EntryRecord {
		e.Value = at.Rec.Encode()
	}
	f := fence{election: "e", session: p.m.session, token: q.stand.token, revision: q.stand.revision, moved: make(chan struct{})}
	found := f.Judge(e)
	if f.revision != q.stand.revision && (f.revision != at.Revision || !at.RaisedBy(p.m.session, q.stand.token)) {
		w.fail("%s conditions its writes on what it has not raised", p.m.session)
	}
	q.stand.revision = f.revision
	if found == backend.GuardNot {
		w.guardMail(i, guardInput{kind: guardInSuspect})
	}
}

// guardRequestActions adds the actions on the request at the guard.
func (w *worldOf) guardRequestActions(i int, add func(do verb, party, arg int)) {
	p, q := &w.parties[i], &w.posts[i]
	switch {
	case q.way == going && !p.cut:
		add(doGuardArrive, i, 0)
		if p.frozen {
			return
		}
		if q.op.kind == guardRaise {
			if holds := w.guard.at.Revision == q.op.revision; !holds && !w.named {
				add(doGuardArrive, i, 1)
			} else if holds && w.may(refuse) {
				add(doGuardRefuse, i, 0)
			}
		}
		if q.op.kind == guardRead && w.may(readPast) {
			for n, s := range w.guard.past {
				if s.Kind != record.EntryUnseen {
					add(doGuardStale, i, n)
				}
			}
		}
		if w.may(loseRequest) {
			add(doGuardLose, i, 0)
		}
	case q.way == answered && !p.cut && !p.frozen:
		add(doGuardDeliver, i, 0)
		if w.may(loseReply) {
			add(doGuardLose, i, 0)
		}
	}
	if p.frozen {
		return
	}
	if q.way != nowhere && (q.opLate || w.may(giveUpEarly)) {
		add(doGuardFail, i, 0)
		if q.op.kind == guardRaise && q.way == going && w.may(applyLate) {
			add(doGuardFail, i, 1)
		}
	}
	if p.checker.Open() && !p.cut && !q.needRead && w.guard.at.Revision != q.stand.revision {
		add(doGuardWrite, i, 0)
	}
	if q.fit && w.may(guardUnfit) {
		add(doGuardUnfit, i, 0)
	}
}

// guardTokens are the tokens that the adversary may write to the guard.
var guardTokens = [...]uint64{record.MaxMinToken, someToken, record.MaxToken}

// guardActions adds the actions on the guard.
func (w *worldOf) guardActions(add func(do verb, party, arg int)) {
	g := &w.guard
	for n := range g.ghosts {
		if g.ghosts[n].rec.Session != "" {
			add(doGuardGhost, 0, n)
		}
	}
	if w.may(guardRemove) && (g.at.Kind == record.EntryRecord || g.at.Kind == record.EntryForeign) {
		add(doGuardRemove, 0, 0)
	}
	if w.may(guardOverwrite) {
		add(doGuardOverwrite, 0, 0)
	}
	if w.may(guardJunk) {
		for n := range guardTokens {
			add(doGuardOverwrite, 0, n+1)
		}
	}
	if w.may(guardPurge) && g.at.Kind != record.EntryNothing {
		add(doGuardPurge, 0, 0)
	}
}

// applyGuard applies an action that concerns the guard.
func (w *worldOf) applyGuard(a action) {
	i := int(a.party)
	q := &w.posts[i]
	switch a.do { //nolint:exhaustive // apply has the others
	case doGuardArrive:
		w.guardArrive(i, a.arg == 1)
	case doGuardStale:
		w.spend(readPast)
		q.way, q.reply = answered, guardReply{sight: w.guard.past[a.arg]}
	case doGuardRefuse:
		w.spend(refuse)
		q.way, q.reply = answered, guardReply{refused: true}
	case doGuardLose:
		if q.way == going {
			w.spend(loseRequest)
		} else {
			w.spend(loseReply)
		}
		q.way, q.reply = lost, guardReply{}
	case doGuardDeliver:
		w.guardDeliver(i)
	case doGuardFail:
		w.guardFail(i, a.arg == 1)
	case doGuardWrite:
		w.guardWrite(i)
	case doGuardUnfit:
		w.spend(guardUnfit)
		w.guardMail(i, guardInput{kind: guardInUnfit})
	case doGuardGhost:
		g := w.guard.ghosts[a.arg]
		w.guard.ghosts[a.arg] = raiseGhost{}
		w.raise(g)
	case doGuardRemove:
		w.spend(guardRemove)
		w.putGuard(record.GuardObservation{Kind: record.EntryMarker}, false)
	case doGuardOverwrite:
		if a.arg > 0 {
			w.spend(guardJunk)
			w.putGuard(record.GuardObservation{Kind: record.EntryRecord, Rec: record.Guard{Election: "e", Token: guardTokens[a.arg-1], Session: stranger}}, false)
			w.guard.bared, w.bogus = true, true
			return
		}
		w.spend(guardOverwrite)
		w.putGuard(record.GuardObservation{Kind: record.EntryForeign}, false)
	case doGuardPurge:
		w.spend(guardPurge)
		w.putGuard(record.GuardObservation{Kind: record.EntryNothing}, false)
	}
}

func describeGuard(s record.GuardObservation) string {
	if s.Kind == record.EntryRecord {
		return fmt.Sprintf("%d %s token %d", s.Revision, s.Rec.Session, s.Rec.Token)
	}
	return describe(record.Observation{Revision: s.Revision, Kind: s.Kind})
}

var guardInNames = map[guardInputKind]string{
	guardInTick: "tick", guardInWish: "wish", guardInReconnected: "reconnected", guardInUnfit: "unfit", guardInSuspect: "suspect",
	guardInChecked: "checked", guardInRead: "read", guardInRaised: "raised",
}

func describeGuardInput(in guardInput) string {
	text := guardInNames[in.kind]
	switch {
	case in.err != nil:
		return text + ": " + in.err.Error()
	case in.kind == guardInWish:
		return fmt.Sprintf("%s %d soon=%v", text, in.wish.token, in.wish.soon)
	case in.kind == guardInRead:
		return text + " " + describeGuard(in.observed)
	case in.kind == guardInRaised:
		return fmt.Sprintf("%s as %d", text, in.revision)
	}
	return text
}

func describeGuardEffects(fx guardEffects) string {
	text := ""
	for _, line := range guardEffectLines(fx) {
		text += "; " + line
	}
	return text
}

// guardEffectLines describes the effects of a step of a guard machine.
func guardEffectLines(fx guardEffects) []string {
	var lines []string
	if fx.fault != nil {
		lines = append(lines, fmt.Sprintf("Faulted: %v", fx.fault))
	}
	if fx.cancel {
		lines = append(lines, "give up the request")
	}
	switch fx.op.kind {
	case guardCheck:
		lines = append(lines, "check")
	case guardRead:
		lines = append(lines, "read")
	case guardRaise:
		lines = append(lines, fmt.Sprintf("raise on %d to token %d", fx.op.revision, fx.op.rec.Token))
	case guardNone:
	}
	return lines
}

// explainGuard describes an action in words.
func (w *worldOf) explainGuard(a action) string {
	q, who := &w.posts[a.party], w.parties[a.party].m.session
	what := map[guardOpKind]string{guardCheck: "check", guardRead: "reading", guardRaise: "raising"}[q.op.kind] + " of the guard by " + who
	switch a.do { //nolint:exhaustive // explain has the others
	case doGuardArrive:
		return "the " + what + " reaches it"
	case doGuardStale:
		return "the " + what + " is answered from the past: " + describeGuard(w.guard.past[a.arg])
	case doGuardRefuse:
		return "the " + what + " is refused for no reason"
	case doGuardLose:
		if q.way == answered {
			return "the reply to the " + what + " is lost"
		}
		return "the " + what + " is lost"
	case doGuardDeliver:
		return "the reply to the " + what + " arrives"
	case doGuardFail:
		return "the " + what + " fails" + []string{"", ", but is still on its way"}[a.arg]
	case doGuardWrite:
		return "a write of " + who + " is refused, and it looks at the guard"
	case doGuardUnfit:
		return "a check finds the guard of " + who + " not fit"
	case doGuardGhost:
		g := w.guard.ghosts[a.arg]
		return fmt.Sprintf("an old raise arrives at the guard, on %d: %s token %d", g.cond, g.rec.Session, g.rec.Token)
	case doGuardRemove:
		return "the guard is deleted"
	case doGuardOverwrite:
		if a.arg > 0 {
			return fmt.Sprintf("somebody else writes token %d to the guard", guardTokens[a.arg-1])
		}
		return "somebody else writes something foreign to the guard"
	case doGuardPurge:
		return "the guard is purged without a trace"
	}
	return a.String()
}
