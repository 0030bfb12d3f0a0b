package migration_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// serve works while it leads, until ctx ends.
func serve(ctx context.Context, store leader.Store, work func(context.Context, uint64)) error {
	c, err := leader.Campaign(ctx, store, "billing", leader.Config{})
	if err != nil {
		return err // settings that cannot work, and nothing else
	}
	for term := range c.Terms() { // ends when the candidate has ended
		work(term.Context(), term.Token()) // returns when the context has ended
	}
	return c.Err() // nil after Stop and at the end of ctx
}

// underBoth campaigns while the old lock is held, and works while it leads here, too.
func underBoth(held context.Context, store leader.Store, work func(*leader.Term)) error {
	c, err := leader.Campaign(held, store, "billing", leader.Config{GracePeriod: time.Minute})
	if err != nil {
		return err
	}
	for term := range c.Terms() {
		work(term) // returns when term.Context() has ended, and so does that when held has
	}
	return c.Err() // now the old lock may be given up
}

// worker reports when its work begins and when its context ends.
type worker struct {
	begun chan uint64
	ended chan error
}

func newWorker() worker { return worker{make(chan uint64), make(chan error, 1)} }

func (w worker) work(ctx context.Context, token uint64) {
	w.begun <- token
	<-ctx.Done()
	w.ended <- context.Cause(ctx)
}

// The worker of the page's shape works under every term, and only under a term.
func TestShape_WorksUnderEveryTerm(t *testing.T) {
	f, w := newFake(t), newWorker()
	f.serve("a", func(ctx context.Context, store leader.Store) error { return serve(ctx, store, w.work) })
	if token := <-w.begun; token != 1 {
		t.Fatalf("token %d", token)
	}
	f.store.Link("a").Cut()
	f.clock.Advance(12 * time.Second)
	if cause := <-w.ended; !errors.Is(cause, leader.ErrLeaseExpired) {
		t.Fatal(cause)
	}
	f.store.Link("a").Restore()
	f.clock.Advance(time.Minute)
	if token := <-w.begun; token <= 1 {
		t.Fatalf("token %d after the fence", token)
	}
	f.clock.Settle()
	check.OK(t, f.store.StepDown("billing"))
	if cause := <-w.ended; !errors.Is(cause, leader.ErrResigned) {
		t.Fatal(cause)
	}
}

// A fleet that holds both locks moves over without two processes that work at the same
// time. The fleet of the page's section "Without a stop". The old lock is itself an
// election here, in another store with the same clock. "before" takes only the old lock,
// "between" takes both, "after" takes only ours.
func TestFleet_WithBothLocks(t *testing.T) {
	f := newFake(t)
	oldLocks := leadertest.NewStore(f.clock)
	stand := func(id string) (*leader.Candidate, *leadertest.Watcher) {
		c, err := leader.Campaign(context.Background(), oldLocks.Link(id), "billing", leader.Config{ID: id})
		check.OK(t, err)
		t.Cleanup(func() {
			oldLocks.Link(id).Close()
			<-c.Done()
		})
		return c, leadertest.Watch(t, f.clock, c)
	}
	stop := func(c *leader.Candidate) {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}

	before, watchBefore := stand("before")
	watchBefore.Expect(leadertest.Elected())
	between, watchBetween := stand("between")
	f.clock.Settle()
	if between.IsLeader() {
		t.Fatal("two hold the old lock")
	}
	stop(before) // its work is over by then
	f.clock.Settle()
	watchBetween.Expect(leadertest.Elected())

	working, finish, gone := make(chan *leader.Term), make(chan struct{}), make(chan error)
	go func() {
		gone <- underBoth(watchBetween.Term().Context(), f.store.Link("between"), func(term *leader.Term) {
			working <- term
			<-term.Context().Done()
			<-finish
		})
	}()
	term := <-working
	after, watchAfter := f.stand("billing", "after")
	f.clock.Advance(time.Minute)
	watchAfter.Ignore(leadertest.Observed()).ExpectExactly()

	// The old lock is lost, and with it the right to work, although ours is valid.
	oldLocks.Link("between").Cut()
	f.clock.Advance(12 * time.Second)
	<-term.Context().Done()
	if !errors.Is(context.Cause(term.Context()), leader.ErrStopped) {
		t.Fatal(context.Cause(term.Context()))
	}
	f.clock.Advance(10 * time.Second)
	watchAfter.ExpectExactly() // the work has not ended, and ours is kept for it
	close(finish)
	check.OK(t, <-gone)
	if token := await(t, after).Token(); token <= term.Token() {
		t.Errorf("token %d after %d", token, term.Token())
	}
}
