package machine

import (
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/record"
)

// modelGuard is the guard of a simulated world.
type modelGuard struct {
	at   record.GuardObservation
	past []record.GuardObservation // all entries that were stored, nothing included
	last uint64
	term map[guardTerm]bool // the terms that were elected
}

type guardTerm struct {
	session string
	token   uint64
}

// putGuard stores a message at the guard.
func (w *world) putGuard(s record.GuardObservation, by string) {
	g := &w.guard
	g.last += 1 + uint64(w.rng.Uint32N(3)) // others use the stream, too
	s.Revision = g.last
	g.at = s
	g.past = append(g.past, s)
	w.logf("        at the guard %s by %s", describeGuard(s), by)
	w.fenced()
}

// fenced checks that only the newest term may write, or none.
func (w *world) fenced() {
	r := w.guard.at.Rec
	if w.guard.term[guardTerm{r.Session, r.Token}] && r.Token < w.last {
		w.failf("the term with token %d may write, although that with %d has begun", r.Token, w.last)
	}
}

// stood is called for every election of a candidate with a guard.
func (n *node) stood(token uint64) {
	if !n.post.Seen.RaisedBy(n.config.Session, token) {
		n.w.failf("%s is elected with token %d and has not raised the guard", n.config.Session, token)
	}
	n.post.stand = footing{token: token, revision: n.post.Seen.Revision}
	n.w.guard.term[guardTerm{n.config.Session, token}] = true
	n.w.fenced()
}

// mayWrite reports whether the guard stands for the term that is led.
func (n *node) mayWrite() bool {
	return !n.w.guarded || n.w.guard.at.Revision == n.post.stand.revision
}

// agree makes the machine and the guard machine agree after either has changed.
func (n *node) agree() {
	if !n.w.guarded || n.m.done {
		return
	}
	if wish := n.m.wish(); wish != n.post.Wish {
		n.guide(GuardInput{Kind: GuardInWish, Wish: wish})
	}
	if r := n.post.report(); r != n.m.guards {
		n.step(Input{Kind: InGuards, Guards: r})
	}
}

// guideAlone steps the guard machine, and then the machine if that makes a difference.
func (n *node) guideAlone(in GuardInput) {
	if n.w.guarded && !n.m.done {
		n.guide(in)
		n.agree()
	}
}

// handGuard gives the process mail about its guard.
func (n *node) handGuard(life int, in GuardInput) {
	switch {
	case n.life != life || n.gone || n.m.done:
	case n.asleep > n.w.now:
		n.mail = append(n.mail, func() { n.handGuard(life, in) })
	default:
		n.step(Input{Kind: InTick})
		n.guideAlone(in)
	}
}

// guide steps the guard machine, and does the work of the actor.
func (n *node) guide(in GuardInput) {
	w, q := n.w, &n.post
	in.Dice = w.rng.Uint32()
	fx := q.Step(n.clock(), n.m.bucket.timing().Lease, in)
	if w.trace != nil && (in.Kind != GuardInTick || fx.Op.Kind != GuardNone) {
		w.logf("%s's raiser %s%s", n.config.Session, describeGuardInput(in), describeGuardEffects(fx))
	}
	if acked := in.Kind == GuardInRaised && in.Err == nil; q.Stands && n.checker.Open() && q.stand.token == q.Wish.Token && (acked || q.Seen.Revision > q.stand.revision) {
		q.stand.revision = q.Seen.Revision
	}
	if fx.Cancel && n.guardAnswer != nil {
		answer := n.guardAnswer
		w.after(w.between(time.Microsecond, 50*time.Millisecond), func() { answer(GuardInput{Err: backend.ErrUnreachable}) })
	}
	if fx.Op.Kind == GuardRaise && (!n.leads() && !n.m.raising() || fx.Op.Rec.Token != n.m.term.token) {
		w.failf("%s raises the guard to %d without leading, or claiming to, with that token", n.config.Session, fx.Op.Rec.Token)
	}
	if fx.Op.Kind != GuardNone {
		n.askGuard(fx.Op)
	}
	n.guardWakes++
	if !fx.Wake.IsZero() {
		life, wakes := n.life, n.guardWakes
		w.after(n.until(fx.Wake), func() {
			if n.guardWakes == wakes {
				n.hand(life, Input{Kind: InTick})
			}
		})
	}
}

// askGuard carries a request to the guard through the network.
func (n *node) askGuard(op GuardOp) {
	w, life := n.w, n.life
	answered := false
	answer := func(in GuardInput) {
		if !answered {
			answered = true
			in.Kind = guardInKinds[op.Kind]
			n.handGuard(life, in)
		}
	}
	n.guardAnswer = answer
	reply := func(in GuardInput) {
		if !w.chance(w.faults.unanswered) {
			w.after(w.delay(), func() { answer(in) })
		}
	}
	if n.cut > w.now && w.rng.Uint32N(4) > 0 || w.chance(w.faults.lost) {
		return // until it is given up
	}
	if w.chance(w.faults.lost) { // given up early, although it is on its way
		w.after(w.delay(), func() { answer(GuardInput{Err: backend.ErrUnreachable}) })
	}
	w.after(w.delay(), func() {
		g := &w.guard
		switch op.Kind {
		case GuardRead:
			if w.chance(w.faults.stale) {
				reply(GuardInput{Observed: g.past[len(g.past)-1-w.rng.IntN(min(len(g.past), 8))]})
				return
			}
			reply(GuardInput{Observed: g.at})
		case GuardRaise:
			switch {
			case w.chance(w.faults.refused):
				reply(GuardInput{Err: &backend.RefusedError{}})
			case g.at.Revision != op.Revision:
				reply(GuardInput{Err: &backend.RefusedError{Actual: g.at.Revision, Named: w.rng.Uint32N(2) == 0}})
			default:
				if g.at.Kind == record.EntryRecord && op.Rec.Token <= g.at.Rec.Token {
					w.failf("%s raises the guard from %d to %d", op.Rec.Session, g.at.Rec.Token, op.Rec.Token)
				}
				w.putGuard(record.GuardObservation{Kind: record.EntryRecord, Rec: op.Rec}, op.Rec.Session)
				reply(GuardInput{Revision: g.at.Revision})
			}
		case GuardNone, GuardCheck:
			reply(GuardInput{})
		}
	})
}
