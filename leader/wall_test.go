package leader_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// wallClock is a clock of which the wall time can be moved, as by an operator. Only the monotonic reading
// of its results is the time of the bubble.
type wallClock struct {
	leader.Clock
	base time.Time    // with a monotonic reading
	zero time.Time    // the time of the bubble then
	jump atomic.Int64 // seconds
}

func (c *wallClock) Now() time.Time {
	now := c.base.Add(time.Since(c.zero))
	wall := (*uint64)(unsafe.Pointer(&now)) // the first word of a Time: a flag, seconds and nanoseconds
	*wall += uint64(c.jump.Load()) << 30
	return now
}

// The lock of a holder that has crashed is free after its lease, and a lock that is renewed is held,
// however the wall time jumps between two tries.
func TestTryAcquire_WallTimeJumps(t *testing.T) {
	base := time.Now() // in a bubble there is no monotonic reading
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			store := leadertest.NewStore(nil)
			a, b := store.Link("a"), store.Link("b")
			_, err := leader.TryAcquire(t.Context(), a, "e", leader.Config{ID: "a"})
			check.Must(t, err == nil, "%v", err)
			clock := &wallClock{Clock: leader.SystemClock(), base: base, zero: time.Now()}
			before := clock.Now()
			try := func() error {
				_, err := leader.TryAcquire(t.Context(), b, "e", leader.Config{ID: "b", Clock: clock})
				synctest.Wait()
				return err
			}
			held := func() {
				t.Helper()
				err := try()
				check.That(t, errors.As(err, new(*leader.HeldError)),
					"%v after %v: the lock is held, but: %v", jump, time.Since(clock.zero), err)
			}
			a.Cut()
			held()
			clock.jump.Store(int64(jump / time.Second))
			if now := clock.Now(); now.Sub(before) != 0 || now.Round(0).Sub(before.Round(0)) != jump {
				t.Fatalf("the clock moves by %v, its wall time by %v", now.Sub(before), now.Round(0).Sub(before.Round(0)))
			}
			held()
			time.Sleep(15*time.Second - 1)
			held()
			time.Sleep(time.Nanosecond)
			if err := try(); err != nil {
				t.Errorf("%v: the lock of a crashed holder: %v", jump, err)
			}
			a.Close()
			b.Close()
		})
	}
}

// sleptClock is the clock of a host that slept for an hour since the clock was made. Its wall clock is right.
type sleptClock struct{ leader.Clock }

func (c sleptClock) Now() time.Time { return c.Clock.Now().Add(time.Hour) }

func (sleptClock) Wall() time.Time { return time.Now() }

// The time of the holder's renewal, which is the server's, is compared with the wall clock of the host, and not with the
// clock of leases, which counts the time asleep.
func TestTryAcquire_HostHasSlept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		check.Got(leader.TryAcquire(t.Context(), store.Link("a"), "e", leader.Config{ID: "a"}))(t)
		clock := sleptClock{leader.SystemClock()}
		for _, k := range []struct {
			link string
			over bool
		}{{"b", false}, {"c", true}} {
			err := check.Err(leader.TryAcquire(t.Context(), store.Link(k.link), "e", leader.Config{ID: k.link, Clock: clock}))
			check.That(t, errors.As(err, new(*leader.HeldError)) && strings.Contains(err.Error(), "longer ago than its lease") == k.over,
				"over should be %v: %v", k.over, err)
			store.Link("a").Close()
			time.Sleep(15*time.Second + 1)
		}
	})
}

// The instants of events are those of the wall clock when they were emitted, without a monotonic reading, so that users can
// compare them with time.Now after the host has slept. The age of the requests in line is by the clock, however its wall
// time jumps.
func TestEvents_WallTimeJumps(t *testing.T) {
	base := time.Now()
	synctest.Test(t, func(t *testing.T) {
		clock := &wallClock{Clock: leader.SystemClock(), base: base, zero: time.Now()}
		l := newLedger(nil)
		l.window = backend.NewWindow(1, 1)
		own := new(backend.Place)
		l.window.Take(own, backend.RankHolder, nil, clock.Now())
		c := l.stand(t.Context(), t, leader.Config{Clock: clock, PendingPeriod: time.Minute, GracePeriod: time.Minute})
		time.Sleep(2 * time.Second)
		clock.jump.Store(3600)
		s := c.Stats()
		check.That(t, s.Queued == 1 && s.QueueAge == 2*time.Second,
			"%d requests have waited for %v", s.Queued, s.QueueAge)
		l.window.Return(own, backend.Reply{})
		events := c.Events(t.Context())
		in := func(want time.Duration) {
			t.Helper()
			for e := range events {
				var until time.Time
				switch e := e.(type) {
				case leader.Pending:
					until = e.Until
				case leader.Fenced:
					until = e.Until
				case leader.Elected, leader.Deposed, leader.Observed, leader.Faulted:
					continue
				}
				check.That(t, !strings.Contains(until.String(), " m="), "%v has a monotonic reading", until)
				got := until.Sub(clock.Now())
				check.That(t, got == want, "%v: in %v by the wall clock, want %v", e, got, want)
				clock.jump.Add(3600)
				got = until.Sub(clock.Now())
				check.That(t, got == want-time.Hour, "%v: in %v by the wall clock, which has jumped, want %v", e, got, want-time.Hour)
				return
			}
		}
		in(time.Minute)
		time.Sleep(2 * time.Minute)
		end, begun := leadertest.Work(leadertest.Led(c)) // without it the candidate is not fenced
		defer end()
		check.Must(t, begun, "no term")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		go func() { _ = leadertest.Resign(ctx, c) }()
		in(time.Minute)
	})
}
