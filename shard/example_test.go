package shard_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"sync"

	"github.com/natsleader/natsleader/leadertest"
	"github.com/natsleader/natsleader/shard"
)

// A process works on the shards that it is granted, here all three, until it is asked to stop.
func Example() {
	store := leadertest.NewStore(nil)                     // in production a leader.Bucket
	ctx, stop := context.WithCancel(context.Background()) // in production signal.NotifyContext
	m, err := shard.Join(ctx, store, "orders", shard.Config{Shards: 3, ID: "web-1"})
	if err != nil {
		log.Fatal(err)
	}
	var begun sync.WaitGroup
	begun.Add(3)
	go func() {
		begun.Wait()
		stop()
	}()
	err = m.Serve(func(lead context.Context, s *shard.Shard) { // on a goroutine for each shard
		fmt.Println("shard", s.Number(), "begins")
		begun.Done()
		for lead.Err() == nil { // reads the clock
			item(lead)
		}
		fmt.Println("shard", s.Number(), "ends:", context.Cause(lead))
	})
	fmt.Println("the member has left:", err)
	// Unordered output:
	// shard 0 begins
	// shard 1 begins
	// shard 2 begins
	// shard 0 ends: leader: stopped
	// shard 1 ends: leader: stopped
	// shard 2 ends: leader: stopped
	// the member has left: <nil>
}

// item is the work on one item of a shard.
func item(ctx context.Context) { <-ctx.Done() }

// A gateway follows which process owns each shard. The value is what that process publishes, for example its address.
func ExampleObserve() {
	store := leadertest.NewStore(nil) // in production a leader.Bucket
	ctx, stop := context.WithCancel(context.Background())
	m, err := shard.Join(ctx, store.Link("web-1"), "orders", shard.Config{Shards: 3, ID: "web-1", Value: []byte("10.0.0.1:80")})
	if err != nil {
		log.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- m.Serve(func(lead context.Context, _ *shard.Shard) { <-lead.Done() }) }()
	views, err := shard.Observe(ctx, store.Link("gateway"), "orders")
	if err != nil {
		log.Fatal(err)
	}
	for v := range views { // at once, at each change, and until ctx has ended
		if len(v.Owners) == 0 || slices.ContainsFunc(v.Owners, func(o shard.Owner) bool { return o.State != shard.OwnerWorks }) {
			continue // not all have an owner yet
		}
		for n, o := range v.Owners {
			fmt.Printf("shard %d: %s at %s\n", n, o.ID, o.Value)
		}
		break
	}
	stop()
	fmt.Println("the process has left:", <-served)
	// Output:
	// shard 0: web-1 at 10.0.0.1:80
	// shard 1: web-1 at 10.0.0.1:80
	// shard 2: web-1 at 10.0.0.1:80
	// the process has left: <nil>
}
