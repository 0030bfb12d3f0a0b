package leader_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/seats"
)

// After each way in which a lock, or the wait for one, ends, the process may ask for the lock
// again, and remembers nothing of it.
func TestAcquire_AgainAfterEachEnd(t *testing.T) {
	const lease = 15 * time.Second
	type process struct {
		*testing.T
		store      *leadertest.Store
		own, other *leadertest.Link
	}
	acquire := func(p process, l leader.Store, cfg leader.Config) *leader.Lock {
		p.Helper()
		lock := check.Got(leader.Acquire(p.Context(), l, "e", cfg))(p)
		return lock
	}
	failsOn := func(p process, store leader.Store, try bool, cfg leader.Config, want error) {
		p.Helper()
		ctx, cancel := context.WithTimeout(p.Context(), lease)
		defer cancel()
		call := leader.Acquire
		if try {
			call = leader.TryAcquire
		}
		_, err := call(ctx, store, "e", cfg)
		check.That(p, errors.Is(err, want) || want == nil && errors.As(err, new(*leader.HeldError)),
			"returned %v, want %v", err, want)
	}
	fails := func(p process, try bool, cfg leader.Config, want error) {
		p.Helper()
		failsOn(p, p.own, try, cfg, want)
	}
	unlock := func(p process, lock *leader.Lock) {
		p.Helper()
		check.Is(p, lock.Unlock(p.Context()), nil)
	}
	for name, end := range map[string]func(process){
		"Unlock": func(p process) { unlock(p, acquire(p, p.own, leader.Config{})) },
		"Unlock without time": func(p process) {
			_ = acquire(p, p.own, leader.Config{}).Unlock(check.Ended())
		},
		"lost": func(p process) {
			lock := acquire(p, p.own, leader.Config{})
			p.own.Cut()
			<-lock.Context().Done()
			p.own.Restore()
		},
		"lost without a watchdog": func(p process) {
			acquire(p, p.own, leader.Config{})
			p.own.Cut()
			time.Sleep(lease)
			p.own.Restore()
		},
		"deleted": func(p process) {
			lock := acquire(p, p.own, leader.Config{})
			p.store.Delete("e")
			<-lock.Context().Done()
		},
		"given up": func(p process) {
			lock := acquire(p, p.other, leader.Config{})
			fails(p, false, leader.Config{}, context.DeadlineExceeded)
			unlock(p, lock)
		},
		"another number of seats": func(p process) {
			lock := acquire(p, p.other, leader.Config{})
			failsOn(p, seats.Of(p.own, 2), false, leader.Config{}, leader.ErrSeatsDiffer)
			unlock(p, lock)
		},
		"another number of seats, later": func(p process) {
			first := acquire(p, p.other, leader.Config{})
			waits := make(chan error, 1)
			go func() {
				_, err := leader.Acquire(p.Context(), p.own, "e", leader.Config{})
				waits <- err
			}()
			synctest.Wait()
			p.own.Cut()
			unlock(p, first)
			lock := acquire(p, seats.Of(p.other, 2), leader.Config{})
			p.own.Restore()
			check.Is(p, <-waits, leader.ErrSeatsDiffer)
			unlock(p, lock)
		},
		"held by itself": func(p process) {
			lock := acquire(p, p.own, leader.Config{})
			fails(p, false, leader.Config{}, nil)
			unlock(p, lock)
		},
		"a try for a lock that is held": func(p process) {
			lock := acquire(p, p.other, leader.Config{})
			fails(p, true, leader.Config{}, nil)
			unlock(p, lock)
		},
		"a try without the store": func(p process) {
			p.own.Cut()
			fails(p, true, leader.Config{}, leader.ErrUnreachable)
			p.own.Restore()
		},
		"invalid settings": func(p process) { failsOn(p, seats.Of(p.own, -1), false, leader.Config{}, leader.ErrInvalidConfig) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before := leader.LockSessions()
				store := leadertest.NewStore(nil)
				p := process{t, store, store.Link("own"), store.Link("other")}
				end(p)
				lock := acquire(p, p.own, leader.Config{})
				n := leader.LockSessions() - before
				check.That(t, n == 1, "%d sessions are remembered beside that of the lock", n-1)
				unlock(p, lock)
				check.Equal(t, leader.LockSessions()-before, 0, "%d sessions are remembered")
				time.Sleep(lease) // the candidate that gave up ends
			})
		})
	}
	t.Run("connection closed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			before := leader.LockSessions()
			store := leadertest.NewStore(nil)
			p := process{t, store, store.Link("own"), store.Link("other")}
			lock := acquire(p, p.own, leader.Config{})
			p.own.Close()
			<-lock.Context().Done()
			fails(p, false, leader.Config{}, leader.ErrConnectionClosed)
			synctest.Wait()
			check.Equal(t, leader.LockSessions()-before, 0, "%d sessions are remembered")
		})
	})
}

// The error of a try says when the holder has renewed, and what to do if that is longer ago than its lease: only a second
// try finds out that it has crashed, and a daily job in a new process makes none.
func TestTryAcquire_OfADailyJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		check.Got(leader.TryAcquire(t.Context(), store.Link("a"), "e", leader.Config{ID: "a"}))(t)
		time.Sleep(time.Hour + time.Second) // after a renewal
		tries := func(id, want string) {
			t.Helper()
			err := check.Err(leader.TryAcquire(t.Context(), store.Link(id), "e", leader.Config{ID: id}))
			check.That(t, errors.As(err, new(*leader.HeldError)) && strings.HasSuffix(err.Error(), want), "%v; want %q", err, want)
		}
		const at = `is held: "a" leads with token 1, renewed at 2000-01-01T01:00:00Z`
		tries("today", at)
		store.Link("a").Close()
		time.Sleep(14 * time.Second)
		tries("soon", at)
		time.Sleep(24 * time.Hour)
		tries("tomorrow", at+", longer ago than its lease of 15s: if it has crashed, call Acquire, or try again in this process after such a lease")
	})
}
