package leadertest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// A lock in a unit test with the fake clock: it is held, handed on, and free after a crash.
func TestLock_FakeClock(t *testing.T) {
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock)
	a, b := store.Link("a"), store.Link("b")
	lock := check.Got(leader.TryAcquire(t.Context(), a, "jobs", leader.Config{ID: "a"}))(t)
	held := func() {
		t.Helper()
		_, err := leader.TryAcquire(t.Context(), b, "jobs", leader.Config{ID: "b"})
		held := new(leader.HeldError)
		check.That(t, errors.As(err, &held) && held.Holder.ID == "a", "%v: %v", clock.Elapsed(), err)
	}
	held()
	check.Is(t, lock.Unlock(t.Context()), nil)
	lock = check.Got(leader.Acquire(t.Context(), a, "jobs", leader.Config{ID: "a"}))(t)
	a.Cut()
	held()
	clock.Advance(15*time.Second - 1)
	held()
	clock.Advance(1)
	if _, err := leader.TryAcquire(t.Context(), b, "jobs", leader.Config{ID: "b"}); err != nil || lock.Err() == nil {
		t.Errorf("the lock of a crashed holder: %v; the lock itself: %v", err, lock.Err())
	}
	a.Close()
	b.Close()
}

// Where the waiting is given up while the key is being won, the key is released.
func TestLock_LateWin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil, leadertest.WithLatency(time.Second))
		link := store.Link("a")
		ctx, cancel := context.WithTimeout(t.Context(), 6500*time.Millisecond)
		defer cancel()
		_, err := leader.Acquire(ctx, link, "jobs", leader.Config{ID: "a"})
		check.Is(t, err, context.DeadlineExceeded)
		check.Equal(t, store.Requests().Writes, 1, "%d writes")
		time.Sleep(time.Minute)
		if h, err := leader.Lookup(t.Context(), store, "jobs"); err != nil || h.State != leader.HolderReleased {
			t.Errorf("the key: %+v, %v", h, err)
		}
		check.Equal(t, store.Requests().Writes, 2, "%d writes")
	})
}

// A try whose write has an unknown outcome fails. If the write was stored, the key is released.
func TestTryAcquire_UnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		link := store.Link("a")
		link.LoseReplies(1)
		begin := time.Now()
		_, err := leader.TryAcquire(t.Context(), link, "jobs", leader.Config{ID: "a"})
		d := time.Since(begin)
		check.That(t, errors.Is(err, leader.ErrUnreachable) && d <= 3*time.Second, "%v after %v", err, d)
		time.Sleep(time.Second)
		lock := check.Got(leader.TryAcquire(t.Context(), link, "jobs", leader.Config{ID: "a"}))(t)
		err = lock.Unlock(t.Context())
		check.That(t, err == nil, "%v", err)
	})
}

// A read that fails leaves what the process has seen as it is.
func TestTryAcquire_FailedReadForgetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		a, b := store.Link("a"), store.Link("b")
		check.Got(leader.TryAcquire(t.Context(), a, "jobs", leader.Config{ID: "a"}))(t)
		a.Cut()
		try := func() error { return check.Err(leader.TryAcquire(t.Context(), b, "jobs", leader.Config{ID: "b"})) }
		err := try()
		check.That(t, errors.As(err, new(*leader.HeldError)), "%v", err)
		b.LoseReads(2) // that of the check for the number of seats, which is not reported, and the candidate's
		check.Is(t, try(), leader.ErrUnreachable)
		time.Sleep(15 * time.Second)
		check.Is(t, try(), nil)
		b.Close()
		a.Close()
	})
}

// A key that was deleted with the holder's lease in the marker, as the command does with
// --force, is held until that lease is over. A try says so at once.
func TestTryAcquire_MarkerWithLease(t *testing.T) {
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock)
	a, b := store.Link("a"), store.Link("b")
	check.Got(leader.TryAcquire(t.Context(), a, "jobs", leader.Config{ID: "a"}))(t)
	a.Cut()
	e := store.Entry("jobs")
	store.Backend().Mark(t.Context(), "jobs", e.Value, e.Revision, func(_ uint64, err error) {
		check.Is(t, err, nil)
	})
	try := func() error { return check.Err(leader.TryAcquire(t.Context(), b, "jobs", leader.Config{ID: "b"})) }
	for range 2 {
		if held := new(leader.HeldError); !errors.As(try(), &held) || held.Holder.ID != "" {
			t.Errorf("%v", try())
		}
		clock.Advance(7 * time.Second)
	}
	clock.Advance(time.Second)
	check.Is(t, try(), nil)
	a.Close()
	b.Close()
}
