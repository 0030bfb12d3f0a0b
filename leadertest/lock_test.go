package leadertest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// A lock in a unit test with the fake clock: it is held, handed on, and free after a crash.
func TestLock_FakeClock(t *testing.T) {
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock)
	a, b := store.Link("a"), store.Link("b")
	lock, err := leader.TryAcquire(t.Context(), a, "jobs", leader.Config{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	held := func() {
		t.Helper()
		_, err = leader.TryAcquire(t.Context(), b, "jobs", leader.Config{ID: "b"})
		if held := new(leader.HeldError); !errors.As(err, &held) || held.Holder.ID != "a" {
			t.Errorf("%v: %v", clock.Elapsed(), err)
		}
	}
	held()
	if err = lock.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	lock, err = leader.Acquire(t.Context(), a, "jobs", leader.Config{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	a.Cut()
	held()
	clock.Advance(15*time.Second - 1)
	held()
	clock.Advance(1)
	if _, err = leader.TryAcquire(t.Context(), b, "jobs", leader.Config{ID: "b"}); err != nil || lock.Err() == nil {
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
		ctx, cancel := context.WithTimeout(t.Context(), 8500*time.Millisecond)
		defer cancel()
		_, err := leader.Acquire(ctx, link, "jobs", leader.Config{ID: "a"})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if n := store.Requests().Writes; n != 1 {
			t.Errorf("%d writes", n)
		}
		time.Sleep(time.Minute)
		if h, err := leader.Lookup(t.Context(), store, "jobs"); err != nil || !h.Released {
			t.Errorf("the key: %+v, %v", h, err)
		}
		if n := store.Requests().Writes; n != 2 {
			t.Errorf("%d writes", n)
		}
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
		if d := time.Since(begin); !errors.Is(err, leader.ErrUnreachable) || d > 3*time.Second {
			t.Errorf("%v after %v", err, d)
		}
		time.Sleep(time.Second)
		lock, err := leader.TryAcquire(t.Context(), link, "jobs", leader.Config{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		if err = lock.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A read that fails leaves what the process has seen as it is.
func TestTryAcquire_FailedReadForgetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		a, b := store.Link("a"), store.Link("b")
		if _, err := leader.TryAcquire(t.Context(), a, "jobs", leader.Config{ID: "a"}); err != nil {
			t.Fatal(err)
		}
		a.Cut()
		try := func() error {
			_, err := leader.TryAcquire(t.Context(), b, "jobs", leader.Config{ID: "b"})
			return err
		}
		if err := try(); !errors.As(err, new(*leader.HeldError)) {
			t.Error(err)
		}
		b.LoseReads(2) // that of the check for the number of seats, which is not reported, and the candidate's
		if err := try(); !errors.Is(err, leader.ErrUnreachable) {
			t.Error(err)
		}
		time.Sleep(15 * time.Second)
		if err := try(); err != nil {
			t.Error(err)
		}
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
	if _, err := leader.TryAcquire(t.Context(), a, "jobs", leader.Config{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	a.Cut()
	e := store.Entry("jobs")
	store.Backend().Mark(t.Context(), "jobs", e.Value, e.Revision, func(_ uint64, err error) {
		if err != nil {
			t.Error(err)
		}
	})
	try := func() error {
		_, err := leader.TryAcquire(t.Context(), b, "jobs", leader.Config{ID: "b"})
		return err
	}
	for range 2 {
		if held := new(leader.HeldError); !errors.As(try(), &held) || held.Holder.ID != "" {
			t.Errorf("%v", try())
		}
		clock.Advance(7 * time.Second)
	}
	clock.Advance(time.Second)
	if err := try(); err != nil {
		t.Error(err)
	}
	a.Close()
	b.Close()
}
