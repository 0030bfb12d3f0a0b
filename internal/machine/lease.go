package machine

import (
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/record"
)

// batch remembers own writes that differ only in when they were sent, so that one of them
// can be recognised when it turns up. All of them count as sent when the first was sent.
// That can only make a lease shorter.
type batch struct {
	first, last uint64 // counters
	write
	at    time.Time
	times Durations // the durations promised to others
}

// write is the part of a write that matters when its outcome becomes known. It is fixed
// when the write is sent.
type write struct {
	phase record.Phase
	win   bool      // it replaces something that is not a record of its own
	blind bool      // of a win: the entry that it replaces was not read, see confirmed
	cond  uint64    // the revision that it replaces, 0 for nothing
	token uint64    // that its record names, see Record.Asks
	ready time.Time // of a win: when the winner may be elected at the earliest; zero: at once
}

// writeLog is the candidate's own writes.
//
// counter numbers them without a gap, and no number is used twice. The batches are in the
// order of sending, newest first, and the newest batch ends with counter. acked is not
// greater than counter.
type writeLog struct {
	counter uint64        // of the last write sent
	acked   uint64        // of the newest write known to be stored
	sent    [4]batch      // the last few, newest first
	lastAt  time.Time     // of the last write sent that did not release the key
	lastFor time.Duration // how long others wait after that write
}

// add keeps a write that is being sent.
func (l *writeLog) add(now time.Time, req Request, times Durations) {
	l.counter++
	if req.Rec.Phase != record.PhaseReleased {
		l.lastAt, l.lastFor = now, req.Rec.Lease
	}
	if b := &l.sent[0]; b.last+1 == l.counter && b.write == req.write && b.times == times {
		b.last = l.counter
		return
	}
	copy(l.sent[1:], l.sent[:])
	l.sent[0] = batch{first: l.counter, last: l.counter, write: req.write, at: now, times: times}
}

// sentEarlier counts the writes as sent so much earlier.
func (l *writeLog) sentEarlier(by time.Duration) {
	for i := range l.sent {
		if b := &l.sent[i]; b.last != 0 {
			b.at = b.at.Add(-by)
		}
	}
}

// acknowledge records that the write with the counter is stored.
func (l *writeLog) acknowledge(counter uint64) { l.acked = max(l.acked, counter) }

// recall returns the write with the counter, and whether it is still known.
func (l *writeLog) recall(counter uint64) (batch, bool) {
	for _, b := range &l.sent {
		if b.first <= counter && counter <= b.last && counter != 0 {
			return b, true
		}
	}
	return batch{}, false
}

// forged reports whether another client has written a record in the candidate's name. No
// write of its own has that counter, or the one that has it is of another phase or token. A
// write that is not known any more cannot be compared.
func (l *writeLog) forged(r record.Record) bool {
	b, known := l.recall(r.Counter)
	return r.Counter > l.counter || known && (r.Phase != b.phase || r.Asks() != b.token)
}

// releaseDeadline returns when no write keeps others out any more, whether it was stored or
// not. From then on a candidate that leaves gains nothing by a release. An attempt to release
// does not move it: a cluster without a quorum may refuse one after the other.
func (l *writeLog) releaseDeadline() time.Time { return l.lastAt.Add(l.lastFor) }

// renewal is when a holder writes the key again.
//
// A pending candidate may be elected from electFrom on. A candidate that gives up the key may release
// it from then on. It is zero in a leader and in a fenced candidate.
type renewal struct {
	electFrom time.Time // when a write that elects may be sent at the earliest
	at        time.Time // when the next renewal is due
	soon      bool      // a renewal is wanted without waiting for at
}

// due sets when the next renewal is due.
func (r *renewal) due(at time.Time) { r.at = at }

// want asks for a renewal without waiting.
func (r *renewal) want() { r.soon = true }

// wantOnlyIf asks for a renewal without waiting, or withdraws an earlier wish for one.
func (r *renewal) wantOnlyIf(wanted bool) { r.soon = wanted }

// served records that a write is on its way.
func (r *renewal) served() { r.soon = false }

// waitUntil sets when a write that elects may be sent at the earliest.
func (r *renewal) waitUntil(at time.Time) { r.electFrom = at }

// waitNoLonger clears the instant of waitUntil.
func (r *renewal) waitNoLonger() { r.electFrom = time.Time{} }

// least returns the least token of the next term. It counts up from the tokens remembered.
// The record that stands may have a greater token, if only the feed has delivered that
// record. Then this token is not greater than that record's revision, see count. The next
// write replaces that revision, and so the revision of the next term is greater than it.
func (m *Machine) least() uint64 { return max(m.memory.token, m.MinToken) + 1 }

// standingToken returns the token of the record that the next write replaces. A pending
// record of its own has none. Its token may be one more than record.LastToken, because the least
// token counts up by one, and the term for which it asks may begin all the same.
func (m *Machine) standingToken() uint64 {
	if m.holds() && m.key.seen.Rec.Phase == record.PhasePending {
		return 0
	}
	return m.key.seen.Rec.TermToken(m.key.seen.Revision)
}

// exhausted reports whether the record or a guard has a token that candidates do not
// count up from.
func (m *Machine) exhausted() bool { return max(m.standingToken(), m.guards.Over) > record.LastToken }

// exhaust reports, once, that the next term would need a token and none is left. A holder
// gives up the key then. Candidates leave the key alone until its record, or the guard,
// is replaced.
func (m *Machine) exhaust(now time.Time, fx *Effects) {
	was := m.spent
	has := m.state == StateLeader || m.raising() || m.term.draining
	if m.spent = !m.Observe && !has && m.exhausted(); !m.spent {
		return
	}
	if !was {
		what := "the record of the key"
		if m.guards.Over > record.LastToken {
			what = "a guard"
		}
		m.fault(fmt.Errorf("%w: %s has token %d; delete it", backend.ErrTokensExhausted, what, max(m.standingToken(), m.guards.Over)), fx)
	}
	if m.state != StateCandidate && m.leave.mode == Staying {
		m.withdraw(now, fx)
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
func (m *Machine) earliestLead() time.Time {
	var ready time.Time
	switch m.key.seen.Kind {
	case record.EntryRecord: // released, or its lease ran out while it was watched
	case record.EntryForeign: // its lease ran out while it was watched
		if m.KVElect {
			// The process that wrote it may find out about the loss as late as its own
			// algorithm allows for: that algorithm reports a leader only long after the
			// key was won.
			ready = m.lapse().Add(m.unknownLease())
		}
	case record.EntryNothing:
		if !m.bucket.settings.PurgeProtected {
			ready = m.key.seenAt.Add(m.unknownLease())
		}
	case record.EntryMarker:
		// A marker that carries a lease replaced the record with that lease, by
		// compare-and-set. So that record was the last one that its holder wrote. The
		// holder wrote it before the marker was stored, and so before this candidate
		// received the marker. All leases of other sessions were over when the holder was
		// elected. If the holder was pending, the lease in its record covers them. So no
		// lease is valid when the lease in the marker has passed since the marker was
		// received. tryAt waits for that.
		if m.key.seen.Rec.Lease == 0 {
			ready = m.key.seenAt.Add(m.unknownLease())
		}
	case record.EntryUnseen:
		panic("leader: a write without a revision to base it on")
	}
	if !m.confirmed() { // the entry at that revision is not known
		ready = Later(Later(ready, Later(m.key.seenAt, m.key.readAt).Add(m.unknownLease())), m.lapse())
	}
	return Later(ready, m.memory.notBefore)
}

// compose makes the next write from the state.
func (m *Machine) compose(now time.Time) (record.Record, write) {
	rec := record.Record{ID: m.ID, Session: m.Session, Counter: m.writes.counter + 1, Lease: m.bucket.times.Lease, Seats: m.Seats, Value: m.value}
	w := write{cond: m.key.seen.Revision}
	elects := false
	switch {
	case m.leave.mode != Staying && !m.term.draining:
		w.phase = record.PhaseReleased
	case m.state == StateLeader || m.term.draining || m.raising():
		w.phase = record.PhaseLeading
	case m.state == StatePending:
		elects = !now.Before(m.renew.electFrom)
	case m.state == StateFenced:
		elects = m.bucket.times.PendingPeriod == 0
	default:
		w.win, w.blind = true, !m.confirmed()
		w.ready = m.earliestLead()
		elects = m.bucket.times.PendingPeriod == 0 && !now.Before(w.ready)
		m.past = pastState{last: m.lastLeader()}
		if last := m.past.last.Unpack(); m.Inherits && last.ID != "" && m.fit(last.Value) == nil {
			m.value, rec.Value = last.Value, last.Value
		}
	}
	switch {
	case w.phase == record.PhaseReleased:
		rec.Token = m.memory.token
		rec.To = m.leave.to
		rec.NeverLed, rec.Last = !m.past.led, m.past.last
	case w.phase == record.PhaseLeading:
		rec.Token, rec.Since = m.term.token, m.term.since
	case elects:
		w.phase = record.PhaseElect
		rec.Least = m.least()
	default:
		// A candidate that replaces a pending record must wait as long as its writer, which
		// may have lost the memory of the lease for which it waits since the store lost writes.
		w.phase = record.PhasePending
		rec.Lease = max(m.unknownLease(), m.memory.notBefore.Sub(now))
		rec.Least = m.least()
		if rec.Last = m.past.last; !w.win {
			rec.Last = m.lastLeader()
		}
	}
	rec.Phase = w.phase
	w.token = rec.Asks()
	if m.Listed {
		rec.Next, rec.Priority = m.queue.line.Without(m.Session), m.Priority
	}
	m.curtail(&rec)
	return rec, w
}

// acknowledged handles the acknowledgement of the write in flight, which was stored at
// revision. Its lease counts from when it was sent.
func (m *Machine) acknowledged(now time.Time, req Request, revision uint64, fx *Effects) {
	if revision <= max(req.Revision, m.key.removedUpTo) {
		m.regress(now, fx)
		return
	}
	m.reads.satisfied()
	m.flight.recovered()
	m.queue.permitted()
	m.calmReads(now, true, req.Revision)
	if revision < m.key.seen.Revision {
		return // replaced since; the feed was faster
	}
	w := req.write
	if m.filledGap(w) {
		w.ready = now.Add(m.unknownLease())
	}
	m.stored(now, record.Observation{Revision: revision, Kind: record.EntryRecord, Rec: req.Rec}, w, m.flight.sentAt, fx)
}

// filledGap reports whether a write that was stored replaced no message, in a bucket
// where a key can be empty more than once, or replaced an entry that was never read.
// Until the write was stored, other candidates may have come, led and been removed, or a
// holder may have renewed. So the knowledge from when the write was sent does not count.
func (m *Machine) filledGap(w write) bool {
	return w.win && (w.blind || w.cond == 0 && !m.bucket.settings.PurgeProtected)
}

// refused handles a write that was rejected because its condition did not hold. That is
// not a loss yet. Only another session's record, or none, is a loss.
func (m *Machine) refused(now time.Time, req Request, r backend.RefusedError, jitter uint32, fx *Effects) {
	m.queue.permitted() // a refusal is the stream's, so the write was allowed
	if req.write.win {
		var free time.Duration
		if !m.key.keepsOut() {
			free = now.Sub(m.key.seenAt)
		}
		m.race.lose(now.Sub(m.flight.sentAt), free, m.bucket.times.RenewInterval, jitter)
	}
	switch {
	case r.Named && r.Actual < max(req.Revision, m.key.removedUpTo) && (r.Actual > 0 || m.bucket.settings.PurgeProtected):
		m.regress(now, fx)
	case m.key.seen.Revision > req.Revision: // the feed has delivered the newer revision already
	case r.Named && r.Actual < req.Revision:
		m.learn(now, record.Observation{Kind: record.EntryNothing}, fx) // gone without a marker
	default:
		if m.holds() {
			m.reads.need()
			m.renew.want()
			m.flight.writeFailed()
			if m.flight.failed() > 1 { // the first read is at once
				m.flight.retryFrom(Later(now, m.flight.sentAt.Add(m.pause(int(m.flight.fails), jitter))))
			}
		} else {
			// The winner's record is on its way, so thousands of candidates need not ask
			// for it.
			heard := m.reads.needed && m.reads.strange // of what followed the winner's record
			m.reads.needWinner()
			if !heard {
				m.flight.retryFrom(now.Add(m.pause(1, jitter)))
			}
		}
	}
}

// follows reports whether an own write that turns up may have replaced what the candidate has
// seen. Until then its outcome was unknown. If the candidate has seen anything later than the
// condition of the write, the key has gone on, and another client has stored a copy of the
// record. A key that can be empty more than once is no such proof, nor is one of which nothing
// is known since the store has lost writes. The winner waits there.
func (m *Machine) follows(w write) bool {
	return w.cond == m.key.seen.Revision || m.key.seen.Kind == record.EntryUnseen || m.filledGap(w)
}

// recognise takes a revision that was read and turns out to be an own write.
func (m *Machine) recognise(now time.Time, s record.Observation, fx *Effects) {
	if s.Rec.Phase == record.PhaseReleased {
		m.writes.acknowledge(s.Rec.Counter)
		m.count(s, true)
		m.lose(backend.ErrDeleted, fx) // not by this term's release: that is sent after its end
		m.key.seeOwn(s, now)
		return
	}
	b, known := m.writes.recall(s.Rec.Counter)
	if !m.follows(b.write) {
		b, known = batch{}, false
	}
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
		m.lose(backend.ErrDeleted, fx)
	}
	if known {
		m.bucket.promise(b.times)
	}
	m.stored(now, s, w, b.at, fx)
}

// renewalAfter returns when the renewal is due that follows a write. That is one interval after
// the write at the latest. In a crowd it is the last instant before that in the candidate's
// phase, so that the renewals of thousands come neither all at once nor one by one.
func (m *Machine) renewalAfter(sent time.Time) time.Time {
	due, interval := sent.Add(m.bucket.times.RenewInterval), m.bucket.times.RenewInterval
	if m.Phase == 0 {
		return due
	}
	past := time.Duration(due.UnixNano()) - interval*time.Duration(m.Phase)/backend.Phases
	return due.Add(-((past%interval + interval) % interval)) // past may be negative
}

// stored handles an own write that holds the key. It was sent at sent and stored as s.
func (m *Machine) stored(now time.Time, s record.Observation, w write, sent time.Time, fx *Effects) {
	replaced := m.key.seen
	if w.win {
		m.race.over()
	}
	if again := m.state != StateLeader && s.Rec.Phase != record.PhaseLeading && s.Rec.Phase != record.PhaseReleased; m.past.led && w.win {
		m.past = pastState{} // a write from before the last term, into a key that was emptied since
	} else if m.past.led && again {
		m.past = pastState{last: m.lastLeader()}
	}
	m.noteHandover(now, s)
	m.key.seeOwn(s, now)
	m.writes.acknowledge(s.Rec.Counter)
	if s.Rec.Phase != record.PhasePending {
		m.count(s, true)
	}
	if s.Rec.Phase == record.PhaseReleased {
		// The feed may have delivered a successor's record before this reply came.
		m.reads.needOnlyIf(m.renew.soon && m.leave.mode != Stopping)
		m.renew.served()
		return
	}
	good := sent.Add(m.bucket.times.RenewDeadline)
	m.renew.due(m.renewalAfter(sent))
	ready := Later(w.ready, m.memory.notBefore)
	if p := m.bucket.times.PendingPeriod; p > 0 {
		ready = Later(ready, now.Add(p))
	}
	switch m.state {
	case StateCandidate:
		if !w.win && m.leave.mode != Staying {
			ready = Later(m.renew.electFrom, m.memory.notBefore) // a renewal, or what it was pending for
		}
		if m.shut() && m.leave.mode == Staying {
			m.leave.withdraw(now) // the win came late: meanwhile it may lead another seat
		}
		if m.leave.mode == resigning && now.Before(ready) && !m.shut() {
			m.leave.stay() // it must not release this one: others would lead at once
		}
		if m.leave.mode != Staying {
			m.renew.waitUntil(ready)
			return
		}
		m.becomePending(now, ready, m.whyPending(now, ready, w, replaced), fx)
	case StateFenced:
		if m.givesUp() {
			m.term.extend(good) // for the work in hand
		}
		if m.term.draining || s.Rec.Phase == record.PhaseLeading {
			// It was sent before the fence, and one that is sent now elects, or has what was proclaimed since.
			m.renew.wantOnlyIf(!m.term.draining || s.Rec.Value != m.value)
			return
		}
		m.becomePending(now, ready, m.whyPending(now, ready, w, replaced), fx)
	case StateLeader:
		m.term.extend(good)
	case StatePending:
		if m.raising() {
			m.term.extend(good)
		}
	}
	if m.state == StatePending && s.Rec.Phase == record.PhaseElect && !sent.Before(m.renew.electFrom) && now.Before(good) {
		m.claim(now, good)
	}
	m.begin(now, fx)
}
