package leader_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// locker is a process that locks "e".
type locker struct {
	*client
	w   *world
	cfg leader.Config
}

func (w *world) locker(id string) *locker {
	w.Helper()
	return &locker{client: w.dial(id), w: w, cfg: leader.Config{ID: id, LeaseDuration: lease}}
}

// acquire fails the test unless the lock is acquired now.
func (l *locker) acquire() *leader.Lock {
	l.w.Helper()
	lock, err := leader.Acquire(l.w.Context(), l.bucket(l.w.T), "e", l.cfg)
	l.w.ok(err)
	l.w.locked(lock)
	return lock
}

// waiting is a call of Acquire that may take time.
type waiting struct {
	*call
	lock *leader.Lock
}

func (l *locker) wait(ctx context.Context) *waiting {
	l.w.Helper()
	b, p := l.bucket(l.w.T), &waiting{}
	p.call = l.w.begin(func() (err error) {
		p.lock, err = leader.Acquire(ctx, b, "e", l.cfg)
		l.w.locked(p.lock)
		return err
	})
	synctest.Wait()
	return p
}

// locked has a lock given up at the end of the test, so that nothing is left of it.
func (w *world) locked(lock *leader.Lock) {
	if lock != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.locks = append(w.locks, lock)
	}
}

// free fails the test unless another process can lock "e" now.
func (w *world) free() {
	w.Helper()
	lock, err := leader.TryAcquire(w.Context(), w.locker("z").bucket(w.T), "e", leader.Config{ID: "z", LeaseDuration: lease})
	w.ok(err)
	w.ok(lock.Unlock(w.Context()))
}

// lost fails the test unless each Unlock of the lock returns the cause for which it was lost.
func (w *world) lost(lock *leader.Lock, cause error) {
	w.Helper()
	for range 2 {
		if err := lock.Unlock(w.Context()); !errors.Is(err, cause) || !strings.HasPrefix(err.Error(), `unlock "e": the lock was lost before: leader: `) {
			w.Errorf("at %v: Unlock returned %v, want %v", w.now(), err, cause)
		}
	}
}

// A lock passes from one process to the next in the instant of Unlock. Its context ends with
// the Unlock alone, and carries the values of the context given to Acquire.
func TestLock_PassesOn(t *testing.T) {
	inSealed(t, func(w *world) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(w.Context(), key{}, "value"))
		a := w.locker("a")
		first := check.Got(leader.Acquire(ctx, a.bucket(w.T), "e", a.cfg))(w)
		cancel()
		b := w.locker("b").wait(w.Context())
		w.at(20 * time.Second)
		b.pending()
		err := leader.Check(first.Context())
		check.That(t, err == nil && first.Context().Value(key{}) == "value", "the lock: %v", err)
		w.ok(first.Unlock(w.Context()))
		b.returned(20*time.Second, nil)
		check.Is(t, first.Err(), leader.ErrResigned)
		check.That(t, b.lock.Token() > first.Token() && b.lock.Err() == nil,
			"tokens %d and %d: %v", first.Token(), b.lock.Token(), b.lock.Err())
		w.ok(b.lock.Unlock(w.Context()))
		w.free()
	})
}

// The end of the context ends the waiting at once, with the holder in the text. The key stays
// with its holder.
func TestLock_GivesUpWaiting(t *testing.T) {
	inSealed(t, func(w *world) {
		first := w.locker("a").acquire()
		ctx, cancel := context.WithTimeout(w.Context(), 3*time.Second)
		defer cancel()
		b := w.locker("b").wait(ctx)
		w.at(3 * time.Second)
		b.returned(3*time.Second, context.DeadlineExceeded)
		want := `acquire lock "e": context deadline exceeded while "a" leads`
		check.That(t, strings.HasPrefix(b.err.Error(), want), "got %v, want %s", b.err, want)
		w.at(30 * time.Second)
		w.ok(first.Err())
		w.ok(first.Unlock(w.Context()))
		w.free() // nobody waits any more
	})
}

// While the store is away, Acquire waits, and returns the fault in the end.
func TestLock_StoreAway(t *testing.T) {
	inSealed(t, func(w *world) {
		b := w.locker("b")
		b.cut()
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		away := b.wait(ctx)
		w.at(30 * time.Second)
		away.pending()
		w.at(time.Minute)
		away.returned(time.Minute, leader.ErrUnreachable)
		check.Is(t, away.err, context.DeadlineExceeded)
	})
}

// A lock that was lost does not come back, although the key becomes free again, and neither
// before nor after Unlock.
func TestLock_LostForGood(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.locker("a")
		first := a.acquire()
		b := w.locker("b").wait(w.Context())
		w.at(500 * time.Millisecond)
		a.cut()
		w.at(deadline)
		check.Is(t, first.Err(), leader.ErrLeaseExpired)
		w.at(lease)
		b.returned(lease, nil)
		a.open()
		w.at(10 * time.Second)
		w.lost(first, leader.ErrLeaseExpired) // b holds it
		w.ok(b.lock.Unlock(w.Context()))
		w.at(12 * time.Second)
		w.free()
		w.lost(first, leader.ErrLeaseExpired)
		w.isAt(12*time.Second, "Unlock of the lost lock")
		w.at(30 * time.Second)
		w.free()
	})
}

// A lock that was lost while nobody else took the key is kept for the work, for one lease, and
// does not come back. Then the key is free, although nobody calls Unlock.
func TestLock_NeverUnlocked(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.locker("a")
		first := a.acquire()
		w.at(500 * time.Millisecond)
		a.cut()
		w.at(deadline + 200*time.Millisecond) // fenced
		a.open()
		b := w.locker("b").wait(w.Context())
		w.at(deadline + lease)
		b.returned(deadline+lease, nil)
		w.at(time.Minute)
		w.ok(b.lock.Unlock(w.Context()))
		w.free()
		w.lost(first, leader.ErrLeaseExpired)
	})
}

// Unlock ends that wait.
func TestLock_UnlockedAfterLoss(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.locker("a")
		first := a.acquire()
		w.at(500 * time.Millisecond)
		a.cut()
		w.at(deadline + 200*time.Millisecond)
		a.open()
		b := w.locker("b").wait(w.Context())
		w.at(8 * time.Second)
		b.pending()
		w.lost(first, leader.ErrLeaseExpired)
		b.returned(8*time.Second, nil)
		w.ok(b.lock.Err())
	})
}

// Unlock of a lock that was lost returns the cause when the key was deleted, too.
func TestUnlock_LostLockReturnsCause(t *testing.T) {
	inSealed(t, func(w *world) {
		deleted := w.locker("c").acquire()
		w.ok(w.kv().Delete(w.Context(), "e"))
		w.at(3 * lease)
		w.lost(deleted, leader.ErrDeleted)
	})
}

// A lock that its process handed over at the request of an operator was lost, too, and
// Release does not hide that.
func TestUnlock_HandedOverReturnsCause(t *testing.T) {
	inSealed(t, func(w *world) {
		lock := w.locker("a").acquire()
		b := w.locker("b").wait(w.Context())
		down := w.begin(func() error {
			_, err := leader.StepDown(w.Context(), w.ops.bucket(t), "e", "operator")
			return err
		})
		w.at(time.Second)
		b.pending() // the key is kept for the work
		lock.Release()
		b.returned(time.Second, nil)
		down.returned(time.Second, nil)
		w.lost(lock, leader.ErrResigned)
	})
}

// Where the time of a lost lock's Unlock is over, the error has both.
func TestUnlock_LostLockWithoutTime(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.locker("a")
		lock := a.acquire()
		a.cut()
		w.at(deadline)
		ended, cancel := context.WithCancel(w.Context())
		cancel()
		err := lock.Unlock(ended)
		check.That(t, errors.Is(err, leader.ErrLeaseExpired) && errors.Is(err, context.Canceled),
			"Unlock returned %v", err)
	})
}

// A Lock that Acquire has not returned cannot be given up.
func TestUnlock_ZeroLock(t *testing.T) {
	for _, lock := range []*leader.Lock{nil, {}} {
		check.Is(t, lock.Unlock(t.Context()), leader.ErrNotLeader)
		lock.Release()
	}
}

// Unlock may be called more than once, at once and later, and Release does the same without a
// wait.
func TestUnlock_MoreThanOnce(t *testing.T) {
	inSealed(t, func(w *world) {
		ended, cancel := context.WithCancel(w.Context())
		cancel()
		lock := w.locker("a").acquire()
		unlock := func() error { return lock.Unlock(w.Context()) }
		for _, c := range []*call{w.begin(unlock), w.begin(unlock)} {
			c.returned(0, nil)
		}
		w.ok(unlock())
		w.ok(lock.Unlock(ended))
		w.free()
		lock = w.locker("b").acquire()
		lock.Release()
		synctest.Wait()
		w.free()
		w.ok(lock.Unlock(ended))
	})
}

// With a context that has ended Unlock does not wait, and the key is released all the same.
func TestUnlock_WithoutTime(t *testing.T) {
	inSealed(t, func(w *world) {
		ended, cancel := context.WithCancel(w.Context())
		cancel()
		a := w.locker("a")
		lock := a.acquire()
		a.detain(down) // the reply does not come
		check.Is(t, lock.Unlock(ended), context.Canceled)
		synctest.Wait()
		check.Is(t, lock.Err(), leader.ErrResigned)
		a.open()
		w.at(time.Second)
		w.free()
	})
}

// While NATS is down, Unlock waits until the last record keeps nobody out.
func TestUnlock_StoreAway(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.locker("a")
		lock := a.acquire()
		w.at(1500 * time.Millisecond) // the last renewal was at 1s
		a.cut()
		short, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		one := w.begin(func() error { return lock.Unlock(short) })
		all := w.begin(func() error { return lock.Unlock(w.Context()) })
		w.at(20 * time.Second)
		one.returned(2500*time.Millisecond, context.DeadlineExceeded)
		all.returned(time.Second+lease, nil)
	})
}

// Unlock reports that the connection was closed before the release. Others wait for the lease.
func TestUnlock_ConnectionClosed(t *testing.T) {
	for _, seats := range []int{0, 2} {
		inSealed(t, func(w *world) {
			a := w.locker("a")
			a.cfg.Seats = seats
			lock := a.acquire()
			a.nc.Close()
			synctest.Wait()
			for range 2 {
				check.Is(t, lock.Unlock(w.Context()), leader.ErrConnectionClosed)
			}
			check.Is(t, lock.Err(), leader.ErrConnectionClosed)
			check.Is(t, check.Err(leader.Acquire(w.Context(), a.bucket(t), "e", a.cfg)), leader.ErrConnectionClosed)
		})
	}
}

// With seats there are as many locks, and a lock lost on one seat does not come back on another.
func TestLock_Seats(t *testing.T) {
	inSealed(t, func(w *world) {
		var locks []*leader.Lock
		for _, id := range []string{"a", "b"} {
			l := w.locker(id)
			l.cfg.Seats = 2
			locks = append(locks, l.acquire())
		}
		c := w.locker("c")
		c.cfg.Seats = 2
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		full := c.wait(ctx)
		w.at(time.Second)
		full.returned(time.Second, context.DeadlineExceeded)
		check.That(t, strings.Contains(full.err.Error(), `leads`), "%v", full.err)
		third := c.wait(w.Context())
		third.pending()
		w.ok(locks[1].Unlock(w.Context()))
		third.returned(time.Second, nil)
		if third.lock.Seat() != locks[1].Seat() || locks[0].Seat() == locks[1].Seat() {
			t.Errorf("seats %d, %d and %d", locks[0].Seat(), locks[1].Seat(), third.lock.Seat())
		}
		c.cut()
		w.at(4 * time.Second)
		w.ok(locks[0].Unlock(w.Context()))
		w.at(10 * time.Second)
		c.open()
		w.at(time.Minute)
		for _, id := range []string{"d", "e"} { // both seats are free
			l := w.locker(id)
			l.cfg.Seats = 2
			l.acquire()
		}
		w.isAt(time.Minute, "both seats")
	})
}
