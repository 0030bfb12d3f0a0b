package leader

import (
	"sync/atomic"
	"time"
)

// Clock is the source of time of a candidate's rules. Timeouts of requests use the time of the
// process. The fake is leadertest.Clock. Methods of a Clock and of its timers must return at once, and
// Now must never return less to one goroutine than before.
type Clock interface {
	Now() time.Time                 // only differences between its results matter
	NewTimer(d time.Duration) Timer // fires after d, or, if d is negative, not before its first Reset
}

// Timer has the semantics of [time.Timer] since Go 1.23: after Reset or Stop has returned, no tick
// of an earlier setting arrives.
type Timer interface {
	C() <-chan time.Time        // on which the tick arrives
	Reset(d time.Duration) bool // arms the timer to fire after d
	Stop() bool                 // disarms the timer
}

// alarmClock is an optional interface of a Clock, by which a term's context ends in time even if the candidate's goroutine
// is held up.
type alarmClock interface {
	AfterFunc(d time.Duration, f func()) Timer
}

// waker is an optional interface of the timers of a fake Clock, which has to know when a candidate waits. The candidate
// calls Reset or Stop of its timer as the last thing before it waits. Wake is called when a waiting candidate is handed
// work. A candidate makes one timer for each of its seats, with a negative duration. With a Logger that discards not all it
// makes one more, with a positive duration, and stops it at once: Wake of that timer is called for each log record that is
// queued, and Stop when all are written.
type waker interface{ Wake() }

// SystemClock returns the clock of the operating system. On Linux it counts the time for which the host was
// suspended.
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
		c.drift.Store(drift)
	}
	return t.Add(time.Duration(c.slept.Load()))
}

func (c *systemClock) NewTimer(d time.Duration) Timer {
	if d >= 0 {
		return systemTimer{time.NewTimer(d)}
	}
	t := time.NewTimer(time.Hour)
	t.Stop()
	return systemTimer{t}
}

// AfterFunc implements alarmClock.
func (c *systemClock) AfterFunc(d time.Duration, f func()) Timer {
	return systemTimer{time.AfterFunc(d, f)}
}

type systemTimer struct{ *time.Timer }

func (t systemTimer) C() <-chan time.Time { return t.Timer.C }

// lastMoment is how long a candidate that ends waits for code of the application, or of
// the store, that should have returned or replied and has not.
const lastMoment = time.Second
