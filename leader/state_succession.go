package leader

import (
	"time"

	"github.com/natsleader/natsleader/internal/wire"

	"github.com/natsleader/natsleader/internal/record"
)

// order is a candidate's part in the succession. Like params it never changes.
type order struct {
	// priority is published with the lease. Of the leaders of several seats, the one with
	// the lowest priority gives way.
	priority int
	lot      uint32 // random; it waits lot/2^32 of the longest extra wait if it is not in line
	listed   bool   // announces itself in the roster, and publishes the line while it holds the key
	orders   bool   // waits for its turn
}

// share returns the lot's part of a duration.
func share(d time.Duration, lot uint32) time.Duration {
	return time.Duration(float64(d) * float64(lot) / (1 << 32))
}

// crowding is the number of turns over which candidates that are not in line spread their
// tries. There may be thousands of them.
const crowding = 4

// lineOfAll returns the line of the candidates that stand in this order.
func lineOfAll(all []record.Announcement) record.Line {
	sessions := make([]string, 0, record.MaxLine)
	for _, s := range all[:min(len(all), record.MaxLine)] {
		sessions = append(sessions, s.Session)
	}
	return record.LineOf(sessions)
}

// stands reports whether the candidate waits for the key, and could take it. A candidate
// that may not take a lease yet does not stand. Otherwise the others would wait for its turn.
func (m *machine) stands(now time.Time) bool {
	return m.eligible() && !now.Before(m.leave.cooldownUntil)
}

// eligible is stands without the instant before which the candidate takes no lease.
func (m *machine) eligible() bool {
	return m.listed && m.bucket.known && m.leave.mode == staying && m.key.seen.Kind != record.EntryUnseen && !m.holds() && !m.work.going && !m.work.idle &&
		(!m.guarded || m.guards.fit)
}

// preemptor is the candidate that is to lead instead of the leader: it has a higher priority,
// asks to lead, and is alive.
type preemptor struct {
	session string
	since   time.Time // when it was first seen to stand
}

// rosterReport is the content of the roster for the holder.
type rosterReport struct {
	line      record.Line
	preemptor preemptor
}

// queueState is the candidate's place in the succession, and its patience as a leader.
//
// reported is set after a report of its own view of the roster, or after that view could not
// be opened. A try for the key clears it, because the report may be of the time before.
// yieldsFrom is not set unless a handover was in vain.
type queueState struct {
	line     record.Line // as the last holder published it, or as the own view of the roster shows it
	reported bool        // the own view of the roster has reported since the last try for the key
	// Handovers in vain: the key was released in favour of a candidate, and another took it.
	vain        uint32    // in a row
	yieldsFrom  time.Time // as a leader it hands over to no higher priority before then
	deniedUntil time.Time // a write was denied: it follows after all others until then
}

// publish takes the line that a holder published.
func (q *queueState) publish(l record.Line) { q.line = l }

// report takes the line of the own view of the roster.
func (q *queueState) report(l record.Line) { q.line, q.reported = l, true }

// left takes a session out of the line.
func (q *queueState) left(session string) { q.line = q.line.Without(session) }

// stale makes the candidate ask its own view of the roster again.
func (q *queueState) stale() { q.reported = false }

// inVain counts a handover in vain. The wait after it doubles with each.
func (q *queueState) inVain(now time.Time, lease time.Duration) {
	q.vain++
	q.yieldsFrom = now.Add(lease << min(q.vain, patienceDoubles))
}

// forgetVain forgets the handovers in vain.
func (q *queueState) forgetVain() { q.vain = 0 }

// denialLeases is for how many leases after a denied write a candidate follows after all
// others. A permission may be granted without a sign of it, so the denial is not believed
// for longer.
const denialLeases = 8

// denied records that a write was denied.
func (q *queueState) denied(now time.Time, lease time.Duration) {
	q.deniedUntil = now.Add(denialLeases * lease)
}

// permitted records that the candidate may write, or may have become allowed to.
func (q *queueState) permitted() { q.deniedUntil = time.Time{} }

// ranked takes a report of the roster for the holder of the key.
func (m *machine) ranked(now time.Time, r rosterReport, fx *effects) {
	if !m.holds() {
		return
	}
	// The first line is published at once: the leader may be gone before it renews.
	if m.state == StateLeader && m.queue.line == "" && r.line != "" {
		m.renew.want()
	}
	m.queue.report(r.line)
	stayed := !now.Before(later(r.preemptor.since, m.term.began).Add(m.bucket.times.lease)) // both
	if m.state == StateLeader && r.preemptor.session != "" && stayed && !now.Before(m.queue.yieldsFrom) {
		m.handOver(now, r.preemptor.session, fx)
	}
}

// patienceDoubles is how often the wait after a handover in vain doubles, beginning
// with two leases.
const patienceDoubles = 8

// longestPatience returns the limit of the wait between two handovers in vain. It is
// about an hour with the default lease.
func (m *machine) longestPatience() time.Duration { return m.bucket.timing().lease << patienceDoubles }

// succeeded counts a handover in vain: the record seen was released in favour of one
// candidate, and another candidate holds the next one. All candidates see the same
// records, so they agree on the count, whichever of them leads next. The count takes no
// more memory for a crowd of sessions than for one. A handover that succeeds does not
// reset the count. Otherwise a candidate that can write would make way for those that
// cannot.
func (m *machine) succeeded(now time.Time, next record.Observation) {
	if !m.given() || !next.Held() || m.key.seen.Rec.Names(next.Rec.ID, next.Rec.Session) {
		return
	}
	if !now.Before(m.queue.yieldsFrom.Add(m.longestPatience())) {
		m.queue.forgetVain()
	}
	m.queue.inVain(now, m.bucket.timing().lease)
}

// handOver resigns in favour of a candidate, given by its ID or session. If to is empty,
// it resigns in favour of none.
func (m *machine) handOver(now time.Time, to string, fx *effects) {
	m.leave.resign(now, to)
	m.stepDown(now, time.Time{}, ErrResigned, fx)
}

// withdraw gives up the key for a cause that may come again as soon as the candidate leads.
func (m *machine) withdraw(now time.Time, fx *effects) {
	m.leave.withdraw(now)
	if m.state == StateLeader {
		m.stepDown(now, time.Time{}, ErrResigned, fx)
	} else {
		m.becomeCandidate(fx)
	}
}

// named reports whether the key was released in favour of this candidate.
func (m *machine) named() bool {
	return m.given() && m.key.seen.Rec.Session != m.session && m.key.seen.Rec.Names(m.id, m.session)
}

// given reports whether the key was released in favour of a candidate.
func (m *machine) given() bool {
	return m.key.seen.Kind == record.EntryRecord && m.key.seen.Rec.Phase == record.PhaseReleased && m.key.seen.Rec.To != ""
}

// turn returns how long after the key is free the candidate tries to take it.
func (m *machine) turn() time.Duration {
	turns := 0
	if m.given() {
		turns++ // somebody else is named
	}
	if !m.orders || m.queue.line == "" {
		return time.Duration(turns) * m.bucket.times.turn
	}
	ahead, in := m.queue.line.Place(m.session)
	d := time.Duration(turns+ahead) * m.bucket.times.turn
	if !in {
		d += share(crowding*m.bucket.times.turn, m.lot)
	}
	return d
}

// curtail leaves hints out of a record that the bucket would not take otherwise.
func (m *machine) curtail(rec *record.Record) {
	room := m.bucket.settings.MaxValue
	if m.kvElect {
		room -= wire.MarkRoom
	}
	// JSON makes six bytes of one at most. Most buckets take far more.
	most := 512 + 6*(len(rec.ID)+len(rec.Session)+len(rec.Value)+len(rec.To)) + len(rec.Next) + 2*record.MaxLine
	if m.bucket.settings.MaxValue == 0 || most <= room {
		return
	}
	if len(rec.Encode()) > room {
		rec.Next = ""
	}
	if len(rec.Encode()) > room {
		rec.To = ""
	}
}

// releaseDue returns when the key is given up at the earliest. A candidate that has just
// won the key, and has no other in line after it, reads the roster first. Otherwise it
// would pass over the candidates that have waited longest.
func (m *machine) releaseDue() time.Time {
	if !m.listed || m.queue.reported || m.queue.line != "" || m.leave.to != "" {
		return time.Time{}
	}
	return m.leave.since.Add(m.bucket.times.turn)
}

// sitsOut returns how long the candidate takes no lease after it has resigned. It stands
// behind all others. So if none of them takes the key, the election is without a leader for
// that long at most. It waits one lease if what made it resign may come again: that is a brake.
// It also does so beside clients of another library, which may look at the key that rarely.
func (m *machine) sitsOut() time.Duration {
	if m.leave.recurs || m.kvElect && m.leave.to == "" {
		return m.bucket.times.lease
	}
	ahead, _ := m.queue.line.Place(m.session)
	return min(m.bucket.times.lease, time.Duration(ahead+1+crowding)*m.bucket.times.turn)
}
