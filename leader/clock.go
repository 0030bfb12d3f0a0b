package leader

import (
	"sync/atomic"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// Clock is the source of time of a candidate's rules. Timeouts of requests use the time of the
// process. The fake is leadertest.Clock. Methods of a Clock and of its timers must return at once, and
// Now must never return less to one goroutine than before.
type Clock interface {
	Now() time.Time                 // only differences between its results matter
	NewTimer(d time.Duration) Timer // fires after d
}

// Timer has the semantics of [time.Timer] since Go 1.23: after Reset or Stop has returned, no tick
// of an earlier setting arrives.
type Timer interface {
	C() <-chan time.Time        // on which the tick arrives
	Reset(d time.Duration) bool // arms the timer to fire after d
	Stop() bool                 // disarms the timer
}

// timeline is a Clock, and an instant at which it was read. An instant of the clock is neither a time of day nor one of the
// server's, so no other code of the library reads a Clock. The linter checks that (forbidigo in .golangci.yml).
//
// The timeline also turns instants of the clock into those that the machines know, and back. The machines' instants have no
// zone and no monotonic reading, so that they can be compared.
type timeline struct {
	clock Clock
	start time.Time // an instant of the clock
	base  time.Time // the same instant as the machines know it
}

// newTimeline returns a timeline that starts now.
func newTimeline(clock Clock) timeline {
	start := clock.Now()
	return timeline{clock: clock, start: start, base: start.Round(0).UTC()}
}

// elapsed returns the time since the start.
func (l *timeline) elapsed() time.Duration { return l.clock.Now().Sub(l.start) }

// now returns the clock's time as the machines know it.
func (l *timeline) now() time.Time { return l.base.Add(l.elapsed()) }

// wall turns an instant of the machines into a time of day, for people. It has no monotonic reading, which would not count
// the time asleep.
func (l *timeline) wall(t time.Time) time.Time {
	return backend.Wall(l.clock).Add(t.Sub(l.now())).Round(0)
}

// outside turns an instant of the machines into one of the clock.
func (l *timeline) outside(t time.Time) time.Time { return l.start.Add(t.Sub(l.base)) }

// inside turns an instant of the clock into one of the machines.
func (l *timeline) inside(t time.Time) time.Time { return l.base.Add(t.Sub(l.start)) }

// SystemClock returns the clock of the system. On Linux it counts suspends.
func SystemClock() Clock {
	c := &systemClock{base: time.Now()}
	c.slept0 = sleptNow()
	return c
}

// divergence is how far the wall clock and the monotonic clock may drift apart
// before the time asleep is read again.
const divergence = 10 * time.Millisecond

type systemClock struct {
	base   time.Time
	slept0 time.Duration // time asleep when the clock was made
	drift  atomic.Int64  // wall minus monotonic since base, when slept was read
	slept  atomic.Int64  // time asleep since base
	ahead  atomic.Int64  // drift less the time asleep
}

// Now costs little more than time.Now. It reads the time asleep again only when the wall
// clock has moved against the monotonic one, as it does when the host wakes up.
func (c *systemClock) Now() time.Time {
	t := time.Now()
	drift := int64(t.Round(0).Sub(c.base.Round(0)) - t.Sub(c.base))
	if seen := c.drift.Load(); drift-seen > int64(divergence) || seen-drift > int64(divergence) {
		slept := int64(sleptNow() - c.slept0)
		for old := c.slept.Load(); slept > old && !c.slept.CompareAndSwap(old, slept); old = c.slept.Load() {
		} // never back: another goroutine may have stored a later one
		c.ahead.Store(drift - c.slept.Load())
		c.drift.Store(drift)
	}
	return t.Add(time.Duration(c.slept.Load()))
}

// Wall is for backend.Wall. The time of day has the time asleep already.
func (*systemClock) Wall() time.Time { return time.Now() }

// Ahead is for backend.Ahead.
func (c *systemClock) Ahead() time.Duration { return time.Duration(c.ahead.Load()) }

func (c *systemClock) NewTimer(d time.Duration) Timer { return systemTimer{time.NewTimer(d)} }

// AfterFunc is for backend.AfterFunc.
func (c *systemClock) AfterFunc(d time.Duration, f func()) Timer {
	return systemTimer{time.AfterFunc(d, f)}
}

type systemTimer struct{ *time.Timer }

func (t systemTimer) C() <-chan time.Time { return t.Timer.C }

// lastMoment is how long a candidate that ends waits for code of the application, or of
// the store, that should have returned or replied and has not.
const lastMoment = time.Second
