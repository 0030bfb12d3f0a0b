package leader

import (
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// machine is one candidate without goroutine, lock, context, logger, I/O or
// clock: step takes what happened and tells what to do next. It is a plain
// value: to copy it is to copy the candidate, and equal machines compare equal.
// Revisions, tokens, counters and instants are only compared and subtracted.
//
// The rules are those of the package documentation. Where they live:
//
//	state.go             the states, their transitions, and step
//	state_inputs.go      the meaning of each input
//	state_key.go         what is known of the key, and what follows from learning more
//	state_lease.go       own writes: what each replaces, when its winner may lead, its outcome
//	state_requests.go    which request is due, and when
//	state_guards.go      what a candidate with guards waits for
//	state_succession.go  the order of candidates, and the successor of a leader that resigns
//	state_gate.go        what keeps a candidate from taking its key
type machine struct {
	params
	times durations // resolved when the bucket's settings are known

	state State
	value string // what is published with the lease

	// The bucket.
	settled   bool // settings are known since the connection was last made
	settings  backend.Settings
	feedUp    bool
	feedFails int
	feedAt    time.Time // when to try to open a feed, while there is none

	// The key.
	seen     sight         // the newest revision known
	seenAt   time.Time     // when it was received
	gone     uint64        // revisions up to this one were removed without a marker
	told     uint64        // the newest revision that the store itself has told, not the feed
	absent   time.Time     // since when reads find no message, which may have come too late; zero: they do not
	behind   int           // reads in a row that told of less than the feed had told before
	lookedAt time.Time     // when a read last came back
	look     bool          // a read is needed before anything is concluded
	again    uint64        // and once more, if the one in flight tells of less than this
	beaten   bool          // that read is only to see who was faster; the feed may tell
	silent   bool          // the read that is due is made because the feed is silent
	deaf     int           // how often in a row the feed was found deaf
	strange  bool          // the read or renewal that is due follows a strange message of the feed
	wary     time.Time     // strange messages are no reason to read before
	deferred bool          // there was one, so that a read is due then
	bound    time.Duration // the greatest MaxLease or TTL that was ever known
	longest  time.Duration // the longest lease of others that was read
	heardOf  time.Time     // when that was last seen
	topToken uint64        // the greatest token remembered
	hearsay  uint64        // the greatest that only the feed told of, beyond the next
	spent    bool          // that no greater token is left was told
	floor    time.Time     // the store went backwards: nobody leads before
	shown    shown         // what was last told of who holds the key
	echo     echo          // an own write as the feed told of it

	// Own writes.
	counter uint64        // of the last write sent
	acked   uint64        // of the newest write known to be stored
	sent    [4]batch      // the last few, newest first
	lastAt  time.Time     // of the last write sent
	lastFor time.Duration // how long others wait after the last write

	// Holding the key.
	ready   time.Time // when a write that elects may be sent at the earliest
	renewAt time.Time
	urgent  bool // a renewal is wanted without waiting for renewAt

	// The gate.
	barred bool // it watches its key and does not take it

	// The term.
	term     uint64       // counts the terms of this machine
	token    uint64       // of the term, also while its guards are still to be raised; 0: none
	good     time.Time    // the lease is good until then
	raiseBy  time.Time    // when a candidate whose guards are not raised gives up the key
	guards   guardsReport // how the guards stand
	cause    error        // of its end; a sentinel, so a plain value
	elected  uint64       // revision of the write that began it
	since    int64        // server's time of that write
	drained  bool         // the application has released the term
	draining bool
	drainBy  time.Time

	// Who comes next.
	line  line      // as the last holder published it, or as the own roster tells
	ranks bool      // the own roster has told since the key was tried for
	ledAt time.Time // when the term began
	// Handovers in vain: the key was released in favour of a candidate, and another took it.
	vain       uint32    // in a row
	yieldsFrom time.Time // as a leader it hands over to no higher priority before then
	standsFrom time.Time // its writes were denied: it does not stand before then

	// Leaving.
	leaving leaving
	leftAt  time.Time // since when
	to      string    // in whose favour: an ID or a session
	away    time.Time // takes no lease before then

	// The request in flight, and how those before it fared.
	op      request
	opAt    time.Time // when it was sent
	opBy    time.Time // when it is given up
	opLate  bool      // it was given up; its reply is still to come
	fails   int       // in a row
	stuck   bool      // the last write failed; reads that succeed do not end the row
	retryAt time.Time // no request before then

	done bool
	err  error // why it ended by itself
}

// params is what a candidate is given. It never changes.
type params struct {
	id       string
	session  string
	want     durations // as configured; zero where the bucket decides
	minToken uint64
	seats    int  // for all candidates of the election to see; 0: one
	guarded  bool // has guards, which stand before a term begins
	observe  bool // looks on and never writes
	kvElect  bool // shares the key with processes of nats-kv-leader-elect
	order
}

// leaving tells whether the candidate is giving up the key, and what follows.
type leaving uint8

const (
	staying   leaving = iota
	resigning         // hand over and stay a candidate
	stopping          // hand over and end
)

// effects is what to do after a step, in the order of the fields.
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
	until time.Time // Pending: when it may lead; Elected: until when the lease is good
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

// step tells the machine what happened and returns what to do. Deadlines that
// have passed are applied before the input is looked at: a candidate that was
// paused is fenced before it reads its mail.
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
	if m.state == StateLeader && !now.Before(m.good) {
		m.becomeFenced(now, ErrLeaseExpired, fx)
		m.look = true // somebody else may have the key: read before writing again
	}
	if m.draining && (m.drained || !now.Before(m.drainBy)) {
		m.becomeCandidate(fx)
	}
	if m.raising() && !now.Before(m.raiseBy) {
		m.leaving, m.leftAt, m.to = resigning, now, "" // another may have more luck with the guards
		m.becomeCandidate(fx)
	}
	if m.op.kind != reqNone && !m.opLate && !now.Before(m.opBy) {
		m.giveUp(fx)
	}
	m.forget(now)
}

// giveUp stops waiting for the request in flight. Its reply follows soon, and
// may still be a success.
func (m *machine) giveUp(fx *effects) {
	if m.op.kind != reqNone && !m.opLate {
		m.opLate = true
		fx.cancel = true
	}
}

// The transitions. They alone write the state, and each sets or clears all that
// belongs to what it enters or leaves.

// becomePending: the key was won, and may be led from ready on.
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

// claim: the write that is seen, whose lease is good until then, elects. The term
// begins as soon as its guards stand.
func (m *machine) claim(now, good time.Time) {
	m.token = m.seen.rec.termToken(m.seen.revision)
	m.good = good
	m.elected = m.seen.revision
	m.since = 0
	if m.echo.revision == m.elected {
		m.since = m.echo.created
	}
	m.raiseBy = now.Add(m.times.lease)
}

// becomeLeader: the term that was claimed begins.
func (m *machine) becomeLeader(now time.Time, fx *effects) {
	m.edge(StateLeader, StatePending)
	m.state = StateLeader
	m.term++
	m.ledAt = now
	m.ready, m.raiseBy = time.Time{}, time.Time{}
	fx.notes = append(fx.notes, note{event: noteElected, term: m.term, token: m.token, until: m.good})
}

// becomeFenced: the term's context ends while the key may still be held.
func (m *machine) becomeFenced(now time.Time, cause error, fx *effects) {
	m.edge(StateFenced, StateLeader)
	m.state = StateFenced
	m.cause = cause
	m.renewAt = now
	m.ready = time.Time{}
	fx.end = cause
	fx.notes = append(fx.notes, note{event: noteFenced, term: m.term, token: m.token, err: cause})
}

// becomeCandidate: the key is another's, nobody's, or about to be given up.
func (m *machine) becomeCandidate(fx *effects) {
	m.edge(StateCandidate, StatePending, StateFenced)
	if m.state == StateFenced {
		m.endTerm(nil, fx)
	}
	m.unclaim()
	m.state = StateCandidate
}

// unclaim forgets a claim that no term has come of.
func (m *machine) unclaim() {
	m.token, m.elected, m.since = 0, 0, 0
	m.good, m.raiseBy = time.Time{}, time.Time{}
}

// depose is becomeCandidate for a leader, whose term ends with the cause.
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

// endTerm clears what belongs to a term. A cause of nil means that its context
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

// lose leaves whatever state holds the key, because the key is not its own any
// more, or was never.
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
	return m.seen.what == whatRecord && m.seen.rec.session == m.session && m.seen.rec.phase != phaseReleased
}

// fault adds a Faulted event.
func (m *machine) fault(err error, fx *effects) {
	fx.notes = append(fx.notes, note{event: noteFaulted, err: err})
}
