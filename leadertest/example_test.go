package leadertest_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
	"github.com/natsleader/natsleader/shard"
)

// A worker of the user's own stops when leadership is lost. In a test, t is the
// *testing.T, which calls the clean-up by itself.
func Example() {
	defer t.end()
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock)
	link := store.Link("a")
	candidate, err := leader.Campaign(context.Background(), link, "jobs", leader.Config{ID: "a"})
	if err != nil {
		t.Fatalf("Campaign: %v", err)
	}
	w := leadertest.Watch(t, clock, candidate)
	w.Expect(leader.Elected{})
	worker := startWorker(w.Term().Context())

	link.Cut()
	clock.Advance(15 * time.Second)
	fmt.Println("the worker ended:", <-worker)
	w.Expect(leader.Fenced{Cause: leader.ErrLeaseExpired})
	// Output: the worker ended: leader: lease not confirmed before the renew deadline
}

// ship is the code under test. In production the writer is a fence.BucketWriter.
func ship(ctx context.Context, orders fence.KVWriter, order string) error {
	_, err := orders.Put(ctx, order, []byte("shipped"))
	return err
}

// The writes of a worker are refused once another candidate leads, although the worker
// does not look at its context.
func ExampleLink_guard() {
	defer t.end()
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock)
	orders := leadertest.NewStore(clock) // the bucket that only the leader may write
	stand := func(id string) *leadertest.Watcher {
		guards := []leader.Guard{orders.Link(id).Guard()}
		candidate, err := leader.Campaign(context.Background(), store.Link(id), "jobs", leader.Config{ID: id, Guards: guards})
		if err != nil {
			t.Fatalf("Campaign: %v", err)
		}
		return leadertest.Watch(t, clock, candidate)
	}
	wa, wb := stand("a"), stand("b")
	wa.Expect(leader.Elected{})
	zombie := orders.Link("a").Writer(wa.Term())
	fmt.Println("a ships 1:", ship(context.Background(), zombie, "order-1"))

	store.Link("a").Cut()
	clock.Advance(15 * time.Second)
	wb.Expect(leader.Elected{})
	fmt.Println("a ships 2:", ship(context.Background(), zombie, "order-2"))
	fmt.Printf("order 1 is %q, order 2 is %q\n", orders.Value("order-1"), orders.Value("order-2"))
	// Output:
	// a ships 1: <nil>
	// a ships 2: leader: fenced: the guard of the term does not stand any more
	// order 1 is "shipped", order 2 is ""
}

// A term of its own is all that code needs which takes a *leader.Term.
func ExampleNewTerm() {
	defer t.end()
	term := leadertest.NewTerm(t, leader.Config{MinToken: 6})
	ended := make(chan struct{})
	work := func(term *leader.Term) { // the code under test
		term.Go(func(lead context.Context) {
			defer close(ended)
			<-lead.Done()
			fmt.Println("the work of term", term.Token(), "ends:", context.Cause(lead))
		})
	}
	work(term.Term)

	term.Advance(10 * time.Second)
	fmt.Println("remaining:", term.Remaining())
	term.End(leader.ErrPreempted)
	<-ended
	// Output:
	// remaining: 2s
	// the work of term 7 ends: leader: another candidate holds the key
}

// A shard of its own is all that code needs which takes a *shard.Shard.
func ExampleNewShard() {
	defer t.end()
	s := leadertest.NewShard(t, 12, 7)
	work := func(lead context.Context, s *shard.Shard) { // the code under test
		<-lead.Done()
		fmt.Println("the work on shard", s.Number(), "with token", s.Token(), "ends:", context.Cause(s.Context()))
	}
	ended := make(chan struct{})
	go func() {
		work(s.Context(), s.Shard)
		close(ended)
	}()

	s.End(shard.ErrMoved)
	<-ended
	// Output:
	// the work on shard 12 with token 7 ends: shard: granted to another member
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

var t = new(printer)

// printer stands in for a *testing.T, which examples do not have.
type printer struct{ cleanups []func() }

func (*printer) Helper()                           {}
func (*printer) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (p *printer) Cleanup(f func())                { p.cleanups = append(p.cleanups, f) }

// end runs the clean-up, as a *testing.T does by itself.
func (p *printer) end() {
	for _, f := range slices.Backward(p.cleanups) {
		f()
	}
	p.cleanups = nil
}

// In a queue the candidate that has waited longest follows. A dead candidate costs its turn.
func ExampleStore_queue() {
	defer t.end()
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock)
	queue := map[string]*leader.Candidate{}
	for _, id := range []string{"a", "b", "c"} {
		candidate, err := leader.Campaign(context.Background(), store.Link(id), "jobs", leader.Config{ID: id, Queue: &leader.Queue{}})
		if err != nil {
			t.Fatalf("Campaign: %v", err)
		}
		leadertest.Watch(t, clock, candidate) // ends it in the end
		queue[id] = candidate
		clock.Advance(time.Second)
	}
	clock.Advance(15 * time.Second) // a has published the order

	store.Link("b").Cut()
	if term, ok := queue["a"].Term(); !ok || term.Resign(context.Background()) != nil {
		t.Fatalf("a does not lead")
	}
	clock.Settle() // the key is given up
	clock.Advance(250*time.Millisecond - 1)
	fmt.Println("in b's turn c leads:", queue["c"].IsLeader())
	clock.Advance(1)
	fmt.Println("after b's turn c leads:", queue["c"].IsLeader())
	// Output:
	// in b's turn c leads: false
	// after b's turn c leads: true
}
