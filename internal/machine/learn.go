package machine

import (
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/record"
)

// heard takes a revision from the feed. A feed is a hint. For a holder, a strange
// revision is a reason to ask the store by renewing at once, and no more. So the feed
// deposes no holder, and makes no lease valid. For a candidate, a strange message is a
// reason to read, and the candidate remembers nothing of it.
func (m *Machine) heard(now time.Time, s record.Observation, fx *Effects) {
	mine := s.Kind == record.EntryRecord && s.Rec.Session == m.Session
	ignored := now.Before(m.reads.calmUntil) && m.leave.mode == Staying // a candidate reads when that is over
	m.feed.delivered()
	if mine {
		m.key.own = ownEntry{s.Revision, s.Created}
		m.term.date(m.key.own)
		if b, known := m.writes.recall(s.Rec.Counter); known {
			m.clock.hear(s.Created, b.at, now)
			m.compare(s.Created, b.at, now, fx)
		}
		if m.state == StateLeader {
			m.term.dateBy(m.clock)
		}
	}
	switch {
	case s.Revision <= max(m.key.seen.Revision, m.key.removedUpTo) || s.Kind == record.EntryNothing:
	case m.holds():
		if !mine && !ignored {
			m.renew.want()
			m.reads.puzzle(m.key.seen.Revision, false)
			m.overtaken(s) // the answer may show that it has lost the key, and not who took it
		}
	case mine && !ignored:
		// A winning write that was applied late, or one with a reply that is still to
		// come.
		if m.flight.req.Kind != ReqWrite {
			m.lookInto()
		}
		m.overtaken(s)
	case mine:
		m.reads.postpone()
	case m.dubious(now, s):
		if ignored {
			m.reads.postpone()
		} else {
			m.raceOver(now)
			m.lookInto()
			m.overtaken(s)
		}
	default:
		if m.reads.lostRace { // the winner's record was all that the read was for
			m.reads.satisfied()
			m.raceOver(now)
		}
		m.learn(now, s, fx)
	}
}

// lookInto asks for a read because of a strange message that has come now.
func (m *Machine) lookInto() {
	m.reads.needToClear(m.key.seen.Revision, m.flight.req.Kind == ReqRead)
}

// raceOver ends the pause after a lost race. The feed has delivered what followed.
func (m *Machine) raceOver(now time.Time) {
	if m.reads.lostRace && m.flight.fails == 0 {
		m.flight.retryFrom(now)
	}
}

// overtaken remembers that the feed delivered a revision while a read was in flight. The
// reply to that read may be older.
func (m *Machine) overtaken(s record.Observation) {
	if m.flight.req.Kind == ReqRead {
		m.reads.atLeast = max(m.reads.atLeast, s.Revision)
	}
}

// leap is the greatest believed distance of a revision from that of the message before
// it, or from the last revision of the bucket where that was asked for. No bucket takes
// so many messages between two renewals. The first revision of a bucket may be great.
const leap = 1 << 32

// dubious reports whether a message of the feed does not follow from the known state of
// the key. These messages do not follow:
//
//   - any message before the first read
//   - another session's record, or none, while the record of a holder keeps others out
//   - a release by a session that was not seen to hold the key
//   - a lease, a token or a revision out of proportion
//
// Either messages were lost, or this one is forged. The store knows which. A forged
// revision may be that of the holder's next renewal. Then the condition of a write on it
// holds, so the write itself would not reveal the forgery.
func (m *Machine) dubious(now time.Time, s record.Observation) bool {
	known := s.Kind == record.EntryRecord && m.key.seen.Held() && s.Rec.Session == m.key.seen.Rec.Session
	switch {
	case m.key.seen.Kind == record.EntryUnseen, s.Revision > max(m.key.seen.Revision, m.bucket.settings.LastRevision)+leap, s.Rec.TermToken(s.Revision) > max(m.least(), s.Revision):
		return true
	case s.Rec.Lease > m.unknownLease() && (!known || s.Rec.Lease > m.key.seen.Rec.Lease):
		return true
	case known:
		return false
	default:
		keeps := m.key.keepsOut() && m.key.seen.Kind != record.EntryForeign && now.Before(m.lapse())
		return keeps || s.Kind == record.EntryRecord && !s.Held()
	}
}

// read takes the reply to a read.
func (m *Machine) read(now time.Time, req Request, in *Input, fx *Effects) {
	s := in.Observed
	if s.Kind == record.EntryRecord && s.Rec.Session == m.Session && (m.key.disowned(s.Revision) || m.writes.forged(s.Rec)) {
		s.Kind, s.Rec = record.EntryForeign, record.Record{}
	}
	m.note(now, s)
	silent := m.reads.silence
	m.reads.answered(s.Revision)
	m.key.readAt = now
	if s.Kind != record.EntryNothing || m.key.seen.Revision == 0 || m.bucket.settings.PurgeProtected {
		m.key.found()
	} else {
		m.key.notFound(now)
	}
	m.calmReads(now, s.Revision <= m.reads.from, req.Revision)
	switch {
	case m.key.seen.Kind == record.EntryUnseen:
		m.flight.succeeded()
		m.find(now, s, fx)
		m.key.recall(m.seenBefore(s, in.Before))
	case !m.key.absentSince.IsZero() && !m.holds() && m.standingToken() > record.LastToken:
		// No write replaces such a record, so no write would reveal that it is gone. A
		// write that creates the key does. The read may be from the past, so the record
		// may be found again.
		gone := m.key.removedUpTo
		m.learn(now, s, fx)
		m.key.mayReturn(gone)
	case s.Revision < m.key.seen.Revision, 0 < s.Revision && s.Revision <= m.key.removedUpTo:
		// The reply is late, or from a replica that lags. A holder asks the stream's
		// leader by renewing. After a write that was rejected without a revision, a
		// candidate asks it for the settings.
		if m.leave.mode != Staying && !m.holds() {
			m.reads.need() // nothing was learnt, and a late win would stay behind
		}
		if m.holds() {
			m.renew.want()
		}
		if m.flight.fails > 0 {
			m.bucket.doubt()
		}
		switch {
		case req.Revision != m.key.seen.Revision: // the feed was faster
		case m.disproved(now):
			m.regress(now, fx)
		default:
			m.key.behind = min(m.key.behind+1, mute)
			m.pace(now, in.Jitter)
		}
	case s.Revision == m.key.seen.Revision:
		m.key.behind = 0
		if !m.flight.writeFailing {
			m.flight.succeeded()
		}
		switch {
		case s.Same(m.key.seen):
			m.key.confirm(s.Revision)
			if seen := m.key.seen.Rec; !m.holds() && (s.Rec.Phase != seen.Phase || s.Rec.Lease != seen.Lease || s.Rec.Token != seen.Token || s.Rec.Least != seen.Least) {
				m.learn(now, s, fx) // the feed has delivered another write
			}
		case s.Revision == req.Revision:
			m.regress(now, fx) // the same number for another write
		default:
			m.reads.need() // the feed has delivered another write meanwhile
		}
	default:
		m.flight.recovered()
		if silent && m.feed.up {
			if m.feed.missed(now) {
				m.fault(fmt.Errorf("%w: it does not deliver what is stored", backend.ErrNoFeed), fx)
			}
		}
		m.find(now, s, fx)
	}
	m.compare(s.Created, time.Time{}, now, fx)
}

// disproved reports whether the store steadily returns a lower revision than the one that
// only the feed has delivered, although the bucket's last revision, which was asked for
// meanwhile, is not lower. So either the message was forged, or the store has lost it
// while the revisions of other keys went on. No read will ever confirm that revision, and
// the candidate writes nothing without a confirmation.
func (m *Machine) disproved(now time.Time) bool {
	return m.key.behind >= mute && !m.holds() && !m.confirmed() && m.key.absentSince.IsZero() && !now.Before(m.lapse())
}

// find takes a newer revision that was read: an own write, or another session's.
func (m *Machine) find(now time.Time, s record.Observation, fx *Effects) {
	m.key.confirm(s.Revision)
	if s.Kind == record.EntryRecord && s.Rec.Session == m.Session {
		m.recognise(now, s, fx)
		return
	}
	if m.holds() && m.anew(now, s.Revision) {
		m.regress(now, fx) // and read again: what the new bucket holds was not stored over the own record
		return
	}
	m.learn(now, s, fx)
}

// anew reports whether a revision that a holder has read is of another bucket, which was made
// in place of the one that stored its record. The revisions of a bucket begin at the time in
// microseconds (jsapi.FirstRevision), and no bucket stores a message in each microsecond. So two
// revisions of one bucket are less apart than the microseconds between them. One more second is
// for the way of the acknowledgement.
func (m *Machine) anew(now time.Time, revision uint64) bool {
	return revision > m.key.seen.Revision+uint64((now.Sub(m.key.seenAt)+time.Second).Microseconds())
}

// calmReads ends a read, sent when a revision was known, that was caused by a strange message of the feed. If the read showed
// nothing that was not known before that message, the next one is a reason to read only after a moment. Forged messages
// must not keep a candidate busy, and a true one must not go unread.
func (m *Machine) calmReads(now time.Time, nothingNew bool, known uint64) {
	if m.reads.strange && nothingNew {
		m.reads.calm(now.Add(m.bucket.timing().RenewInterval / 4))
	}
	m.reads.cleared(known)
}

// learn takes a revision that is not an own write. If the candidate held the key, it no
// longer does.
func (m *Machine) learn(now time.Time, s record.Observation, fx *Effects) {
	if s.Kind == record.EntryRecord && s.Rec.Since == 0 && m.key.seen.Kind == record.EntryRecord && m.key.seen.Rec.Session == s.Rec.Session {
		s.Rec.Since = m.key.seen.Began(s) // this candidate saw it begin; the holder itself did not
	}
	held := m.holds()
	m.count(s, m.key.readRevision == s.Revision)
	if s.Kind == record.EntryNothing {
		m.key.removed()
	}
	if !s.Held() {
		m.memory.keepLease(m.memory.lease, now) // a lease may have been renewed until a moment ago
	}
	if s.Kind == record.EntryRecord {
		m.queue.line = s.Rec.Next
		s.Rec.Next = ""
	}
	m.noteHandover(now, s)
	switch {
	case !m.key.keepsOut():
		m.race.waited(now.Sub(m.key.seenAt))
	case s.Kind == record.EntryRecord && s.Rec.Session == m.key.seen.Rec.Session && s.Rec.Phase == record.PhaseLeading && m.key.seen.Rec.Phase == record.PhaseLeading:
		m.race.over() // this holder renews its lease again and again
	}
	m.key.see(s, now)
	if s.Kind == record.EntryForeign && !m.KVElect {
		m.fault(fmt.Errorf("%w at revision %d; it counts as held for %v", backend.ErrForeignRecord, s.Revision, m.unknownLease()), fx)
	}
	if !held {
		return
	}
	// No candidate takes the key of a leader with a valid lease. If another one is
	// pending there, the key was deleted first.
	deleted := m.state == StateLeader && s.Kind == record.EntryRecord && s.Rec.Phase == record.PhasePending
	if (s.Kind == record.EntryRecord || s.Kind == record.EntryForeign) && !deleted {
		m.lose(backend.ErrPreempted, fx)
		return
	}
	m.lose(backend.ErrDeleted, fx)
	m.leave.coolDown(now.Add(m.bucket.times.RenewInterval)) // if a client deleted the key, it wants another leader
}

// regress handles a store that has lost acknowledged writes. All knowledge of the key is
// void, and any session may hold a lease of which no record remains.
func (m *Machine) regress(now time.Time, fx *Effects) {
	m.fault(backend.ErrRegressed, fx)
	m.memory.void(now.Add(m.unknownLease()))
	m.lose(backend.ErrRegressed, fx)
	m.key.void()
	m.reads.need()
}
