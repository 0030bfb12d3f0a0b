package leader_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/contract"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/seats"
)

// simulation is one seed: candidates, their faults, and a checker. Everything random is
// drawn from the seed.
type simulation struct {
	*testing.T
	ground
	seed  uint64
	rng   *rand.Rand
	trace func(string) // takes the lines of the transcript; nil: there is none

	// Drawn for the whole simulation.
	ids     []string
	lease   time.Duration // the longest of all
	tight   bool          // little margin, and clocks that run at nearly the same rate
	pending time.Duration // of some candidates
	drain   time.Duration
	least   uint64        // MinToken of all
	uniform bool          // all have the same lease
	pace    time.Duration // from one fault to the next, at most
	lazy    bool          // events are not read for long, and everything takes long
	amnesia bool          // the store forgets what it has acknowledged
	guarded bool          // the candidates have guards
	calmed  bool          // faults have ceased
	orderly bool          // there are no faults, and all wait in a queue
	racing  bool          // no candidate waits for a turn
	seats   int           // of the election; 0: it has one leader
	faults  []fault

	actions   []action
	calls     []*inquiry
	lookers   []*looker
	resources []*resource // guarded by the candidates

	mu        sync.Mutex
	works     []*work
	asked     map[uint64]bool // the tokens of terms in which the leader was asked to hand over
	offices   []office
	lives     []*life
	sessions  map[string]*life
	witnessed bool
	ancestry  ancestry
	wins      []win
	petitions []context.CancelFunc // of requests that may wait for ever
	tickets   int                  // announcements that began a stand
	attempts  int                  // writes to take the key since it was taken last
	election  contract.Election
	elections int
	slowest   float64 // how long recovery took, as a part of the bound
	tally     map[string]int
	failures  int
	ticks     atomic.Int64 // watchdogs that run

	// Exactly these goroutines and the candidates' own run when all is at rest; 0: not
	// known.
	goroutines int
}

// ground is the base that candidates stand on: a store, and a time.
type ground interface {
	clock() leader.Clock
	now() time.Duration
	// pass lets time pass, with everything that is due.
	pass(d time.Duration)
	// begin starts a call that may take time.
	begin(f func())
	// link makes a connection.
	link(name string) simulatedLink
	// quiet is how long messages from before the calm may still be under way.
	quiet() time.Duration
	faults() []fault
	// calm ends all faults, those of stopped processes excepted.
	calm()
}

// fault is a kind of fault, or an operation of an application or an operator.
type fault struct {
	name   string
	weight int              // how often, relative to the others
	remote bool             // it affects only the connection, maybe that of an observer
	strike func(*life) bool // false: it had no effect
}

// action is an action at a later time.
type action struct {
	at time.Duration
	do func()
}

// inquiry is a call that may take time.
type inquiry struct {
	what string
	done chan struct{}
	err  error
}

// looker is an observer.
type looker struct {
	life    // without the candidate: a name and a connection
	holders <-chan leader.Holder
	last    leader.Holder
}

// later runs do when d has passed.
func (s *simulation) later(d time.Duration, do func()) {
	e := action{s.now() + d, do}
	i, _ := slices.BinarySearchFunc(s.actions, e, func(a, b action) int {
		if a.at <= b.at {
			return -1
		}
		return 1
	})
	s.actions = slices.Insert(s.actions, i, e)
}

func (s *simulation) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally[what]++
}

// between draws a duration.
func (s *simulation) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.rng.Int64N(int64(most-least)+1))
}

// chance is true once in n times.
func (s *simulation) chance(n int) bool { return s.rng.IntN(n) == 0 }

// wait lets time pass, runs the actions, and reads the events.
func (s *simulation) wait(d time.Duration) {
	until := s.now() + d
	for len(s.actions) > 0 && s.actions[0].at <= until {
		e := s.actions[0]
		s.actions = s.actions[1:]
		s.step(e.at - s.now())
		e.do()
	}
	s.step(until - s.now())
}

func (s *simulation) step(d time.Duration) {
	s.pass(d)
	synctest.Wait() // for observers and workers
	s.results()
	s.shifts()
	for _, l := range s.lives {
		if l.deaf <= s.now() && (!l.away || l.gone()) { // a stopped process reads nothing
			l.read()
		}
	}
	for _, o := range s.lookers {
		s.look(o)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alone()
	for _, l := range s.lives {
		s.trusted(l)
		s.overdue(l)
	}
}

// look reads the observations of an observer.
func (s *simulation) look(o *looker) {
	select {
	case h, ok := <-o.holders:
		if !ok {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.logf("%s is told: %v", o.name, h)
		o.last = h
		if h.State == leader.HolderLeading {
			s.names(&o.names, o.name, h)
		}
	default:
	}
}

// call starts a call.
func (s *simulation) call(what string, f func() error) *inquiry {
	c := &inquiry{what: what, done: make(chan struct{})}
	s.calls = append(s.calls, c)
	s.logf("%s", what)
	s.begin(func() {
		defer close(c.done)
		c.err = f()
	})
	return c
}

// skewed returns a new clock for a process.
func (s *simulation) skewed() *skew {
	spread := 100 // of 1000: the waiting candidate's lease still ends after the holder's deadline
	if s.tight {
		spread = 15
	}
	return &skew{
		Clock: s.clock(), zero: s.zero(),
		offset: s.between(0, 1000*time.Hour),
		rate:   time.Duration(1000 - spread + s.rng.IntN(2*spread+1)),
		most:   max(1, s.seats),
	}
}

// zero is the start, by the true clock.
func (s *simulation) zero() time.Time { return s.clock().Now().Add(-s.now()) }

// stand starts a candidate.
func (s *simulation) stand(id string) {
	defer func() { s.lives[len(s.lives)-1].employ() }()
	l := &life{sim: s, place: place{since: -1}, name: fmt.Sprintf("%s.%d", id, len(s.lives)+1), clock: s.skewed(), written: make(map[string]written)}
	l.checker.Name = l.name
	l.clock.rested, l.clock.ticks = l.rests, &s.ticks
	l.scribe.life = l
	l.link = s.link(l.name)
	l.cfg = leader.Config{
		ID: id, Value: []byte(l.name), LeaseDuration: s.lease, MinToken: s.least, Clock: l.clock, Inherit: len(s.lives)%2 == 1,
	}
	if l.mute = s.seats > 0; !l.mute { // a log has the lines of all seats
		l.clock.scribe, l.cfg.Logger = &l.scribe, slog.New(ear{l})
	}
	if !s.uniform {
		l.cfg.LeaseDuration = s.between(s.lease/2, s.lease)
	}
	if s.tight {
		l.cfg.RenewDeadline = l.cfg.LeaseDuration / 100 * 95
		l.cfg.RenewInterval = l.cfg.LeaseDuration / time.Duration(3+s.rng.IntN(10))
	}
	s.follows(&l.cfg)
	l.cfg.ForceReconnect = s.chance(2)
	if s.chance(3) && !s.orderly {
		l.cfg.PendingPeriod = s.pending
	}
	if s.chance(2) {
		l.cfg.GracePeriod = s.drain
	}
	if s.chance(3) && !s.orderly && s.seats == 0 {
		l.loops = 1 + s.rng.IntN(2)
	}
	if s.lazy {
		l.deaf = s.now() + s.between(0, 50*s.lease)
	}
	l.cfg.Guards = s.guards(l)
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	s.pass(0)
	defer s.pass(0)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logf("%s starts with a lease of %v and a clock of %d", l.name, l.cfg.LeaseDuration, l.clock.rate)
	// The lock is held until the candidate is known: it gets only to its first rest. With several seats
	// Campaign waits for the rest of each.
	if s.seats > 0 {
		s.mu.Unlock()
	}
	c := check.Got(leader.Campaign(ctx, seats.Of(tapped(l.link, l.clock, l), s.seats), "e", l.cfg))(s)
	if s.seats > 0 {
		s.mu.Lock()
	}
	l.Candidate = c
	l.unread, l.bell = backend.EventsOf(c)
	s.lives = append(s.lives, l)
}

// observe starts an observer.
func (s *simulation) observe(ctx context.Context, name string) {
	o := &looker{life: life{sim: s, name: name, link: s.link(name)}}
	s.pass(0)
	holders := check.Got(leader.Observe(ctx, tapped(o.link, s.skewed(), nil), "e"))(s)
	s.pass(0)
	o.holders = holders
	s.lookers = append(s.lookers, o)
}

// stands reports whether the candidate runs and was not asked to stop.
func (l *life) stands() bool { return !l.away && !l.closed && l.leaving == 0 && !l.gone() }

// standing returns the candidates that stand.
func (s *simulation) standing() []*life {
	return slices.DeleteFunc(slices.Clone(s.lives), func(l *life) bool { return !l.stands() })
}

// trouble strikes one candidate with a fault, or with several at once.
func (s *simulation) trouble() {
	all := s.standing()
	if len(all) == 0 {
		s.stand(s.ids[s.rng.IntN(len(s.ids))])
		return
	}
	l := all[s.rng.IntN(len(all))]
	if s.chance(2) { // many are of interest only for the holder
		for _, o := range all {
			if o.State() != leader.StateCandidate {
				l = o
			}
		}
	}
	for range []int{1, 1, 1, 2, 3}[s.rng.IntN(5)] {
		p, target := s.faults[s.rng.IntN(len(s.faults))], l
		if p.remote && s.chance(8) {
			target = &s.lookers[s.rng.IntN(len(s.lookers))].life
		}
		s.logf("%s: %s", target.name, p.name)
		if p.strike(target) {
			s.count(p.name)
		}
		if s.pass(0); !l.stands() { // the rest strikes another candidate
			if all = s.standing(); len(all) == 0 {
				return
			}
			l = all[s.rng.IntN(len(all))]
		}
	}
}
