package leader

import (
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// machine is the state machine of one candidate. It has no goroutine, lock, context,
// logger, I/O or clock. step takes one input and returns the effects to carry out. A
// machine is a plain value: a copy of it is a copy of the candidate, and equal machines
// compare equal. Revisions, tokens, counters and instants are only compared and
// subtracted.
//
// The rules are those of the package documentation. They are in these files:
//
//	state.go             the states, their transitions, and step
//	state_inputs.go      the meaning of each input
//	state_key.go         the knowledge of the key, and the consequences of learning more
//	state_lease.go       own writes: what each replaces, when its winner may lead, its outcome
//	state_requests.go    which request is due, and when
//	state_guards.go      the conditions for which a candidate with guards waits
//	state_succession.go  the order of candidates, and the successor of a leader that resigns
//	state_gate.go        the gate that keeps a candidate from taking its key
type machine struct {
	params
	times durations // resolved when the bucket's settings are known

	state State
	value string // published with the lease

	// The bucket.
	settled   bool // settings are known since the connection was last made
	settings  backend.Settings
	feedUp    bool
	feedFails int
	feedAt    time.Time // when to try to open a feed, while there is none

	// The key.
	seen        observation   // the newest revision known
	seenAt      time.Time     // when it was received
	removedUpTo uint64        // revisions up to this one were removed without a marker
	told        uint64        // the newest revision that a read has shown, not only the feed
	absent      time.Time     // since when reads, which may lag, find nothing; zero: they find one
	behind      int           // reads in a row that returned less than the feed had delivered before
	lookedAt    time.Time     // when the last reply to a read arrived
	needRead    bool          // a read is needed before anything is concluded
	again       uint64        // another read is needed if the one in flight returns less than this
	lostRace    bool          // that read is only to find the winner; the feed may be faster
	feedSilent  bool          // the read that is due is made because the feed is silent
	deaf        int           // how often in a row the feed was found deaf
	strange     bool          // the read or renewal that is due follows a strange message of the feed
	wary        time.Time     // before this, strange messages are no reason to read
	deferred    bool          // there was one before wary, so a read is due at wary
	bound       time.Duration // the greatest MaxLease or TTL that was ever known
	longest     time.Duration // the longest lease of others that was read
	heardOf     time.Time     // when that lease was last seen
	topToken    uint64        // the greatest token remembered
	hearsay     uint64        // the greatest token of the feed alone, beyond that of the next term
	spent       bool          // it was reported that no greater token is left
	notBefore   time.Time     // the store went backwards: no term begins before
	shown       shown         // the holder that was last reported
	echo        echo          // an own write as the feed delivered it

	// Own writes.
	counter uint64        // of the last write sent
	acked   uint64        // of the newest write known to be stored
	sent    [4]batch      // the last few, newest first
	lastAt  time.Time     // of the last write sent
	lastFor time.Duration // how long others wait after the last write

	// Holding the key.
	ready    time.Time // when a write that elects may be sent at the earliest
	renewAt  time.Time
	renewNow bool // a renewal is wanted without waiting for renewAt

	// The gate.
	suspended bool // it watches its key and does not take it

	// The term.
	term          uint64       // counts the terms of this machine
	token         uint64       // of the term, also while its guards are still to be raised; 0: none
	leaseUntil    time.Time    // the lease is valid until then
	guardDeadline time.Time    // when a candidate gives up the key if its guards are not raised
	guards        guardsReport // how the guards stand
	cause         error        // of its end; a sentinel, so a plain value
	elected       uint64       // revision of the write that began it
	since         int64        // server's time of that write
	drained       bool         // the application has released the term
	draining      bool
	drainBy       time.Time

	// Succession.
	line  line      // as the last holder published it, or as the own view of the roster shows it
	ranks bool      // the own view of the roster has reported since the last try for the key
	ledAt time.Time // when the term began
	// Handovers in vain: the key was released in favour of a candidate, and another took it.
	vain       uint32    // in a row
	yieldsFrom time.Time // as a leader it hands over to no higher priority before then
	standsFrom time.Time // its writes were denied: it does not stand before then

	// Leaving.
	leaving       leaving
	leftAt        time.Time // since when
	to            string    // the intended successor: an ID or a session
	cooldownUntil time.Time // takes no lease before then

	// The request in flight, and the outcome of those before it.
	op           request
	opAt         time.Time // when it was sent
	opBy         time.Time // when it is given up
	opLate       bool      // it was given up; its reply is still to come
	fails        int       // in a row
	writeFailing bool      // the last write failed; reads that succeed do not end the row
	retryAt      time.Time // no request before then

	done bool
	err  error // why it ended by itself
}

// params is the configuration of a candidate. It never changes.
type params struct {
	id       string
	session  string
	want     durations // as configured; zero where the bucket decides
	minToken uint64
	seats    int  // published for all candidates of the election; 0: one
	guarded  bool // has guards, which stand before a term begins
	observe  bool // looks on and never writes
	kvElect  bool // shares the key with processes of nats-kv-leader-elect
	order
}

// leaving states whether the candidate is giving up the key, and how it goes on.
type leaving uint8

const (
	staying   leaving = iota
	resigning         // hand over and stay a candidate
	stopping          // hand over and end
)

// effects lists the actions after a step, in the order of the fields.
type effects struct {
	end     error  // end the term's context with this cause
	notes   []note // then offer these events
	cancel  bool   // give up the request in flight; it still has to be answered
	request request
	wake    time.Time // step again then, at the latest; zero: no deadline
	denied  error     // the call cannot be served
	done    bool      // nothing will follow
}

// note is an event to offer.
type note struct {
	event noteKind
	term  uint64
	token uint64
	until time.Time // Pending: when it may lead; Elected: until when the lease is valid
	err   error
}

type noteKind uint8

const (
	notePending noteKind = iota + 1
	noteElected
	noteFenced
	noteDeposed
	noteObserved
	noteFaulted
)

// step takes one input and returns the effects to carry out. It applies the deadlines
// that have passed before it looks at the input. So a candidate that was paused is fenced
// before it reads its mail.
func (m *machine) step(now time.Time, in input) effects {
	var fx effects
	if m.done {
		fx.done = true
		return fx
	}
	m.expire(now, &fx)
	m.absorb(now, in, &fx)
	m.expire(now, &fx)
	m.exhaust(now, &fx)
	m.plan(now, &fx)
	m.show(now, &fx)
	fx.done = m.done
	if !m.done {
		fx.wake = m.wakeAt(now)
	}
	return fx
}

// expire applies the deadlines that have passed.
func (m *machine) expire(now time.Time, fx *effects) {
	if m.state == StateLeader && !now.Before(m.leaseUntil) {
		m.becomeFenced(now, ErrLeaseExpired, fx)
		m.needRead = true // somebody else may have the key: read before writing again
	}
	if m.draining && (m.drained || !now.Before(m.drainBy)) {
		m.becomeCandidate(fx)
	}
	if m.raising() && !now.Before(m.guardDeadline) {
		m.leaving, m.leftAt, m.to = resigning, now, "" // another may have more luck with the guards
		m.becomeCandidate(fx)
	}
	if m.op.kind != reqNone && !m.opLate && !now.Before(m.opBy) {
		m.giveUp(fx)
	}
	m.forget(now)
}

// giveUp stops waiting for the request in flight. Its reply follows soon, and may still
// report success.
func (m *machine) giveUp(fx *effects) {
	if m.op.kind != reqNone && !m.opLate {
		m.opLate = true
		fx.cancel = true
	}
}

// The transitions. Only they write the state. Each sets or clears all fields that belong
// to the state that it enters or leaves.

// becomePending enters StatePending: the key was won, and the candidate may lead from
// ready on.
func (m *machine) becomePending(now, ready time.Time, fx *effects) {
	m.edge(StatePending, StateCandidate, StateFenced)
	if m.state == StateFenced {
		m.endTerm(nil, fx)
	} else {
		m.line = m.line.without(m.session)
	}
	m.state = StatePending
	m.ready = ready
	fx.notes = append(fx.notes, note{event: notePending, token: m.seen.rec.termToken(m.seen.revision), until: later(ready, now)})
}

// claim records that the write that is seen elects, with a lease that is valid until
// good. The term begins as soon as its guards stand.
func (m *machine) claim(now, good time.Time) {
	m.token = m.seen.rec.termToken(m.seen.revision)
	m.leaseUntil = good
	m.elected = m.seen.revision
	m.since = 0
	if m.echo.revision == m.elected {
		m.since = m.echo.created
	}
	m.guardDeadline = now.Add(m.times.lease)
}

// becomeLeader begins the term that was claimed.
func (m *machine) becomeLeader(now time.Time, fx *effects) {
	m.edge(StateLeader, StatePending)
	m.state = StateLeader
	m.term++
	m.ledAt = now
	m.ready, m.guardDeadline = time.Time{}, time.Time{}
	fx.notes = append(fx.notes, note{event: noteElected, term: m.term, token: m.token, until: m.leaseUntil})
}

// becomeFenced ends the term's context while the candidate may still hold the key.
func (m *machine) becomeFenced(now time.Time, cause error, fx *effects) {
	m.edge(StateFenced, StateLeader)
	m.state = StateFenced
	m.cause = cause
	m.renewAt = now
	m.ready = time.Time{}
	fx.end = cause
	fx.notes = append(fx.notes, note{event: noteFenced, term: m.term, token: m.token, err: cause})
}

// becomeCandidate enters StateCandidate: another candidate has the key, no candidate has
// it, or this one is about to give it up.
func (m *machine) becomeCandidate(fx *effects) {
	m.edge(StateCandidate, StatePending, StateFenced)
	if m.state == StateFenced {
		m.endTerm(nil, fx)
	}
	m.unclaim()
	m.state = StateCandidate
}

// unclaim forgets a claim that did not become a term.
func (m *machine) unclaim() {
	m.token, m.elected, m.since = 0, 0, 0
	m.leaseUntil, m.guardDeadline = time.Time{}, time.Time{}
}

// depose is becomeCandidate for a leader. The term ends with the cause.
func (m *machine) depose(cause error, fx *effects) {
	m.edge(StateCandidate, StateLeader)
	m.endTerm(cause, fx)
	m.state = StateCandidate
}

// edge panics on a transition that does not exist.
func (m *machine) edge(to State, from ...State) {
	for _, s := range from {
		if m.state == s {
			return
		}
	}
	panic(fmt.Sprintf("leader: no transition from %v to %v", m.state, to))
}

// endTerm clears the fields that belong to a term. A cause of nil means that its context
// has ended before.
func (m *machine) endTerm(cause error, fx *effects) {
	if cause != nil {
		m.cause = cause
		fx.end = cause
	}
	fx.notes = append(fx.notes, note{event: noteDeposed, term: m.term, token: m.token, err: m.cause})
	m.unclaim()
	m.drainBy = time.Time{}
	m.drained, m.draining = false, false
	m.cause = nil
}

// lose leaves each state that holds the key, because the key is no longer the candidate's
// own or never was.
func (m *machine) lose(cause error, fx *effects) {
	switch m.state {
	case StateLeader:
		m.depose(cause, fx)
	case StatePending, StateFenced:
		m.becomeCandidate(fx)
	case StateCandidate:
	}
}

// holds reports whether the newest revision known is a record of its own that
// is not released.
func (m *machine) holds() bool {
	return m.seen.kind == entryRecord && m.seen.rec.session == m.session && m.seen.rec.phase != phaseReleased
}

// fault adds a Faulted event.
func (m *machine) fault(err error, fx *effects) {
	fx.notes = append(fx.notes, note{event: noteFaulted, err: err})
}
