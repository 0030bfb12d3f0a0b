package leader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/natskv"
	"github.com/natsleader/natsleader/internal/plain"
	"github.com/natsleader/natsleader/internal/record"
)

// actor is the goroutine that owns the machine. It has one select and one timer. In a crowd it lets another goroutine do
// a step, and waits for that (see crowd). So at any time one goroutine touches the machine.
// It carries out the effects of each step and never waits for the store, for a reader of
// events, for the handler of the log, or for a caller.
//
// It also calls code that returns at once by contract: methods of the backends, and of the
// user's Clock and Timers. Should one of these calls not return, the term's watchdog still
// ends the context in time.
type actor struct {
	*machine.Params // of the machine
	c               *Candidate
	m               machine.Machine
	status          machine.Status // of the machine, after its last step

	timeline
	timer  Timer
	rng    randomness
	values context.Context //nolint:containedctx // the values that every term's context carries

	ahead    time.Duration // by which the time of day was ahead of the clock at the last hint
	wake     time.Time     // when the machine is to step again
	crowd    *crowd        // nil: it does its steps itself
	requests requester
	bucket   *natskv.Bucket // nil: of an observer, or in memory
	faults   faultFilter
	calls    calls
	silence  silence
	term     *Term

	guards   guardDrivers
	desired  machine.DesiredGuards // as the guards know it
	listener *stepDownListener     // nil: it has never led
	roster   *rosterParts          // nil: it has no roster

	elected       time.Time // the last time
	seat          int
	reminder      reminder
	stall         time.Duration // Config.StallTimeout
	stopTimeout   time.Duration // negative: no bound
	stopBy        time.Time     // of StopTimeout: the candidate ends then; zero: it is not being stopped
	reportedSeats seatsSeen     // another candidate's number of seats that was reported last
	returns       int32         // terms in a row whose work has returned at once
	otherLease    bool          // noticeLease has warned
	mayMove       bool          // Config.ForceReconnect
	abandoning    bool          // it ends without waiting for anything
	cut           bool          // it ends because the connection is closed
}

// run is the candidate's goroutine. Its work is done in separate functions, so that
// thousands of waiting candidates have small stacks.
func (a *actor) run(ctx context.Context) {
	stopped := context.AfterFunc(ctx, func() { a.c.toAll(machine.InStop) })
	defer stopped()
	a.do((*actor).start)
	for !a.status.Done {
		if a.do((*actor).readAll); !a.status.Done && a.wait() {
			a.do((*actor).tick)
		}
	}
	a.crowd.leave()
	a.end()
}

func (a *actor) start() {
	a.followCordon()
	a.tick()
}

// rush is how many mails are read between two ticks where the mail never ends. Each mail
// applies the machine's deadlines. Those of the guards are left to ticks.
const rush = 64

// readAll reads the mail that there is. The timer and the pulse are looked at only when there is no more.
func (a *actor) readAll() {
	for n := 1; !a.status.Done && a.read(); n++ {
		if n%rush == 0 {
			a.tick()
			a.c.pulse.beat()
		}
	}
}

//go:noinline
func (a *actor) tick() {
	a.noticePause()
	a.stepOn(a.due())
	a.step(a.stepGuards(machine.GuardInput{Kind: machine.GuardInTick}), nil)
	a.stepSilence()
}

// read takes the next mail, and reports whether there was any. If not, the timer
// is armed and the actor must wait.
//
//go:noinline
func (a *actor) read() bool {
	m := a.c.box.takeOr(a.rest)
	if m == nil {
		return false
	}
	a.noticePause()
	a.receive(m)
	m.free()
	return true
}

// rest arms the timer. It is the last thing before the actor waits.
func (a *actor) rest() {
	wake := machine.Earlier(a.guards.wakeAt(a.wake), a.listener.wakeAt())
	wake = machine.Earlier(wake, machine.Earlier(a.roster.wakeAt(), a.silenceAt()))
	if t := a.watched(); t != nil {
		wake = machine.Earlier(wake, a.base.Add(t.work.next))
	}
	wake = machine.Earlier(wake, a.cordonBy())
	a.arm(machine.Earlier(wake, machine.Earlier(a.reminder.at, a.stopBy)))
}

func (a *actor) arm(wake time.Time) {
	if wake.IsZero() {
		a.timer.Stop()
		return
	}
	a.timer.Reset(max(0, wake.Sub(a.now())))
}

// wait waits for mail or a tick.
func (a *actor) wait() (ticked bool) {
	for {
		select {
		case <-a.c.box.bell:
			return false
		case <-a.timer.C():
			return true
		case a.c.pulse <- struct{}{}: // the timer stays armed as it is
		}
	}
}

// receive takes one mail.
func (a *actor) receive(m *mail) {
	if m.guard != nil {
		a.stepOn(machine.InTick) // deadlines that have passed come first
		a.step(a.reported(m.guard), nil)
		return
	}
	if m.listener != nil {
		a.stepOn(machine.InTick)
		a.receiveListener(m.listener)
		return
	}
	if m.roster != nil {
		a.stepOn(machine.InTick)
		a.step(a.receiveRoster(m.roster), nil)
		return
	}
	if m.fault != nil {
		a.stepOn(machine.InTick)
		a.fault(m.fault)
		return
	}
	if m.sign {
		a.stepOn(machine.InTick)
		a.receiveSign(m.in.Err)
		return
	}
	if m.in.Kind == machine.InTick && m.feed != nil {
		a.receiveFeed(m)
	}
	if m.in.To != "" {
		a.stepOn(machine.InTick)
		if err := a.mayHandOver(&m.in); err != nil {
			m.call <- err
			return
		}
	}
	switch m.in.Kind {
	case machine.InRead:
		m.in.Observed, m.in.Before = record.DecodeEntry(m.entry), a.recall()
		a.replied(m)
	case machine.InWritten, machine.InSettings, machine.InFeed:
		a.replied(m)
	case machine.InHeard, machine.InReconnected, machine.InFeedLost, machine.InClosed:
		if m.from != a.requests.feedNumber {
			a.stepOn(machine.InTick)
			return // of a feed that was replaced
		}
		if m.in.Kind == machine.InHeard {
			m.in.Observed = a.decodeDelivered(m.entry, m.seen)
			a.requests.hear(m.entry.Revision)
		}
	case machine.InAbandon:
		a.abandoning = true
	case machine.InStop:
		m.in.Until = a.limitStop()
	case machine.InSlot:
		if !a.status.Queued || !a.c.window.Has(&a.requests.place) {
			m.in.Kind = machine.InTick // the slot has been used or given back since it was granted
		}
	case machine.InTick, machine.InGuards, machine.InRoster, machine.InResign, machine.InDrained, machine.InWorked, machine.InLoop, machine.InNoLoop, machine.InProclaim, machine.InSuspend, machine.InResume, machine.InStalled, machine.InPaused:
	}
	a.step(&m.in, m.call)
	switch {
	case m.in.Kind == machine.InRead && m.in.Err == nil:
		a.remember()
	case m.in.Kind == machine.InReconnected:
		a.step(a.stepGuards(machine.GuardInput{Kind: machine.GuardInReconnected}), nil)
	case m.in.Kind == machine.InSettings && m.in.Err == nil:
		a.compareBucket()
	}
}

// stepOn steps on an input that has only a kind.
//
//go:noinline
func (a *actor) stepOn(kind machine.InputKind) { a.step(&machine.Input{Kind: kind}, nil) }

// compareBucket reports, once, that a bucket of EnsureBucket has other settings. Of several
// seats one reports it.
func (a *actor) compareBucket() {
	if a.bucket == nil || a.seat != 1 || a.status.Done {
		return
	}
	if err, known := a.bucket.Difference(); known && a.faults.isDifferent(err) { // they may be forgotten again
		a.fault(err)
	}
}

// decodeDelivered decodes a message of the feed. Of an own record only the session is needed once the term is dated, and
// every renewal comes back as one.
func (a *actor) decodeDelivered(e backend.Entry, seen *record.Observation) record.Observation {
	if e.Marker || !a.status.Dated || !bytes.Contains(e.Value, a.requests.own) {
		if seen != nil {
			return *seen
		}
		return record.DecodeEntry(e)
	}
	return record.Observation{Revision: e.Revision, Kind: record.EntryRecord, Rec: record.Record{Session: a.Session}, Created: e.Created.UnixNano()}
}

// replied cleans up after the request in flight.
func (a *actor) replied(m *mail) {
	a.requests.answered(&m.in, m.foretold, &a.status, a.c.since())
	if m.foretold {
		return
	}
	a.c.settle(&m.in, a.requests.asked, a.quiet(), a.status.Writing)
	if m.in.Kind == machine.InRead && !isUnanswered(m.in.Err) {
		a.silence.reads = true
	}
	if m.in.Kind == machine.InFeed {
		a.requests.keep(m.feed, a.ID, a.Session)
	}
	if m.in.Err != nil {
		a.c.detail(a.values, "request failed", slog.String("request", requestNames[m.in.Kind]), slog.String("err", m.in.Err.Error()))
		return
	}
	if m.in.Kind == machine.InFeed && a.requests.feedNumber > 1 {
		a.c.detail(a.values, "feed opened again")
	}
	a.faults.succeeded(m.in.Kind)
}

// step steps the machine on an input, and on those that follow from it. The effects of each step
// are carried out before the next. Nil is no input.
func (a *actor) step(in *machine.Input, call chan error) {
	for in != nil {
		a.carryOut(in, call)
		in, call = a.follow(), nil
	}
}

// follow steps what is beside the machine, and returns the input that follows for the machine, or
// nil.
func (a *actor) follow() *machine.Input {
	if in := a.stepRoster(); in != nil {
		return in
	}
	if in := a.tell(); in != nil {
		return in
	}
	if t := a.watched(); t != nil && t.work.hangs(a.now().Sub(a.base)) {
		return &machine.Input{Kind: machine.InStalled}
	}
	a.remind()
	a.noticeCordon()
	return a.syncPermit()
}

// carryOut steps the machine and carries out the effects: it ends the context, publishes the
// state that accessors read, offers the events, and only then sends a request to the
// store. Inputs and effects are large. A candidate has a small stack because the functions
// from here to the machine pass pointers to them.
func (a *actor) carryOut(in *machine.Input, call chan error) {
	switch in.Kind { //nolint:exhaustive // jitter spreads only what follows a reply
	case machine.InRead, machine.InWritten, machine.InSettings, machine.InFeed:
		in.Jitter = a.rng.Uint32()
	}
	before, stays, written, shown, seen := a.status.State, a.status.Leaving == machine.Staying, a.status.Written, *a.status.Reported, a.status.Seen.Revision
	var fx machine.Effects
	a.advance(in, &fx)
	if in.Kind == machine.InSlot && fx.Request.Kind == machine.ReqNone && a.requests.cancel == nil { // nothing is due any more
		a.c.window.Return(&a.requests.place, backend.Reply{})
	}
	a.notice(in, seen, in.Kind == machine.InSettings && in.Err == nil && a.faults.received(fx.Notes))
	events := a.disagree(a.events(in, &fx)) // with the fault of a different number of seats
	a.c.transits(State(before), State(a.status.State), events)
	a.noticeSign(in, seen)
	a.publish(*a.status.Reported != shown)
	for _, e := range events {
		a.c.logEvent(a.values, e)
		a.c.offer(e)
	}
	a.offerTerm()
	a.wake = fx.Wake
	if fx.Cancel {
		a.requests.cancel()
	}
	if fx.Request.Kind != machine.ReqNone {
		a.c.cordon.requesting(fx.Request.Kind)
		a.requests.send(fx.Request, a.c.since(), a.status.Server, a.bucket)
	}
	a.calls.add(in, call, written, fx.Denied, &a.status)
	a.calls.answer(&a.status)
	a.stepListener(machine.ListenerInput{Kind: machine.ListenerNews(in, before, a.status.State)})
	if in.Kind == machine.InRoster && stays && a.status.To != "" {
		a.c.log.LogAttrs(a.values, slog.LevelInfo, "hands over to a higher priority", slog.String("to", plain.Text(a.status.To)))
	}
}

// advance steps the machine. If there is a term, its watchdog and the readers of its context
// see the step, and what follows for the lease and the context, as one change.
func (a *actor) advance(in *machine.Input, fx *machine.Effects) {
	now, t := a.now(), a.term
	if t == nil {
		a.stepMachine(now, in, fx)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	in.Works = t.known.running > 0
	if in.Term == t.number && (in.Kind == machine.InDrained || in.Kind == machine.InWorked) && t.goesOn() {
		in.Kind = machine.InTick // more work has begun meanwhile
	}
	if t.lapsed && a.status.State == machine.StateLeader {
		now = machine.Later(now, a.status.LeaseUntil) // the clock has shown that time to a reader or the watchdog
	}
	a.stepMachine(now, in, fx)
	if fx.End != nil {
		t.end(fx.End)
	}
	switch {
	case a.status.Draining: // the lease is renewed for the work in hand
		t.until.Store(int64(a.status.LeaseUntil.Sub(a.base)))
		t.drain(now.Sub(a.base), fx.DrainBy.Sub(a.base))
	case fx.End != nil:
		t.grace.end(fx.End)
	case a.status.State == machine.StateLeader:
		t.hold(now.Sub(a.base), a.status.LeaseUntil.Sub(a.base))
	}
}

// stepMachine steps the machine, which gets the slot that it asks for if one is free.
func (a *actor) stepMachine(now time.Time, in *machine.Input, fx *machine.Effects) {
	a.pass(now, in, fx)
	if fx.Slot.Wanted && a.c.window.Take(&a.requests.place, fx.Slot.Rank, &a.c.box, a.outside(now)) {
		a.m.Proceed(now, fx)
	}
	ended := a.status.Done
	a.look(now)
	a.cut = a.cut || !ended && a.status.Done && (in.Kind == machine.InClosed || errors.Is(in.Err, ErrConnectionClosed))
}

//go:noinline
func (a *actor) pass(now time.Time, in *machine.Input, fx *machine.Effects) { *fx = a.m.Step(now, in) }

//go:noinline
func (a *actor) look(now time.Time) { a.status = a.m.Status(now) }

// events turns notes into events.
func (a *actor) events(in *machine.Input, fx *machine.Effects) []Event {
	var events []Event
	for _, n := range fx.Notes {
		switch n.Event {
		case machine.NotePending:
			events = append(events, Pending{Token: n.Token, Until: a.wall(n.Until), Reason: n.Why.String(), Seat: a.seat})
		case machine.NoteElected:
			a.term, a.elected = a.begin(n), a.now()
			events = append(events, Elected{Term: a.term})
		case machine.NoteFenced:
			e := Fenced{Term: a.term, Cause: n.Err}
			if !n.Until.IsZero() {
				e.Until = a.wall(n.Until)
			}
			events = append(events, e)
		case machine.NoteDeposed:
			events = append(events, Deposed{Term: a.term, Cause: n.Err, Finished: n.Finished})
			a.noticeReturn(n.Err)
			a.term.depose(n.Err)
			a.term = nil
		case machine.NoteObserved:
			h := holderShown(&a.status, a.seat)
			events = append(events, Observed{Holder: h})
			a.noticeLease(h)
		case machine.NoteFaulted:
			a.foundIn(in, n.Err)
			news := false
			if errors.Is(n.Err, ErrCongested) {
				news = a.c.window.Report() // another candidate of the connection may have reported it
			} else {
				news = a.faults.isNews(in, n.Err)
			}
			if news {
				a.faults.told = a.faults.told || isUnanswered(n.Err) && !errors.Is(n.Err, ErrNoFeed)
				events = append(events, a.faulted(n.Err))
			}
		}
	}
	return events
}

// faulted makes the event of a fault.
func (a *actor) faulted(err error) Faulted {
	f := Faulted{Err: err}
	if a.status.State == machine.StateLeader {
		f.Remaining = max(0, a.status.LeaseUntil.Sub(a.now()))
	}
	return f
}

// fault reports a fault that does not come from the machine.
func (a *actor) fault(err error) {
	e := a.faulted(err)
	a.c.transits(State(a.status.State), State(a.status.State), []Event{e})
	a.c.logEvent(a.values, e)
	a.c.offer(e)
}

// begin makes the term of an election.
func (a *actor) begin(n machine.Note) *Term {
	t := &Term{token: n.Token, seat: a.seat, last: n.Last, timeline: a.timeline, until: new(atomic.Int64), box: &a.c.box, number: n.Term}
	t.until.Store(int64(n.Until.Sub(a.base)))
	ctx, cancel := context.WithCancelCause(a.values)
	t.ctx, t.cancel = leadership{ctx, t}, cancel
	t.ahead.Store(int64(backend.Ahead(a.clock)))
	t.work.begin(a.stall, t.elapsed())
	t.known.body = a.status.Offers
	for i := range a.guards {
		t.fences = append(t.fences, a.guards[i].fence(t, &a.c.box))
	}
	t.watch()
	return t
}

// publish sets the state that the accessors read. changed says that another holder is to be
// shown.
func (a *actor) publish(changed bool) {
	c := a.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.status.State == machine.StateLeader { // in this order: see stateAndTerm
		c.leading.Store(a.term)
		c.last = a.term
		c.state.Store(uint32(StateLeader))
	} else {
		c.state.Store(uint32(a.status.State))
		c.leading.Store(nil)
	}
	if changed {
		c.holder = holderShown(&a.status, a.seat)
	} else if a.status.Reported.Kind == record.EntryRecord && a.status.Seen.Revision != c.holder.Revision {
		c.holder.date(*a.status.Seen)
	}
	holds := a.status.Holds
	c.holds = holds && a.status.State != machine.StateLeader
	c.tally.holds, c.tally.lease = holds, a.status.Times.Lease
	c.tally.kept = c.tally.kept && holds
	c.tally.works(a.status.Working && a.status.State != machine.StateLeader, c.since)
	c.hangs.Store(c.tally.working && c.tally.stalled && a.status.State != machine.StateFenced)
	c.tally.seesLeader(c.holder.State == HolderLeading && !c.holds, c.since)
	a.requests.skipsOwnRecords.Store(a.status.Dated && !c.tally.silent)
}

// newActor makes the actor of a candidate. The caller runs it.
func newActor(ctx context.Context, c *Candidate, cfg Config, p machine.Params) *actor {
	a := &actor{
		c: c, timeline: c.timeline, timer: backend.Unarmed(c.clock), seat: seatOf(c.election),
		ahead:  backend.Ahead(c.clock),
		values: context.WithoutCancel(ctx), stopTimeout: cfg.stopTimeout(), stall: cfg.StallTimeout,
	}
	a.rng.Seed(seed(p.ID, c.election), 0)
	a.mayMove = cfg.ForceReconnect
	r := &a.requests
	if !p.Observe && !cfg.uncordoned {
		c.cordon = new(cordon)
	}
	r.c, r.values = c, a.values
	if cfg.foresight != nil {
		r.opening = &opening{foresight: cfg.foresight}
	}
	r.own = []byte(`"session":"` + p.Session + `"`)
	p.Phase = int32(c.window.Join())
	if b, ok := c.store.(*natskv.Bucket); ok && !p.Observe {
		a.bucket = b
		if p.Phase != 0 {
			a.join(b.Crew())
		}
	}
	if p.Listed {
		p.Spread = a.rng.Uint32()
		q := *cfg.Queue
		a.roster = &rosterParts{announcer: rosterAnnouncer{
			AnnouncerMachine: machine.AnnouncerMachine{Announces: c.permit == nil || a.seat == 1, Spread: p.Spread},
			roster:           c.store, election: c.election, session: p.Session,
			entry: record.Announcement{Format: record.AnnouncementFormat, ID: p.ID, Priority: q.Priority, Preempt: q.Preempt},
		}}
		if c.permit != nil {
			a.roster.announcer.election = c.permit.election
		}
	}
	a.guards = newGuardDrivers(c, p, cfg.Guards)
	a.m = machine.New(p, string(cfg.Value))
	a.Params = a.m.Config()
	a.status = a.m.Status(a.base)
	c.state.Store(uint32(StateCandidate))
	c.holder.Seat = a.seat
	c.box.bell = make(chan struct{}, 1)
	c.pulse = make(pulse)
	if w, ok := a.timer.(backend.Waker); ok {
		c.box.wake = w.Wake
		if cfg.Logger != nil {
			c.followLog()
		}
	}
	return a
}

// randomness is the source of a candidate's random numbers.
type randomness struct{ rand.PCG }

// Uint32 returns the number that a rand.Rand with this source returns.
func (d *randomness) Uint32() uint32 { return uint32(d.Uint64() >> 32) }

// seed returns a seed that spreads the pauses of candidates with different IDs, and
// repeats them in tests that set the ID.
func seed(id, election string) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%q %q", id, election) // a hash never fails
	return h.Sum64()
}

// recall returns what was seen of the key before.
func (a *actor) recall() machine.Sighting {
	s := a.c.sightings
	if s == nil {
		return machine.Sighting{}
	}
	r := s.recall(a.c.election)
	if r.At.IsZero() {
		return machine.Sighting{}
	}
	r.At = a.inside(r.At)
	return r
}

// remember keeps what is seen of the key for later candidates.
func (a *actor) remember() {
	s := a.c.sightings
	switch {
	case s == nil:
	case a.status.SeenAt.IsZero():
		s.memory.Remember(a.c.election, nil)
	default:
		s.memory.Remember(a.c.election, remembered{machine.SeenAs(*a.status.Seen, a.outside(a.status.SeenAt)), s.clock})
	}
}
