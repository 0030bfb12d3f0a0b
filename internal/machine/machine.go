// Package machine has the rules of the election, as state machines without a goroutine, lock, clock,
// context, logger or I/O. Machine is a candidate's. Beside it are those of a guard (GuardMachine), of
// the announcement in the roster and of the holder's view of it (AnnouncerMachine, WatcherMachine), and
// of the listener for step-down requests (ListenerMachine). Package leader drives them.
//
// The rules are those of docs/protocol.md. They are in these files:
//
//	machine.go     the machine: the state, its transitions (becomeX), and Step; parts: the term, and giving up
//	               the key
//	inputs.go      the inputs, and the meaning of each
//	learn.go       the consequences of what the feed delivers and reads return; regress
//	key.go         one revision of the key, decoded; parts: knowledge of the key, and memory of leases and
//	               tokens; what is remembered beyond the candidate; the holder to report; the unknown lease
//	bucket.go      the settings of the bucket; parts: these, and the health of the feed
//	lease.go       own writes: composing, acknowledgement, refusal, recognition; when a winner may lead; tokens;
//	               parts: own writes, and when the next renewal is due
//	clock.go       a clock that has stood still; parts: the server's time, and the comparison with its clock
//	durations.go   the durations of a candidate: defaults, and the relations between them
//	pending.go     the reason why a winner may not lead yet, as Pending has it
//	requests.go    which request is due, and when; pauses and timeouts; parts: the request in flight, and
//	               failures in a row; whether a read is needed, and why
//	race.go        the wait of candidates whose tries for a free key are refused again and again
//	succession.go  turns, handovers in favour of a successor, preemption; part: the place in the succession
//	work.go        the work of a term, and the candidate while it goes on
//	suspend.go     a candidate that is suspended from acquiring its key, for seats
//	status.go      the status, which is all that the actor reads of the machine
//	guard.go       the machine of one guard, and what the candidate wants of all its guards
//	stepdown.go    the machine of the listener for step-down requests
//	roster.go      the machines that announce a waiting candidate in the roster, and that open and close the
//	               holder's view of it
package machine

import (
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/record"
)

// Machine is the state machine of one candidate. Step takes one input and returns the effects to
// carry out. A machine is a plain value: a copy of it is a copy of the candidate, and equal machines
// compare equal. Nothing depends on how great a revision, a token, a counter or an instant is, but for
// the bounds of what is believed and for Params.Phase: only their order and their distances
// matter.
type Machine struct {
	Params
	state     State
	spent     bool // it was reported that no greater token is left
	suspended bool // it watches its key and does not take it
	done      bool // see err
	race      raceState
	value     string // published with the lease

	// The parts. Each states its invariant. A change that the invariant is about is a method of the part, and the
	// tests look for a broken invariant after each step.
	bucket   bucketView
	feed     feedHealth
	key      keyView
	memory   memory
	clock    serverClock
	compared comparison
	reads    readNeed
	writes   writeLog
	renew    renewal
	term     termState
	past     pastState
	work     workState
	queue    queueState
	leave    departure
	flight   inflight

	guards   GuardsReport // how the guards stand
	reported holderReport // the holder that was last reported
	err      error        // why it ended by itself
}

// New returns the machine of a candidate that begins. It asks for the settings of the
// bucket, opens a feed and reads the key, in this order. Where there are several seats, it is
// suspended until it may take one.
func New(p Params, value string) Machine {
	return Machine{Params: p, state: StateCandidate, value: value, reads: readNeed{needed: true}, suspended: p.Seats > 1}
}

// Params is the configuration of a candidate. It never changes.
type Params struct {
	ID       string
	Session  string
	Want     Durations // as configured; zero where the bucket decides
	MinToken uint64
	Seats    int   // published for all candidates of the election; 0: one
	Guarded  bool  // has guards, which stand before a term begins
	Observe  bool  // looks on and never writes
	Tries    bool  // does not wait for another lease
	Inherits bool  // begins with the value that the last leader has published
	KVElect  bool  // shares the key with processes of nats-kv-leader-elect
	Phase    int32 // of the renew interval, in which its renewals are due; 0: any
	Order
}

// Config returns the configuration, which the actor reads, too.
func (m *Machine) Config() *Params { return &m.Params }

// State is the state of a candidate. Its zero value is none of the states.
type State uint8

// The states of a candidate.
const (
	StateCandidate State = iota + 1
	StatePending
	StateLeader
	StateFenced
)

// String returns the name of the state in lower case.
func (s State) String() string {
	switch s {
	case StateCandidate:
		return "candidate"
	case StatePending:
		return "pending"
	case StateLeader:
		return "leader"
	case StateFenced:
		return "fenced"
	default:
		return fmt.Sprintf("State(%d)", uint8(s))
	}
}

// Effects lists the actions after a step, in the order of the fields.
type Effects struct {
	End     error  // end the term's context with this cause
	Notes   []Note // then offer these events
	Cancel  bool   // give up the request in flight; it still has to be answered
	Slot    slotRequest
	Request Request   // needs a slot, until it is answered
	Wake    time.Time // step again then, at the latest; zero: no deadline
	DrainBy time.Time // Status.Draining: until then
	Denied  error     // the call cannot be served
	done    bool      // nothing will follow
}

// Note is an event to offer.
type Note struct {
	Event noteKind
	Term  uint64
	Token uint64
	Until time.Time     // Pending: when it may lead; Elected: until when the lease is valid; Fenced: term.drainBy
	Why   pendingReason // Pending
	Err   error
	// Deposed: the end of the work was awaited, and has come.
	Finished bool
	Last     record.PackedLast // Elected: the last leader before
}

type noteKind uint8

// Kinds of notes.
const (
	NotePending noteKind = iota + 1
	NoteElected
	NoteFenced
	NoteDeposed
	NoteObserved
	NoteFaulted
)

// Step takes one input and returns the effects to carry out. It applies the deadlines
// that have passed before it looks at the input. So a candidate that was paused is fenced
// before it reads its mail.
func (m *Machine) Step(now time.Time, in *Input) Effects {
	var fx Effects
	if m.done {
		fx.done = true
		return fx
	}
	if in.Works && m.state == StateLeader {
		m.work.found()
	}
	m.expire(now, &fx)
	m.absorb(now, in, &fx)
	m.expire(now, &fx)
	m.exhaust(now, &fx)
	m.plan(now, &fx)
	m.show(now, &fx)
	fx.done = m.done
	if m.givesUp() {
		fx.DrainBy = m.term.drainBy
	}
	if !m.done {
		fx.Wake = m.wakeAt(now)
	}
	return fx
}

// Proceed takes a slot that is free at once, and adds what follows to the effects of the step
// that has asked for it.
func (m *Machine) Proceed(now time.Time, fx *Effects) {
	more := m.Step(now, &Input{Kind: InSlot})
	fx.Notes = append(fx.Notes, more.Notes...)
	fx.Slot, fx.Request, fx.Wake = more.Slot, more.Request, more.Wake
}

// expire applies the deadlines that have passed.
func (m *Machine) expire(now time.Time, fx *Effects) {
	if m.state == StateLeader && !now.Before(m.term.leaseUntil) {
		m.becomeFenced(now, time.Time{}, backend.ErrLeaseExpired, fx)
		m.reads.need() // another candidate may have the key: read before writing again
	}
	if m.term.draining && (!m.work.going || !now.Before(m.term.drainBy)) {
		m.drained(now, fx)
	}
	if m.work.idle && !m.work.going && m.leave.mode == Staying && (m.state == StateLeader || m.state == StateFenced) {
		m.withdraw(now, fx) // the application takes no terms; of a pending candidate see begin
	}
	if m.raising() && !now.Before(m.term.guardDeadline) {
		m.withdraw(now, fx) // another may have more luck with the guards
	}
	if m.flight.waits() && !now.Before(m.flight.deadline) {
		m.giveUp(fx)
	}
	if m.isCongested() && !now.Before(m.congestedAt()) {
		m.flight.slow = true
		m.fault(backend.ErrCongested, fx)
	}
	m.forget(now)
}

// giveUp stops waiting for the request in flight. Its reply follows soon, and may still
// report success.
func (m *Machine) giveUp(fx *Effects) {
	fx.Cancel = m.flight.giveUp() || fx.Cancel
}

// The transitions. Only they write the state. Each sets or clears all fields that belong
// to the state that it enters or leaves.

// becomePending enters StatePending: the key was won, and the candidate may lead from
// ready on, for the reason given.
func (m *Machine) becomePending(now, ready time.Time, why pendingReason, fx *Effects) {
	m.edge(StatePending, StateCandidate, StateFenced)
	if m.state == StateFenced {
		m.endTerm(nil, fx)
	} else {
		m.queue.left(m.Session)
	}
	m.state = StatePending
	m.renew.waitUntil(ready)
	fx.Notes = append(fx.Notes, Note{Event: NotePending, Token: m.key.seen.Rec.TermToken(m.key.seen.Revision), Until: Later(ready, now), Why: why})
}

// claim records that the write that is seen elects, with a lease that is valid until
// good. The term begins as soon as its guards stand.
func (m *Machine) claim(now, good time.Time) {
	m.term.claim(m.key.seen.Revision, m.key.seen.Rec.TermToken(m.key.seen.Revision), good, now.Add(m.bucket.times.Lease))
	m.term.date(m.key.own)
}

// becomeLeader begins the term that was claimed.
func (m *Machine) becomeLeader(now time.Time, fx *Effects) {
	m.edge(StateLeader, StatePending)
	m.state = StateLeader
	m.term.begin(now)
	m.work.begin(m.work.loops)
	m.renew.waitNoLonger()
	fx.Notes = append(fx.Notes, Note{Event: NoteElected, Term: m.term.number, Token: m.term.token, Until: m.term.leaseUntil, Last: m.past.last})
	m.past = pastState{led: true}
}

// becomeFenced ends the term's context while the candidate may still hold the key. If the
// work goes on, the candidate drains, until that instant at the latest if it is not zero.
func (m *Machine) becomeFenced(now, until time.Time, cause error, fx *Effects) {
	m.edge(StateFenced, StateLeader)
	m.state = StateFenced
	m.term.fence(cause)
	if m.work.going {
		m.term.drain(Earlier(now.Add(m.gracePeriod()), until))
	}
	m.renew.due(now)
	m.renew.waitNoLonger()
	fx.End = cause
	fx.Notes = append(fx.Notes, Note{Event: NoteFenced, Term: m.term.number, Token: m.term.token, Until: m.term.drainBy, Err: cause})
}

// becomeCandidate enters StateCandidate: another candidate has the key, no candidate has
// it, or this one is about to give it up.
func (m *Machine) becomeCandidate(fx *Effects) {
	m.edge(StateCandidate, StatePending, StateFenced)
	if m.state == StateFenced {
		m.endTerm(nil, fx)
	}
	m.term.unclaim()
	m.state = StateCandidate
}

// depose is becomeCandidate for a leader. The term ends with the cause.
func (m *Machine) depose(cause error, fx *Effects) {
	m.edge(StateCandidate, StateLeader)
	m.endTerm(cause, fx)
	m.state = StateCandidate
}

// edge panics on a transition that does not exist.
func (m *Machine) edge(to State, from ...State) {
	for _, s := range from {
		if m.state == s {
			return
		}
	}
	panic(fmt.Sprintf("leader: no transition from %v to %v", m.state, to))
}

// endTerm clears the fields that belong to a term. A cause of nil means that its context
// has ended before.
func (m *Machine) endTerm(cause error, fx *Effects) {
	if cause != nil {
		m.term.fence(cause)
		fx.End = cause
	}
	fx.Notes = append(fx.Notes, Note{
		Event: NoteDeposed, Term: m.term.number, Token: m.term.token, Err: m.term.cause, Finished: m.work.awaited && !m.work.going,
	})
	m.term.end()
}

// lose leaves each state that holds the key, because the key is no longer the candidate's
// own or never was.
func (m *Machine) lose(cause error, fx *Effects) {
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
func (m *Machine) holds() bool {
	return m.key.seen.Kind == record.EntryRecord && m.key.seen.Rec.Session == m.Session && m.key.seen.Rec.Phase != record.PhaseReleased
}

// fault adds a Faulted event.
func (m *Machine) fault(err error, fx *Effects) {
	fx.Notes = append(fx.Notes, Note{Event: NoteFaulted, Err: err})
}

// termState is the term that the candidate has claimed or leads.
//
// token, elected and leaseUntil are all zero, or none is. They are not zero in a leader, in
// a fenced candidate, and in a pending one that waits for its guards. The token does not
// change while it is not zero. Only a pause moves leaseUntil back. Only a fenced candidate drains.
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

// date sets when the term began, if the entry is that of the write that elected.
func (t *termState) date(e ownEntry) {
	if e.revision == t.elected {
		t.since = e.created
	}
}

// dateBy sets when the term began by the clock of the server, if it is not known. The feed does not deliver the write that
// elected if the leader has replaced it before, because a bucket keeps only the newest entry. The date is late by the way
// of the acknowledgement, and by the raising of the guards.
func (t *termState) dateBy(c serverClock) {
	if t.since == 0 {
		t.since = c.reckon(t.began)
	}
}

// extend makes the lease valid until an instant, unless it is valid for longer.
func (t *termState) extend(until time.Time) { t.leaseUntil = Later(t.leaseUntil, until) }

// shorten makes the lease end so much sooner, but not before an instant.
func (t *termState) shorten(by time.Duration, least time.Time) {
	if !t.leaseUntil.IsZero() {
		t.leaseUntil = Earlier(t.leaseUntil, Later(t.leaseUntil.Add(-by), least))
	}
}

// fence sets the cause of the term's end.
func (t *termState) fence(cause error) { t.cause = cause }

// drain gives the work of the term time until an instant.
func (t *termState) drain(until time.Time) { t.draining, t.drainBy = true, until }

// end clears what belongs to a term, but for its number and when it began.
func (t *termState) end() {
	t.unclaim()
	t.cause, t.draining, t.drainBy = nil, false, time.Time{}
}

// pastState is the last leader before the candidate.
//
// No last leader is kept while led is set: it is the candidate itself.
type pastState struct {
	last record.PackedLast // before the write that has won the key, or that has begun to elect again
	led  bool              // the candidate has led since that write
}

// lastLeader returns the last leader before the next term of the candidate.
func (m *Machine) lastLeader() record.PackedLast {
	switch seen := &m.key.seen; {
	case m.holds() && !m.past.led:
		return m.past.last
	case m.holds() && m.key.own.revision == seen.Revision:
		return seen.Leader(m.key.own.created)
	default:
		return seen.Leader(seen.Created)
	}
}

// departure is how far the candidate is in giving up the key.
//
// A candidate that stays has no intended successor.
type departure struct {
	mode          leaving
	recurs        bool      // what made it leave may come again as soon as it leads
	since         time.Time // when it began to leave
	to            string    // the intended successor: an ID or a session
	cooldownUntil time.Time // the candidate takes no lease before then
}

// leaving states whether the candidate is giving up the key, and how it goes on.
type leaving uint8

// Ways to leave.
const (
	Staying   leaving = iota
	resigning         // hand over and stay a candidate
	Stopping          // hand over and end
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
func (d *departure) stop(now time.Time) { d.mode, d.since = Stopping, now }

// stay ends a resignation.
func (d *departure) stay() { d.mode, d.to = Staying, "" }

// coolDown keeps the candidate from taking a lease before an instant.
func (d *departure) coolDown(until time.Time) { d.cooldownUntil = until }

// raising reports whether a term is claimed that has not begun. Either its guards do not
// stand yet, or the lease was no longer valid when they did. The candidate renews its
// lease like a leader, because no other candidate's lease can be running.
func (m *Machine) raising() bool { return m.state == StatePending && m.term.token != 0 }

// begin begins the term that was claimed, if its guards stand and its lease is valid. If one
// of them stands at the same or a greater token that was not raised for this term, the claim
// is dropped and another write elects. Where the application takes no terms any more, the
// candidate gives the key up instead.
func (m *Machine) begin(now time.Time, fx *Effects) {
	switch {
	case !m.raising():
	case m.work.idle:
		m.withdraw(now, fx)
	case m.guards.Over >= m.term.token:
		m.term.unclaim()
	case m.Guarded && m.guards.RaisedAt != m.term.token:
	case now.Before(m.term.leaseUntil):
		m.becomeLeader(now, fx)
	}
}
