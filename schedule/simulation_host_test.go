package schedule_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	kit "github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/schedule"
)

// host is a machine with a wall clock of its own, on which one process runs at a time.
type host struct {
	sim   *simulation
	id    string
	far   time.Duration // a message takes so long, other than those of other hosts: so no two things happen at once
	slept time.Duration // before the first process: a clock for differences may show it
	life  *life         // nil: none was started
	lives []*life

	mu     sync.Mutex
	asleep chan struct{} // closed when it wakes; nil: it is awake
	held   []*hostTimer  // that were due meanwhile

	// By the lock of the simulation:
	off        time.Duration // of the wall clock
	past       []setting     // that the wall clock had
	rightSince time.Time     // the wall clock is right to 900 ms since then; zero: it is not
	wrongSince time.Time     // it is wrong by more than 2 s since then; zero: it is not
}

// setting is a difference that the wall clock had up to an instant.
type setting struct {
	off   time.Duration
	until time.Time
}

// set sets the wall clock of the host.
func (h *host) set(off time.Duration) {
	s := h.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logf("the clock of host %s is %v ahead", h.id, off)
	now := time.Now()
	h.past = append(h.past[max(0, len(h.past)-50):], setting{h.off, now})
	h.off = off
	switch {
	case off.Abs() > 900*time.Millisecond:
		h.rightSince = time.Time{}
	case h.rightSince.IsZero():
		h.rightSince = now
	}
	if off.Abs() <= 2*time.Second {
		h.wrongSince = time.Time{}
	} else if h.wrongSince.IsZero() {
		h.wrongSince = now
	}
	if h.life != nil {
		h.life.link.SetWall(off)
	}
}

// differences returns the least and the greatest difference, without its sign, that the wall clock had since an instant.
func (h *host) differences(since time.Time) (least, most time.Duration) {
	least, most = h.off.Abs(), h.off.Abs()
	for _, p := range h.past {
		if p.until.After(since) {
			least, most = min(least, p.off.Abs()), max(most, p.off.Abs())
		}
	}
	return least, most
}

// sleep suspends the host.
func (h *host) sleep() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asleep == nil {
		h.asleep = make(chan struct{})
	}
	if h.life != nil {
		h.life.link.Freeze()
	}
}

// wake ends the sleep. Its connection may be a new one.
func (h *host) wake(again bool) {
	h.mu.Lock()
	if h.asleep == nil {
		h.mu.Unlock()
		return
	}
	close(h.asleep)
	h.asleep = nil
	held := h.held
	h.held = nil
	h.mu.Unlock()
	h.sim.say("host %s wakes", h.id)
	for _, t := range held {
		t.fire(t.due)
	}
	if h.life != nil && !h.life.dead.Load() {
		if again {
			h.life.link.Restore()
		} else {
			h.life.link.Thaw()
		}
		h.whole()
	}
}

// sleeping returns the channel that is closed when the host wakes; nil: it is awake.
func (h *host) sleeping() chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asleep
}

// heal ends the faults of the link, but for those of a host that sleeps.
func (h *host) heal() {
	if h.life == nil || h.life.dead.Load() || h.sleeping() != nil {
		return
	}
	h.life.link.Heal()
	h.whole()
}

func (h *host) whole() {
	h.life.link.Delay(h.far)
	h.sim.mu.Lock()
	defer h.sim.mu.Unlock()
	h.life.whole = time.Now()
	h.sim.logf("the link of %s is whole", h.life.name)
}

// fail notes that the link of the host has a fault.
func (h *host) faulty(format string, args ...any) {
	h.sim.mu.Lock()
	defer h.sim.mu.Unlock()
	h.life.whole = time.Time{}
	h.sim.logf("link of %s: %s", h.life.name, fmt.Sprintf(format, args...))
}

// hostClock is the clock of a host. What it shows is good for differences only. Its timers are held while the host sleeps, and
// its time goes on.
type hostClock struct {
	*host
	link *kit.Link
}

func (c hostClock) Now() time.Time  { return time.Now().Add(c.slept) }
func (c hostClock) Wall() time.Time { return backend.Wall(c.link.Clock()) }

func (c hostClock) NewTimer(d time.Duration) leader.Timer {
	t := &hostTimer{host: c.host, c: make(chan time.Time, 1)}
	if d >= 0 {
		t.Reset(d)
	}
	return t
}

func (c hostClock) AfterFunc(d time.Duration, f func()) leader.Timer {
	t := &hostTimer{host: c.host, c: make(chan time.Time, 1), f: f}
	t.Reset(d)
	return t
}

type hostTimer struct {
	*host
	f    func()
	c    chan time.Time
	mu   sync.Mutex
	t    *time.Timer
	n    int // of the setting
	due  int // the setting that was due while the host slept
	live bool
}

func (t *hostTimer) C() <-chan time.Time { return t.c }

func (t *hostTimer) Reset(d time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.disarm()
	n := t.n
	t.t = time.AfterFunc(d, func() { t.fire(n) })
	t.live = true
	return was
}

func (t *hostTimer) Stop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.disarm()
}

func (t *hostTimer) disarm() bool {
	was := t.live
	t.live = false
	t.n++
	if t.t != nil {
		t.t.Stop()
	}
	select {
	case <-t.c:
		was = true
	default:
	}
	return was
}

// fire lets a setting tick, now or when the host wakes.
func (t *hostTimer) fire(n int) {
	t.mu.Lock()
	if n != t.n {
		t.mu.Unlock()
		return
	}
	t.host.mu.Lock()
	if t.asleep != nil {
		t.due = n
		t.held = append(t.held, t)
		t.host.mu.Unlock()
		t.mu.Unlock()
		return
	}
	t.host.mu.Unlock()
	t.live = false
	t.n++ // it is held twice if it was set again while the host slept
	if t.f == nil {
		t.c <- time.Now().Add(t.slept)
	}
	t.mu.Unlock()
	if t.f != nil {
		t.f()
	}
}

// life is a process.
type life struct {
	*host
	name     string
	link     *kit.Link
	plan     plan
	schedule *schedule.Schedule
	cancel   context.CancelFunc
	ended    chan struct{}
	dead     atomic.Bool // it has crashed: what it still does is not seen
	rng      *rand.Rand  // of the loop alone
	strays   sync.WaitGroup

	// By the lock of the simulation:
	whole    time.Time // the link has no fault since then; zero: it has one
	terms    map[*leader.Term]*office_
	slot     *given   // that is worked; nil: none
	before   *given   // the last one
	finished struct { // the last slot whose body has ended while its term led
		slot int64
		at   time.Time
	}
	idle      time.Time
	toiled    time.Time // the end of the last work of more than 5 s
	clockTold bool      // ErrClock was reported, and the clock was not seen to be right since
	agreed    time.Time // the clock is right, and the process leads and looks, since then
	looked    time.Time
}

// office_ is a term of a process.
type office_ struct {
	since time.Time
	known time.Time // the server's time was first seen to be known
	blind bool      // it looked without it
}

// start starts a process on the host.
func (h *host) start() {
	s := h.sim
	ctx, cancel := context.WithCancel(context.Background())
	name := fmt.Sprint(h.id, len(h.lives)+1)
	l := &life{
		host: h, name: name, link: s.store.Link(name), plan: s.plan, cancel: cancel, ended: make(chan struct{}),
		rng: rand.New(rand.NewPCG(s.seed, uint64(len(h.lives))<<8+uint64(name[0]))), terms: map[*leader.Term]*office_{},
	}
	if s.changes && s.chance(2) {
		l.plan = s.other
	}
	l.link.SetWall(h.off)
	l.link.Delay(h.far)
	now := time.Now()
	l.whole, l.idle = now, now
	cfg := leader.Config{ID: name, LeaseDuration: s.lease, Clock: hostClock{h, l.link}, Logger: slog.New(slog.DiscardHandler)}
	switch s.rng.IntN(4) {
	case 0:
		cfg.GracePeriod = s.between(100*time.Millisecond, 2*s.lease)
	case 1:
		cfg.StallTimeout = s.between(time.Second, 30*time.Second)
	}
	s.mu.Lock()
	h.life = l
	h.lives = append(h.lives, l)
	s.logf("%s starts: %v, grace %v, stall %v", name, l.plan, cfg.GracePeriod, cfg.StallTimeout)
	s.mu.Unlock()
	l.schedule = check.Got(schedule.Campaign(ctx, l.link, "job", l, cfg))(s.T)
	events := l.schedule.Candidate().Events(context.Background(), leader.Elected{}, leader.Faulted{}, leader.Fenced{}, leader.Deposed{})
	go l.hear(events)
	go l.loop()
}

// over reports whether the process has ended, or ends.
func (l *life) over() bool {
	if l.dead.Load() {
		return true
	}
	select {
	case <-l.ended:
		return true
	default:
		return l.schedule.Candidate().Err() != nil
	}
}

// crash lets the process end without a word.
func (l *life) crash(closes bool) {
	l.sim.say("%s crashes", l.name)
	l.dead.Store(true)
	if closes {
		l.link.Close()
	} else {
		l.link.Cut()
	}
	l.cancel()
}

// end ends the process.
func (l *life) end() {
	l.cancel()
	<-l.ended
	l.strays.Wait()
}

// Next implements schedule.Calendar. It is asked in each look at the schedule.
func (l *life) Next(after time.Time) time.Time {
	if l.schedule != nil {
		l.looks()
	}
	return l.plan.broken(after)
}

// loop is the loop of the application.
func (l *life) loop() {
	defer close(l.ended)
	c := l.schedule.Candidate()
	for {
		for slot := range l.schedule.Slots() {
			g := l.begins(slot)
			if g == nil {
				break
			}
			goes := l.work(g)
			l.ends(g, goes)
			if !goes {
				break
			}
		}
		select {
		case <-c.Done():
			return
		case <-time.After(betweenOf(l.rng, 0, 5*time.Second)):
		}
	}
}

// pause is work that takes a while. It is held while the host sleeps, and cut short by a crash and by the end of the test.
func (l *life) pause(d time.Duration, until <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-until:
	}
	for {
		wakes := l.sleeping()
		if wakes == nil {
			return
		}
		<-wakes
	}
}

// work is the work of a slot. It returns false to leave the loop.
func (l *life) work(g *given) bool {
	lead := g.Term.Context()
	fate := l.rng.IntN(100)
	if !l.sim.busy && l.rng.IntN(4) > 0 {
		fate %= 70
	}
	l.sim.mu.Lock()
	if l.sim.calmed {
		fate = 0
	}
	l.sim.mu.Unlock()
	switch {
	case fate < 60:
		l.pause(betweenOf(l.rng, 0, 300*time.Millisecond), nil)
	case fate < 70:
		l.pause(betweenOf(l.rng, 0, 2*time.Second), nil)
	case fate < 74:
		l.pause(betweenOf(l.rng, l.sim.lease/2, 2*l.sim.lease), nil)
	case fate < 76:
		l.pause(betweenOf(l.rng, 20*time.Second, time.Minute), nil)
	case fate < 80: // it goes on after the end of its term
		l.pause(40*time.Second, lead.Done())
		l.pause(betweenOf(l.rng, 0, l.sim.lease/2), nil)
		grace := leader.Grace(lead)
		switch l.rng.IntN(3) {
		case 0:
			l.complete(grace, g, "late, with Grace")
		case 1:
			l.completeInTime(g, "late")
		}
	case fate < 84:
		l.pause(betweenOf(l.rng, 0, time.Second), nil)
		l.complete(lead, g, "early")
		l.pause(betweenOf(l.rng, 0, time.Second), nil)
	case fate < 86:
		first, second := l.rng.IntN(2) > 0, betweenOf(l.rng, 0, time.Second)
		l.stray(func() {
			l.pause(second, nil)
			l.completeInTime(g, "at once")
		})
		if first {
			l.complete(lead, g, "at once")
		}
	case fate < 89:
		return false
	case fate < 91:
		l.complete(lead, g, "before it leaves")
		return false
	case fate < 95:
		for range 2 {
			d := betweenOf(l.rng, 0, 4*time.Second)
			l.sim.mu.Lock()
			g.goes++
			g.went = true
			l.sim.mu.Unlock()
			going := g.Term.Go(func(ctx context.Context) {
				l.pause(d, ctx.Done())
				l.returns(g)
			})
			if !going {
				l.returns(g)
			}
		}
	default: // a handle that is kept, and completed later
		d := betweenOf(l.rng, 0, time.Minute)
		l.stray(func() {
			l.pause(d, nil)
			l.completeInTime(g, "much later")
		})
	}
	return true
}

// stray runs a function of the application that outlives the work.
func (l *life) stray(f func()) { l.strays.Go(f) }

// completeInTime calls Complete with a context of a lease.
func (l *life) completeInTime(g *given, when string) {
	ctx, cancel := context.WithTimeout(context.Background(), l.sim.lease)
	defer cancel()
	l.complete(ctx, g, when)
}

// complete calls Complete.
func (l *life) complete(ctx context.Context, g *given, when string) {
	l.sim.mu.Lock()
	dead := l.dead.Load()
	if !dead { // the work is complete, and the mark may be stored whatever the call returns
		l.sim.tell(l, g)
	}
	l.sim.mu.Unlock()
	if dead {
		return
	}
	l.completes(g, g.Complete(ctx), when)
}
