package schedule_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	kit "github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/schedule"
)

// The simulation runs three processes with one calendar in a bubble, each on a host of its own, and lets hosts' clocks, links,
// processes and work fail at random. The time of the bubble is the true time, and the server's. What is checked is what the
// bodies of the loops and the readers of events see: simulation_checks_test.go has the checks, simulation_faults_test.go what
// goes wrong, and simulation_host_test.go the hosts, the processes and their work.

var (
	onlySeed  = flag.Uint64("seed", 0, "simulate this seed alone, and print what happens")
	firstSeed = flag.Uint64("first-seed", 1, "the first seed of a simulation")
	someSeeds = flag.Int("seeds", 0, "how many seeds to simulate; 0: as many as the size of the tests says")
)

func TestMain(m *testing.M) { os.Exit(proof.Main(m).Run()) }

// Whatever happens to three processes, their hosts' clocks and links, each slot is new once, none is early or untold, and no
// leader is silent.
func TestSimulation(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // a seed is nearly always the same: goroutines take turns
	if *onlySeed != 0 {
		s := simulate(t, *onlySeed)
		t.Log("\n" + strings.Join(s.lines, "\n"))
		check.That(t, s.failures == 0, "%s", s.failure)
		return
	}
	n := *someSeeds
	if n == 0 {
		n = proof.Raced(proof.Size(40, 4000), 5)
	}
	tally, passed, failed, last := map[string]int{}, time.Duration(0), 0, *firstSeed+uint64(n)
	n = 0
	for seed := *firstSeed; seed < last && failed < 5; seed++ {
		n++
		s := simulate(t, seed)
		for what, k := range s.tally {
			tally[what] += k
		}
		passed += s.passed
		if s.failures > 0 {
			failed++
			t.Errorf("%s\nrepeat it with: go test ./schedule -run '^TestSimulation$' -seed %d -v\n%s", s.failure, seed, strings.Join(s.lines[max(0, s.failedAt-60):s.failedAt], "\n"))
		}
	}
	proof.Ran(n, "simulated seeds")
	proof.Ran(int(passed/time.Minute), "simulated minutes")
	var text []string
	for what, k := range tally {
		text = append(text, fmt.Sprintf("%7d %s", k, what))
	}
	slices.Sort(text)
	t.Logf("%d seeds, %v:\n%s", n, passed.Round(time.Minute), strings.Join(text, "\n"))
	if n >= 200 && failed == 0 {
		for _, what := range subjects {
			check.That(t, tally[what] > 0, "%s: it never happened", what)
		}
	}
}

// subjects are what has to happen in many seeds, or else the simulation has lost its subject.
var subjects = []string{
	"slots", "slots begun", "slots with missed ones", "skipped: ahead", "skipped: changed", "skipped: calendar", "reported: clock",
	"completed late", "terms without the server's time",
}

// simulation is one seed.
type simulation struct {
	*testing.T
	seed    uint64
	rng     *rand.Rand // of the driver alone
	store   *kit.Store
	begun   time.Time
	lease   time.Duration
	plan    plan
	other   plan // of a later version
	changes bool // a process that starts may have the other calendar
	busy    bool // the work is often slow
	hosts   []*host
	queue   []event
	calmed  bool

	passed time.Duration

	mu       sync.Mutex
	lines    []string
	failures int
	failure  string // the first one
	failedAt int    // the length of lines then
	tally    map[string]int
	ledger   ledger
}

// event is something that the driver does at a time.
type event struct {
	at time.Duration
	do func()
}

// simulate runs a seed.
func simulate(t *testing.T, seed uint64) (s *simulation) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		seedSessions(t, seed)
		s = &simulation{T: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 45)), begun: time.Now(), tally: map[string]int{}}
		s.run()
	})
	return s
}

// run lets things go wrong for a while, lets the processes recover, and stops them.
func (s *simulation) run() {
	s.lease = []time.Duration{2, 4, 6, 10}[s.rng.IntN(4)] * time.Second
	options := []kit.Option{kit.WithMaxLease(s.lease)}
	if s.chance(2) {
		options = append(options, kit.WithLatency(s.between(0, 30*time.Millisecond)))
	}
	s.store = kit.NewStore(nil, options...)
	s.plan, s.other = s.newPlan(), s.newPlan()
	s.changes, s.busy = s.chance(3), s.chance(3)
	s.ledger = newLedger()
	s.logf("seed %d: lease %v, %v, or %v: %v", s.seed, s.lease, s.plan, s.other, s.changes)
	for i, id := range []string{"a", "b", "c"} {
		h := &host{sim: s, id: id, far: time.Duration(i+1) * 100_003, rightSince: s.begun}
		if h.slept = 0; s.chance(2) {
			h.slept = s.between(time.Minute, 100*time.Hour)
		}
		s.hosts = append(s.hosts, h)
		if s.chance(4) {
			h.set(s.offset())
		}
		s.later(s.between(0, s.lease), h.start)
	}
	until, pace := s.between(5*time.Minute, 20*time.Minute), s.between(time.Second, 40*time.Second)
	for at := s.between(0, pace); at < until; at += s.between(0, 2*pace) {
		s.later(at, s.trouble)
	}
	s.drive(until)
	s.calm()
	s.drive(s.now() + 5*s.lease + 2*time.Minute + s.plan.period)
	s.recovered()
	s.stop()
	s.passed = s.now()
}

// drive does what is due up to an instant, and looks at the processes every 2 s.
func (s *simulation) drive(until time.Duration) {
	for s.now() < until && !s.failed() {
		next := min(s.now()+2*time.Second, until)
		if len(s.queue) > 0 {
			next = min(next, s.queue[0].at)
		}
		time.Sleep(next - s.now())
		synctest.Wait()
		for len(s.queue) > 0 && s.queue[0].at <= s.now() {
			e := s.queue[0]
			s.queue = s.queue[1:]
			e.do()
			synctest.Wait()
		}
		for _, h := range s.hosts {
			s.watch(h)
		}
	}
}

// later lets the driver do something after a time.
func (s *simulation) later(d time.Duration, do func()) {
	e := event{s.now() + d, do}
	i := slices.IndexFunc(s.queue, func(o event) bool { return o.at > e.at })
	if i < 0 {
		i = len(s.queue)
	}
	s.queue = slices.Insert(s.queue, i, e)
}

// calm ends all faults.
func (s *simulation) calm() {
	s.mu.Lock()
	s.logf("all is calm from now on")
	s.queue, s.calmed = nil, true
	s.mu.Unlock()
	for _, h := range s.hosts {
		h.wake(s.chance(2))
		h.heal()
		h.set(0)
		if h.life == nil || h.life.over() {
			h.start()
		}
	}
}

// recovered checks that slots have come since all was calm.
func (s *simulation) recovered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failures == 0 && s.ledger.last.Before(time.Now().Add(-s.plan.period-s.other.period-30*time.Second)) {
		s.failf("the last slot was at %v, and all is calm", s.ledger.last.Sub(s.begun))
	}
}

// stop ends all.
func (s *simulation) stop() {
	for _, h := range s.hosts {
		h.wake(true)
	}
	var all sync.WaitGroup
	for _, h := range s.hosts {
		for _, l := range h.lives {
			all.Go(l.end)
		}
	}
	all.Wait()
}

func (s *simulation) now() time.Duration { return time.Since(s.begun) }

func (s *simulation) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failures > 0
}

// chance returns true once in n.
func (s *simulation) chance(n int) bool { return s.rng.IntN(n) == 0 }

// between returns a duration of at least least, and less than most.
func (s *simulation) between(least, most time.Duration) time.Duration {
	return betweenOf(s.rng, least, most)
}

func betweenOf(rng *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(rng.Int64N(int64(max(1, most-least)))).Truncate(time.Millisecond)
}

// logf adds a line to the time line.
func (s *simulation) logf(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf("%12v ", s.now())+fmt.Sprintf(format, args...))
}

// say is logf, for the driver.
func (s *simulation) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logf(format, args...)
}

// failf notes a failure: the test fails outside of the bubble. The lock is held.
func (s *simulation) failf(format string, args ...any) {
	s.logf("FAILED: "+format, args...)
	if s.failures++; s.failures == 1 {
		s.failedAt = len(s.lines)
		s.failure = fmt.Sprintf("seed %d, %v: ", s.seed, s.now()) + fmt.Sprintf(format, args...)
	}
}

// plan is a calendar, and how it may fail.
type plan struct {
	schedule.Calendar
	name   string
	period time.Duration // the longest between two slots
	stands [2]time.Time  // it stands still from the first one to before the second; zero: never
}

func (p plan) String() string {
	if p.stands[0].IsZero() {
		return p.name
	}
	return fmt.Sprintf("%s, which stands still from %s to %s", p.name, p.stands[0].Format(time.TimeOnly), p.stands[1].Format(time.TimeOnly))
}

// newPlan draws a calendar.
func (s *simulation) newPlan() plan {
	p := plan{Calendar: fives{7 * time.Second, 11 * time.Second}, name: "each 7 s and 11 s", period: 7 * time.Second}
	if s.chance(5) {
		return p
	}
	p.period = []time.Duration{1, 2, 5, 10, 10, 30, 60}[s.rng.IntN(7)] * time.Second
	p.Calendar, p.name = schedule.Every(p.period), "each "+p.period.String()
	if s.chance(4) {
		from := p.Next(s.begun.Add(s.between(0, 10*time.Minute)))
		p.stands = [2]time.Time{from, from.Add(time.Nanosecond)}
		if s.chance(2) {
			p.stands[1] = from.Add(s.between(time.Second, 50*time.Second))
		}
	}
	return p
}

// broken returns the calendar as the processes have it.
func (p plan) broken(after time.Time) time.Time {
	if !after.Before(p.stands[0]) && after.Before(p.stands[1]) {
		return after
	}
	return p.Next(after)
}

// has reports whether an instant is a slot.
func (p plan) has(t time.Time) bool { return p.Next(t.Add(-1)).Equal(t) }

// fives is a calendar of the multiples of two periods.
type fives [2]time.Duration

func (f fives) Next(after time.Time) time.Time {
	a, b := schedule.Every(f[0]).Next(after), schedule.Every(f[1]).Next(after)
	if b.Before(a) {
		return b
	}
	return a
}
