// Package deadline bounds calls by the time of the process. Beside it, only the timers of
// leader.SystemClock use that time in packages leader, fence and jsapi: the rules of a
// candidate take theirs from its Clock.
package deadline

import (
	"context"
	"time"
)

// Default bounds a call that makes one request to the store, if its context has no
// deadline. It also bounds one try of a guarded write, in any case. Package jetstream has
// the same limit.
const Default = 5 * time.Second

// Limit returns ctx, with the default limit if it has no deadline.
func Limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, Default)
}

// Within returns ctx with an end after d at the latest.
func Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

// After calls f after d, on a goroutine of its own.
func After(d time.Duration, f func()) { time.AfterFunc(d, f) }

// Sleep waits for d, or until ctx ends, and returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	limited, cancel := Within(ctx, d)
	defer cancel()
	<-limited.Done()
	return ctx.Err()
}

// Pause waits for d.
func Pause(d time.Duration) { _ = Sleep(context.Background(), d) }

// began is when the process began.
var began = time.Now()

// Elapsed returns the time since the process began.
func Elapsed() time.Duration { return time.Since(began) }
