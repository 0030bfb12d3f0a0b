package leader

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// actor is the only goroutine that touches the machine. It has one select and one timer.
// It carries out the effects of each step and never waits for the store, for a reader of
// events, for the handler of the log, or for a caller.
//
// It also calls code that returns at once by contract: methods of the backends, and of the
// user's Clock and Timers. Should one of these calls not return, the term's watchdog still
// ends the context in time.
type actor struct {
	c *Candidate
	m machine

	start  time.Time // when it began, by the clock
	base   time.Time // the same instant as the machine knows it: no zone, no monotonic reading
	timer  Timer
	rng    *rand.Rand
	values context.Context //nolint:containedctx // the values that every term's context carries

	wake   time.Time
	asked  time.Duration      // when the request in flight, or the last, was sent, since start
	cancel context.CancelFunc // of the request in flight; nil if there is none
	writes struct {           // the context of one write after another, until one is given up
		ctx    context.Context //nolint:containedctx // made anew, it would be much of what a renewal costs
		cancel context.CancelFunc
	}
	term   *Term
	faults map[string]inputKind // the faults reported, and the kind of reply that reported each
	outage bool                 // reported, and nothing has succeeded since
	misfit string               // the last fault reported of settings that were received; empty: none since they last fitted

	guards    []guardDriver
	wish      guardsWish // as the guards know it
	listener  stepDownListener
	announcer rosterAnnouncer
	watcher   rosterWatcher

	seat int
	odd  seatsSeen // the last report

	feed       backend.Feed
	feedNumber uint64
	ownSession []byte // how the own session looks in a record

	calls      calls
	abandoning bool // it ends without waiting for anything
}

// now is the clock's time as the machine knows it.
func (a *actor) now() time.Time { return a.base.Add(a.c.clock.Now().Sub(a.start)) }

// outside turns an instant of the machine into one of the clock.
func (a *actor) outside(t time.Time) time.Time { return a.start.Add(t.Sub(a.base)) }

// run is the candidate's goroutine. Its work is done in separate functions, so that
// thousands of waiting candidates have small stacks.
func (a *actor) run(ctx context.Context) {
	stopped := context.AfterFunc(ctx, a.stop)
	defer stopped()
	a.tick()
	for n := 0; !a.m.done; n++ {
		switch {
		case a.read():
			if n%rush == 0 { // the timer is looked at only when there is no mail
				a.tick()
			}
		case a.wait():
			a.tick()
		}
	}
	a.end()
}

// rush is how many mails are read between two ticks where the mail never ends. Each mail
// applies the machine's deadlines. Those of the guards are left to ticks.
const rush = 64

func (a *actor) stop() { a.c.box.put(mail{in: input{kind: inStop}}) }

//go:noinline
func (a *actor) tick() {
	a.step(input{kind: inTick}, nil)
	a.stepGuards(guardInput{kind: guardInTick})
}

// read takes the next mail, and reports whether there was any. If not, the timer
// is armed and the actor must wait.
//
//go:noinline
func (a *actor) read() bool {
	var m mail
	if !a.c.box.takeOr(&m, a.rest) {
		return false
	}
	a.receive(&m)
	return true
}

// rest arms the timer. It is the last thing before the actor waits.
func (a *actor) rest() {
	a.arm(earlier(earlier(a.wakeAt(a.wake), a.listener.wake()), a.rosterWake()))
}

func (a *actor) arm(wake time.Time) {
	if wake.IsZero() {
		a.timer.Stop()
		return
	}
	a.timer.Reset(max(0, wake.Sub(a.now())))
}

// earlier returns the earlier of two instants. A zero instant does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// wait waits for mail or a tick, and hands out events meanwhile.
func (a *actor) wait() (ticked bool) {
	for {
		out, event := a.c.out.offer()
		select {
		case <-a.c.box.bell:
			return false
		case <-a.timer.C():
			return true
		case out <- event:
			a.c.out.sent() // the timer stays armed as it is
		}
	}
}

// receive takes one mail.
func (a *actor) receive(m *mail) {
	if m.guard != nil {
		a.step(input{kind: inTick}, nil) // deadlines that have passed come first
		a.reported(m.guard)
		return
	}
	if m.listener != nil {
		a.step(input{kind: inTick}, nil)
		a.receiveListener(m.listener)
		return
	}
	if m.roster != nil {
		a.step(input{kind: inTick}, nil)
		a.receiveRoster(m.roster)
		return
	}
	if m.in.to != "" || m.in.next {
		if a.step(input{kind: inTick}, nil); !a.mayHandOver(m) {
			return
		}
	}
	switch m.in.kind {
	case inRead:
		m.in.observed = decodeEntry(m.entry)
		a.replied(m)
	case inWritten, inSettings, inFeed:
		a.replied(m)
	case inHeard, inReconnected, inFeedLost, inClosed:
		if m.from != a.feedNumber {
			a.step(input{kind: inTick}, nil)
			return // of a feed that was replaced
		}
		if m.in.kind == inHeard {
			m.in.observed = a.hears(m.entry, m.seen)
			a.c.hears()
		}
		a.listener.denied = a.listener.denied && m.in.kind != inReconnected
	case inAbandon:
		a.abandoning = true
	case inTick, inGuards, inRoster, inResign, inStop, inDrained, inProclaim, inBar, inOpen:
	}
	a.step(m.in, m.call)
	if m.in.kind == inReconnected {
		a.stepGuards(guardInput{kind: guardInReconnected})
	}
}

// hears decodes a message of the feed. Of an own record only the session is needed, and
// every renewal comes back as one.
func (a *actor) hears(e backend.Entry, seen *observation) observation {
	if e.Marker || !bytes.Contains(e.Value, a.ownSession) {
		if seen != nil {
			return *seen
		}
		return decodeEntry(e)
	}
	return observation{revision: e.Revision, kind: entryRecord, rec: record{session: a.m.session}, created: e.Created.UnixNano()}
}

// replied cleans up after the request in flight.
func (a *actor) replied(m *mail) {
	if m.in.kind != inWritten {
		a.cancel()
	}
	a.cancel = nil
	a.c.settle(m.in, a.asked, a.m.flight.req.rec.phase)
	if m.in.kind == inFeed {
		a.feed = m.feed
		if f, ok := m.feed.(*feed); ok {
			f.who.Store(&hearer{a.m.id, a.m.session})
		}
	}
	if m.in.err != nil {
		a.detail("request failed", slog.String("request", requestNames[m.in.kind]), slog.String("err", m.in.err.Error()))
		return
	}
	if m.in.kind == inFeed && a.feedNumber > 1 {
		a.detail("feed opened again")
	}
	a.outage = false
	for text, kind := range a.faults {
		if kind == m.in.kind || kind == inFeedLost && m.in.kind == inFeed {
			delete(a.faults, text)
		}
	}
}

// step steps the machine and carries out the effects: it ends the context, publishes the
// state that accessors read, offers the events, and only then sends a request to the
// store.
func (a *actor) step(in input, call chan error) {
	switch in.kind { //nolint:exhaustive // only what is answered is put off by chance
	case inRead, inWritten, inSettings, inFeed:
		in.dice = a.rng.Uint32()
	}
	next, before := a.m.writes.counter+1, a.m.state // of the first write that knows of the input
	fx := a.advance(in)
	events := a.disagree(a.events(in, fx))
	a.c.transits(before, a.m.state, events)
	if in.kind == inSettings && in.err == nil && a.m.bucket.known {
		a.misfit = ""
	}
	a.publish()
	for _, e := range events {
		a.log(e)
		a.c.offer(e)
	}
	a.wake = fx.wake
	if fx.cancel {
		a.cancel()
	}
	if fx.request.kind != reqNone {
		a.ask(fx.request)
	}
	a.answer(in, call, next, fx.denied)
	a.attend()
	a.lookAfterRoster()
	if len(a.guards) > 0 {
		a.tell()
	}
	a.syncSeat()
}

// advance steps the machine. If there is a term, its watchdog sees the step, and what
// follows for the lease and the context, as one change.
func (a *actor) advance(in input) effects {
	now, t := a.now(), a.term
	if t == nil {
		return a.m.step(now, in)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lapsed && a.m.state == StateLeader {
		now = later(now, a.m.term.leaseUntil) // the watchdog has read that time from the clock
	}
	fx := a.m.step(now, in)
	switch {
	case fx.end != nil:
		t.end(fx.end)
	case a.m.state == StateLeader:
		t.until.Store(int64(a.m.term.leaseUntil.Sub(a.base)))
	}
	return fx
}

// events turns notes into events.
func (a *actor) events(in input, fx effects) []Event {
	var events []Event
	for _, n := range fx.notes {
		switch n.event {
		case notePending:
			events = append(events, Pending{Token: n.token, Until: a.outside(n.until), Seat: a.seat})
		case noteElected:
			a.term = a.begin(n)
			events = append(events, Elected{Term: a.term})
		case noteFenced:
			events = append(events, Fenced{Term: a.term, Cause: n.err})
		case noteDeposed:
			events = append(events, Deposed{Term: a.term, Cause: n.err})
			a.term = nil
		case noteObserved:
			events = append(events, Observed{Holder: a.holder()})
		case noteFaulted:
			if a.isNews(in, n.err) {
				events = append(events, a.faulted(n.err))
			}
		}
	}
	return events
}

// faulted makes the event of a fault.
func (a *actor) faulted(err error) Faulted {
	f := Faulted{Err: err}
	if a.m.state == StateLeader {
		f.Remaining = max(0, a.m.term.leaseUntil.Sub(a.now()))
	}
	return f
}

// fault reports a fault that does not come from the machine.
func (a *actor) fault(err error) {
	e := a.faulted(err)
	a.c.transits(a.m.state, a.m.state, []Event{e})
	a.log(e)
	a.c.offer(e)
}

// begin makes the term of an election.
func (a *actor) begin(n note) *Term {
	t := &Term{token: n.token, seat: a.seat, clock: a.c.clock, start: a.start}
	t.ctx, t.cancel = context.WithCancelCause(a.values)
	t.until.Store(int64(n.until.Sub(a.base)))
	a.listener.at = a.now().Add(a.listener.pause)
	box, number := &a.c.box, n.term
	t.release = sync.OnceFunc(func() { box.put(mail{in: input{kind: inDrained, term: number}}) })
	for i := range a.guards {
		t.fences = append(t.fences, a.guards[i].fence(t, box))
	}
	t.watch()
	return t
}

// isNews reports whether a fault has not been reported since the same kind of
// request last succeeded. An outage is one fault, not one for every try, nor one
// for every kind of request that fails.
func (a *actor) isNews(in input, err error) bool {
	text := err.Error()
	if in.err == nil {
		if in.kind != inSettings || errors.Is(err, ErrRegressed) {
			return true
		}
		told := a.misfit == text
		a.misfit = text
		return !told
	}
	_, told := a.faults[text]
	if !told {
		if a.faults == nil || len(a.faults) >= 16 {
			a.faults = make(map[string]inputKind)
		}
		a.faults[text] = in.kind
	}
	unreachable := errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrNoFeed)
	if told || unreachable && a.outage {
		return false
	}
	a.outage = a.outage || unreachable
	return true
}

// publish sets the state that the accessors read.
func (a *actor) publish() {
	c := a.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.m.state == StateLeader { // in this order: see State
		c.leading.Store(a.term)
		c.state.Store(uint32(StateLeader))
	} else {
		c.state.Store(uint32(a.m.state))
		c.leading.Store(nil)
	}
	if a.m.shown != c.shown {
		c.shown, c.holder = a.m.shown, a.holder()
	} else if a.m.shown.kind == entryRecord && a.m.key.seen.revision != c.holder.Revision {
		c.holder.date(a.m.key.seen)
	}
	holds := a.m.holds()
	c.holds = holds && a.m.state != StateLeader
	c.tally.holds, c.tally.lease = holds, a.m.bucket.times.lease
	c.tally.kept = c.tally.kept && holds
	c.tally.seesLeader(c.holder.Leads() && !c.holds, c.since)
}

// holder returns the holder of the key, as far as it is shown.
func (a *actor) holder() Holder {
	if a.m.shown.kind == entryNothing || a.m.shown.kind == entryUnseen {
		return Holder{Seat: a.seat}
	}
	return holderOf(a.m.key.seen, a.seat)
}

// cancellable returns a context for a request. a.cancel ends it.
func (a *actor) cancellable(kind requestKind) context.Context {
	if kind != reqWrite {
		ctx, cancel := context.WithCancel(a.values)
		a.cancel = cancel
		return ctx
	}
	if w := &a.writes; w.ctx == nil || w.ctx.Err() != nil {
		w.ctx, w.cancel = context.WithCancel(a.values)
	}
	a.cancel = a.writes.cancel
	return a.writes.ctx
}

// ask hands a request to the store. The reply goes to the mailbox.
func (a *actor) ask(req request) {
	ctx := a.cancellable(req.kind)
	a.asked = a.c.since()
	c, box := a.c, &a.c.box
	switch req.kind {
	case reqSettings:
		c.store.Settings(ctx, func(s backend.Settings, err error) {
			box.put(mail{in: input{kind: inSettings, settings: s, err: err}})
		})
	case reqFeed:
		a.feedNumber++
		number, instead := a.feedNumber, a.feed
		a.feed = nil
		c.store.Watch(ctx, c.election, instead, func(e backend.FeedEvent) {
			box.put(feedMail(e, number))
		}, func(f backend.Feed, err error) {
			if !box.put(mail{in: input{kind: inFeed, err: err}, feed: f}) && f != nil {
				f.Stop() // the candidate has ended without waiting any longer
			}
		})
	case reqRead:
		c.store.Get(ctx, c.election, func(e backend.Entry, err error) {
			box.put(mail{in: input{kind: inRead, err: err}, entry: e})
		})
	case reqWrite:
		c.update(req)(ctx, c.election, req.rec.encode(), req.revision, func(revision uint64, err error) {
			box.put(mail{in: input{kind: inWritten, revision: revision, err: err}})
		})
	case reqNone:
	}
}

// decoded returns the entry as the feed has decoded it, or nil.
func decoded(e backend.FeedEvent) *observation {
	s, _ := e.Decoded.(*observation)
	return s
}

func feedMail(e backend.FeedEvent, number uint64) mail {
	m := mail{in: input{kind: inHeard}, entry: e.Entry, seen: decoded(e), from: number}
	switch {
	case errors.Is(e.Err, ErrConnectionClosed):
		m.in.kind = inClosed
	case e.Err != nil:
		m.in.kind, m.in.err = inFeedLost, e.Err
	case e.Reconnected:
		m.in.kind = inReconnected
	}
	return m
}
