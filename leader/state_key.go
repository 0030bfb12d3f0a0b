package leader

import (
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// entryKind is the kind of an entry at a revision of the key.
type entryKind uint8

const (
	entryUnseen  entryKind = iota // nothing is known yet
	entryNothing                  // no message
	entryMarker                   // deleted, purged or expired; perhaps with the lease of the record that was deleted
	entryForeign                  // not a record of this package
	entryRecord
)

// observation is one revision of the key, decoded.
type observation struct {
	revision uint64
	kind     entryKind
	rec      record
	created  int64 // server's time, Unix nanoseconds
}

// decodeEntry decodes an entry.
func decodeEntry(e backend.Entry) observation {
	s := observation{revision: e.Revision, kind: entryNothing}
	if e.Revision == 0 {
		return s
	}
	if !e.Created.IsZero() {
		s.created = e.Created.UnixNano()
	}
	rec, err := decodeRecord(e.Value)
	switch {
	case err == nil && e.Marker && rec.phase != phaseReleased:
		// The key was deleted in place of the holder, and the holder may not have heard
		// of it. The holder's lease is kept: see earliestLead.
		s.kind, s.rec = entryMarker, record{lease: rec.lease, token: knownToken(max(rec.token, rec.least))}
	case err == nil:
		// A release counts as a release whether or not the key also counts as deleted.
		// Either no candidate has had the key since, or the condition of the next write
		// does not hold.
		s.kind, s.rec = entryRecord, rec
	case e.Marker:
		s.kind = entryMarker
	default:
		s.kind, s.rec.value = entryForeign, foreignName(e.Value)
	}
	return s
}

// foreignName returns the part of a foreign value that can be shown. Processes of
// nats-kv-leader-elect store their bare name.
func foreignName(value []byte) string {
	if name := string(value); len(name) <= maxForeignName && plain(name) {
		return name
	}
	return ""
}

const maxForeignName = 64

// same reports whether two observations of one revision show the same write.
func (s observation) same(o observation) bool {
	return s.kind == o.kind && s.rec.session == o.rec.session && s.rec.counter == o.rec.counter
}

// held reports whether a candidate holds the key for a time that is known.
func (s observation) held() bool { return s.kind == entryRecord && s.rec.phase != phaseReleased }

// echo is an own write as the feed delivered it. It only dates the term.
type echo struct {
	revision uint64
	created  int64
}

// shown is the holder as it was last reported. It has the parts of an observation that make a
// difference to an application.
type shown struct {
	kind    entryKind // entryRecord: held; entryNothing: not held; entryForeign
	id      string
	session string
	token   uint64
	pending bool
	value   string // published; of a foreign record its name
}

// heard takes a revision from the feed. A feed is a hint. For a holder, a strange
// revision is a reason to ask the store by renewing at once, and no more. So the feed
// deposes no holder, and makes no lease valid. For a candidate, a strange message is a
// reason to read, and the candidate remembers nothing of it.
func (m *machine) heard(now time.Time, s observation, fx *effects) {
	mine := s.kind == entryRecord && s.rec.session == m.session
	ignored := now.Before(m.wary) && m.leaving == staying // a candidate reads when that is over
	m.deaf = 0
	if mine {
		m.echo = echo{s.revision, s.created}
		if s.revision == m.elected {
			m.since = s.created
		}
	}
	switch {
	case s.revision <= max(m.seen.revision, m.removedUpTo) || s.kind == entryNothing:
	case m.holds():
		if !mine && !ignored {
			m.renewNow, m.strange = true, true
			m.overtaken(s) // the answer may cost it the key, and not show the record that followed
		}
	case mine && !ignored:
		// A winning write that was applied late, or one with a reply that is still to
		// come.
		if m.op.kind != reqWrite {
			m.needRead, m.strange = true, true
		}
		m.overtaken(s)
	case mine:
		m.deferred = true
	case m.dubious(now, s):
		if ignored {
			m.deferred = true
		} else {
			m.needRead, m.strange = true, true
			m.overtaken(s)
		}
	default:
		if m.lostRace { // the winner's record was all that the read was for
			m.needRead = false
			if m.fails == 0 {
				m.retryAt = now
			}
		}
		m.learn(now, s, fx)
	}
}

// overtaken remembers that the feed delivered a revision while a read was in flight. The
// reply to that read may be older.
func (m *machine) overtaken(s observation) {
	if m.op.kind == reqRead {
		m.again = max(m.again, s.revision)
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
func (m *machine) dubious(now time.Time, s observation) bool {
	known := s.kind == entryRecord && m.seen.held() && s.rec.session == m.seen.rec.session
	switch {
	case m.seen.kind == entryUnseen, s.revision > max(m.seen.revision, m.settings.LastRevision)+leap, s.rec.termToken(s.revision) > max(m.least(), s.revision):
		return true
	case s.rec.lease > m.unknownLease() && (!known || s.rec.lease > m.seen.rec.lease):
		return true
	case known:
		return false
	default:
		keeps := m.keepsOut() && m.seen.kind != entryForeign && now.Before(m.lapse())
		return keeps || s.kind == entryRecord && !s.held()
	}
}

// note remembers the lease and the token of another session's record that was read,
// however old the record is, and of one that was deleted.
func (m *machine) note(now time.Time, s observation) {
	if s.kind == entryRecord && s.rec.session == m.session {
		return
	}
	if s.rec.lease > 0 && s.rec.lease >= m.longest {
		m.longest, m.heardOf = s.rec.lease, now
	}
	m.count(s, true)
}

// count remembers the token of a record. If the record was only heard of, its token is no
// greater than that of the next term, or than its own revision (see dubious). In the
// second case the next write has a greater revision and so a greater token, unless the
// store forgets.
func (m *machine) count(s observation, read bool) {
	token := knownToken(s.rec.termToken(s.revision))
	if read || token <= m.least() {
		m.topToken = max(m.topToken, token)
	} else {
		m.hearsay = max(m.hearsay, token)
	}
}

// forget drops the remembered lease when it has run out and was not seen again. The
// record that stands counts as seen as long as it is renewed, even if only the feed
// delivers the renewals. Such a renewal prolongs the memory of a lease and adds nothing
// to it. A pending candidate forgets nothing, because it has promised other candidates to
// wait for the lease that it remembered.
func (m *machine) forget(now time.Time) {
	over := func() bool { return m.longest > 0 && !now.Before(m.heardOf.Add(m.longest)) }
	if m.state == StatePending {
		return
	}
	if over() && m.seen.held() && !m.holds() {
		m.longest, m.heardOf = min(m.longest, m.seen.rec.lease), m.seenAt
	}
	if over() {
		m.longest, m.heardOf = 0, time.Time{}
	}
}

// read takes the reply to a read.
func (m *machine) read(now time.Time, req request, in input, fx *effects) {
	s := in.observed
	if s.kind == entryRecord && s.rec.session == m.session && s.rec.counter > m.counter {
		// It has not sent so many, so another client has written in its name.
		s.kind, s.rec = entryForeign, record{}
	}
	m.note(now, s)
	silent := m.feedSilent
	m.needRead, m.lostRace, m.feedSilent, m.lookedAt = m.again > s.revision, false, false, now
	m.again = 0
	if s.kind != entryNothing || m.seen.revision == 0 || m.settings.PurgeProtected {
		m.absent = time.Time{}
	} else if m.absent.IsZero() {
		m.absent = now
	}
	m.soothe(now, s.revision <= m.seen.revision)
	switch {
	case m.seen.kind == entryUnseen:
		m.fails = 0
		m.find(now, s, fx)
	case !m.absent.IsZero() && !m.holds() && m.standingToken() > lastToken:
		// No write replaces such a record, so no write would reveal that it is gone. A
		// write that creates the key does. The read may be from the past, so the record
		// may be found again.
		gone := m.removedUpTo
		m.learn(now, s, fx)
		m.removedUpTo = gone
	case s.revision < m.seen.revision, 0 < s.revision && s.revision <= m.removedUpTo:
		// The reply is late, or from a replica that lags. A holder asks the stream's
		// leader by renewing. After a write that was rejected without a revision, a
		// candidate asks it for the settings.
		m.needRead = m.needRead || m.leaving != staying && !m.holds() // nothing was learnt, and a late win would stay behind
		m.renewNow = m.renewNow || m.holds()
		m.settled = m.settled && m.fails == 0
		switch {
		case req.revision != m.seen.revision: // the feed was faster
		case m.disproved(now):
			m.regress(now, fx)
		default:
			m.behind = min(m.behind+1, mute)
			m.pace(now, in.dice)
		}
	case s.revision == m.seen.revision:
		m.behind = 0
		if !m.writeFailing {
			m.fails = 0
		}
		switch {
		case s.same(m.seen):
			m.told = s.revision
			if seen := m.seen.rec; !m.holds() && (s.rec.phase != seen.phase || s.rec.lease != seen.lease || s.rec.token != seen.token || s.rec.least != seen.least) {
				m.learn(now, s, fx) // the feed has told otherwise
			}
		case s.revision == req.revision:
			m.regress(now, fx) // the same number for another write
		default:
			m.needRead = true // the feed has told otherwise meanwhile
		}
	default:
		m.fails, m.writeFailing = 0, false
		if silent && m.feedUp {
			m.deafened(now, fx)
		}
		m.find(now, s, fx)
	}
}

// deafened handles a feed that should have delivered a revision that a read found. The
// feed is opened anew. If that does not help, the candidate polls, reports a fault, and
// opens the feed again now and then.
func (m *machine) deafened(now time.Time, fx *effects) {
	m.deaf++
	if m.deaf == mute {
		m.fault(fmt.Errorf("%w: it does not tell what is stored", ErrNoFeed), fx)
	}
	if m.deaf <= mute || m.deaf%16 == 0 {
		m.feedUp, m.feedAt = false, now
	}
}

// mute is how often in a row a feed is found deaf before the candidate stops relying on
// it.
const mute = 3

// disproved reports whether the store steadily returns a lower revision than the one that
// only the feed has delivered, although the bucket's last revision, which was asked for
// meanwhile, is not lower. So either the message was forged, or the store has lost it
// while the revisions of other keys went on. No read will ever confirm that revision, and
// the candidate writes nothing without a confirmation.
func (m *machine) disproved(now time.Time) bool {
	return m.behind >= mute && !m.holds() && !m.confirmed() && m.absent.IsZero() && !now.Before(m.lapse())
}

// find takes a newer revision that was read: an own write, or another session's.
func (m *machine) find(now time.Time, s observation, fx *effects) {
	m.told = s.revision
	if s.kind == entryRecord && s.rec.session == m.session {
		m.recognise(now, s, fx)
		return
	}
	m.learn(now, s, fx)
}

// soothe ends a read that was caused by a strange message of the feed. If the read was in
// vain, the next strange message is a reason to read only after a moment. Forged messages
// must not keep a candidate busy, and a true one must not go unread.
func (m *machine) soothe(now time.Time, vain bool) {
	if m.strange && vain {
		m.wary = now.Add(m.timing().renewInterval / 4)
	}
	m.strange = false
}

// learn takes a revision that is not an own write. If the candidate held the key, it no
// longer does.
func (m *machine) learn(now time.Time, s observation, fx *effects) {
	if s.kind == entryRecord && s.rec.since == 0 && m.seen.kind == entryRecord && m.seen.rec.session == s.rec.session {
		s.rec.since = m.seen.began(s) // this candidate saw it begin; the holder itself did not
	}
	held := m.holds()
	m.count(s, m.told == s.revision)
	if s.kind == entryNothing {
		m.removedUpTo = max(m.removedUpTo, m.seen.revision) // not to be taken for newer than nothing
		m.told = 0                                          // only the store shows that
	}
	if !s.held() {
		m.heardOf = now // a lease may have been renewed until a moment ago
	}
	if s.kind == entryRecord {
		m.line, s.rec.next = s.rec.next, ""
	}
	m.succeeded(now, s)
	m.seen, m.seenAt, m.absent, m.behind = s, now, time.Time{}, 0
	if s.kind == entryForeign && !m.kvElect {
		m.fault(fmt.Errorf("%w at revision %d", ErrForeignRecord, s.revision), fx)
	}
	if !held {
		return
	}
	// No candidate takes the key of a leader with a valid lease. If another one is
	// pending there, the key was deleted first.
	deleted := m.state == StateLeader && s.kind == entryRecord && s.rec.phase == phasePending
	if (s.kind == entryRecord || s.kind == entryForeign) && !deleted {
		m.lose(ErrPreempted, fx)
		return
	}
	m.lose(ErrDeleted, fx)
	m.cooldownUntil = now.Add(m.times.renewInterval) // if a client deleted the key, it wants another leader
}

// began returns the server's time of the write that began the term, if later is a record
// of the same term, and 0 otherwise.
func (s observation) began(later observation) int64 {
	switch {
	case s.rec.termToken(s.revision) != later.rec.termToken(later.revision):
		return 0
	case s.rec.phase == phaseElect:
		return s.created
	default:
		return s.rec.since
	}
}

// regress handles a store that has lost acknowledged writes. All knowledge of the key is
// void, and any session may hold a lease of which no record remains.
func (m *machine) regress(now time.Time, fx *effects) {
	m.fault(ErrRegressed, fx)
	m.notBefore = now.Add(m.unknownLease())
	m.topToken = max(m.topToken, m.hearsay)
	m.lose(ErrRegressed, fx)
	m.seen, m.seenAt, m.removedUpTo, m.told, m.behind = observation{}, time.Time{}, 0, 0, 0
	m.needRead = true
}

// unknownLease returns the longest lease that could be running without being known. Where
// the bucket bounds leases, no record can make it longer than the greatest bound that was
// ever known. The greatest bound counts, because a holder that has heard of no other
// bound may still keep to it.
func (m *machine) unknownLease() time.Duration {
	d := max(m.bound, m.times.lease)
	if m.settings.MaxLease == 0 && m.settings.TTL == 0 {
		d = max(d, m.longest)
	}
	return d
}

// keepsOut reports whether the entry seen keeps others out until it lapses.
func (m *machine) keepsOut() bool {
	return m.seen.held() || m.seen.kind == entryForeign || m.seen.kind == entryMarker && m.seen.rec.lease > 0
}

// lapse returns when the entry seen stops keeping others out, if it does. A record is
// believed as long as it stands, however long its lease is. It may be the record of a
// living leader from before the bucket was set to a shorter lease.
func (m *machine) lapse() time.Time {
	if m.seen.kind == entryForeign {
		return m.seenAt.Add(m.unknownLease())
	}
	return m.seenAt.Add(m.seen.rec.lease)
}

// showing returns the holder of the key to report.
func (m *machine) showing(now time.Time) shown {
	switch {
	case m.seen.kind == entryUnseen && m.shown.kind == entryUnseen:
		return m.shown
	case m.seen.kind == entryForeign && now.Before(m.lapse()):
		if m.kvElect || m.observe { // each is somebody
			return shown{kind: entryForeign, value: m.seen.rec.value}
		}
		return shown{kind: entryForeign}
	case m.seen.held() && (m.holds() || now.Before(m.lapse())):
		r := m.seen.rec
		if r.phase == phasePending { // its token grows with every renewal, and is no news
			return shown{kind: entryRecord, id: r.id, session: r.session, pending: true, value: r.value}
		}
		return shown{kind: entryRecord, id: r.id, session: r.session, token: r.termToken(m.seen.revision), value: r.value}
	default:
		return shown{kind: entryNothing}
	}
}

// show reports another holder, or none, unless that was reported before. At first, only
// an observer is notified that there is no leader.
func (m *machine) show(now time.Time, fx *effects) {
	s := m.showing(now)
	if s == m.shown {
		return
	}
	first := m.shown.kind == entryUnseen
	m.shown = s
	if m.holds() || m.leaving == stopping || first && s.kind == entryNothing && !m.observe {
		return
	}
	fx.notes = append(fx.notes, note{event: noteObserved})
}
