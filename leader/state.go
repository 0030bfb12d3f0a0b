package leader

import (
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/record"
)

// machine is the state machine of one candidate. It has no goroutine, lock, context, logger,
// I/O or clock. step takes one input and returns the effects to carry out. A machine is a
// plain value: a copy of it is a copy of the candidate, and equal machines compare equal.
// Nothing depends on how great a revision, a token, a counter or an instant is, but for the
// bounds of what is believed and for the phase of renewals: only their order and their
// distances matter.
//
// The rules are those of docs/contract.md. They are in these files:
//
//	state.go               the states, their transitions, and step; the term
//	state_inputs.go        the meaning of each input
//	state_bucket.go        the settings of the bucket, and the feed
//	state_key.go           the knowledge of the key, and the memory of what is gone
//	state_learn.go         the consequences of learning more of the key
//	state_lease.go         own writes: what each replaces, when its winner may lead, its outcome
//	state_pending.go       the reason why a winner may not lead yet
//	state_requests.go      which request is due, and when
//	state_guards.go        the conditions for which a candidate with guards waits
//	state_succession.go    the order of candidates, and the successor of a leader that resigns
//	state_suspend.go       a candidate that does not take its key
//	state_work.go          the work of a term, and the candidate while it goes on
//
// status, proceed and config are the only other methods that the actor calls.
type machine struct {
	params
	state State
	value string // published with the lease

	// The parts. Each states its invariant, and only its own methods write its fields.
	bucket bucketView
	feed   feedHealth
	key    keyView
	memory memory
	reads  readNeed
	writes writeLog
	renew  renewal
	term   termState
	work   workState
	queue  queueState
	leave  departure
	flight inflight

	guards    guardsReport // how the guards stand
	shown     shown        // the holder that was last reported
	spent     bool         // it was reported that no greater token is left
	suspended bool         // it watches its key and does not take it
	done      bool
	err       error // why it ended by itself
}

// newMachine returns the machine of a candidate that begins. It asks for the settings of the
// bucket, opens a feed and reads the key, in this order. Where there are several seats, it is
// suspended until it may take one.
func newMachine(p params, value string) machine {
	return machine{params: p, state: StateCandidate, value: value, reads: readNeed{needed: true}, suspended: p.seats > 1}
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
	tries    bool // does not wait for another lease
	kvElect  bool // shares the key with processes of nats-kv-leader-elect
	phase    int  // of the renew interval, in which its renewals are due; 0: any
	order
}

// config returns the configuration, which the actor reads, too.
func (m *machine) config() *params { return &m.params }

// effects lists the actions after a step, in the order of the fields.
type effects struct {
	end     error  // end the term's context with this cause
	notes   []note // then offer these events
	cancel  bool   // give up the request in flight; it still has to be answered
	slot    slotWish
	request request   // needs a slot, until it is answered
	wake    time.Time // step again then, at the latest; zero: no deadline
	denied  error     // the call cannot be served
	done    bool      // nothing will follow
}

// note is an event to offer.
type note struct {
	event noteKind
	term  uint64
	token uint64
	until time.Time     // Pending: when it may lead; Elected: until when the lease is valid; Fenced: term.drainBy
	why   pendingReason // Pending
	err   error
	// Deposed: the end of the work was awaited, and has come.
	drained bool
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
func (m *machine) step(now time.Time, in *input) effects {
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

// proceed takes a slot that is free at once, and adds what follows to the effects of the step
// that has asked for it.
func (m *machine) proceed(now time.Time, fx *effects) {
	more := m.step(now, &input{kind: inSlot})
	fx.notes = append(fx.notes, more.notes...)
	fx.slot, fx.request, fx.wake = more.slot, more.request, more.wake
}

// expire applies the deadlines that have passed.
func (m *machine) expire(now time.Time, fx *effects) {
	if m.state == StateLeader && !now.Before(m.term.leaseUntil) {
		m.becomeFenced(now, time.Time{}, ErrLeaseExpired, fx)
		m.reads.need() // another candidate may have the key: read before writing again
	}
	if m.term.draining && (!m.work.going || !now.Before(m.term.drainBy)) {
		m.drained(now, fx)
	}
	if m.work.idle && !m.work.going && m.leave.mode == staying && (m.state == StateLeader || m.state == StateFenced) {
		m.withdraw(now, fx) // the application takes no terms; of a pending candidate see begin
	}
	if m.raising() && !now.Before(m.term.guardDeadline) {
		m.withdraw(now, fx) // another may have more luck with the guards
	}
	if m.flight.waits() && !now.Before(m.flight.deadline) {
		m.giveUp(fx)
	}
	if m.isCongested() && !now.Before(m.congestedAt()) {
		m.flight.tooSlow()
		m.fault(ErrCongested, fx)
	}
	m.forget(now)
}

// giveUp stops waiting for the request in flight. Its reply follows soon, and may still
// report success.
func (m *machine) giveUp(fx *effects) {
	fx.cancel = m.flight.giveUp() || fx.cancel
}

// The transitions. Only they write the state. Each sets or clears all fields that belong
// to the state that it enters or leaves.

// becomePending enters StatePending: the key was won, and the candidate may lead from
// ready on, for the reason given.
func (m *machine) becomePending(now, ready time.Time, why pendingReason, fx *effects) {
	m.edge(StatePending, StateCandidate, StateFenced)
	if m.state == StateFenced {
		m.endTerm(nil, fx)
	} else {
		m.queue.left(m.session)
	}
	m.state = StatePending
	m.renew.waitUntil(ready)
	fx.notes = append(fx.notes, note{event: notePending, token: m.key.seen.Rec.TermToken(m.key.seen.Revision), until: later(ready, now), why: why})
}

// claim records that the write that is seen elects, with a lease that is valid until
// good. The term begins as soon as its guards stand.
func (m *machine) claim(now, good time.Time) {
	m.term.claim(m.key.seen.Revision, m.key.seen.Rec.TermToken(m.key.seen.Revision), good, now.Add(m.bucket.times.lease))
	m.term.date(m.key.echo)
}

// becomeLeader begins the term that was claimed.
func (m *machine) becomeLeader(now time.Time, fx *effects) {
	m.edge(StateLeader, StatePending)
	m.state = StateLeader
	m.term.begin(now)
	m.work.begin(m.awaitsWork())
	m.renew.waitNoLonger()
	fx.notes = append(fx.notes, note{event: noteElected, term: m.term.number, token: m.term.token, until: m.term.leaseUntil})
}

// becomeFenced ends the term's context while the candidate may still hold the key. If the
// work goes on, the candidate drains, until that instant at the latest if it is not zero.
func (m *machine) becomeFenced(now, until time.Time, cause error, fx *effects) {
	m.edge(StateFenced, StateLeader)
	m.state = StateFenced
	m.term.fence(cause)
	if m.work.going {
		m.term.drain(earlier(now.Add(m.drainTimeout()), until))
	}
	m.renew.due(now)
	m.renew.waitNoLonger()
	fx.end = cause
	fx.notes = append(fx.notes, note{event: noteFenced, term: m.term.number, token: m.term.token, until: m.term.drainBy, err: cause})
}

// becomeCandidate enters StateCandidate: another candidate has the key, no candidate has
// it, or this one is about to give it up.
func (m *machine) becomeCandidate(fx *effects) {
	m.edge(StateCandidate, StatePending, StateFenced)
	if m.state == StateFenced {
		m.endTerm(nil, fx)
	}
	m.term.unclaim()
	m.state = StateCandidate
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
		m.term.fence(cause)
		fx.end = cause
	}
	fx.notes = append(fx.notes, note{
		event: noteDeposed, term: m.term.number, token: m.term.token, err: m.term.cause, drained: m.work.awaited && !m.work.going,
	})
	m.term.end()
}

// lose leaves each state that holds the key, because the key is no longer the candidate's
// own or never was.
func (m *machine) lose(cause error, fx *effects) {
	switch m.state {
	case StateLeader:
		m.depose(cause, fx)
	case StatePending, StateFenced:
		m.becomeCandidate(fx)
	case StateCandidate, StateEnded: // no machine is in StateEnded, which a Candidate reports
	}
}

// holds reports whether the newest revision known is a record of its own that
// is not released.
func (m *machine) holds() bool {
	return m.key.seen.Kind == record.EntryRecord && m.key.seen.Rec.Session == m.session && m.key.seen.Rec.Phase != record.PhaseReleased
}

// fault adds a Faulted event.
func (m *machine) fault(err error, fx *effects) {
	fx.notes = append(fx.notes, note{event: noteFaulted, err: err})
}

// termState is the term that the candidate has claimed or leads.
//
// token, elected and leaseUntil are all zero, or none is. They are not zero in a leader, in
// a fenced candidate, and in a pending one that waits for its guards. The token does not
// change while it is not zero. leaseUntil only moves on. Only a fenced candidate drains.
type termState struct {
	number        uint64    // counts the terms of this machine
	token         uint64    // of the term, also while its guards are still to be raised; 0: none
	leaseUntil    time.Time // the lease is valid until then
	guardDeadline time.Time // when a candidate gives up the key if its guards are not raised
	elected       uint64    // revision of the write that began it
	since         int64     // server's time of that write; 0: not known
	began         time.Time // when the last term began
	cause         error     // of its end; a sentinel, so a plain value
	draining      bool      // its work may go on until drainBy
	drainBy       time.Time
}

// claim records the write that elects, with a lease that is valid until an instant. The
// term begins as soon as its guards stand.
func (t *termState) claim(elected, token uint64, leaseUntil, guardDeadline time.Time) {
	t.token, t.elected, t.since = token, elected, 0
	t.leaseUntil, t.guardDeadline = leaseUntil, guardDeadline
}

// unclaim forgets a claim that did not become a term, or a term that has ended.
func (t *termState) unclaim() {
	t.token, t.elected, t.since = 0, 0, 0
	t.leaseUntil, t.guardDeadline = time.Time{}, time.Time{}
}

// begin begins the term that was claimed.
func (t *termState) begin(now time.Time) {
	t.number++
	t.began = now
	t.guardDeadline = time.Time{}
}

// date sets when the term began, if the echo is that of the write that elected.
func (t *termState) date(e echo) {
	if e.revision == t.elected {
		t.since = e.created
	}
}

// extend makes the lease valid until an instant, unless it is valid for longer.
func (t *termState) extend(until time.Time) { t.leaseUntil = later(t.leaseUntil, until) }

// fence sets the cause of the term's end.
func (t *termState) fence(cause error) { t.cause = cause }

// drain gives the work of the term time until an instant.
func (t *termState) drain(until time.Time) { t.draining, t.drainBy = true, until }

// hurry brings the end of a drain forward to an instant.
func (t *termState) hurry(until time.Time) { t.drainBy = earlier(t.drainBy, until) }

// drained ends a drain, and not the term.
func (t *termState) drained() { t.draining, t.drainBy = false, time.Time{} }

// end clears what belongs to a term, but for its number and when it began.
func (t *termState) end() {
	t.unclaim()
	t.cause, t.draining, t.drainBy = nil, false, time.Time{}
}

// departure is how far the candidate is in giving up the key.
//
// A candidate that stays has no intended successor.
type departure struct {
	mode          leaving
	since         time.Time // when it began to leave
	to            string    // the intended successor: an ID or a session
	recurs        bool      // what made it leave may come again as soon as it leads
	cooldownUntil time.Time // the candidate takes no lease before then
}

// leaving states whether the candidate is giving up the key, and how it goes on.
type leaving uint8

const (
	staying   leaving = iota
	resigning         // hand over and stay a candidate
	stopping          // hand over and end
)

// resign begins to hand over because that was asked for, perhaps in favour of a candidate.
func (d *departure) resign(now time.Time, to string) {
	d.mode, d.since, d.to, d.recurs = resigning, now, to, false
}

// withdraw begins to hand over for a cause that may come again.
func (d *departure) withdraw(now time.Time) {
	d.mode, d.since, d.to, d.recurs = resigning, now, "", true
}

// stop begins to hand over and to end. An intended successor remains.
func (d *departure) stop(now time.Time) { d.mode, d.since = stopping, now }

// stay ends a resignation.
func (d *departure) stay() { d.mode, d.to = staying, "" }

// coolDown keeps the candidate from taking a lease before an instant.
func (d *departure) coolDown(until time.Time) { d.cooldownUntil = until }
