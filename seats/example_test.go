package seats_test

import (
	"context"
	"fmt"
	"log"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
	"github.com/natsleader/natsleader/seats"
)

// A semaphore: of any number of workers at most three work at once. When one of them
// ends, another takes its seat.
func ExampleOf() {
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock) // in production a leader.Bucket, and no clock
	workers := make(map[string]*leader.Candidate)
	for _, id := range []string{"ann", "bob", "cid", "dan", "eve"} {
		c, err := leader.Campaign(context.Background(), seats.Of(store.Link(id), 3), "imports", leader.Config{ID: id})
		if err != nil {
			log.Fatal(err)
		}
		workers[id] = c
		clock.Settle()
	}
	// Each worker works while it has a term, as in any election: see Terms.
	working := func() {
		clock.Settle()
		for _, id := range []string{"ann", "bob", "cid", "dan", "eve"} {
			if term, ok := workers[id].Term(); ok {
				fmt.Printf("%s works on seat %d\n", id, term.Seat())
			}
		}
	}
	working()
	fmt.Println("ann has ended")
	if err := workers["ann"].Stop(); err != nil {
		log.Fatal(err)
	}
	working()
	for id, c := range workers {
		store.Link(id).Close()
		<-c.Done()
	}
	// Output:
	// ann works on seat 1
	// bob works on seat 2
	// cid works on seat 3
	// ann has ended
	// bob works on seat 2
	// cid works on seat 3
	// dan works on seat 1
}
