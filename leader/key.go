package leader

import (
	"fmt"
	"time"
)

// what is found at a revision of the key.
type what uint8

const (
	whatUnseen  what = iota // nothing is known yet
	whatNothing             // no message
	whatMarker              // deleted, purged or expired
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
func sees(e Entry) sight {
	s := sight{revision: e.Revision, what: whatNothing}
	if e.Revision == 0 {
		return s
	}
	if !e.Created.IsZero() {
		s.created = e.Created.UnixNano()
	}
	rec, err := decodeRecord(e.Value)
	switch {
	case err == nil && (!e.Marker || rec.phase == phaseReleased):
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

// heard takes a revision from the feed. A feed is a hint: whoever holds the key
// takes a strange revision as a reason to ask the store by renewing at once,
// and no more; so nobody is deposed, and no lease is good, because of the feed.
func (m *machine) heard(now time.Time, s sight, fx *effects) {
	mine := s.what == whatRecord && s.rec.session == m.session
	m.note(s)
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
		m.urgent = m.urgent || !mine
	case mine:
		// A win that was applied late, or whose reply is still to come.
		m.look = m.look || m.op.kind != reqWrite
		m.overtaken(s)
	case m.dubious(now, s):
		m.look = true
		m.overtaken(s)
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

// dubious reports whether the feed tells of a record that would let others have
// the key too early, if it were not true: a release by a session that was not
// seen to hold the key, or a shorter lease than that of another who does.
// Messages were lost, or it is forged; the store knows. A forged revision may be
// that of the holder's next renewal, so that the condition of a write would not
// find out.
func (m *machine) dubious(now time.Time, s sight) bool {
	switch known := m.seen.held() && s.rec.session == m.seen.rec.session; {
	case s.what != whatRecord || known:
		return false
	case !s.held():
		return true
	default:
		return m.seen.held() && now.Add(s.rec.lease).Before(m.lapse())
	}
}

// note remembers the lease and the token of another's record, however old.
func (m *machine) note(s sight) {
	if s.what == whatRecord && s.rec.session != m.session {
		m.longest = max(m.longest, s.rec.lease)
		m.topToken = max(m.topToken, s.rec.termToken(s.revision))
	}
}

// read takes the reply to a read.
func (m *machine) read(now time.Time, req request, in input, fx *effects) {
	s := in.sight
	m.note(s)
	silent := m.silent
	m.look, m.beaten, m.silent, m.lookedAt = m.again > s.revision, false, false, now
	m.again = 0
	switch {
	case m.seen.what == whatUnseen:
		m.fails = 0
		m.find(now, s, fx)
	case s.revision < m.seen.revision, 0 < s.revision && s.revision <= m.gone:
		// Late, or from a replica that lags. Whoever holds the key asks the
		// stream's leader by renewing; a candidate whose write was refused
		// without a revision asks it for the settings.
		m.look = m.look || m.leaving != staying && !m.holds() // nothing was learnt, and a late win would stay behind
		m.urgent = m.urgent || m.holds()
		m.settled = m.settled && m.fails == 0
		if req.revision == m.seen.revision { // and not because the feed was faster
			m.pace(now, in.dice)
		}
	case s.revision == m.seen.revision:
		if !m.stuck {
			m.fails = 0
		}
		if !s.same(m.seen) && s.revision == req.revision {
			m.regress(now, fx) // the same number for another write
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

// find takes a newer revision that was read: its own write, or another's.
func (m *machine) find(now time.Time, s sight, fx *effects) {
	if s.what == whatRecord && s.rec.session == m.session {
		m.recognise(now, s, fx)
		return
	}
	m.learn(now, s, fx)
}

// learn takes a revision that is not an own write. Whoever held the key does so
// no more.
func (m *machine) learn(now time.Time, s sight, fx *effects) {
	if s.what == whatRecord && s.rec.since == 0 && m.seen.what == whatRecord && m.seen.rec.session == s.rec.session {
		s.rec.since = m.seen.began(s) // seen when it began; the holder itself did not hear of it
	}
	held := m.holds()
	if s.what == whatNothing {
		m.gone = max(m.gone, m.seen.revision) // not to be taken for newer than nothing
	}
	if s.what == whatRecord {
		m.line, s.rec.next = s.rec.next, ""
	}
	if s.held() && s.rec.session == m.spurned {
		m.spurned = ""
	}
	m.seen, m.seenAt = s, now
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
	m.lose(ErrRegressed, fx)
	m.seen, m.seenAt, m.gone = sight{}, time.Time{}, 0
	m.look = true
}

// unknownLease is the longest lease that could be running without being known.
func (m *machine) unknownLease() time.Duration {
	return max(m.settings.MaxLease, m.settings.TTL, m.times.lease, m.longest)
}

// lapse is when the record seen stops keeping others out, if it is another's
// and held.
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
