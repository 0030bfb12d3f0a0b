package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// The body of the loop is the work. It asks its context before each item. The loop ends when
// the candidate has been stopped, after the body.
func ExampleCandidate_Terms() {
	store := leadertest.NewStore(leadertest.NewClock()) // in production a leader.Bucket
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	c, err := leader.Campaign(ctx, store.Link("a"), "billing", leader.Config{ID: "a"})
	if err != nil {
		log.Fatal(err)
	}
	for term := range c.Terms() {
		lead := term.Context()
		for item := 1; lead.Err() == nil; item++ {
			fmt.Println("item", item, "under token", term.Token())
			if item == 3 {
				stop() // as signal.NotifyContext does on SIGTERM
				<-lead.Done()
			}
		}
		fmt.Println("the term is over:", context.Cause(lead))
	}
	fmt.Println("the candidate has ended, error:", c.Err())
	// Output:
	// item 1 under token 1
	// item 2 under token 1
	// item 3 under token 1
	// the term is over: leader: stopped
	// the candidate has ended, error: <nil>
}

// A leader that is asked to hand over keeps the key until its work has ended, for at most
// GracePeriod. No other candidate leads before.
func ExampleConfig_gracePeriod() {
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock) // in production a leader.Bucket, and no clock
	stand := func(id string) *leader.Candidate {
		c, err := leader.Campaign(context.Background(), store.Link(id), "billing", leader.Config{ID: id, GracePeriod: time.Minute})
		if err != nil {
			log.Fatal(err)
		}
		clock.Settle()
		return c
	}
	a, b := stand("a"), stand("b")
	begun, finishing, finished, ended := make(chan bool), make(chan bool), make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		for term := range a.Terms() {
			begun <- true
			<-term.Context().Done() // in the middle of an item
			finishing <- true
			<-finished
		}
	}()

	<-begun
	if err := store.StepDown("billing"); err != nil { // or natsleader step-down billing
		log.Fatal(err)
	}
	<-finishing
	clock.Advance(20 * time.Second)
	fmt.Println("a finishes its item. Does b lead?", b.IsLeader())
	finished <- true
	for !b.IsLeader() { // the clock does not wait for the loop
		clock.Settle()
	}
	fmt.Println("a has finished it. Does b lead?", b.IsLeader())

	for _, c := range []*leader.Candidate{a, b} {
		if err := c.Stop(); err != nil {
			log.Fatal(err)
		}
	}
	<-ended
	// Output:
	// a finishes its item. Does b lead? false
	// a has finished it. Does b lead? true
}

// Several goroutines share the work of a term. The body ends when the last of them has ended. Exact
// makes the context of the group ask the clock, as that of the term does.
func ExampleExact() {
	store := leadertest.NewStore(leadertest.NewClock()) // in production a leader.Bucket
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	c, err := leader.Campaign(ctx, store.Link("a"), "billing", leader.Config{ID: "a"})
	if err != nil {
		log.Fatal(err)
	}
	var done atomic.Int32
	for term := range c.Terms() {
		group, lead := errgroup.WithContext(term.Context())
		lead = leader.Exact(lead)
		for range 3 {
			group.Go(func() error {
				for lead.Err() == nil {
					if done.Add(1) == 100 { // an item of work
						return errors.New("item 100 fails") // ends the others, too
					}
				}
				return context.Cause(lead)
			})
		}
		fmt.Println("the work of the term has ended:", group.Wait())
		stop() // or else the candidate campaigns again after one lease
	}
	fmt.Println("the candidate has ended, error:", c.Err())
	// Output:
	// the work of the term has ended: item 100 fails
	// the candidate has ended, error: <nil>
}

// Contexts that are derived from that of a term do not ask the clock. Err does.
func ExampleErr() {
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock) // in production a leader.Bucket, and no clock
	c, err := leader.Campaign(context.Background(), store.Link("a"), "billing", leader.Config{ID: "a"})
	if err != nil {
		log.Fatal(err)
	}
	clock.Settle()
	term, _ := c.Term()
	ctx, cancel := context.WithTimeout(term.Context(), time.Hour)
	defer cancel()

	fmt.Println(leader.Err(ctx))
	store.Link("a").Cut()
	clock.Advance(12 * time.Second)
	fmt.Println(leader.Err(ctx))

	store.Link("a").Close()
	<-c.Done()
	// Output:
	// <nil>
	// leader: lease not confirmed before the renew deadline
}

// A program that looks on reads the events of its candidate. The candidate never waits for it.
func ExampleCandidate_Events() {
	store := leadertest.NewStore(leadertest.NewClock()) // in production a leader.Bucket
	c, err := leader.Campaign(context.Background(), store.Link("a"), "billing", leader.Config{ID: "a"})
	if err != nil {
		log.Fatal(err)
	}
	for event := range c.Events(context.Background()) { // until the candidate has ended
		switch e := event.(type) {
		case leader.Elected:
			fmt.Println("elected with token", e.Term.Token())
			go func() { _ = c.Stop() }()
		case leader.Deposed:
			fmt.Println("deposed:", e.Cause)
		case leader.Faulted:
			fmt.Println("faulted:", e.Err) // the candidate goes on
		case leader.Pending, leader.Fenced, leader.Observed:
		}
	}
	// Output:
	// elected with token 1
	// deposed: leader: stopped
}
