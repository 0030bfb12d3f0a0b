package migration_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// withLock runs critical while it holds the lock, once.
func withLock(ctx context.Context, store leader.Store, critical func(context.Context) error) error {
	waiting, cancel := context.WithTimeout(ctx, 10*time.Second) // LockTryOnce and LockWaitTime
	defer cancel()
	lock, err := leader.Acquire(waiting, store, "nightly", leader.Config{DrainTimeout: time.Minute})
	if err != nil {
		return err
	}
	err = critical(lock.Context()) // ends when the lock is lost, as the channel did
	return errors.Join(err, lock.Unlock(context.Background()))
}

// takeTurns leads until takeLeadership returns, and stands again.
func takeTurns(ctx context.Context, store leader.Store, takeLeadership func(context.Context)) error {
	c, err := leader.Campaign(ctx, store, "turns", leader.Config{DrainTimeout: time.Minute})
	if err != nil {
		return err
	}
	for term := range c.Terms() {
		takeLeadership(term.Context()) // is not interrupted: it looks at its context
	}
	return c.Err()
}

// A lock is held for as long as the work takes.
func TestLock_HeldDuringWork(t *testing.T) {
	f := newFake(t)
	entered, leave := make(chan context.Context), make(chan struct{})
	f.serve("a", func(ctx context.Context, store leader.Store) error {
		return withLock(ctx, store, func(ctx context.Context) error {
			entered <- ctx
			<-leave
			return ctx.Err()
		})
	})
	held := <-entered
	b, w := f.stand("nightly", "b")
	f.clock.Advance(time.Hour)
	w.Ignore(leadertest.Observed()).ExpectExactly()
	if held.Err() != nil {
		t.Fatal(context.Cause(held))
	}
	leave <- struct{}{}
	await(t, b)
}

// A process that returns from takeLeadership hands over and campaigns again.
func TestTakeLeadership_Returns(t *testing.T) {
	f := newFake(t)
	taken, give := make(chan struct{}), make(chan struct{})
	f.serve("a", func(ctx context.Context, store leader.Store) error {
		return takeTurns(ctx, store, func(ctx context.Context) {
			select {
			case taken <- struct{}{}:
			case <-ctx.Done():
			}
			select {
			case <-give:
			case <-ctx.Done():
			}
		})
	})
	<-taken
	b, _ := f.stand("turns", "b")
	give <- struct{}{}
	await(t, b)
	f.clock.Advance(15 * time.Second) // the wait after the end of a body: one lease
	if err := b.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-taken
}
