package machine

import (
	"fmt"
	"math"
	"time"

	"github.com/natsleader/natsleader/internal/record"
)

// Two situations are the same if no machine could notice the difference. So after every
// action instants are made relative to each clock's now, numbers are replaced by their
// order, and sessions are named after their candidates. State that no machine looks at
// any more is dropped. Each place says what it drops, and why no machine can notice. The
// exploration is only as good as these reasons.

// renumber brings the situation into its normal form.
func (w *worldOf) renumber() {
	if w.budget == 0 {
		w.left = [maxKinds]uint8{} // it does not matter which faults have happened
	}
	w.forgetGhosts()
	w.forgetOld()
	for i := range w.times {
		w.parties[i].forget(w)
		w.posts[i].forget(&w.parties[i])
	}
	w.forgetRaises()
	w.forgetLast()
	for i := len(w.times); i < maxParties; i++ {
		w.parties[i] = party{}
	}
	for i := range w.times {
		if w.guarded {
			w.posts[i].shift(w.parties[i].now, w.horizon())
		}
		w.parties[i].shift(w.horizon())
	}
	w.renumberSessions()
	w.renumberCounters()
	w.renumberRevisions()
	if w.guarded {
		w.renumberGuard()
	}
	w.renumberReports()
}

// renumberReports renumbers the holders that were last reported. Each is that of the entry seen, before
// or after its lease has expired.
func (w *worldOf) renumberReports() {
	for i := range w.times {
		m := &w.parties[i].m
		at := m.key.seenAt
		if m.reported.Kind == record.EntryNothing {
			at = m.lapse()
		}
		m.reported = m.currentReport(at)
	}
}

// horizon returns a duration that is longer than all that are added to an instant. An
// instant that is farther back, plus any of them, is in the past. Of two instants that
// are farther back it does not matter which was first, because a write that was sent so
// long ago gives no lease.
func (sc *scenario) horizon() time.Duration {
	h := sc.ordinaryHorizon()
	if sc.limits[junkRecord] > 0 || sc.limits[forgeAny] > 0 {
		h = max(h, longJunk+tick)
	}
	return h
}

func (sc *scenario) ordinaryHorizon() time.Duration {
	h, turns := max(sc.settings.MaxLease, sc.settings.TTL), time.Duration(0)
	for i := range sc.times {
		h = max(h, sc.times[i].Lease, sc.belief[i].MaxLease)
		turns = max(turns, sc.times[i].Turn)
	}
	if sc.listed {
		h += (maxParties + 2) * turns // for all in line, for one that is named, and one more
	}
	if sc.old.processes > 0 {
		h += max(h, sc.belief[0].TTL) // two unknown leases are added to when their record was seen
	}
	return h + tick
}

// forgetGhosts drops writes with conditions that can never hold again.
func (w *worldOf) forgetGhosts() {
	for g := range w.ghosts {
		cond := w.ghosts[g].cond
		back := w.void
		empty := cond == 0 && (w.current.Revision == 0 || w.left[purge] > 0 || w.old.processes > 0)
		if cond != w.current.Revision && !empty && !back {
			w.ghosts[g] = ghost{}
		}
	}
	if w.ghosts[0].rec.Session == "" {
		w.ghosts[0], w.ghosts[1] = w.ghosts[1], ghost{}
	}
	if w.left[readPast] == 0 && w.left[rollBack] == 0 {
		w.past = [2]record.Observation{} // only reads of the past and roll-backs look at it
	}
}

// forget drops the state that no machine looks at.
func (p *party) forget(w *worldOf) {
	p.forgetSighting(w)
	if !p.up {
		*p = party{now: p.now, before: p.before, freed: p.freed, m: Machine{Params: p.m.Params}}
		return
	}
	m := &p.m
	// Dates, the term's number and the newest stored write are only shown. The bucket's
	// last revision bounds how far away the next one may be, and in this world only the
	// greatest one is far away.
	m.key.own, m.clock, m.term.elected, m.term.since, m.writes.acked, m.bucket.settings.LastRevision = ownEntry{}, serverClock{}, 0, 0, 0, 0
	m.term.number = 1
	// The counts of failures are capped where they are used.
	m.flight.fails, m.feed.fails = min(m.flight.fails, 6), min(m.feed.fails, 6)
	if m.feed.deaf > mute {
		m.feed.deaf = mute + 1 + (m.feed.deaf-mute-1)%16
	}
	if m.memory.lease <= max(m.bucket.bound, m.bucket.times.Lease) || m.bucket.settings.MaxLease > 0 || m.bucket.settings.TTL > 0 {
		m.memory.lease, m.memory.leaseAt = 0, time.Time{} // there is a longer one to wait for
	}
	if !w.void && w.limits[forgeAny] == 0 {
		m.memory.hearsay = 0 // used when the store forgets
	}
	if m.key.readRevision != m.key.seen.Revision || m.holds() {
		m.key.readRevision = 0 // only whether they are equal matters, for another's record
	}
	if !m.reads.calmUntil.After(p.now) {
		m.reads.calmUntil = time.Time{}
	}
	if m.race.trip = min(m.race.trip, uint32(tick/time.Microsecond)); !w.spreads {
		m.race = raceState{} // the shortest wait is none
	}
	m.forgetOrder()
	p.forgetInstants()
	w.forgetBatches(m)
	// A message that is no news changes nothing when it is heard.
	for n := len(p.told) - 1; n >= 0; n-- {
		s := p.told[n]
		if s.Kind != record.EntryUnseen && s.Revision <= max(m.key.seen.Revision, m.key.removedUpTo) && m.feed.deaf == 0 {
			p.hear(n)
		}
	}
}

// forgetSighting drops a sighting that no first read can show again.
func (p *party) forgetSighting(w *worldOf) {
	found := false
	w.eachShown(func(s *record.Observation) { found = found || s.Revision == p.before.Revision })
	if !found || p.up && p.m.key.seen.Kind != record.EntryUnseen {
		p.before = Sighting{}
	}
}

// forgetInstants drops those that are set again before they are looked at.
func (p *party) forgetInstants() {
	m := &p.m
	if m.flight.req.Kind == ReqNone {
		m.flight.sentAt, m.flight.deadline, m.flight.late = time.Time{}, time.Time{}, false // set with the next request
	}
	if m.flight.req.Kind != ReqRead {
		m.reads.atLeast = 0 // set with the next read
	}
	if m.raising() {
		m.renew.electFrom = time.Time{} // it was reached
	} else if m.state != StateLeader && m.state != StateFenced {
		m.term.leaseUntil = time.Time{} // set with the next term
	}
	if m.holds() {
		// Set when the key is another's. In this world a revision of a bucket that was made anew is
		// farther away than microseconds have passed, whenever the own record was seen.
		m.key.seenAt, m.key.readAt = p.now, time.Time{}
	} else {
		m.renew.at = time.Time{} // set with the next win
	}
	if !m.key.readAt.After(m.key.seenAt) {
		m.key.readAt = time.Time{} // only the later of the two counts
	}
	if m.feed.up {
		m.feed.retryAt = time.Time{} // set when the feed ends
	}
	if !m.writes.lastAt.Add(max(m.writes.lastFor, m.bucket.times.RenewInterval)).After(p.now) {
		m.writes.lastAt = time.Time{} // no candidate waits for that write any more
	}
	if !p.checker.keepsOutUntil.After(p.now) {
		p.checker.keepsOutUntil = time.Time{}
	}
}

// forgetBatches drops own writes that can no longer be shown to their sender, because
// they need not be recognised. Of the writes that can be shown, it matters only whether
// they replaced anything, and whether that is what their sender has seen. The newest is special: the next write may be put with it, and a
// candidate that stops asks for its phase.
func (w *worldOf) forgetBatches(m *Machine) {
	known := max(m.key.seen.Revision, m.key.removedUpTo)
	if w.void || w.limits[forgeAny] > 0 {
		known = 0 // the machine may forget what it knew
	}
	alive := func(b batch) bool {
		within := func(r record.Record) bool {
			return r.Session == m.Session && b.first <= r.Counter && r.Counter <= b.last
		}
		found := m.flight.req.Kind == ReqWrite && within(m.flight.req.Rec) || w.left[junkRecord] > 0 && b.last > 0
		w.eachShown(func(s *record.Observation) { found = found || s.Revision > known && within(s.Rec) })
		for g := range w.ghosts {
			found = found || within(w.ghosts[g].rec)
		}
		return found
	}
	for i := range m.writes.sent {
		b := &m.writes.sent[i]
		lives := alive(*b)
		follows := b.cond == m.key.seen.Revision || w.void
		repeats := i == 0 && follows
		if b.cond != 0 && !follows {
			b.cond = gone
		}
		switch {
		case lives:
		case repeats:
			b.first = b.last
		case i == 0:
			*b = batch{first: b.last, last: b.last, write: write{phase: b.phase, token: b.token, ready: b.ready, cond: gone}}
		default:
			*b = batch{}
		}
	}
}

// gone stands for a revision that nothing is compared with any more.
const gone = math.MaxUint64

// eachShown visits every sight that a candidate may still be shown.
func (w *worldOf) eachShown(visit func(s *record.Observation)) {
	visit(&w.current)
	for n := range w.past {
		visit(&w.past[n])
	}
	for i := range w.times {
		visit(&w.parties[i].reply.sight)
	}
}

// eachRecord visits every record in the world.
func (w *worldOf) eachRecord(visit func(r *record.Record)) {
	w.eachShown(func(s *record.Observation) { visit(&s.Rec) })
	for n := range w.ghosts {
		visit(&w.ghosts[n].rec)
	}
	for i := range w.times {
		p := &w.parties[i]
		visit(&p.m.key.seen.Rec)
		visit(&p.before.Rec)
		visit(&p.freed.Rec)
		visit(&p.m.flight.req.Rec)
		for n := range p.told {
			visit(&p.told[n].Rec)
		}
	}
}

// findFilled finds the records that have anything to renumber. Most of those in the world are empty.
func (w *worldOf) findFilled() {
	w.filled = w.filled[:0]
	w.eachRecord(func(r *record.Record) {
		if r.Session != "" || r.Counter != 0 || r.Token != 0 || r.Least != 0 {
			w.filled = append(w.filled, r)
		}
	})
}

// eachFilled visits the records that have anything to renumber.
func (w *worldOf) eachFilled(visit func(r *record.Record)) {
	for _, r := range w.filled {
		visit(r)
	}
}

// shift lets the clock show the epoch again.
func (p *party) shift(horizon time.Duration) {
	if !p.before.At.IsZero() {
		p.before.At = Later(p.before.At.Add(epoch.Sub(p.now)), epoch.Add(-horizon))
	}
	if !p.up {
		p.now = epoch
		return
	}
	by := epoch.Sub(p.now)
	p.now = epoch
	move := func(t *time.Time, least time.Time) {
		if !t.IsZero() {
			*t = Later(t.Add(by), least)
		}
	}
	m := &p.m
	// These are only compared with now. (To yieldsFrom 256 leases are added, after which
	// handovers in vain are forgotten. So they are never forgotten here, and the wait
	// that follows one is longer.)
	for _, t := range []*time.Time{&p.wake, &p.checker.notBefore, &p.checker.restsUntil, &p.checker.keepsOutUntil, &m.flight.retryAt, &m.renew.at, &m.flight.deadline, &m.feed.retryAt, &m.leave.cooldownUntil, &m.term.drainBy, &m.term.guardDeadline, &m.queue.yieldsFrom, &m.queue.deniedUntil, &m.reads.calmUntil, &p.patient, &p.excused} {
		move(t, epoch)
	}
	move(&m.term.leaseUntil, epoch.Add(-longWait)) // a fenced candidate waits for as long as it has been fenced: see wait
	// A clock shows whole ticks, so differences within one do not matter for these.
	for _, t := range []*time.Time{&p.wake, &m.flight.deadline} {
		if !t.IsZero() {
			*t = t.Add(tick - 1).Truncate(tick)
		}
	}
	// To these something may be added. (If the key was seen that long ago, the computed
	// time when its winner may lead is later than the real one. So the next write is not
	// put with those before it. Then writes that count as sent earlier than they were are
	// left out of the exploration. They give less time, not more.)
	far := epoch.Add(-horizon)
	for _, t := range []*time.Time{&m.key.seenAt, &m.key.readAt, &m.memory.leaseAt, &m.key.absentSince, &m.memory.notBefore, &m.writes.lastAt, &m.renew.electFrom, &m.flight.sentAt, &m.flight.slotSince, &m.flight.req.write.ready, &m.leave.since, &m.term.began} {
		move(t, far)
	}
	for i := range m.writes.sent {
		move(&m.writes.sent[i].at, far)
		move(&m.writes.sent[i].ready, far)
	}
}

// renumberSessions names sessions after their candidates. A+ is the current one of A. A1
// and so on are the earlier ones, in the order in which they are met.
func (w *worldOf) renumberSessions() {
	w.findFilled()
	w.estrangeRaises()
	var names [2 * len(olderNames[0])]struct{ was, is string }
	n, older := 0, [maxParties]int{}
	w.eachFilled(func(r *record.Record) {
		if r.Session == "" || r.Session == r.ID+"+" && w.parties[r.ID[0]-'A'].up {
			return
		}
		for _, name := range names[:n] {
			if name.was == r.Session {
				r.Session = name.is
				return
			}
		}
		i := r.ID[0] - 'A'
		names[n].was, names[n].is = r.Session, olderNames[i][older[i]]
		r.Session = names[n].is
		older[i]++
		n++
	})
	w.renumberReports()
}

var olderNames = func() (names [maxParties][8]string) {
	for i := range names {
		for n := range names[i] {
			names[i][n] = fmt.Sprintf("%s%d", partyNames[i], n+1)
		}
	}
	return names
}()

// renumberCounters renumbers the counters of writes. A machine compares the counters of
// its own writes with those of its batches, and those of any two writes at one revision
// with each other.
func (w *worldOf) renumberCounters() {
	for i := range w.times {
		s := &w.parties[i].m.key.seen
		shown := false
		w.eachShown(func(o *record.Observation) { shown = shown || o.Revision == s.Revision })
		for j := range w.parties {
			for n := range w.parties[j].told {
				shown = shown || w.parties[j].told[n].Revision == s.Revision
			}
		}
		if !shown && !w.void {
			s.Rec.Counter = 0
		}
	}
	for i := range w.times {
		if p := &w.parties[i]; p.up {
			w.rankCounters(p.m.Session, &p.m)
		}
		for _, session := range olderNames[i] {
			if !w.rankCounters(session, nil) {
				break
			}
		}
	}
}

func (w *worldOf) rankCounters(session string, m *Machine) bool {
	var r ranks
	each := func(visit func(*uint64)) {
		w.eachFilled(func(r *record.Record) {
			if r.Session == session {
				visit(&r.Counter)
			}
		})
		if m != nil {
			visit(&m.writes.counter)
			for n := range m.writes.sent {
				visit(&m.writes.sent[n].first)
				visit(&m.writes.sent[n].last)
			}
		}
	}
	each(func(v *uint64) { r.add(*v) })
	r.sort()
	each(func(v *uint64) { *v = r.of(*v) })
	return r.n > 0
}

// renumberRevisions renumbers revisions and tokens. They are compared with one another,
// by their order alone.
func (w *worldOf) renumberRevisions() {
	if !w.void {
		// The next revision is greater than all, and so is the token that comes with it.
		// So only tokens beyond the revisions have an effect.
		w.eachToken(func(v *uint64) {
			if *v <= w.last {
				*v = 0
			}
		})
		w.eachLeast(func(v *uint64) {
			if *v <= w.last+1 {
				*v = 0
			}
		})
	}
	var r ranks
	each := func(visit func(v *uint64)) {
		w.eachToken(visit)
		w.eachKeptToken(visit)
		w.eachLeast(visit)
		w.eachRevision(visit)
	}
	each(func(v *uint64) { r.add(*v) })
	if w.void {
		r.gap = 4 // a store that went back reaches the old numbers one after the other
	}
	r.sort()
	each(func(v *uint64) { *v = r.of(*v) })
}

// eachWrite visits the writes that candidates keep in mind.
func (w *worldOf) eachWrite(visit func(o *write)) {
	for i := range w.times {
		m := &w.parties[i].m
		visit(&m.flight.req.write)
		for n := range m.writes.sent {
			visit(&m.writes.sent[n].write)
		}
	}
}

// asksLeast reports whether the token of the write is the least one of a term to come.
func (o *write) asksLeast() bool {
	return o.phase == record.PhasePending || o.phase == record.PhaseElect
}

// eachLeast visits the least tokens of terms to come.
func (w *worldOf) eachLeast(visit func(v *uint64)) {
	w.eachFilled(func(r *record.Record) { visit(&r.Least) })
	w.eachWrite(func(o *write) {
		if o.asksLeast() {
			visit(&o.token)
		}
	})
}

func (w *worldOf) eachToken(visit func(v *uint64)) {
	w.eachFilled(func(r *record.Record) { visit(&r.Token) })
	w.eachWrite(func(o *write) {
		if !o.asksLeast() {
			visit(&o.token)
		}
	})
	for i := range w.times {
		m := &w.parties[i].m
		visit(&m.MinToken)
		visit(&m.memory.token)
		visit(&m.memory.hearsay)
		if !w.guarded || !m.raising() && m.state != StateLeader {
			visit(&m.term.token)
		}
	}
}

func (w *worldOf) eachRevision(visit func(v *uint64)) {
	visit(&w.last)
	w.eachShown(func(s *record.Observation) { visit(&s.Revision) })
	for n := range w.ghosts {
		visit(&w.ghosts[n].cond)
	}
	w.eachOldRevision(visit)
	for i := range w.times {
		p := &w.parties[i]
		visit(&p.before.Revision)
		visit(&p.freed.Revision)
		visit(&p.reply.revision)
		visit(&p.reply.last)
		for n := range p.told {
			visit(&p.told[n].Revision)
		}
		m := &p.m
		visit(&m.key.seen.Revision)
		visit(&m.key.removedUpTo)
		visit(&m.key.readRevision)
		visit(&m.reads.atLeast)
		visit(&m.reads.from)
		visit(&m.flight.req.Revision)
		visit(&m.flight.req.write.cond)
		for n := range m.writes.sent {
			if c := &m.writes.sent[n].cond; *c != gone {
				visit(c)
			}
		}
	}
}
