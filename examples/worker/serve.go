package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/natsleader/natsleader/examples/internal/scaffold"
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
	bucket, err := leader.CreateOrUpdateBucket(ctx, js, leader.BucketConfig{Name: "natsleader-examples"})
	if err != nil {
		return err
	}
	c, err := leader.Campaign(ctx, bucket, "worker", leader.Config{
		ID: r.name, GracePeriod: 2 * time.Second,
	})
	if err != nil {
		return err
	}
	var reports sync.WaitGroup
	reports.Go(func() { scaffold.Report(r.tl, r.name, c) })
	defer reports.Wait()

	for term := range c.Terms() { // ends when ctx has ended and the key is released
		r.lead(term)
	}
	return c.Err()
}

// lead runs the workers of one term, and returns when the last one has ended. If the term
// leads then, the replica hands over: after the tenure, or because a worker has failed. A
// leader that does not work should let another candidate try.
func (r *replica) lead(term *leader.Term) {
	lead, cancel := context.WithTimeout(term.Context(), tenure) // for the example
	defer cancel()
	crew, working := errgroup.WithContext(lead)
	for i := range 3 {
		crew.Go(func() error { return r.work(working, term.Token(), i+1) })
	}
	if err := crew.Wait(); err != nil { // the other workers were cancelled with it
		r.tl.Say(r.name, "failed", "%v", err)
	}
	if leader.Err(term.Context()) == nil {
		r.tl.Say(r.name, "RESIGNS", "has led for long enough")
	}
}

// work does one item after the other until its context ends. An item that was begun is
// finished. Until then the key is kept, for up to the GracePeriod.
func (r *replica) work(ctx context.Context, token uint64, number int) error {
	for items := 0; ; items++ {
		// The context is derived from that of the term, so its own Err is late after a
		// pause of the process. leader.Err asks the clock.
		if leader.Err(ctx) != nil {
			r.tl.Say(r.name, "ended", "token %d, worker %d after %d items", token, number, items)
			return nil
		}
		process()
	}
}

// process stands for work that cannot be interrupted.
func process() { <-time.After(100*time.Millisecond + rand.N(600*time.Millisecond)) }
