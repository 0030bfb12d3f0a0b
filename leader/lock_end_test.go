package leader_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// askedContext is a context that holds up the caller which asks for its error.
type askedContext struct {
	context.Context
	holds atomic.Bool
	goOn  chan struct{}
}

func (c *askedContext) Err() error {
	if c.holds.Load() {
		<-c.goOn
	}
	return c.Context.Err()
}

// An Acquire that gives up in the moment in which its candidate wins releases the key at once.
func TestAcquire_GivesUpAsItWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(map[string]answers{"Update": tooLate})
		inner, cancel := context.WithCancel(t.Context())
		defer cancel()
		ctx := &askedContext{Context: inner, goOn: make(chan struct{})}
		failed := make(chan error, 1)
		go func() {
			_, err := leader.Acquire(ctx, l, "e", leader.Config{ID: "a"})
			failed <- err
		}()
		synctest.Wait()
		ctx.holds.Store(true)
		cancel()
		synctest.Wait() // it has seen the end of the context
		l.answer("Update", atOnce)
		l.release() // and now the candidate wins
		h, err := leader.Lookup(t.Context(), l, "e")
		check.Must(t, err == nil && h.ID == "a", "the key: %+v, %v", h, err)
		ctx.holds.Store(false)
		close(ctx.goOn)
		synctest.Wait()
		if h, err := leader.Lookup(t.Context(), l, "e"); err != nil || h.State != leader.HolderReleased {
			t.Errorf("the key: %+v, %v", h, err)
		}
		check.Is(t, <-failed, context.Canceled)
		l.settled(t)
	})
}

// TryAcquire returns after 5 s from a store that answers nothing, although its context has no end.
func TestTryAcquire_SilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(map[string]answers{"Settings": tooLate})
		failed, from := make(chan error, 1), time.Now()
		go func() {
			_, err := leader.TryAcquire(context.Background(), l, "e", leader.Config{})
			failed <- err
		}()
		select {
		case err := <-failed:
			check.That(t, errors.Is(err, context.DeadlineExceeded) && time.Since(from) == 5*time.Second,
				"returned %v after %v", err, time.Since(from))
		case <-time.After(time.Hour):
			t.Error("does not return")
		}
		time.Sleep(time.Second) // for the end of the candidate
		l.release()
		l.settled(t)
	})
}

// An Acquire that gives up names the last fault, unless something was learnt of the key since.
func TestAcquire_ExplainsTheLastFault(t *testing.T) {
	for name, c := range map[string]struct {
		learns func(ctx context.Context, store *leadertest.Store) error
		want   string
	}{
		"nothing": {func(context.Context, *leadertest.Store) error { return nil }, "the last fault"},
		"a holder": {func(ctx context.Context, store *leadertest.Store) error {
			_, err := leader.TryAcquire(ctx, store.Link("b"), "e", leader.Config{ID: "b"})
			return err
		}, `is held: "b" leads`},
		"a holder, and nothing since": {func(ctx context.Context, store *leadertest.Store) error {
			_, err := leader.TryAcquire(ctx, store.Link("b"), "e", leader.Config{ID: "b"})
			store.Link("a").Cut()
			return err
		}, "the last fault"},
		"Pending": {func(_ context.Context, store *leadertest.Store) error { store.Link("a").Heal(); return nil }, "held in 58m0."},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := leadertest.NewStore(nil)
				store.Link("a").FailWrites(-1, leader.ErrPermission)
				time.AfterFunc(time.Minute, func() {
					check.Is(t, c.learns(t.Context(), store), nil)
				})
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
				defer cancel()
				_, err := leader.Acquire(ctx, store.Link("a"), "e", leader.Config{ID: "a", PendingPeriod: time.Hour})
				check.Is(t, err, context.DeadlineExceeded)
				if !strings.Contains(err.Error(), c.want) || errors.Is(err, leader.ErrPermission) != (name == "nothing") {
					t.Errorf("returned %v, want %q", err, c.want)
				}
				store.Link("a").Close()
				store.Link("b").Close()
			})
		})
	}
}

// An Acquire that gives up the key that it has won names the reason, and when the lock would be held.
func TestAcquire_ExplainsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := leadertest.NewStore(nil, leadertest.WithTTL(15*time.Second)).Link("a")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := leader.Acquire(ctx, link, "e", leader.Config{ID: "a"})
		check.Says(t, err, context.DeadlineExceeded, `acquire lock "e": context deadline exceeded; the key is won, and the lock is held in 10s, if ctx lasts: the key is empty in a bucket that is not purge-protected, and a lease that left no trace may be running`)
		link.Close()
	})
}

// An Acquire that has returned reads no events any more.
func TestAcquire_LeavesNoReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(nil)
		lock, err := leader.Acquire(t.Context(), l, "e", leader.Config{})
		check.OK(t, err)
		check.Equal(t, leader.Readers(lock), 0, "%d readers")
		err = lock.Unlock(t.Context())
		check.That(t, err == nil, "%v", err)
		l.settled(t)
	})
}

// A Proclaim that waits when the candidate ends returns, and so does one that comes while the candidate ends.
func TestEnd_AnswersProclaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(map[string]answers{})
		cand := l.stand(t.Context(), t, leader.Config{})
		time.Sleep(500 * time.Millisecond)
		l.answer("Update", tooLate)
		term, _ := cand.Term()
		waits, late := make(chan error, 1), make(chan error, 1)
		go func() { waits <- term.Proclaim(t.Context(), []byte("x")) }()
		synctest.Wait()
		l.answer("Settings", tooLate) // of a sign
		backend.Crash(cand)
		synctest.Wait()
		go func() { late <- term.Proclaim(t.Context(), []byte("x")) }()
		check.Is(t, <-waits, leader.ErrNotLeader)
		check.Is(t, <-late, leader.ErrNotLeader)
		l.release()
		<-cand.Done()
	})
}

// Unlock ends the context, waits for the functions of Go, and then releases the lock.
func TestUnlock_WaitsForGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		lock := check.Got(leader.Acquire(t.Context(), store.Link("a"), "e", leader.Config{}))(t)
		began := time.Now()
		var cause error
		begun := lock.Go(func(lead context.Context) {
			<-lead.Done()
			cause = context.Cause(lead)
			time.Sleep(3 * time.Second)
		})
		next := make(chan time.Time, 1)
		go func() {
			other := check.Got(leader.Acquire(t.Context(), store.Link("b"), "e", leader.Config{}))(t)
			next <- time.Now()
			check.OK(t, other.Unlock(t.Context()))
		}()
		synctest.Wait()
		check.OK(t, lock.Unlock(t.Context()))
		check.That(t, begun && errors.Is(cause, leader.ErrResigned), "begun: %v; its context ended with %v", begun, cause)
		check.Equal(t, (<-next).Sub(began), 3*time.Second, "another holds the lock after %v")
		check.That(t, !lock.Go(func(context.Context) {}), "Go begins work after Unlock")
		time.Sleep(time.Minute) // the candidates end
	})
}
