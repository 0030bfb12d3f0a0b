package leader

import (
	"fmt"
	"strings"
	"time"
)

// Succession tells when a candidate tries to take a key that is free. It is about
// order alone: whoever tries, the compare-and-set decides, and candidates of
// different kinds are safe together.
type Succession uint8

// The kinds of succession.
const (
	// SuccessionRace tries at once, as everybody else does.
	SuccessionRace Succession = iota
	// SuccessionQueue lets those go first who have waited longer, each for
	// [Config].TurnTimeout. The order is that of the roster, as the last leader has
	// published it with its lease: one write takes a free key, however many wait.
	SuccessionQueue
	// SuccessionPriority is SuccessionQueue among candidates of the same
	// [Config].Priority; those of a higher one go first.
	SuccessionPriority
)

// String returns the name of the kind in lower case.
func (s Succession) String() string {
	switch s {
	case SuccessionRace:
		return "race"
	case SuccessionQueue:
		return "queue"
	case SuccessionPriority:
		return "priority"
	}
	return fmt.Sprintf("Succession(%d)", uint8(s))
}

// order is a candidate's part in the succession. Like params it never changes.
type order struct {
	listed bool // announces itself in the roster, and publishes the line while it holds the key
	orders bool // waits for its turn
	// priority is published with the lease: of the leaders of several seats the one of
	// the lowest gives way.
	priority int
	lot      uint32 // of all lots the part that it waits longer, among those who are not in line
}

// line is the head of the order in which others follow: sessions, separated by
// blanks, so that it is a plain value. It is a hint, and may be of the past.
type line string

// share is the lot's part of a duration.
func share(d time.Duration, lot uint32) time.Duration {
	return time.Duration(float64(d) * float64(lot) / (1 << 32))
}

// maxLine is how many are in line. Every renewal carries their sessions; who is
// not among them follows after them.
const maxLine = 8

// crowding is for how many turns those spread their tries who are not in line:
// there may be thousands.
const crowding = 4

// lineOf is the line of the first of these sessions.
func lineOf(sessions []string) line {
	return line(strings.Join(sessions[:min(len(sessions), maxLine)], " "))
}

// lineOfAll is the line of those who stand in this order.
func lineOfAll(all []announcement) line {
	sessions := make([]string, 0, maxLine)
	for _, s := range all[:min(len(all), maxLine)] {
		sessions = append(sessions, s.session)
	}
	return lineOf(sessions)
}

// unfitForLine: a session that would be taken for none, or for two, or fill the records
// of all who follow.
func unfitForLine(session string) bool {
	return session == "" || len(session) > maxSession || strings.Contains(session, " ") || !plain(session)
}

const maxSession = 64

func (l line) sessions() []string {
	if l == "" {
		return nil
	}
	return strings.Split(string(l), " ")
}

// first is who follows next; empty: nobody.
func (l line) first() string {
	first, _, _ := strings.Cut(string(l), " ")
	return first
}

// place is how many come before the session, and whether it is in line itself.
func (l line) place(session string) (ahead int, in bool) {
	rest := string(l)
	for rest != "" {
		var next string
		next, rest, _ = strings.Cut(rest, " ")
		if next == session {
			return ahead, true
		}
		ahead++
	}
	return ahead, false
}

// without is the line after the session has left it.
func (l line) without(session string) line {
	if _, in := l.place(session); !in {
		return l
	}
	var left []string
	for _, s := range l.sessions() {
		if s != session {
			left = append(left, s)
		}
	}
	return line(strings.Join(left, " "))
}

// stands reports whether the candidate waits for the key, and could take it. A candidate
// that sits out, or may not write the key, does not stand: others would wait for its turn.
func (m *machine) stands(now time.Time) bool {
	return m.listed && m.settled && m.leaving == staying && m.seen.what != whatUnseen && !m.holds() &&
		(!m.guarded || m.guards.fit) && !now.Before(later(m.away, m.standsFrom))
}

// rival is who is to lead instead of the leader: it has a higher priority, says so, and
// is alive.
type rival struct {
	session string
	since   time.Time // when it was first seen to stand
}

// rosterReport is what the holder's roster tells it.
type rosterReport struct {
	line  line
	rival rival
}

// ranked takes what the roster tells the holder of the key.
func (m *machine) ranked(now time.Time, r rosterReport, fx *effects) {
	if !m.holds() {
		return
	}
	// The first line is published at once: the leader may be gone before it renews.
	m.urgent = m.urgent || m.state == StateLeader && m.line == "" && r.line != ""
	m.line, m.ranks = r.line, true
	stayed := !now.Before(later(r.rival.since, m.ledAt).Add(m.times.lease)) // both
	if m.state == StateLeader && r.rival.session != "" && stayed && !now.Before(m.yieldsFrom) {
		m.handOver(now, r.rival.session, fx)
	}
}

// patienceDoubles is how often the wait after a handover in vain doubles, beginning
// with two leases.
const patienceDoubles = 8

// longestPatience is the wait between two handovers in vain in the limit: about an hour
// with the default lease.
func (m *machine) longestPatience() time.Duration { return m.timing().lease << patienceDoubles }

// succeeded counts a handover in vain: the record seen was released in favour of one
// candidate, and another candidate holds the next one. All candidates see the same
// records, so they agree on the count, whichever of them leads next, and a crowd of
// sessions takes no more memory than one. A handover that succeeds does not begin the
// count anew: a candidate that can write would else make way for those that cannot.
func (m *machine) succeeded(now time.Time, next sight) {
	if !m.given() || !next.held() || m.seen.rec.names(next.rec.id, next.rec.session) {
		return
	}
	if !now.Before(m.yieldsFrom.Add(m.longestPatience())) {
		m.vain = 0
	}
	m.vain++
	m.yieldsFrom = now.Add(m.timing().lease << min(m.vain, patienceDoubles))
}

// handOver is to resign in somebody's favour: an ID or a session; empty: nobody's.
func (m *machine) handOver(now time.Time, to string, fx *effects) {
	m.leaving, m.leftAt = resigning, now
	m.to = to
	m.stepDown(now, ErrResigned, fx)
}

// named reports whether the key was released in favour of this candidate.
func (m *machine) named() bool {
	r := &m.seen.rec
	return m.given() && r.session != m.session && r.names(m.id, m.session)
}

// names reports whether the record is in favour of that candidate.
func (r *record) names(id, session string) bool { return r.to == session || r.to == id }

// given reports whether the key was released in somebody's favour.
func (m *machine) given() bool {
	return m.seen.what == whatRecord && m.seen.rec.phase == phaseReleased && m.seen.rec.to != ""
}

// turn is how long after the key is free the candidate tries to take it.
func (m *machine) turn() time.Duration {
	turns := 0
	if m.given() {
		turns++ // somebody else is named
	}
	if !m.orders || m.line == "" {
		return time.Duration(turns) * m.times.turn
	}
	ahead, in := m.line.place(m.session)
	d := time.Duration(turns+ahead) * m.times.turn
	if !in {
		d += share(crowding*m.times.turn, m.lot)
	}
	return d
}

// curtail leaves out of a record what is only a hint, where the bucket does not take so
// much.
func (m *machine) curtail(rec *record) {
	room := m.settings.MaxValue
	if m.kvElect {
		room -= markRoom
	}
	// What JSON makes of a byte is six at most; most buckets take far more.
	most := 512 + 6*(len(rec.id)+len(rec.session)+len(rec.value)+len(rec.to)) + len(rec.next) + 2*maxLine
	if m.settings.MaxValue == 0 || most <= room {
		return
	}
	if len(rec.encode()) > room {
		rec.next = ""
	}
	if len(rec.encode()) > room {
		rec.to = ""
	}
}

// releaseDue is when the key is given up at the earliest. Who has just won it, and
// follows the last in line, first looks who stands: or those who have waited
// longest would be overtaken.
func (m *machine) releaseDue() time.Time {
	if !m.listed || m.ranks || m.line != "" || m.to != "" {
		return time.Time{}
	}
	return m.leftAt.Add(m.times.turn)
}

// sitsOut is for how long the candidate takes no lease after it has resigned. In
// somebody's favour it stands behind all others, so that nobody leads no longer
// than that if all of them are gone.
func (m *machine) sitsOut() time.Duration {
	if m.to == "" {
		return m.times.lease
	}
	ahead, _ := m.line.place(m.session)
	return min(m.times.lease, time.Duration(ahead+1+crowding)*m.times.turn)
}
