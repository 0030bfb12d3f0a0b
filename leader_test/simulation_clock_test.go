package leader_test

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/leader"
)

// skew is the clock of one process. It shows another time of day than the clock
// beneath, runs at another rate, and its timers can be held up, like those of a stopped
// process.
type skew struct {
	leader.Clock
	zero   time.Time // of the clock beneath, at the start
	offset time.Duration
	rate   time.Duration // thousandths of the true rate
	rested func()        // called by a timer's owner before it waits; may be nil
	timers []*skewTimer  // of a candidate, for each of its seats
	most   int           // timers that it may have
	scribe *scribe       // of the candidate's log; may be nil
	held   bool          // the process is stopped
	alarms []*alarm      // that would have fired meanwhile
	ticks  *atomic.Int64 // alarms that run; may be nil
}

// elapsed is the true time since the start.
func (c *skew) elapsed() time.Duration { return c.Clock.Now().Sub(c.zero) }

// Now returns the time that this clock shows.
func (c *skew) Now() time.Time {
	return c.zero.Add(c.offset + c.elapsed()*c.rate/1000)
}

// NewTimer returns the timer of a candidate's log.
func (c *skew) NewTimer(d time.Duration) leader.Timer {
	if c.scribe == nil || c.scribe.Timer != nil {
		panic("a candidate owns exactly one timer for each seat, and arms it by Reset")
	}
	c.scribe.Timer = c.Clock.NewTimer(d)
	return c.scribe
}

// Unarmed returns a timer of a candidate.
func (c *skew) Unarmed() leader.Timer {
	if len(c.timers) == c.most {
		panic("a candidate owns exactly one timer for each seat")
	}
	t := &skewTimer{Timer: backend.Unarmed(c.Clock), clock: c}
	c.timers = append(c.timers, t)
	return t
}

// hold stops the timers of a process that is stopped.
func (c *skew) hold() {
	c.held = true
	for _, t := range c.timers {
		t.Timer.Stop()
	}
}

// resume lets the timers go on. Those that were due meanwhile are due now.
func (c *skew) resume() {
	c.held = false
	for _, a := range c.alarms {
		select {
		case <-a.quit: // the term has ended meanwhile
		default:
			a.Reset(0)
		}
	}
	c.alarms = nil
	for _, t := range c.timers {
		if !t.due.IsZero() {
			t.Reset(max(0, t.due.Sub(c.Now())))
		}
	}
}

// beneath returns how much time passes on the clock beneath until this clock shows that
// d has passed.
func (c *skew) beneath(d time.Duration) time.Duration {
	elapsed := c.elapsed()
	at := (elapsed*c.rate/1000+d)*1000 + c.rate - 1
	return max(0, at/c.rate-elapsed)
}

type skewTimer struct {
	leader.Timer
	clock *skew
	due   time.Time // as the clock shows it; zero: not armed

	instant  time.Duration // when the owner last came to rest
	restless int           // how often it did so at that instant

	mu      sync.Mutex
	stalled bool // the owner is held up, and takes no part in the rest
}

// Reset arms the timer for the first moment at which the clock shows that d has
// passed.
func (t *skewTimer) Reset(d time.Duration) bool {
	c := t.clock
	t.due = c.Now().Add(d)
	t.rest()
	return t.Timer.Reset(c.beneath(d))
}

// Stop disarms the timer.
func (t *skewTimer) Stop() bool {
	t.due = time.Time{}
	t.rest()
	return t.Timer.Stop()
}

// rest panics if time stands still because of the owner. The label of the goroutine
// names the seed.
func (t *skewTimer) rest() {
	c := t.clock
	if now := c.elapsed(); now != t.instant {
		t.instant, t.restless = now, 0
	}
	if t.restless++; t.restless > 10000 {
		panic("a candidate never comes to rest")
	}
	if c.rested != nil {
		c.rested()
	}
}

// Wake reports to the clock beneath that the owner was handed work.
func (t *skewTimer) Wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stalled {
		return
	}
	if w, ok := t.Timer.(interface{ Wake() }); ok {
		w.Wake()
	}
}

// stall is for an owner that is held up: time goes on without it. unstall is called
// before the owner goes on.
func (t *skewTimer) stall() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stalled = true
	t.Timer.Stop()
}

func (t *skewTimer) unstall() {
	t.mu.Lock()
	t.stalled = false
	t.mu.Unlock()
	t.Wake()
}

// alarm is a timer that calls a function.
type alarm struct {
	leader.Timer
	clock *skew
	f     func()
	armed atomic.Bool
	once  sync.Once
	quit  chan struct{}
}

// AfterFunc is for the watchdogs of terms. The clock beneath ensures that nothing else
// happens while one runs.
func (c *skew) AfterFunc(d time.Duration, f func()) leader.Timer {
	a := &alarm{Timer: c.Clock.NewTimer(time.Hour), clock: c, f: f, quit: make(chan struct{})}
	if w, ok := a.Timer.(interface{ Wake() }); ok {
		w.Wake()
	}
	a.Reset(d)
	if c.ticks != nil {
		c.ticks.Add(1)
	}
	go a.run()
	return a
}

func (a *alarm) run() {
	if a.clock.ticks != nil {
		defer a.clock.ticks.Add(-1)
	}
	for {
		select {
		case <-a.quit:
			return
		case <-a.C():
		}
		a.armed.Store(false)
		if a.clock.held {
			a.clock.alarms = append(a.clock.alarms, a)
		} else {
			a.f()
		}
		if !a.armed.Load() {
			a.Timer.Stop()
		}
	}
}

// Reset arms the alarm for the first moment at which the clock shows that d has passed.
func (a *alarm) Reset(d time.Duration) bool {
	a.armed.Store(true)
	return a.Timer.Reset(a.clock.beneath(d))
}

// Stop ends the alarm for good.
func (a *alarm) Stop() bool {
	a.once.Do(func() { close(a.quit) })
	return a.Timer.Stop()
}
