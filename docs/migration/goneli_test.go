package migration_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// background calls task again and again while this process leads, until ctx ends.
func background(ctx context.Context, store leader.Store, task func()) error {
	c, err := leader.Campaign(ctx, store, "my-app", leader.Config{DrainTimeout: 10 * time.Second})
	if err != nil {
		return err
	}
	for term := range c.Terms() {
		for lead := term.Context(); lead.Err() == nil; { // asks the clock, before each piece of work
			task()
		}
	} // as returning from the barrier: others may lead now
	return c.Err()
}

// application is what a barrier did.
type application interface {
	acquire(term *leader.Term) // begins to work
	wrapUp()                   // finishes what it has begun; another waits for it
	abort()                    // drops what it has begun; nobody waits
}

func barrier(c *leader.Candidate, app application) error {
	for term := range c.Terms() {
		app.acquire(term) // LeaderAcquired
		<-term.Context().Done()
		if cause := term.Err(); errors.Is(cause, leader.ErrResigned) || errors.Is(cause, leader.ErrStopped) {
			app.wrapUp() // LeaderRevoked: the key is kept for up to DrainTimeout
		} else {
			app.abort() // LeaderFenced
		}
	}
	return c.Err()
}

// The background task runs while its process leads.
func TestBackgroundTask_WhileLeading(t *testing.T) {
	f := newFake(t)
	begun, tasks, running := make(chan struct{}, 10), make(chan struct{}), atomic.Int32{}
	f.serve("a", func(ctx context.Context, store leader.Store) error {
		return background(ctx, store, func() {
			running.Add(1)
			begun <- struct{}{}
			<-tasks
			running.Add(-1)
		})
	})
	t.Cleanup(func() { close(tasks) }) // also after a failure, so that no goroutine waits
	for range 3 {
		tasks <- struct{}{}
	}
	for range 4 {
		<-begun
	}
	b, w := f.stand("my-app", "b")
	if err := f.store.StepDown("my-app"); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(9 * time.Second)
	w.Ignore(leadertest.Observed()).ExpectExactly() // the fourth task still runs
	tasks <- struct{}{}
	await(t, b)
	if n := running.Load(); n != 0 {
		t.Errorf("%d tasks run beside the new leader", n)
	}
}

// recorder is an application that records the calls of its methods.
type recorder struct {
	done   chan string
	finish chan struct{}
	over   <-chan struct{} // the test
}

// newRecorder returns a recorder that does not block when the test is over.
func newRecorder(t *testing.T) recorder {
	t.Helper()
	return recorder{make(chan string, 10), make(chan struct{}), t.Context().Done()}
}

func (r recorder) acquire(*leader.Term) { r.done <- "acquire" }
func (r recorder) abort()               { r.done <- "abort" }
func (r recorder) wrapUp() {
	r.done <- "wrap up"
	select {
	case <-r.finish:
	case <-r.over:
	}
}

func (r recorder) expect(t *testing.T, expected string) {
	t.Helper()
	select {
	case got := <-r.done:
		if got != expected {
			t.Fatalf("%q, not %q", got, expected)
		}
	case <-time.After(time.Minute):
		t.Fatalf("no %q", expected)
	}
}

// A barrier holds up a handover until it returns.
func TestBarrier_HoldsUpHandover(t *testing.T) {
	f, app := newFake(t), newRecorder(t)
	f.serve("a", func(ctx context.Context, store leader.Store) error {
		c, err := leader.Campaign(ctx, store, "my-app", leader.Config{DrainTimeout: 10 * time.Second})
		if err != nil {
			return err
		}
		return barrier(c, app)
	})
	app.expect(t, "acquire")
	b, w := f.stand("my-app", "b")
	if err := f.store.StepDown("my-app"); err != nil { // LeaderRevoked
		t.Fatal(err)
	}
	app.expect(t, "wrap up")
	f.clock.Advance(9 * time.Second)
	w.Ignore(leadertest.Observed()).ExpectExactly()
	app.finish <- struct{}{}
	await(t, b)
}

// A barrier that never returns holds up a handover for the drain timeout only.
func TestBarrier_Endless(t *testing.T) {
	f := newFake(t)
	c, err := leader.Campaign(t.Context(), f.store.Link("a"), "my-app", leader.Config{ID: "a", DrainTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.store.Link("a").Close()
		<-c.Done()
	})
	f.clock.Settle()
	_, w := f.stand("my-app", "b")
	if err := f.store.StepDown("my-app"); err != nil {
		t.Fatal(err)
	}
	w.Ignore(leadertest.Observed(), leadertest.Pending())
	f.clock.Advance(10*time.Second - 1)
	w.ExpectExactly()
	f.clock.Advance(1)
	w.ExpectExactly(leadertest.Elected())
}

// The barrier of a leader that is cut off holds up nothing.
func TestBarrier_CutOff(t *testing.T) {
	f, app := newFake(t), newRecorder(t)
	f.serve("a", func(ctx context.Context, store leader.Store) error {
		c, err := leader.Campaign(ctx, store, "my-app", leader.Config{DrainTimeout: 10 * time.Second})
		if err != nil {
			return err
		}
		return barrier(c, app)
	})
	app.expect(t, "acquire")
	_, w := f.stand("my-app", "b")
	f.store.Link("a").Cut()
	f.clock.Advance(12 * time.Second)
	app.expect(t, "abort") // LeaderFenced
	f.clock.Advance(3 * time.Second)
	w.Expect(leadertest.Elected())
	f.store.Link("a").Restore()
	f.clock.Advance(time.Second)
}

func TestMyApplication(t *testing.T) {
	clock := leadertest.NewClock() // NewMock
	store := leadertest.NewStore(clock)
	link := store.Link("a")
	c, err := leader.Campaign(t.Context(), link, "my-app", leader.Config{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	w := leadertest.Watch(t, clock, c)
	w.Expect(leadertest.Elected()) // AcquireLeader: nobody else stands
	first := w.Term()

	link.Cut() // FenceLeader
	clock.Advance(12 * time.Second)
	w.Expect(leadertest.Fenced(leader.ErrLeaseExpired))

	link.Restore() // AcquireLeader: a new term
	clock.Advance(time.Second)
	w.Expect(leadertest.Deposed(leader.ErrLeaseExpired), leadertest.Elected())
	if w.Term().Token() <= first.Token() {
		t.Error("the token has not grown")
	}

	link.FailWrites(1, leader.ErrPermission) // PulseError, which here ends nothing
	clock.Advance(3 * time.Second)
	w.Expect(leadertest.Faulted(leader.ErrPermission))

	if err := store.StepDown("my-app"); err != nil { // RevokeLeader
		t.Fatal(err)
	}
	w.Expect(leadertest.Deposed(leader.ErrResigned))

	link.Close() // Close
	<-c.Done()
}
