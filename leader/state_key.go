package leader

import (
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// what is found at a revision of the key.
type what uint8

const (
	whatUnseen  what = iota // nothing is known yet
	whatNothing             // no message
	whatMarker              // deleted, purged or expired; perhaps with the lease of the record that was deleted
	whatForeign             // not a record of this package
	whatRecord
)

// sight is one revision of the key, decoded.
type sight struct {
	revision uint64
	what     what
	rec      record
	created  int64 // server's time, Unix nanoseconds
}

// sees decodes an entry.
func sees(e backend.Entry) sight {
	s := sight{revision: e.Revision, what: whatNothing}
	if e.Revision == 0 {
		return s
	}
	if !e.Created.IsZero() {
		s.created = e.Created.UnixNano()
	}
	rec, err := decodeRecord(e.Value)
	switch {
	case err == nil && e.Marker && rec.phase != phaseReleased:
		// The key was deleted in place of the holder, who may not have heard of it. Its
		// lease is kept: see winnable.
		s.what, s.rec = whatMarker, record{lease: rec.lease, token: knownToken(max(rec.token, rec.least))}
	case err == nil:
		// A release is one whether or not the key also counts as deleted: nobody
		// has had the key since, or the condition of the next write finds out.
		s.what, s.rec = whatRecord, rec
	case e.Marker:
		s.what = whatMarker
	default:
		s.what, s.rec.value = whatForeign, foreignName(e.Value)
	}
	return s
}

// foreignName is what can be shown of a foreign value. Processes of
// nats-kv-leader-elect store their bare name.
func foreignName(value []byte) string {
	if name := string(value); len(name) <= maxForeignName && plain(name) {
		return name
	}
	return ""
}

const maxForeignName = 64

// same reports whether two sights of one revision show the same write.
func (s sight) same(o sight) bool {
	return s.what == o.what && s.rec.session == o.rec.session && s.rec.counter == o.rec.counter
}

// held reports whether somebody holds the key for a time that is known.
func (s sight) held() bool { return s.what == whatRecord && s.rec.phase != phaseReleased }

// echo is what the feed told of an own write. It only dates the term.
type echo struct {
	revision uint64
	created  int64
}

// shown is what was told of who holds the key: what of a sight makes a
// difference to an application.
type shown struct {
	what    what // whatRecord: held; whatNothing: by nobody; whatForeign
	id      string
	session string
	token   uint64
	pending bool
	value   string // published; of a foreign record its name
}

// heard takes a revision from the feed. A feed is a hint. A holder takes a strange
// revision as a reason to ask the store by renewing at once, and no more; so nobody
// is deposed, and no lease is good, because of the feed. A candidate takes what is
// strange as a reason to read, and remembers none of it.
func (m *machine) heard(now time.Time, s sight, fx *effects) {
	mine := s.what == whatRecord && s.rec.session == m.session
	ignored := now.Before(m.wary) && m.leaving == staying // a candidate reads when that is over
	m.deaf = 0
	if mine {
		m.echo = echo{s.revision, s.created}
		if s.revision == m.elected {
			m.since = s.created
		}
	}
	switch {
	case s.revision <= max(m.seen.revision, m.gone) || s.what == whatNothing:
	case m.holds():
		if !mine && !ignored {
			m.urgent, m.strange = true, true
			m.overtaken(s) // the answer may cost it the key, and not show the record that followed
		}
	case mine && !ignored:
		// A win that was applied late, or whose reply is still to come.
		if m.op.kind != reqWrite {
			m.look, m.strange = true, true
		}
		m.overtaken(s)
	case mine:
		m.deferred = true
	case m.dubious(now, s):
		if ignored {
			m.deferred = true
		} else {
			m.look, m.strange = true, true
			m.overtaken(s)
		}
	default:
		if m.beaten { // this is who won; nothing else was to be waited for
			m.look = false
			if m.fails == 0 {
				m.retryAt = now
			}
		}
		m.learn(now, s, fx)
	}
}

// overtaken remembers that the feed told of a revision while a read was in flight,
// whose answer may be older.
func (m *machine) overtaken(s sight) {
	if m.op.kind == reqRead {
		m.again = max(m.again, s.revision)
	}
}

// leap is by how much a revision may exceed that of the message before it, or the last
// of the bucket where that was asked for, and be believed: no bucket takes so much between
// two renewals. The first revision of a bucket may be great.
const leap = 1 << 32

// dubious reports whether the feed tells of what does not follow from what is known:
// another's record, or none, while that of a holder keeps others out; a release by a
// session that was not seen to hold the key; or a lease, a token or a revision out of
// proportion; and anything at all before the first read. Messages were lost, or this one is forged; the store knows. A forged
// revision may be that of the holder's next renewal, so that the condition of a write
// would not find out.
func (m *machine) dubious(now time.Time, s sight) bool {
	known := s.what == whatRecord && m.seen.held() && s.rec.session == m.seen.rec.session
	switch {
	case m.seen.what == whatUnseen, s.revision > max(m.seen.revision, m.settings.LastRevision)+leap, s.rec.termToken(s.revision) > max(m.least(), s.revision):
		return true
	case s.rec.lease > m.unknownLease() && (!known || s.rec.lease > m.seen.rec.lease):
		return true
	case known:
		return false
	default:
		keeps := m.keepsOut() && m.seen.what != whatForeign && now.Before(m.lapse())
		return keeps || s.what == whatRecord && !s.held()
	}
}

// note remembers the lease and the token of another's record that was read, however
// old, and of one that was deleted.
func (m *machine) note(now time.Time, s sight) {
	if s.what == whatRecord && s.rec.session == m.session {
		return
	}
	if s.rec.lease > 0 && s.rec.lease >= m.longest {
		m.longest, m.heardOf = s.rec.lease, now
	}
	m.count(s, true)
}

// count remembers the token of a record. Of one that was only heard of, it is no
// greater than that of the next term, or of its revision; in the end that of the next
// write is greater, unless the store forgets.
func (m *machine) count(s sight, read bool) {
	token := knownToken(s.rec.termToken(s.revision))
	if read || token <= m.least() {
		m.topToken = max(m.topToken, token)
	} else {
		m.hearsay = max(m.hearsay, token)
	}
}

// forget drops the remembered lease when it has run out and was not seen again. The
// record that stands is seen as long as it is renewed, if only by the feed, which
// prolongs what is remembered and adds nothing. A pending candidate has promised to
// others to wait for what it remembered.
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
	s := in.sight
	if s.what == whatRecord && s.rec.session == m.session && s.rec.counter > m.counter {
		// It has not sent so many: somebody else has written in its name.
		s.what, s.rec = whatForeign, record{}
	}
	m.note(now, s)
	silent := m.silent
	m.look, m.beaten, m.silent, m.lookedAt = m.again > s.revision, false, false, now
	m.again = 0
	if s.what != whatNothing || m.seen.revision == 0 || m.settings.PurgeProtected {
		m.absent = time.Time{}
	} else if m.absent.IsZero() {
		m.absent = now
	}
	m.soothe(now, s.revision <= m.seen.revision)
	switch {
	case m.seen.what == whatUnseen:
		m.fails = 0
		m.find(now, s, fx)
	case !m.absent.IsZero() && !m.holds() && m.standingToken() > lastToken:
		// No write replaces such a record, so none would find out that it is gone. A write
		// that creates the key does. The read may be from the past, so the record may
		// be found again.
		gone := m.gone
		m.learn(now, s, fx)
		m.gone = gone
	case s.revision < m.seen.revision, 0 < s.revision && s.revision <= m.gone:
		// Late, or from a replica that lags. Whoever holds the key asks the
		// stream's leader by renewing; a candidate whose write was refused
		// without a revision asks it for the settings.
		m.look = m.look || m.leaving != staying && !m.holds() // nothing was learnt, and a late win would stay behind
		m.urgent = m.urgent || m.holds()
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
		if !m.stuck {
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
			m.look = true // the feed has told otherwise meanwhile
		}
	default:
		m.fails, m.stuck = 0, false
		if silent && m.feedUp {
			m.deafened(now, fx)
		}
		m.find(now, s, fx)
	}
}

// deafened: the feed should have told of what a read found. It is rebuilt; if
// that does not help, the candidate polls and says so, and tries again now and
// then.
func (m *machine) deafened(now time.Time, fx *effects) {
	m.deaf++
	if m.deaf == mute {
		m.fault(fmt.Errorf("%w: it does not tell what is stored", ErrNoFeed), fx)
	}
	if m.deaf <= mute || m.deaf%16 == 0 {
		m.feedUp, m.feedAt = false, now
	}
}

// mute is how often in a row a feed is found deaf until it is not relied on.
const mute = 3

// disproved reports whether the store steadily tells of less than the feed alone has told,
// although its last revision, which was asked for meanwhile, is not less. So the message was
// forged, or the store has lost it while the revisions of other keys went on. No read
// will ever confirm it, and without that nothing is written.
func (m *machine) disproved(now time.Time) bool {
	return m.behind >= mute && !m.holds() && !m.confirmed() && m.absent.IsZero() && !now.Before(m.lapse())
}

// find takes a newer revision that was read: its own write, or another's.
func (m *machine) find(now time.Time, s sight, fx *effects) {
	m.told = s.revision
	if s.what == whatRecord && s.rec.session == m.session {
		m.recognise(now, s, fx)
		return
	}
	m.learn(now, s, fx)
}

// soothe ends a look that a strange message of the feed was the reason for. If it
// was for nothing, the next such message is a reason to read only after a moment: forged
// ones must not keep a candidate busy, and a true one must not go unread.
func (m *machine) soothe(now time.Time, vain bool) {
	if m.strange && vain {
		m.wary = now.Add(m.timing().renewInterval / 4)
	}
	m.strange = false
}

// learn takes a revision that is not an own write. Whoever held the key does so
// no more.
func (m *machine) learn(now time.Time, s sight, fx *effects) {
	if s.what == whatRecord && s.rec.since == 0 && m.seen.what == whatRecord && m.seen.rec.session == s.rec.session {
		s.rec.since = m.seen.began(s) // seen when it began; the holder itself did not hear of it
	}
	held := m.holds()
	m.count(s, m.told == s.revision)
	if s.what == whatNothing {
		m.gone = max(m.gone, m.seen.revision) // not to be taken for newer than nothing
		m.told = 0                            // only the store tells of it
	}
	if !s.held() {
		m.heardOf = now // a lease may have been renewed until a moment ago
	}
	if s.what == whatRecord {
		m.line, s.rec.next = s.rec.next, ""
	}
	m.succeeded(now, s)
	m.seen, m.seenAt, m.absent, m.behind = s, now, time.Time{}, 0
	if s.what == whatForeign && !m.kvElect {
		m.fault(fmt.Errorf("%w at revision %d", ErrForeignRecord, s.revision), fx)
	}
	if !held {
		return
	}
	// Nobody takes the key of a leader whose lease is good. If another is pending
	// there, the key was deleted first.
	deleted := m.state == StateLeader && s.what == whatRecord && s.rec.phase == phasePending
	if (s.what == whatRecord || s.what == whatForeign) && !deleted {
		m.lose(ErrPreempted, fx)
		return
	}
	m.lose(ErrDeleted, fx)
	m.away = now.Add(m.times.renewInterval) // whoever deleted the key wants another leader
}

// began is the server's time of the write that began the term which later is
// also a record of, or 0.
func (s sight) began(later sight) int64 {
	switch {
	case s.rec.termToken(s.revision) != later.rec.termToken(later.revision):
		return 0
	case s.rec.phase == phaseElect:
		return s.created
	default:
		return s.rec.since
	}
}

// regress: the store has lost what it had acknowledged. Whatever is known of
// the key is void, and anybody may hold a lease that nobody remembers.
func (m *machine) regress(now time.Time, fx *effects) {
	m.fault(ErrRegressed, fx)
	m.floor = now.Add(m.unknownLease())
	m.topToken = max(m.topToken, m.hearsay)
	m.lose(ErrRegressed, fx)
	m.seen, m.seenAt, m.gone, m.told, m.behind = sight{}, time.Time{}, 0, 0, 0
	m.look = true
}

// unknownLease is the longest lease that could be running without being known. Where
// the bucket bounds leases, no record can make it longer than the greatest bound that
// was known: a holder that has heard of no other may still keep to that.
func (m *machine) unknownLease() time.Duration {
	d := max(m.bound, m.times.lease)
	if m.settings.MaxLease == 0 && m.settings.TTL == 0 {
		d = max(d, m.longest)
	}
	return d
}

// keepsOut reports whether what is seen keeps others out until it lapses.
func (m *machine) keepsOut() bool {
	return m.seen.held() || m.seen.what == whatForeign || m.seen.what == whatMarker && m.seen.rec.lease > 0
}

// lapse is when what is seen stops keeping others out, if it does. A record is
// believed as long as it stands, however long its lease: it may be that of a living
// leader whose bucket has been set to less since.
func (m *machine) lapse() time.Time {
	if m.seen.what == whatForeign {
		return m.seenAt.Add(m.unknownLease())
	}
	return m.seenAt.Add(m.seen.rec.lease)
}

// showing is what there is to tell of who holds the key.
func (m *machine) showing(now time.Time) shown {
	switch {
	case m.seen.what == whatUnseen && m.shown.what == whatUnseen:
		return m.shown
	case m.seen.what == whatForeign && now.Before(m.lapse()):
		if m.kvElect || m.observe { // each is somebody
			return shown{what: whatForeign, value: m.seen.rec.value}
		}
		return shown{what: whatForeign}
	case m.seen.held() && (m.holds() || now.Before(m.lapse())):
		r := m.seen.rec
		if r.phase == phasePending { // its token grows with every renewal, and is no news
			return shown{what: whatRecord, id: r.id, session: r.session, pending: true, value: r.value}
		}
		return shown{what: whatRecord, id: r.id, session: r.session, token: r.termToken(m.seen.revision), value: r.value}
	default:
		return shown{what: whatNothing}
	}
}

// show tells of another holder, or none, unless it was told before. An
// application that does not look on is not told that nobody leads at first.
func (m *machine) show(now time.Time, fx *effects) {
	s := m.showing(now)
	if s == m.shown {
		return
	}
	first := m.shown.what == whatUnseen
	m.shown = s
	if m.holds() || m.leaving == stopping || first && s.what == whatNothing && !m.observe {
		return
	}
	fx.notes = append(fx.notes, note{event: noteObserved})
}
