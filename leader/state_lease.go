package leader

import (
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// batch remembers own writes that differ only in when they were sent, so that one of them
// can be recognised when it turns up. All of them count as sent when the first was sent.
// That can only make a lease shorter.
type batch struct {
	first, last uint64 // counters
	write
	at    time.Time
	times durations // the durations promised to others
}

// write is the part of a write that matters when its outcome becomes known. It is fixed
// when the write is sent.
type write struct {
	phase phase
	cond  uint64    // the revision that it replaces, 0 for nothing
	win   bool      // it replaces something that is not a record of its own
	blind bool      // of a win: the entry that it replaces was not read, see confirmed
	ready time.Time // of a win: when the winner may be elected at the earliest; zero: at once
}

// remember keeps the write that was just sent.
func (m *machine) remember(now time.Time, w write) {
	if b := &m.sent[0]; b.last+1 == m.counter && b.write == w && b.times == m.times {
		b.last = m.counter
		return
	}
	copy(m.sent[1:], m.sent[:])
	m.sent[0] = batch{first: m.counter, last: m.counter, write: w, at: now, times: m.times}
}

// recall finds the write with that counter, unless it is forgotten.
func (m *machine) recall(counter uint64) (batch, bool) {
	for _, b := range m.sent {
		if b.first <= counter && counter <= b.last && counter != 0 {
			return b, true
		}
	}
	return batch{}, false
}

// least returns the least token of the next term. It counts up from the record that
// stands, even if only the feed has delivered that record, unless its token is junk.
func (m *machine) least() uint64 {
	return max(m.topToken, m.minToken, knownToken(m.standingToken())) + 1
}

// standingToken returns the token of the record that the next write replaces. A pending
// record of its own has none, because each renewal of it would count up.
func (m *machine) standingToken() uint64 {
	if m.holds() && m.seen.rec.phase == phasePending {
		return 0
	}
	return m.seen.rec.termToken(m.seen.revision)
}

// exhausted reports whether the record or a guard has a token that candidates do not
// count up from.
func (m *machine) exhausted() bool { return max(m.standingToken(), m.guards.over) > lastToken }

// exhaust reports, once, that the next term would need a token and none is left. A holder
// gives up the key then. Candidates leave the key alone until its record, or the guard,
// is replaced.
func (m *machine) exhaust(now time.Time, fx *effects) {
	was := m.spent
	has := m.state == StateLeader || m.raising() || m.draining
	if m.spent = !m.observe && !has && m.exhausted(); !m.spent {
		return
	}
	if !was {
		what := "the record of the key"
		if m.guards.over > lastToken {
			what = "a guard"
		}
		m.fault(fmt.Errorf("%w: %s has token %d; delete it", ErrTokensExhausted, what, max(m.standingToken(), m.guards.over)), fx)
	}
	if m.state != StateCandidate && m.leaving == staying {
		m.leaving, m.leftAt, m.to = resigning, now, ""
		m.becomeCandidate(fx)
	}
}

// earliestLead returns when the winner of the key, as it is seen, may lead at the earliest.
// Zero means at once: no earlier lease can be valid when tryAt allows the write. That is so
// for these entries, if they are confirmed:
//
//   - a released record
//   - a held record or, without KVElect, a foreign one that has lapsed
//   - a marker with a lease that has lapsed
//   - no message in a purge-protected bucket
//
// In all other cases, and after a regress, the winner waits for an unknown lease. A fenced
// candidate renews its own record and may lead at once; earliestLead is not called for it.
func (m *machine) earliestLead() time.Time {
	var ready time.Time
	switch m.seen.kind {
	case entryRecord: // released, or its lease ran out while it was watched
	case entryForeign: // likewise
		if m.kvElect {
			// The process that wrote it may find out about the loss as late as its own
			// algorithm allows for: that algorithm reports a leader only long after the
			// key was won.
			ready = m.lapse().Add(m.unknownLease())
		}
	case entryNothing:
		if !m.settings.PurgeProtected {
			ready = m.seenAt.Add(m.unknownLease())
		}
	case entryMarker:
		// A marker that carries a lease replaced the record with that lease, by
		// compare-and-set. So that record was the last one that its holder wrote. The
		// holder wrote it before the marker was stored, and so before this candidate
		// received the marker. All leases of other sessions were over when the holder was
		// elected. If the holder was pending, the lease in its record covers them. So no
		// lease is valid when the lease in the marker has passed since the marker was
		// received. tryAt waits for that.
		if m.seen.rec.lease == 0 {
			ready = m.seenAt.Add(m.unknownLease())
		}
	case entryUnseen:
		panic("leader: a write without a revision to base it on")
	}
	if !m.confirmed() { // the entry at that revision is not known
		ready = later(later(ready, later(m.seenAt, m.lookedAt).Add(m.unknownLease())), m.lapse())
	}
	return later(ready, m.notBefore)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// compose makes the next write from the state.
func (m *machine) compose(now time.Time) (record, write) {
	rec := record{id: m.id, session: m.session, counter: m.counter + 1, lease: m.times.lease, seats: m.seats, value: m.value}
	w := write{cond: m.seen.revision}
	elects := false
	switch {
	case m.leaving != staying && !m.draining:
		w.phase = phaseReleased
	case m.state == StateLeader || m.draining || m.raising():
		w.phase = phaseLeading
	case m.state == StatePending:
		elects = !now.Before(m.ready)
	case m.state == StateFenced:
		elects = m.times.pendingPeriod == 0
	default:
		w.win, w.blind = true, !m.confirmed()
		w.ready = m.earliestLead()
		elects = m.times.pendingPeriod == 0 && !now.Before(w.ready)
	}
	switch {
	case w.phase == phaseReleased:
		rec.token = m.topToken
		rec.to = m.to
	case w.phase == phaseLeading:
		rec.token, rec.since = m.token, m.since
	case elects:
		w.phase = phaseElect
		rec.least = m.least()
	default:
		// A candidate that replaces a pending record must wait as long as its writer.
		w.phase = phasePending
		rec.lease = m.unknownLease()
		rec.least = m.least()
	}
	rec.phase = w.phase
	if m.listed {
		rec.next, rec.priority = m.line.without(m.session), m.priority
	}
	m.curtail(&rec)
	return rec, w
}

// acknowledged handles the acknowledgement of the write in flight, which was stored at
// revision. Its lease counts from when it was sent.
func (m *machine) acknowledged(now time.Time, req request, revision uint64, fx *effects) {
	if revision <= max(req.revision, m.removedUpTo) {
		m.regress(now, fx)
		return
	}
	m.needRead = false
	m.fails, m.writeFailing = 0, false
	m.standsFrom = time.Time{}
	m.soothe(now, true)
	if revision < m.seen.revision {
		return // replaced since; the feed was faster
	}
	w := req.write
	if m.filledGap(w) {
		w.ready = now.Add(m.unknownLease())
	}
	m.stored(now, observation{revision: revision, kind: entryRecord, rec: req.rec}, w, m.opAt, fx)
}

// filledGap reports whether a write that was stored replaced no message, in a bucket
// where a key can be empty more than once, or replaced an entry that was never read.
// Until the write was stored, other candidates may have come, led and been removed, or a
// holder may have renewed. So the knowledge from when the write was sent does not count.
func (m *machine) filledGap(w write) bool {
	return w.win && (w.blind || w.cond == 0 && !m.settings.PurgeProtected)
}

// refused handles a write that was rejected because its condition did not hold. That is
// not a loss yet. Only another session's record, or none, is a loss.
func (m *machine) refused(now time.Time, req request, r backend.RefusedError, dice uint32, fx *effects) {
	m.standsFrom = time.Time{} // a refusal is the stream's, so the write was allowed
	switch {
	case r.Named && r.Actual < max(req.revision, m.removedUpTo) && (r.Actual > 0 || m.settings.PurgeProtected):
		m.regress(now, fx)
	case m.seen.revision > req.revision: // the feed has delivered the newer revision already
	case r.Named && r.Actual < req.revision:
		m.learn(now, observation{kind: entryNothing}, fx) // gone without a marker
	default:
		if m.holds() {
			m.needRead, m.renewNow, m.writeFailing = true, true, true
			if m.fails++; m.fails > 1 { // the first read is at once
				m.retryAt = later(now, m.opAt.Add(m.pause(m.fails, dice)))
			}
		} else {
			// The winner's record is on its way, so thousands of candidates need not ask
			// for it.
			m.lostRace = m.lostRace || !m.needRead
			m.needRead = true
			m.retryAt = now.Add(m.pause(1, dice))
		}
	}
}

// recognise takes a revision that was read and turns out to be an own write.
func (m *machine) recognise(now time.Time, s observation, fx *effects) {
	if s.rec.phase == phaseReleased {
		m.acked = max(m.acked, s.rec.counter)
		m.count(s, true)
		m.lose(ErrDeleted, fx) // not by this term's release: that is sent after its end
		m.seen, m.seenAt = s, now
		return
	}
	b, known := m.recall(s.rec.counter)
	w := b.write
	switch {
	case !known && m.state == StateLeader:
		w = write{} // gives no lease; renew first
	case !known:
		w = write{win: true, ready: now.Add(m.unknownLease())}
	case m.filledGap(w):
		w.ready = now.Add(m.unknownLease())
	}
	if w.win {
		m.lose(ErrDeleted, fx)
	}
	if known {
		m.times = b.times
	}
	m.stored(now, s, w, b.at, fx)
}

// stored handles an own write that holds the key. It was sent at sent and stored as s.
func (m *machine) stored(now time.Time, s observation, w write, sent time.Time, fx *effects) {
	m.succeeded(now, s)
	m.seen, m.seenAt = s, now
	m.acked = max(m.acked, s.rec.counter)
	if s.rec.phase != phasePending {
		m.count(s, true)
	}
	if s.rec.phase == phaseReleased {
		// The feed may have delivered a successor's record before this reply came.
		m.needRead, m.renewNow = m.renewNow && m.leaving != stopping, false
		return
	}
	good := sent.Add(m.times.renewDeadline)
	m.renewAt = sent.Add(m.times.renewInterval)
	ready := later(w.ready, m.notBefore)
	if p := m.times.pendingPeriod; p > 0 {
		ready = later(ready, now.Add(p))
	}
	switch m.state {
	case StateCandidate:
		if !w.win && m.leaving != staying {
			ready = later(m.ready, m.notBefore) // a renewal, or what it was pending for
		}
		if m.suspended && m.leaving == staying {
			m.leaving, m.leftAt, m.to = resigning, now, "" // it came late: there may be another that is to be led instead
		}
		if m.leaving == resigning && now.Before(ready) && !m.suspended {
			m.leaving, m.to = staying, "" // it must not release this one: others would lead at once
		}
		if m.leaving != staying {
			m.ready = ready
			return
		}
		m.becomePending(now, ready, fx)
	case StateFenced:
		if m.draining || s.rec.phase == phaseLeading {
			m.renewNow = !m.draining // sent before the fence; one that is sent now elects
			return
		}
		m.becomePending(now, ready, fx)
	case StateLeader:
		m.leaseUntil = later(m.leaseUntil, good)
	case StatePending:
		if m.raising() {
			m.leaseUntil = later(m.leaseUntil, good)
		}
	}
	if m.state == StatePending && s.rec.phase == phaseElect && !sent.Before(m.ready) && now.Before(good) {
		m.claim(now, good)
	}
	m.begin(now, fx)
}
