package backend

import "time"

// The optional methods of a leader.Clock and of its timers. A clock that embeds a leader.Clock hides them.
//
//   - Wall returns the time of day, if Now does not: that of the system counts the time asleep twice after a suspend.
//     Instants that leave the library, and those of a calendar, are by Wall.
//   - Ahead returns how far the time of day had run ahead of Now, since any instant, when Now was called last. The time asleep does
//     not count. It grows when the host is paused, or when the time of day is set ahead.
//   - AfterFunc serves as the watchdog that ends a term's context in time, even if the candidate's goroutine is held up.
//   - Unarmed belongs to a fake clock, which has to know when a candidate waits. It returns a timer that is not armed. The
//     owner of the timer is busy from then on, until it calls Reset or Stop as the last thing before it waits.
//   - Wake belongs to the timers of such a clock. It is called when work is handed to an owner that waits, and makes the
//     owner busy. A candidate has a timer of Unarmed for each of its seats. If its Logger does not discard everything, it
//     makes one more timer by NewTimer and stops it at once. Wake of that timer is called for each log record that is
//     queued, and Stop when all are written.
type (
	wallClock interface{ Wall() time.Time }

	aheadClock interface{ Ahead() time.Duration }

	alarmClock[T any] interface {
		AfterFunc(d time.Duration, f func()) T
	}

	unarmedClock[T any] interface{ Unarmed() T }

	// Waker is a timer with the method Wake.
	Waker interface{ Wake() }
)

// Wall returns the time of day by the host of a leader.Clock.
func Wall(clock interface{ Now() time.Time }) time.Time {
	if c, ok := clock.(wallClock); ok {
		return c.Wall()
	}
	return clock.Now()
}

// Ahead returns how far the time of day has run ahead of a leader.Clock, or 0 if that is not known.
func Ahead(clock interface{ Now() time.Time }) time.Duration {
	if c, ok := clock.(aheadClock); ok {
		return c.Ahead()
	}
	return 0
}

// AfterFunc returns a leader.Timer that calls f after d, or nil if the leader.Clock has none.
func AfterFunc[T any](clock interface{ NewTimer(d time.Duration) T }, d time.Duration, f func()) (t T) {
	if c, ok := clock.(alarmClock[T]); ok {
		return c.AfterFunc(d, f)
	}
	return t
}

// Unarmed returns a leader.Timer of a leader.Clock that does not fire before its first Reset.
func Unarmed[T interface{ Stop() bool }](clock interface{ NewTimer(d time.Duration) T }) T {
	if c, ok := clock.(unarmedClock[T]); ok {
		return c.Unarmed()
	}
	t := clock.NewTimer(time.Hour)
	t.Stop()
	if w, ok := any(t).(Waker); ok { // of a fake clock whose Unarmed another clock hides
		w.Wake()
	}
	return t
}
