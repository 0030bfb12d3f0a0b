package roster_test

import (
	"context"
	"fmt"
	"log"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
	"github.com/natsleader/natsleader/roster"
)

// stand lets candidates stand in an election, one after the other, the later ones with a higher priority.
func stand(clock *leadertest.Clock, store *leadertest.Store, ids ...string) map[string]*leader.Candidate {
	candidates := make(map[string]*leader.Candidate)
	for i, id := range ids {
		c, err := leader.Campaign(context.Background(), store.Link(id), "billing", leader.Config{ID: id, Queue: &leader.Queue{Priority: i}})
		if err != nil {
			log.Fatal(err)
		}
		candidates[id] = c
		clock.Settle()
	}
	return candidates
}

// Before a process is drained, an operator sees who would follow it.
func ExampleLookup() {
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock) // in production a leader.Bucket with a Roster, and no clock
	candidates := stand(clock, store, "ann", "bob", "cid")
	waiting, err := roster.Lookup(context.Background(), store, "billing")
	if err != nil {
		log.Fatal(err)
	}
	for i, e := range waiting {
		fmt.Printf("%d. %s, priority %d\n", i+1, e.ID, e.Priority)
	}
	for _, c := range candidates {
		if err := c.Stop(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// 1. cid, priority 2
	// 2. bob, priority 1
}

// A status page shows the candidates that wait, and changes when they do.
func ExampleObserve() {
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock) // in production a leader.Bucket with a Roster, and no clock
	candidates := stand(clock, store, "ann", "bob")
	ctx, cancel := context.WithCancel(context.Background())
	lists, err := roster.Observe(ctx, store, "billing")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("waiting:", names(<-lists))
	if err := candidates["ann"].Stop(); err != nil { // bob follows
		log.Fatal(err)
	}
	fmt.Println("waiting:", names(<-lists))
	cancel()
	for range lists { // closed when ctx has ended
	}
	if err := candidates["bob"].Stop(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// waiting: [bob]
	// waiting: []
}

func names(waiting []roster.Entry) (ids []string) {
	for _, e := range waiting {
		ids = append(ids, e.ID)
	}
	return ids
}
