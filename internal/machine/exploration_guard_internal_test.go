package machine

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
	GuardMachine
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
func (q *post) report() GuardsReport {
	r := GuardsReport{Fit: q.Ready(), Over: q.Over()}
	if q.Raised {
		r.RaisedAt = q.Desired.Token
	}
	return r
}

// post makes the guard machine of a candidate that starts.
func (w *worldOf) post(i int) {
	w.posts[i] = post{GuardMachine: GuardMachine{GuardParams: GuardParams{Session: w.parties[i].m.Session, Election: "e"}}}
}

// agree makes the machine and the guard machine agree after either has changed.
func (w *worldOf) agree(i int) {
	p, q := &w.parties[i], &w.posts[i]
	if wish := p.m.desiredGuards(); wish != q.Desired {
		w.guide(i, GuardInput{Kind: GuardInDesired, Desired: wish})
	}
	if r := q.report(); r != p.m.guards {
		w.step(i, Input{Kind: InGuards, Guards: r})
	}
}

// guideAlone steps the guard machine, and then the machine if that makes a difference.
func (w *worldOf) guideAlone(i int, in GuardInput) {
	if w.guarded && w.parties[i].up {
		w.guide(i, in)
		w.agree(i)
	}
}

// guardMail delivers mail about the guard. Deadlines that have passed come first.
func (w *worldOf) guardMail(i int, in GuardInput) {
	w.step(i, Input{Kind: InTick})
	w.guideAlone(i, in)
}

// guide steps a guard machine, and does the work of the actor.
func (w *worldOf) guide(i int, in GuardInput) {
	p, q := &w.parties[i], &w.posts[i]
	asked := q.op
	fx := q.Step(p.now, p.m.bucket.timing().Lease, in)
	if w.say != nil {
		w.tell("%s's raiser %s%s", p.m.Session, describeGuardInput(in), describeGuardEffects(fx))
	}
	if w.didRaise != nil {
		w.didRaise(p.now, fx)
	}
	if q.Raised && p.checker.Open() && q.stand.token == q.Desired.Token {
		if acked := in.Kind == GuardInRaised && in.Err == nil; acked || q.Seen.Revision > q.stand.revision {
			q.stand.revision = q.Seen.Revision
		}
	}
	switch {
	case in.Kind == GuardInRaised && in.Err == nil && q.Seen != (record.GuardObservation{Revision: in.Revision, Kind: record.EntryRecord, Rec: asked.Rec}):
		w.fail("%s takes what it has raised for something else", p.m.Session)
	case q.Raised && !q.Seen.RaisedBy(p.m.Session, q.Desired.Token):
		w.fail("%s believes that a guard stands that it has not raised", p.m.Session)
	case errors.Is(fx.Fault, backend.ErrGuardDeleted) && !w.guard.bared && in.Observed.Kind != record.EntryNothing: // which may be of the past
		w.fail("%s says that the guard was deleted, and it was not", p.m.Session)
	case !fx.Wake.IsZero() && !fx.Wake.After(p.now):
		w.fail("the raiser of %s wakes in the past", p.m.Session)
	case fx.Wake.IsZero() && q.op.Kind == GuardNone && q.Desired.Token != 0:
		w.fail("the raiser of %s sleeps for ever", p.m.Session)
	}
	q.wake = fx.Wake
	if fx.Op.Kind == GuardNone {
		return
	}
	q.way, q.ruling = going, false
	if fx.Op.Kind == GuardRaise {
		q.ruling = p.checker.Open()
		if !p.leads() && !p.m.raising() || fx.Op.Rec.Token != p.m.term.token {
			w.fail("%s raises the guard to %d without leading, or claiming to, with that token", p.m.Session, fx.Op.Rec.Token)
		}
	}
}

// stood is called for every election. It checks that the guard stands for the term.
func (w *worldOf) stood(i int, token uint64) {
	p, q := &w.parties[i], &w.posts[i]
	if !q.Seen.RaisedBy(p.m.Session, token) {
		w.fail("%s is elected with token %d and has not raised the guard", p.m.Session, token)
	}
	q.stand = footing{token: token, revision: q.Seen.Revision}
	q.ruling = q.ruling || q.op.Rec.Token == token
	for n := range w.guard.ghosts {
		g := &w.guard.ghosts[n]
		g.ruled = g.ruled || g.rec.Session == p.m.Session && g.rec.Token == token
	}
	if w.guard.at.Revision == q.stand.revision && !w.guard.at.RaisedBy(p.m.Session, token) {
		w.fail("%s takes the guard of another for its own", p.m.Session)
	}
	w.guard.ruled = w.guard.ruled || w.guard.at.RaisedBy(p.m.Session, token)
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
	switch q.op.Kind {
	case GuardRead:
		q.reply.sight = w.guard.at
	case GuardRaise:
		if revision, ok := w.raise(raiseGhost{q.op.Revision, q.op.Rec, q.ruling}); ok {
			q.reply.revision = revision
		} else {
			q.reply = guardReply{refused: true, named: !unnamed, revision: w.guard.at.Revision}
		}
	case GuardNone, GuardCheck:
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
	in := GuardInput{Kind: guardInKinds[q.op.Kind], Observed: q.reply.sight, Revision: q.reply.revision}
	if q.reply.refused {
		in.Revision, in.Err = 0, refusal(q.reply.named, q.reply.revision)
	}
	q.way, q.reply = nowhere, guardReply{}
	w.guardMail(i, in)
}

var guardInKinds = map[guardOpKind]guardInputKind{GuardCheck: GuardInChecked, GuardRead: GuardInRead, GuardRaise: GuardInRaised}

// guardFail answers the request in flight with an unknown outcome.
func (w *worldOf) guardFail(i int, haunts bool) {
	q := &w.posts[i]
	if !q.opLate {
		w.spend(giveUpEarly)
	}
	if haunts {
		w.guardHaunt(i)
	}
	in := GuardInput{Kind: guardInKinds[q.op.Kind], Err: backend.ErrUnreachable}
	q.way, q.reply = nowhere, guardReply{}
	w.guardMail(i, in)
}

// guardHaunt keeps the raise in flight on its way.
func (w *worldOf) guardHaunt(i int) {
	q := &w.posts[i]
	if q.op.Kind != GuardRaise || q.way != going {
		return
	}
	for n := range w.guard.ghosts {
		if g := &w.guard.ghosts[n]; g.rec.Session == "" {
			*g = raiseGhost{q.op.Revision, q.op.Rec, q.ruling}
			w.spend(applyLate)
			return
		}
	}
}

// guardWrite rejects a write of the term. The writer then reads the guard to see why.
func (w *worldOf) guardWrite(i int) {
	p, q := &w.parties[i], &w.posts[i]
	at := w.guard.at
	switch at.Judge("e", p.m.Session, q.stand.token, q.stand.revision) { //nolint:exhaustive // nothing follows from the others
	case backend.GuardStill:
		if !at.RaisedBy(p.m.Session, q.stand.token) {
			w.fail("%s conditions its writes on what it has not raised", p.m.Session)
		}
		q.stand.revision = at.Revision
	case backend.GuardNot:
		w.guardMail(i, GuardInput{Kind: GuardInSuspect})
	}
}

// guardRequestActions adds the actions on the request at the guard.
func (w *worldOf) guardRequestActions(i int, add adder) {
	p, q := &w.parties[i], &w.posts[i]
	goes, comes := q.way == going && !p.cut, q.way == answered && !p.cut
	raises, holds := q.op.Kind == GuardRaise, w.guard.at.Revision == q.op.Revision
	add(goes, doGuardArrive, i, 0)
	if p.frozen {
		return
	}
	add(goes && raises && !holds && !w.named, doGuardArrive, i, 1)
	add(goes && raises && holds && w.may(refuse), doGuardRefuse, i, 0)
	for n, s := range w.guard.past {
		add(goes && q.op.Kind == GuardRead && w.may(readPast) && s.Kind != record.EntryUnseen, doGuardStale, i, n)
	}
	add(goes && w.may(loseRequest), doGuardLose, i, 0)
	add(comes, doGuardDeliver, i, 0)
	add(comes && w.may(loseReply), doGuardLose, i, 0)
	fails := q.way != nowhere && (q.opLate || w.may(giveUpEarly))
	add(fails, doGuardFail, i, 0)
	add(fails && raises && q.way == going && w.may(applyLate), doGuardFail, i, 1)
	add(p.checker.Open() && !p.cut && !q.needRead && w.guard.at.Revision != q.stand.revision, doGuardWrite, i, 0)
	add(q.fit && w.may(guardUnfit), doGuardUnfit, i, 0)
}

// guardTokens are the tokens that the adversary may write to the guard.
var guardTokens = [...]uint64{record.MaxMinToken, someToken, record.MaxToken}

// guardActions adds the actions on the guard.
func (w *worldOf) guardActions(add adder) {
	g := &w.guard
	for n := range g.ghosts {
		add(g.ghosts[n].rec.Session != "", doGuardGhost, 0, n)
	}
	set := g.at.Kind == record.EntryRecord || g.at.Kind == record.EntryForeign
	add(w.may(guardRemove) && set, doGuardRemove, 0, 0)
	add(w.may(guardOverwrite), doGuardOverwrite, 0, 0)
	if w.may(guardJunk) {
		for n := range guardTokens {
			add(true, doGuardOverwrite, 0, n+1)
		}
	}
	add(w.may(guardPurge) && g.at.Kind != record.EntryNothing, doGuardPurge, 0, 0)
}

// applyGuard applies an action that concerns the guard.
func (w *worldOf) applyGuard(a action) {
	i := int(a.party)
	q := &w.posts[i]
	switch a.do { //nolint:exhaustive // apply has the others
	case doGuardArrive:
		w.guardArrive(i, a.arg == 1)
	case doGuardStale:
		q.way, q.reply = answered, guardReply{sight: w.guard.past[a.arg]}
	case doGuardRefuse:
		q.way, q.reply = answered, guardReply{refused: true}
	case doGuardLose:
		w.lose(&q.way)
		q.reply = guardReply{}
	case doGuardDeliver:
		w.guardDeliver(i)
	case doGuardFail:
		w.guardFail(i, a.arg == 1)
	case doGuardWrite:
		w.guardWrite(i)
	case doGuardUnfit:
		w.guardMail(i, GuardInput{Kind: GuardInUnfit})
	case doGuardGhost:
		g := w.guard.ghosts[a.arg]
		w.guard.ghosts[a.arg] = raiseGhost{}
		w.raise(g)
	case doGuardRemove:
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
	GuardInTick: "tick", GuardInDesired: "wish", GuardInReconnected: "reconnected", GuardInUnfit: "unfit", GuardInSuspect: "suspect",
	GuardInChecked: "checked", GuardInRead: "read", GuardInRaised: "raised",
}

func describeGuardInput(in GuardInput) string {
	text := guardInNames[in.Kind]
	switch {
	case in.Err != nil:
		return text + ": " + in.Err.Error()
	case in.Kind == GuardInDesired:
		return fmt.Sprintf("%s %d soon=%v", text, in.Desired.Token, in.Desired.soon)
	case in.Kind == GuardInRead:
		return text + " " + describeGuard(in.Observed)
	case in.Kind == GuardInRaised:
		return fmt.Sprintf("%s as %d", text, in.Revision)
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
	if fx.Fault != nil {
		lines = append(lines, fmt.Sprintf("Faulted: %v", fx.Fault))
	}
	if fx.Cancel {
		lines = append(lines, "give up the request")
	}
	switch fx.Op.Kind {
	case GuardCheck:
		lines = append(lines, "check")
	case GuardRead:
		lines = append(lines, "read")
	case GuardRaise:
		lines = append(lines, fmt.Sprintf("raise on %d to token %d", fx.Op.Revision, fx.Op.Rec.Token))
	case GuardNone:
	}
	return lines
}
