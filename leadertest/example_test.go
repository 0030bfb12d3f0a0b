package leadertest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// A worker of the user's own stops when leadership is lost. In a test, t is the
// *testing.T.
func Example() {
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock)
	link := store.Link("a")
	candidate, err := leader.Campaign(context.Background(), link, "jobs", leader.Config{ID: "a"})
	if err != nil {
		t.Fatalf("Campaign: %v", err)
	}
	w := leadertest.Watch(t, clock, candidate)
	w.Expect(leadertest.Elected())
	worker := startWorker(w.Term().Context())

	link.Cut()
	clock.Advance(15 * time.Second)
	fmt.Println("the worker ended:", <-worker)
	w.Ignore(leadertest.Faulted()).ExpectExactly(leadertest.Fenced(leader.ErrLeaseExpired))

	link.Close()
	<-candidate.Done()
	// Output: the worker ended: leader: lease not confirmed before the renew deadline
}

// The writes of a worker are refused once another candidate leads, although the worker
// does not look at its context.
func ExampleGuard() {
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock)
	orders := leadertest.NewStore(clock, leadertest.WithoutPurgeProtection())
	stand := func(id string) (*leader.Candidate, *leadertest.Watcher) {
		guards := []leader.Guard{orders.Link(id).Guard()}
		candidate, err := leader.Campaign(context.Background(), store.Link(id), "jobs", leader.Config{ID: id, Guards: guards})
		if err != nil {
			t.Fatalf("Campaign: %v", err)
		}
		return candidate, leadertest.Watch(t, clock, candidate)
	}
	a, wa := stand("a")
	b, wb := stand("b")
	wa.Expect(leadertest.Elected())
	zombie := orders.Link("a").Guard().Writer(wa.Term()) // in production a fence.BucketWriter
	_, err := zombie.Put(context.Background(), "order-1", []byte("shipped"))
	fmt.Println("a writes:", err)

	store.Link("a").Cut()
	clock.Advance(15 * time.Second)
	wb.Expect(leadertest.Elected())
	_, err = zombie.Put(context.Background(), "order-1", []byte("cancelled"))
	fmt.Println("a writes:", err)
	fmt.Printf("the order is %s\n", orders.Entry("order-1").Value)

	for id, candidate := range map[string]*leader.Candidate{"a": a, "b": b} {
		store.Link(id).Close()
		<-candidate.Done()
	}
	// Output:
	// a writes: <nil>
	// a writes: leader: fenced: the guard of the term does not stand any more
	// the order is shipped
}

// startWorker starts the worker under test.
func startWorker(ctx context.Context) <-chan error {
	ended := make(chan error)
	go func() {
		<-ctx.Done()
		ended <- context.Cause(ctx)
	}()
	return ended
}

var t printer

// printer stands in for a *testing.T, which examples do not have.
type printer struct{}

func (printer) Helper()                           {}
func (printer) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// In a queue the candidate that has waited longest follows. A dead candidate costs its turn.
func ExampleStore_queue() {
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock)
	queue := map[string]*leader.Candidate{}
	for _, id := range []string{"a", "b", "c"} {
		candidate, err := leader.Campaign(context.Background(), store.Link(id), "jobs", leader.Config{ID: id, Queue: true})
		if err != nil {
			t.Fatalf("Campaign: %v", err)
		}
		queue[id] = candidate
		clock.Advance(time.Second)
	}
	clock.Advance(15 * time.Second) // a has published the order

	store.Link("b").Cut()
	if err := queue["a"].Resign(context.Background()); err != nil {
		t.Fatalf("Resign: %v", err)
	}
	clock.Advance(250*time.Millisecond - 1)
	fmt.Println("in b's turn c leads:", queue["c"].IsLeader())
	clock.Advance(1)
	fmt.Println("after b's turn c leads:", queue["c"].IsLeader())

	for id, candidate := range queue {
		store.Link(id).Close()
		<-candidate.Done()
	}
	// Output:
	// in b's turn c leads: false
	// after b's turn c leads: true
}
