package leader

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/logqueue"
	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

// Candidate is a candidate in one election. [Campaign] makes it. Its methods may be called from any goroutine and any
// number of times. Those without a ctx return at once, but Stop. If a ctx ends first, its method returns the error of
// ctx. A key is given up when its release is acknowledged, when it is another's, or when the candidate's last record
// keeps no other out any more. The zero value is a candidate that has ended.
type Candidate struct {
	id        string
	election  string
	store     backend.Store
	window    *backend.Window // of the store's connection; nil: it has none
	timeline                  // since it began
	log       *slog.Logger    // with the election and the ID
	logs      *logqueue.Queue // behind log, shared by all seats; nil: nothing is logged
	seats     []*Candidate    // one for each seat, if there are several; this candidate only represents them
	sightings *sightings      // of earlier candidates of this process; nil: none are taken for known
	admission *admission      // of a lock
	permit    *seatPermit     // shared by the candidate and all of its seats, if there are several

	box    mailbox
	loops  *loops  // over the terms, of all seats
	cordon *cordon // nil: it does not concern the candidate
	out    outbox
	done   chan struct{}
	pulse  pulse

	refuses bool // refuses requests to hand over
	state   atomic.Uint32
	leading atomic.Pointer[Term]

	mu     sync.Mutex // held for moments only
	tally  tally
	holder Holder
	err    error
	last   *Term // the newest
	keeps  bool  // it has ended, and may keep others out until its lease is over
	holds  bool  // the holder is this candidate, which does not lead
	cut    bool  // it ended because its connection was closed, perhaps while it was stopping

	located atomic.Bool                    // a record of the log has named the JetStream domain of the bucket
	hangs   atomic.Bool                    // it has handed over because its work hangs, and the work goes on
	lasting atomic.Pointer[[]lastingFault] // see found; nil: none has been found
}

// Campaign starts a candidate. It campaigns in the election until ctx ends or [Candidate.Stop] is called. Either
// begins the same graceful stop, which [Config].StopTimeout bounds: the term ends, work has its time to end, the key
// is released. ([Candidate.Ready] takes a ctx for the set-up alone.) The name of the election follows the rules of KV
// keys, has at most 512 bytes, and is not the key of a seat of another election (package seats).
//
// Campaign fails only for settings that cannot work, with [ErrInvalidConfig], [ErrValueTooLarge] or
// [ErrIncompatibleBucket]. Other faults, as an absent server, bucket or permission, the candidate reports, and tries
// again, however long it takes.
func Campaign(ctx context.Context, store Store, election string, cfg Config) (*Candidate, error) {
	b, p, err := prepare(store, election, &cfg)
	if err != nil {
		return nil, err
	}
	return launch(ctx, b, election, cfg, p), nil
}

// prepare checks the settings of a candidate, and sets those that are left to their defaults.
func prepare(store Store, election string, cfg *Config) (b backend.Store, p machine.Params, err error) {
	want := machine.Durations{
		Lease: cfg.LeaseDuration, RenewDeadline: cfg.RenewDeadline, RenewInterval: cfg.RenewInterval,
		PendingPeriod: cfg.PendingPeriod, GracePeriod: cfg.GracePeriod, Turn: cfg.TurnTimeout,
	}
	if err = want.Check(want); err != nil {
		return nil, p, err
	}
	if err = cfg.checkStop(); err != nil {
		return nil, p, err
	}
	if err = cfg.checkStall(); err != nil {
		return nil, p, err
	}
	if err = cfg.Queue.check(); err != nil {
		return nil, p, err
	}
	if want.Lease > 0 { // the other durations follow from it
		if _, err = want.Resolve(backend.Settings{}, false); err != nil {
			return nil, p, err
		}
	}
	if cfg.MinToken > record.MaxMinToken {
		return nil, p, fmt.Errorf("%w: MinToken %d is more than %d; a resource that has accepted a greater token must be reset", ErrInvalidConfig, cfg.MinToken, uint64(record.MaxMinToken))
	}
	if len(cfg.Value) > wire.MaxValue {
		return nil, p, fmt.Errorf("%w: Value of %d bytes is more than %d", ErrValueTooLarge, len(cfg.Value), wire.MaxValue)
	}
	if err = checkID("ID", cfg.ID); err != nil {
		return nil, p, err
	}
	if err = checkGuards(cfg.Guards); err != nil {
		return nil, p, err
	}
	_, marks := unmarked(store)
	cfg.uncordoned = marks.Uncordoned
	if err = checkSeats(marks, len(cfg.Guards)); err != nil {
		return nil, p, err
	}
	if err = checkElection(election, marks.Seats); err != nil {
		return nil, p, err
	}
	if b, err = backendOf(store); err != nil {
		return nil, p, err
	}
	if err = admits(b, want, marks.KVElect); err != nil {
		return nil, p, err
	}
	if cfg.Clock == nil {
		cfg.Clock = clockOf(store)
	}
	if cfg.ID == "" {
		cfg.ID = defaultID()
	}
	p = machine.Params{
		ID: cfg.ID, Session: crand.Text(), Want: want, MinToken: cfg.MinToken, Guarded: len(cfg.Guards) > 0, Inherits: cfg.Inherit, KVElect: marks.KVElect,
	}
	if q := cfg.Queue; q != nil {
		p.Order = machine.Order{Orders: !q.AtOnce, Listed: true, Priority: q.Priority}
	}
	if marks.Seats > 1 {
		p.Seats = marks.Seats
	}
	return b, p, nil
}

// launch starts a candidate with settings that prepare has checked.
func launch(ctx context.Context, b backend.Store, election string, cfg Config, p machine.Params) *Candidate {
	start := startCandidate
	if p.Seats > 0 {
		start = startOnSeats
	}
	c := start(ctx, b, election, cfg, p)
	c.logReconnecting(context.WithoutCancel(ctx))
	return c
}

// admits rejects durations that the bucket is known to reject. If the bucket's settings are
// not known yet, the candidate finds out later, and a rejection is then a Faulted event.
func admits(store backend.Store, d machine.Durations, kvElect bool) error {
	s, ok, err := store.Known()
	if !ok {
		return nil
	}
	if err == nil {
		d, err = d.Resolve(s, kvElect)
	}
	if err == nil {
		err = d.Fit(s, kvElect)
	}
	return err
}

// defaultID returns an ID that names the process to readers of the record.
func defaultID() string {
	host, err := os.Hostname()
	if err != nil || len(host) > record.MaxID/2 || checkID("host", host) != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s_%d_%s", host, os.Getpid(), strings.ToLower(crand.Text()[:6]))
}

// startCandidate starts the goroutine of a candidate or an observer.
func startCandidate(ctx context.Context, store backend.Store, election string, cfg Config, p machine.Params) *Candidate {
	a := newActor(ctx, newCandidate(store, election, cfg, p), cfg, p)
	go a.run(ctx)
	return a.c
}

// newCandidate makes a candidate without its goroutine.
func newCandidate(store backend.Store, election string, cfg Config, p machine.Params) *Candidate {
	c := &Candidate{
		id: p.ID, election: election, store: store, timeline: newTimeline(cfg.Clock), refuses: cfg.RefuseRequests,
		done: make(chan struct{}), loops: &loops{}, sightings: cfg.sightings, admission: cfg.admission,
	}
	c.logs, c.log = logqueue.New(cfg.Logger, maxLogLines)
	c.log = c.log.With(slog.String("election", election), slog.String("id", p.ID))
	if w, ok := store.(interface{ Window() *backend.Window }); ok {
		c.window = w.Window()
	}
	return c
}

// Events returns a channel of the candidate's events, in order, beginning with the newest 32 of those so far; with
// kinds, as Elected{}, of these types only. Each call returns a channel of its own: call Events once for each reader,
// before a loop with a select. The channel is closed after the last event of a candidate that has ended, and when ctx
// ends. What is in it then can still be read.
//
// A reader that stops reading ends ctx. A reader that needs the last [Deposed] passes a ctx that outlives the one
// given to [Campaign]. The candidate never waits for a reader. Of more than 1,024 unread events it leaves out
// Observed and Faulted that a later one replaces, and then whole terms, the oldest first. Of those unread at its end,
// 32 remain.
func (c *Candidate) Events(ctx context.Context, kinds ...Event) <-chan Event {
	ended := ctx.Done() // the code of the caller, which may panic
	r := c.reader()
	r.kinds = slices.Clone(kinds)
	return r.channel(ended)
}

// reader returns a new reader of the events.
func (c *Candidate) reader() *eventReader {
	if c.done == nil { // of a zero Candidate
		c.out.close()
	}
	return c.out.enter()
}

// ID returns [Config].ID or its default.
func (c *Candidate) ID() string { return c.id }

// Election returns the name of the election.
func (c *Candidate) Election() string { return c.election }

// State returns the state, by the clock: a leader is fenced as soon as its lease is over, even
// before the candidate has noticed.
func (c *Candidate) State() State {
	s, _ := c.stateAndTerm()
	return s
}

// stateAndTerm returns the state, and the term of a candidate that leads or whose lease is over
// before it has noticed.
func (c *Candidate) stateAndTerm() (State, *Term) {
	select {
	case <-c.Done():
		return StateEnded, nil
	default:
	}
	c = c.seatHeld()
	for {
		s := State(c.state.Load())
		if s != StateLeader {
			return s, nil
		}
		switch t := c.leading.Load(); {
		case t == nil: // it has just changed
		case t.over() != nil:
			return StateFenced, t
		default:
			return s, t
		}
	}
}

// Term returns the term that the candidate leads now, by the clock, or false. It is for code outside the work, which
// needs the token of whatever term runs, or ends it ([Term.Resign]).
func (c *Candidate) Term() (*Term, bool) {
	if t := c.seatHeld().leading.Load(); t != nil && t.over() == nil {
		return t, true
	}
	return nil, false
}

// IsLeader reports whether the candidate leads now, by the clock.
func (c *Candidate) IsLeader() bool {
	_, ok := c.Term()
	return ok
}

// Leader returns the holder of the key, possibly the candidate itself, without a request: [HolderLeading] if it is
// believed to lead, [HolderPending] for a candidate in [StateFenced] itself. With several seats it is the leader of
// the lowest seat that has one.
func (c *Candidate) Leader() Holder {
	for _, seat := range c.seats {
		if h := seat.Leader(); h.State == HolderLeading {
			return h
		}
	}
	if c.seats != nil {
		return c.seats[0].Leader()
	}
	t := c.leading.Load()
	over := t != nil && t.over() != nil
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.holder
	select {
	case <-c.Done():
		return Holder{Seat: h.Seat}
	default:
	}
	if h.State == HolderLeading && (c.holds || over) {
		h.State = HolderPending
	}
	return h
}

// Stop does what the end of the context given to [Campaign] does, and returns when the candidate has ended: after
// [Config].StopTimeout at the latest, and up to 2 s later if a handler of the log or a call of the store hangs. The
// work must not wait for it: it calls [Term.Resign], or ends that context.
//
// Stop returns nil if no work goes on and the key is given up. Errors: [ErrNotReleased] while work of the last term
// goes on, beside which others may lead; [ErrUnreachable] or [ErrConnectionClosed] if the key is not known to be
// given up, so that others wait until its lease is over, as they do after the stop of a candidate in [StatePending].
func (c *Candidate) Stop() error {
	c.toAll(machine.InStop)
	<-c.Done()
	return c.left()
}

// left returns what a candidate that has ended has left behind, on all of its seats.
func (c *Candidate) left() error {
	for _, seat := range c.seats {
		if err := seat.left(); err != nil {
			return err
		}
	}
	c.mu.Lock()
	keeps, cut, last := c.keeps, c.cut, c.last
	c.mu.Unlock()
	switch {
	case last.works():
		return fmt.Errorf("%w: the work of the term with token %d goes on", ErrNotReleased, last.Token())
	case keeps && cut:
		return fmt.Errorf("%w before the candidate was stopped: others wait until its lease is over", ErrConnectionClosed)
	case keeps:
		return fmt.Errorf("%w: the release of the key was not acknowledged within StopTimeout, and others wait until its lease is over", ErrUnreachable)
	}
	return nil
}

// Done returns a channel that is closed when the candidate and its goroutines have ended (exceptions:
// docs/contract.md).
func (c *Candidate) Done() <-chan struct{} {
	if c.done == nil {
		return ended
	}
	return c.done
}

// ended is the result of Done of a zero Candidate.
var ended = make(chan struct{})

func init() { close(ended) }

// Err returns [ErrConnectionClosed] if the candidate has ended because the application closed the connection, and
// otherwise nil.
func (c *Candidate) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// since returns the time since the candidate began.
func (c *Candidate) since() time.Duration {
	if c.clock == nil {
		return 0
	}
	return c.elapsed()
}

// finish makes the end of the candidate known. The values are those of the context given to
// Campaign.
func (c *Candidate) finish(values context.Context, err error, keeps, cut bool) {
	c.mu.Lock()
	c.err, c.keeps, c.cut = err, keeps, cut
	c.tally.seesLeader(true, c.since) // later holders are not seen here any more
	c.tally.holds, c.tally.silent, c.tally.working = false, false, false
	c.mu.Unlock()
	close(c.pulse) // before the wait for the log
	if c.permit != nil {
		close(c.done)
		c.permit.leave(values)
		return
	}
	c.end(values)
}

// end ends a candidate. Nothing else of it runs any more.
func (c *Candidate) end(values context.Context) {
	c.out.close()
	c.logClosed(values, c.cut)
	c.logs.Flush()
	close(c.done)
}

// seatHeld returns the candidate of the seat that is held, or may be, or that of the first
// seat if there is none. In an election with one leader it returns the candidate itself.
func (c *Candidate) seatHeld() *Candidate {
	if c.seats == nil {
		return c
	}
	c.permit.mu.Lock()
	defer c.permit.mu.Unlock()
	return c.seats[max(c.permit.taker, 1)-1]
}

// toAll sends an input to the candidate on all seats.
func (c *Candidate) toAll(kind machine.InputKind) {
	if c.seats == nil {
		c.box.note(kind, 0)
	}
	for _, seat := range c.seats {
		seat.toAll(kind)
	}
}

// Leaders returns the holders that are believed to lead, in order of seats.
func (c *Candidate) Leaders() []Holder {
	seats := c.seats
	if seats == nil {
		seats = []*Candidate{c}
	}
	var holders []Holder
	for _, seat := range seats {
		if h := seat.Leader(); h.State == HolderLeading {
			holders = append(holders, h)
		}
	}
	return holders
}

// startOnSeats starts the goroutines of a candidate of an election with several leaders, one
// for each seat.
func startOnSeats(ctx context.Context, store backend.Store, election string, cfg Config, p machine.Params) *Candidate {
	owner := newCandidate(store, election, cfg, p)
	b := &seatPermit{
		election: election, unread: true, owner: owner,
		waiting: make([]*mailbox, p.Seats), holders: make([]holding, p.Seats), denied: make([]time.Time, p.Seats), value: string(cfg.Value), there: p.Seats,
	}
	owner.permit = b
	cfg.Clock = owner.clock
	for n := 1; n <= p.Seats; n++ {
		c := newCandidate(store, wire.SeatKey(election, n), cfg, p)
		c.permit, c.loops = b, owner.loops
		c.log, c.logs = owner.log.With(slog.Int("seat", n)), owner.logs // in place of its own
		a := newActor(ctx, c, cfg, p)
		owner.seats = append(owner.seats, c)
		go a.run(ctx) // before the next is made: a fake clock makes no timer while one is busy
	}
	return owner
}
