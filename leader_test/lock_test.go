package leader_test

import (
	"context"
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
	lock, err := leader.Acquire(l.w.Context(), l.mark.of(l.bucket(l.w.T)), "e", l.cfg)
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
		p.lock, err = leader.Acquire(ctx, l.mark.of(b), "e", l.cfg)
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
		err := leader.Err(first.Context())
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
func TestLock_GivesUpWaiting(t *testing.T) { story(t) }

// While the store is away, Acquire waits, and returns the fault in the end.
func TestLock_StoreAway(t *testing.T) { story(t) }

// A lock that was lost does not come back, although the key becomes free again, and neither
// before nor after Unlock.
func TestLock_LostForGood(t *testing.T) { story(t) }

// A lock that was lost while nobody else took the key is kept for the work, for one lease, and
// does not come back. Then the key is free, although nobody calls Unlock.
func TestLock_NeverUnlocked(t *testing.T) { story(t) }

// Unlock ends that wait.
func TestLock_UnlockedAfterLoss(t *testing.T) { story(t) }

// Unlock of a lock that was lost returns the cause when the key was deleted, too.
func TestUnlock_LostLockReturnsCause(t *testing.T) { story(t) }

// A lock that its process handed over at the request of an operator was lost, too.
func TestUnlock_HandedOverReturnsCause(t *testing.T) { story(t) }

// Where the time of a lost lock's Unlock is over, the error has both.
func TestUnlock_LostLockWithoutTime(t *testing.T) { story(t) }

// A Lock that Acquire has not returned cannot be given up, and its term is over.
func TestUnlock_ZeroLock(t *testing.T) {
	var none *leader.Lock
	check.Is(t, none.Unlock(t.Context()), leader.ErrNotLeader)
	var lock leader.Lock
	check.Is(t, lock.Unlock(t.Context()), leader.ErrNotLeader)
	check.Is(t, lock.Proclaim(t.Context(), nil), leader.ErrNotLeader)
	check.Is(t, lock.Err(), leader.ErrStopped)
	check.Equal(t, lock.Token(), 0, "a lock that nobody has acquired has the token %d")
}

// Unlock may be called more than once, at once and later, and without time to wait.
func TestUnlock_MoreThanOnce(t *testing.T) { story(t) }

// With a context that has ended Unlock does not wait, and the key is released all the same.
func TestUnlock_WithoutTime(t *testing.T) { story(t) }

// While NATS is down, Unlock waits until the last record keeps nobody out.
func TestUnlock_StoreAway(t *testing.T) { story(t) }

// Unlock reports that the connection was closed before the release. Others wait for the lease.
func TestUnlock_ConnectionClosed(t *testing.T) { story(t) }

// With seats there are as many locks, and a lock lost on one seat does not come back on another.
func TestLock_Seats(t *testing.T) { story(t) }
