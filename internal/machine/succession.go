package machine

import (
	"math"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

// Order is a candidate's part in the succession. Like Params it never changes.
type Order struct {
	// Priority is published with the lease. Of the leaders of several seats, the one with
	// the lowest priority gives way.
	Priority int
	Spread   uint32 // random; it waits spread/2^32 of the longest extra wait if it is not in line
	Listed   bool   // announces itself in the roster, and publishes the line while it holds the key
	Orders   bool   // waits for its turn
}

// share returns spread/2^32 of a duration.
func share(d time.Duration, spread uint32) time.Duration {
	return time.Duration(float64(d) * float64(spread) / (1 << 32))
}

// crowding is the number of turns over which candidates that are not in line spread their
// tries. There may be thousands of them.
const crowding = 4

// LineOfAll returns the line of the candidates that stand in this order.
func LineOfAll(all []record.Announcement) record.Line {
	sessions := make([]string, 0, record.MaxLine)
	for _, s := range all[:min(len(all), record.MaxLine)] {
		sessions = append(sessions, s.Session)
	}
	return record.LineOf(sessions)
}

// competes reports whether the candidate waits for the key, and could take it. A candidate
// that may not take a lease yet does not compete. Otherwise the others would wait for its turn.
func (m *Machine) competes(now time.Time) bool {
	return m.eligible() && !now.Before(m.leave.cooldownUntil)
}

// eligible is competes without the instant before which the candidate takes no lease.
func (m *Machine) eligible() bool {
	return m.Listed && m.bucket.known && m.leave.mode == Staying && m.key.seen.Kind != record.EntryUnseen && !m.holds() && !m.work.going && !m.work.idle &&
		(!m.Guarded || m.guards.Fit)
}

// Preemptor is the candidate that is to lead instead of the leader: it has a higher priority,
// asks to lead, and is alive.
type Preemptor struct {
	Session string
	Since   time.Time // when it was first seen to stand
}

// RosterReport is the content of the roster for the holder.
type RosterReport struct {
	Line      record.Line
	Preemptor Preemptor
}

// queueState is the candidate's place in the succession, and its patience as a leader.
//
// reported is set after a report of its own view of the roster, or after that view could not
// be opened. A try for the key clears it, because the report may be of the time before.
// yieldsFrom is set only after a handover has failed.
type queueState struct {
	line     record.Line // as the last holder published it, or as the own view of the roster shows it
	reported bool        // the own view of the roster has reported since the last try for the key
	// A handover has failed if another candidate took the key than the one that it was released for.
	failedHandovers uint32    // in a row
	yieldsFrom      time.Time // as a leader it hands over to no higher priority before then
	deniedUntil     time.Time // a write was denied: it follows after all others until then
}

// report takes the line of the own view of the roster.
func (q *queueState) report(l record.Line) { q.line, q.reported = l, true }

// left takes a session out of the line.
func (q *queueState) left(session string) { q.line = q.line.Without(session) }

// stale makes the candidate ask its own view of the roster again.
func (q *queueState) stale() { q.reported = false }

// handoverFailed counts a handover that failed. The wait after it doubles with each.
func (q *queueState) handoverFailed(now time.Time, lease time.Duration) {
	q.failedHandovers++
	q.yieldsFrom = now.Add(lease << min(q.failedHandovers, PatienceDoubles))
}

// forgetFailedHandovers forgets the handovers that failed.
func (q *queueState) forgetFailedHandovers() { q.failedHandovers = 0 }

// DenialLeases is for how many leases after a denied write a candidate follows after all
// others. A permission may be granted without a sign of it, so the denial is not believed
// for longer.
const DenialLeases = 8

// denied records that a write was denied.
func (q *queueState) denied(now time.Time, lease time.Duration) {
	q.deniedUntil = now.Add(DenialLeases * lease)
}

// permitted records that the candidate may write, or may have become allowed to.
func (q *queueState) permitted() { q.deniedUntil = time.Time{} }

// ranked takes a report of the roster for the holder of the key.
func (m *Machine) ranked(now time.Time, r RosterReport, fx *Effects) {
	if !m.holds() {
		return
	}
	// The first line is published at once: the leader may be gone before it renews.
	if m.state == StateLeader && m.queue.line == "" && r.Line != "" {
		m.renew.want()
	}
	m.queue.report(r.Line)
	stayed := !now.Before(Later(r.Preemptor.Since, m.term.began).Add(m.bucket.times.Lease)) // since the later of the two
	if m.state == StateLeader && r.Preemptor.Session != "" && stayed && !now.Before(m.queue.yieldsFrom) {
		m.handOver(now, r.Preemptor.Session, fx)
	}
}

// PatienceDoubles is how often the wait after a failed handover doubles, beginning
// with two leases.
const PatienceDoubles = 8

// longestPatience returns the limit of the wait between two handovers that fail. It is
// about an hour with the default lease.
func (m *Machine) longestPatience() time.Duration { return m.bucket.timing().Lease << PatienceDoubles }

// noteHandover counts a handover that failed: the record seen was released in favour of one
// candidate, and another candidate holds the next one. All candidates see the same
// records, so they agree on the count, whichever of them leads next. The count takes no
// more memory for a crowd of sessions than for one. A handover that succeeds does not
// reset the count. Otherwise a candidate that can write would make way for those that
// cannot.
func (m *Machine) noteHandover(now time.Time, next record.Observation) {
	if !m.given() || !next.Held() || m.key.seen.Rec.Names(next.Rec.ID, next.Rec.Session) {
		return
	}
	if !now.Before(m.queue.yieldsFrom.Add(m.longestPatience())) {
		m.queue.forgetFailedHandovers()
	}
	m.queue.handoverFailed(now, m.bucket.timing().Lease)
}

// handOver resigns in favour of a candidate, given by its ID or session. If to is empty,
// it resigns in favour of none.
func (m *Machine) handOver(now time.Time, to string, fx *Effects) {
	m.leave.resign(now, to)
	m.stepDown(now, time.Time{}, backend.ErrResigned, fx)
}

// withdraw gives up the key for a cause that may come again as soon as the candidate leads.
func (m *Machine) withdraw(now time.Time, fx *Effects) {
	m.leave.withdraw(now)
	if m.state == StateLeader {
		m.stepDown(now, time.Time{}, backend.ErrResigned, fx)
	} else {
		m.becomeCandidate(fx)
	}
}

// named reports whether the key was released in favour of this candidate.
func (m *Machine) named() bool {
	return m.given() && m.key.seen.Rec.Session != m.Session && m.key.seen.Rec.Names(m.ID, m.Session)
}

// given reports whether the key was released in favour of a candidate.
func (m *Machine) given() bool {
	return m.key.seen.Kind == record.EntryRecord && m.key.seen.Rec.Phase == record.PhaseReleased && m.key.seen.Rec.To != ""
}

// turn returns how long after the key is free the candidate tries to take it.
func (m *Machine) turn() time.Duration {
	turns := 0
	if m.given() {
		turns++ // somebody else is named
	}
	if !m.Orders || m.queue.line == "" {
		return time.Duration(turns) * m.bucket.times.Turn
	}
	ahead, in := m.queue.line.Place(m.Session)
	d := time.Duration(turns+ahead) * m.bucket.times.Turn
	if !in {
		d += share(crowding*m.bucket.times.Turn, m.Spread)
	}
	return d
}

// curtail leaves hints out of a record that the bucket would not take otherwise.
func (m *Machine) curtail(rec *record.Record) {
	room := m.bucket.settings.MaxValue
	if m.KVElect {
		room -= wire.MarkRoom
	}
	// JSON makes six bytes of one at most. Most buckets take far more.
	most := 512 + 6*(len(rec.ID)+len(rec.Session)+len(rec.Value)+len(rec.To)+len(rec.Last)) + len(rec.Next) + 2*record.MaxLine
	if m.bucket.settings.MaxValue == 0 || most <= room {
		return
	}
	if len(rec.Encode(math.MaxInt64)) > room {
		rec.Next = ""
	}
	if len(rec.Encode(math.MaxInt64)) > room {
		rec.To = ""
	}
	if len(rec.Encode(math.MaxInt64)) > room {
		rec.Last = ""
	}
}

// releaseDue returns when the key is given up at the earliest. A candidate that has just
// won the key, and has no other in line after it, reads the roster first. Otherwise it
// would pass over the candidates that have waited longest.
func (m *Machine) releaseDue() time.Time {
	if !m.Listed || m.queue.reported || m.queue.line != "" || m.leave.to != "" {
		return time.Time{}
	}
	return m.leave.since.Add(m.bucket.times.Turn)
}

// sitsOut returns how long the candidate takes no lease after it has resigned. It stands
// behind all others. So if none of them takes the key, the election is without a leader for
// that long at most. It waits one lease if what made it resign may come again: that is a brake.
// It also does so beside clients of another library, which may look at the key that rarely.
func (m *Machine) sitsOut() time.Duration {
	if m.leave.recurs || m.KVElect && m.leave.to == "" {
		return m.bucket.times.Lease
	}
	ahead, _ := m.queue.line.Place(m.Session)
	return min(m.bucket.times.Lease, time.Duration(ahead+1+crowding)*m.bucket.times.Turn)
}
