package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/natsleader/natsleader/examples/internal/timeline"
	"github.com/natsleader/natsleader/leader"
)

// replica is one process of a service.
type replica struct {
	name string
	tl   *timeline.Timeline
}

// serve stands in the election and runs the workers whenever this replica
// leads, until ctx ends.
func (r *replica) serve(ctx context.Context, js jetstream.JetStream) error {
	bucket, err := leader.CreateBucket(ctx, js, leader.BucketConfig{Name: "natsleader-examples"})
	if err != nil {
		return err
	}
	c, err := leader.Campaign(context.Background(), bucket, "worker", leader.Config{
		ID: r.name, DrainTimeout: 2 * time.Second,
	})
	if err != nil {
		return err
	}
	// Stop ends the term, waits for the workers, releases the key and closes the
	// channel of events. The timeout limits the wait.
	defer context.AfterFunc(ctx, func() {
		stopping, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := c.Stop(stopping); err != nil {
			r.tl.Say(r.name, "faulted", "stopped in a hurry: %v", err)
		}
	})()

	var crew sync.WaitGroup
	for ev := range c.Events() {
		switch ev := ev.(type) {
		case leader.Elected:
			r.tl.Say(r.name, "elected", "token %d", ev.Term.Token())
			crew.Go(func() { r.lead(ctx, c, ev.Term) })
			crew.Go(func() { r.retire(ctx, c, ev.Term) }) // for the example
		case leader.Fenced:
			// The context has ended, but the key is still ours. The workers finish.
			r.tl.Say(r.name, "fenced", "token %d, %s", ev.Term.Token(), timeline.Reason(ev.Cause))
		case leader.Deposed:
			crew.Wait() // nothing of this term may run when the next one begins
			r.tl.Say(r.name, "deposed", "token %d, %s", ev.Term.Token(), timeline.Reason(ev.Cause))
		case leader.Faulted:
			r.tl.Say(r.name, "faulted", "%s", timeline.Reason(ev.Err))
		case leader.Pending, leader.Observed:
		}
	}
	return c.Err() // every Elected has had its Deposed
}

// lead runs the workers of one term, and returns when the last one has ended.
func (r *replica) lead(ctx context.Context, c *leader.Candidate, term *leader.Term) {
	crew, working := errgroup.WithContext(term.Context())
	for i := range 3 {
		crew.Go(func() error { return r.work(working, term, i+1) })
	}
	err := crew.Wait()
	term.Release() // the next leader need not wait any longer
	if err != nil {
		// A worker has failed, and the others were cancelled with it. A leader that
		// does not work should let another candidate try.
		r.resign(ctx, c, err.Error())
	}
}

// resign hands over. It returns when the key is released, after the drain.
func (r *replica) resign(ctx context.Context, c *leader.Candidate, why string) {
	r.tl.Say(r.name, "RESIGN", "%s", why)
	err := c.Resign(ctx)
	if err != nil && !errors.Is(err, leader.ErrNotLeader) && ctx.Err() == nil {
		r.tl.Say(r.name, "faulted", "%s", timeline.Reason(err))
	}
}

// work does one item after the other until ctx ends. An item that was begun is
// finished: it takes less than the margin that the lease leaves after the
// context has ended (RenewDeadline to LeaseDuration, 3 s by default).
func (r *replica) work(ctx context.Context, term *leader.Term, number int) error {
	for items := 0; ; items++ {
		// Ask the term, not only its context: after a pause of the process the
		// timers may be late.
		if ctx.Err() != nil || term.Err() != nil {
			r.tl.Say(r.name, "ended", "token %d, worker %d after %d items", term.Token(), number, items)
			return nil
		}
		process()
	}
}

// process stands for work that cannot be interrupted.
func process() { <-time.After(100*time.Millisecond + rand.N(600*time.Millisecond)) }
