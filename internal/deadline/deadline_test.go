package deadline_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/deadline"
)

// A limit ends a context after its time, or earlier with its parent. It is held until it is
// released, and once only.
func TestLimit_EndsInTime(t *testing.T) {
	const long = 2 * deadline.Default
	within := func(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(ctx context.Context) (context.Context, context.CancelFunc) { return deadline.Within(ctx, d) }
	}
	for name, tt := range map[string]struct {
		parent time.Duration // 0: without a deadline
		limit  func(context.Context) (context.Context, context.CancelFunc)
		after  time.Duration
	}{
		"the default":              {0, deadline.Limit, deadline.Default},
		"a longer deadline":        {long, deadline.Limit, long},
		"a shorter deadline":       {1, deadline.Limit, 1},
		"within":                   {0, within(long), long},
		"within a longer deadline": {long, within(time.Second), time.Second},
		"within a shorter one":     {1, within(long), 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent, end := context.WithCancel(t.Context())
				if tt.parent != 0 {
					parent, end = context.WithTimeout(t.Context(), tt.parent)
				}
				defer end()
				began, before := time.Now(), deadline.Held()
				ctx, release := tt.limit(parent)
				if deadline.Held() != before+1 {
					t.Errorf("%d limits are held", deadline.Held()-before)
				}
				<-ctx.Done()
				if d := time.Since(began); d != tt.after || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
					t.Errorf("%v after %v", ctx.Err(), d)
				}
				check.That(t, deadline.Held() == before+1, "the end of a limit releases it")
				release()
				release()
				if deadline.Held() != before {
					t.Errorf("%d limits are held after the release", deadline.Held()-before)
				}
				ctx, release = tt.limit(t.Context())
				release()
				check.That(t, ctx.Err() != nil, "a release does not end the context")
			})
		})
	}
}

// After, Sleep, Pause and Elapsed count the same time, and hold no limit. A sleep ends with its
// context.
func TestSleep_EndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held, began, elapsed := deadline.Held(), time.Now(), deadline.Elapsed()
		want := func(what string, after time.Duration) {
			t.Helper()
			synctest.Wait()
			if d, e := time.Since(began), deadline.Elapsed()-elapsed; d != after || e != after || deadline.Held() != held {
				t.Errorf("%s: after %v, %v, %d limits are held", what, d, e, deadline.Held()-held)
			}
		}
		err := deadline.Sleep(t.Context(), time.Second)
		check.That(t, err == nil, "a whole sleep: %v", err)
		want("a whole sleep", time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		check.Is(t, deadline.Sleep(ctx, time.Minute), context.DeadlineExceeded)
		want("a sleep beyond its context", 2*time.Second)
		deadline.Pause(time.Second)
		want("a pause", 3*time.Second)
		called := make(chan struct{})
		deadline.After(time.Second, func() { close(called) })
		<-called
		want("a call after a second", 4*time.Second)
	})
}
