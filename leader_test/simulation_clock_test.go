package leader_test

import (
	"time"

	"github.com/natsleader/natsleader/leader"
)

// skew is the clock of one process. It shows another time of day than the clock
// beneath, runs at another rate, and its timer can be held up, as that of a
// process that is stopped.
type skew struct {
	leader.Clock
	zero   time.Time // of the clock beneath, when all began
	offset time.Duration
	rate   time.Duration // thousandths of the true rate
	rested func()        // called by the timer's owner before it waits; may be nil
	timer  *skewTimer

	instant  time.Duration // when the timer's owner last came to rest
	restless int           // how often it did so at that instant
}

// elapsed is the true time since all began.
func (c *skew) elapsed() time.Duration { return c.Clock.Now().Sub(c.zero) }

// Now returns the time that this clock shows.
func (c *skew) Now() time.Time {
	return c.zero.Add(c.offset + c.elapsed()*c.rate/1000)
}

// NewTimer returns the one timer of a candidate.
func (c *skew) NewTimer(d time.Duration) leader.Timer {
	if d >= 0 || c.timer != nil {
		panic("a candidate owns exactly one timer, and arms it by Reset")
	}
	c.timer = &skewTimer{Timer: c.Clock.NewTimer(d), clock: c}
	return c.timer
}

// hold stops the timer of a process that is stopped.
func (c *skew) hold() { c.timer.Timer.Stop() }

// resume lets it go on: what was due meanwhile is due now.
func (c *skew) resume() {
	if !c.timer.due.IsZero() {
		c.timer.Reset(max(0, c.timer.due.Sub(c.Now())))
	}
}

type skewTimer struct {
	leader.Timer
	clock *skew
	due   time.Time // as the clock shows it; zero: not armed
}

// Reset arms the timer for the first moment at which the clock shows that d has
// passed.
func (t *skewTimer) Reset(d time.Duration) bool {
	c := t.clock
	t.due = c.Now().Add(d)
	t.rest()
	elapsed := c.elapsed()
	at := (elapsed*c.rate/1000+d)*1000 + c.rate - 1
	return t.Timer.Reset(max(0, at/c.rate-elapsed))
}

// Stop disarms the timer.
func (t *skewTimer) Stop() bool {
	t.due = time.Time{}
	t.rest()
	return t.Timer.Stop()
}

// rest panics if time stands still because of the owner; the label of the
// goroutine tells the seed.
func (t *skewTimer) rest() {
	c := t.clock
	if now := c.elapsed(); now != c.instant {
		c.instant, c.restless = now, 0
	}
	if c.restless++; c.restless > 10000 {
		panic("a candidate never comes to rest")
	}
	if c.rested != nil {
		c.rested()
	}
}

// Wake passes on that the owner was handed work.
func (t *skewTimer) Wake() {
	if w, ok := t.Timer.(interface{ Wake() }); ok {
		w.Wake()
	}
}
