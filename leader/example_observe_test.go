package leader_test

import (
	"context"
	"fmt"
	"log"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// A process that does not stand follows the leader. The value is what the leader publishes,
// for example its address.
func ExampleObserve() {
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock) // in production a leader.Bucket, and no clock
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	holders, err := leader.Observe(ctx, store.Link("reader"), "billing")
	if err != nil {
		log.Fatal(err)
	}
	c, err := leader.Campaign(context.Background(), store.Link("a"), "billing", leader.Config{ID: "a", Value: []byte("10.0.0.1:8080")})
	if err != nil {
		log.Fatal(err)
	}
	for h := range holders { // at once, at each change, and until ctx has ended
		if h.State == leader.HolderLeading {
			fmt.Printf("%s leads with token %d at %s\n", h.ID, h.Token, h.Value)
			cancel()
		}
	}
	if err := c.Stop(); err != nil {
		log.Fatal(err)
	}
	// Output: a leads with token 1 at 10.0.0.1:8080
}

// The leader hands over to a candidate by name. All others wait.
func ExampleTerm_TransferTo() {
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock) // in production a leader.Bucket, and no clock
	all := make(map[string]*leader.Candidate)
	for _, id := range []string{"a", "b", "c"} {
		c, err := leader.Campaign(context.Background(), store.Link(id), "billing", leader.Config{ID: id})
		if err != nil {
			log.Fatal(err)
		}
		clock.Settle()
		all[id] = c
	}
	term, _ := all["a"].Term()
	err := term.TransferTo(context.Background(), "c") // returns when the term has ended
	clock.Settle()
	fmt.Println("error:", err)
	for _, id := range []string{"a", "b", "c"} {
		fmt.Println(id, "leads:", all[id].IsLeader())
	}
	for _, id := range []string{"b", "a", "c"} { // the leader last
		if err := all[id].Stop(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// error: <nil>
	// a leads: false
	// b leads: false
	// c leads: true
}
