package machine

import (
	"time"

	"github.com/natsleader/natsleader/internal/record"
)

// The part of the renumbering of the exploration that concerns the guard and the guard machines,
// with the reasons why no machine can notice it.

// forgetRaises drops raises with conditions that can never hold again.
func (w *worldOf) forgetRaises() {
	g := &w.guard
	for n := range g.ghosts {
		cond := g.ghosts[n].cond
		empty := cond == 0 && (g.at.Revision == 0 || w.left[guardPurge] > 0)
		if cond != g.at.Revision && !empty {
			g.ghosts[n] = raiseGhost{}
		}
	}
	if g.ghosts[0].rec.Session == "" {
		g.ghosts[0], g.ghosts[1] = g.ghosts[1], raiseGhost{}
	}
	if w.left[readPast] == 0 {
		g.past = [2]record.GuardObservation{} // only such reads look at it
	}
}

// forget drops the state that no guard machine looks at.
func (q *post) forget(p *party) {
	if !p.up {
		*q = post{}
		return
	}
	if q.op.Kind == GuardNone {
		q.opAt, q.opBy, q.opLate = time.Time{}, time.Time{}, false // set with the next request
	}
	if q.needRead {
		q.readAt = time.Time{} // set with the read
	}
	if !p.checker.Open() {
		q.stand = footing{} // set with the next term
	}
	// The counts are capped where they are used. The exploration does not reach the
	// number of rejections of a raise after which there is a pause.
	q.fails, q.losses = min(q.fails, 8), q.losses%4
}

// shift makes the instants that a guard machine remembers relative to the epoch.
func (q *post) shift(now time.Time, horizon time.Duration) {
	by := epoch.Sub(now)
	// These are only compared with now, and a clock shows whole ticks.
	for _, t := range []*time.Time{&q.wake, &q.opBy, &q.retryAt} {
		if !t.IsZero() {
			*t = Later(t.Add(by), epoch).Add(tick - 1).Truncate(tick)
		}
	}
	if q.retryAt.Equal(epoch) {
		q.retryAt = time.Time{}
	}
	// To these a pause or a lease may be added.
	far := epoch.Add(-max(horizon, raisePauses+tick))
	for _, t := range []*time.Time{&q.opAt, &q.readAt} {
		if !t.IsZero() {
			*t = Later(t.Add(by), far)
		}
	}
}

// eachRaise visits every guard record in the world.
func (w *worldOf) eachRaise(visit func(r *record.Guard)) {
	g := &w.guard
	visit(&g.at.Rec)
	for n := range g.past {
		visit(&g.past[n].Rec)
		visit(&g.ghosts[n].rec)
	}
	for i := range w.times {
		q := &w.posts[i]
		visit(&q.Seen.Rec)
		visit(&q.op.Rec)
		visit(&q.reply.sight.Rec)
	}
}

// stranger is any session that is over. Of a record of the guard only two things matter:
// whether it is the candidate's own, and its token.
const stranger = "-"

func (w *worldOf) estrangeRaises() {
	w.eachRaise(func(r *record.Guard) {
		for i := range w.times {
			if p := &w.parties[i]; r.Session == "" || p.up && r.Session == p.m.Session {
				return
			}
		}
		r.Session = stranger
	})
}

// eachKeptToken visits the tokens that are compared with one another although there are
// revisions beyond them.
func (w *worldOf) eachKeptToken(visit func(v *uint64)) {
	visit(&w.top)
	if !w.guarded {
		return
	}
	w.eachRaise(func(r *record.Guard) { visit(&r.Token) })
	for i := range w.times {
		m, q := &w.parties[i].m, &w.posts[i]
		visit(&m.guards.RaisedAt)
		visit(&m.guards.Over)
		visit(&q.Desired.Token)
		visit(&q.stand.token)
		if m.raising() || m.state == StateLeader {
			visit(&m.term.token)
		}
	}
}

// renumberGuard renumbers the revisions of the guard. They are compared with one another,
// by their order alone.
func (w *worldOf) renumberGuard() {
	var r ranks
	each := func(visit func(v *uint64)) {
		g := &w.guard
		visit(&g.last)
		visit(&g.at.Revision)
		for n := range g.past {
			visit(&g.past[n].Revision)
			visit(&g.ghosts[n].cond)
		}
		for i := range w.times {
			q := &w.posts[i]
			visit(&q.Seen.Revision)
			visit(&q.op.Revision)
			visit(&q.reply.sight.Revision)
			visit(&q.reply.revision)
			visit(&q.stand.revision)
		}
	}
	each(func(v *uint64) { r.add(*v) })
	r.sort()
	each(func(v *uint64) { *v = r.of(*v) })
}
