package recipes_test

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// locks is a Locker of a library whose interface has names of users and no context.
type locks struct {
	store leader.Store
	wait  time.Duration                // of Lock at most, longer than a lease
	lost  func(name string, err error) // ends the work, or the process: the library cannot

	mu   sync.Mutex
	held map[string]*leader.Lock // not nil
}

func (l *locks) Lock(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), l.wait)
	defer cancel()
	// An ID for each call, so that the goroutines of a process wait for each other.
	lock, err := leader.Acquire(ctx, l.store, "locks."+leader.Name(name), leader.Config{ID: rand.Text()})
	if err != nil {
		return err
	}
	context.AfterFunc(lock.Context(), func() {
		if err := lock.Err(); !errors.Is(err, leader.ErrResigned) {
			l.lost(name, err)
		}
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[name] = lock
	return nil
}

func (l *locks) Unlock(name string) error {
	l.mu.Lock()
	lock := l.held[name] // nil if it is not locked: then Unlock returns ErrNotLeader
	delete(l.held, name)
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), l.wait)
	defer cancel()
	return lock.Unlock(ctx)
}

// Goroutines and processes wait for each other, and a loss is reported.
func TestLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		lost := make(map[string]error)
		process := func(id string) *locks {
			return &locks{store: store.Link(id), wait: time.Minute, held: make(map[string]*leader.Lock), lost: func(name string, err error) { lost[name] = err }}
		}
		a, b := process("a"), process("b")
		check.OK(t, a.Lock("*.example.com"))
		at := make(chan time.Duration, 2)
		began := time.Now()
		for _, l := range []*locks{a, b} {
			go func() {
				check.OK(t, l.Lock("*.example.com"))
				at <- time.Since(began)
				time.Sleep(10 * time.Second)
				check.OK(t, l.Unlock("*.example.com"))
			}()
		}
		time.Sleep(10 * time.Second)
		check.OK(t, a.Unlock("*.example.com"))
		check.Equal(t, <-at, 10*time.Second, "%v")
		check.Equal(t, <-at, 20*time.Second, "%v")
		time.Sleep(time.Minute)
		synctest.Wait()
		check.That(t, len(lost) == 0, "%v", lost)
		check.OK(t, a.Lock("job:1"))
		store.Link("a").Cut()
		time.Sleep(time.Minute)
		synctest.Wait()
		check.Is(t, lost["job:1"], leader.ErrLeaseExpired)
		store.Link("a").Restore()
		check.Is(t, a.Unlock("job:1"), leader.ErrLeaseExpired)
		check.Is(t, b.Unlock("job:1"), leader.ErrNotLeader)
		time.Sleep(time.Minute)
	})
}
