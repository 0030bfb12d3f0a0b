// Package deadline bounds calls by the time of the process. Beside it, only the timers of
// leader.SystemClock use that time in packages leader, fence and jsapi: the rules of a
// candidate take theirs from its Clock.
package deadline

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/natsleader/natsleader/internal/wire"
)

// Default is the limit of a call whose context has no deadline.
const Default = wire.CallLimit

// Limit returns ctx, with the default limit if it has no deadline.
func Limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return counted(context.WithCancel(ctx))
	}
	return Within(ctx, Default)
}

// Within returns ctx with an end after d at the latest.
func Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return counted(context.WithTimeout(ctx, d))
}

// held counts the limits that were not released, once counting is true. No production code
// pays for the count.
var (
	counting atomic.Bool
	held     atomic.Int64
)

// Held returns how many limits of Limit and Within were set since the first call of Held and
// not released. It is for tests that look for leaks.
func Held() int {
	counting.Store(true)
	return int(held.Load())
}

func counted(ctx context.Context, cancel context.CancelFunc) (context.Context, context.CancelFunc) {
	if !counting.Load() {
		return ctx, cancel
	}
	held.Add(1)
	return ctx, sync.OnceFunc(func() {
		held.Add(-1)
		cancel()
	})
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
