package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/examples/internal/scaffold"
	"github.com/natsleader/natsleader/examples/internal/timeline"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/schedule"
)

const (
	bucketName = "natsleader-examples"
	every      = 2 * time.Second
)

// process is one of the processes that may run the job.
type process struct {
	name   string
	tl     *timeline.Timeline
	ledger *ledger
	tenure time.Duration // after which it hands over, for the example; 0: never
}

// serve stands in the election and runs the job whenever this process leads,
// until ctx ends.
func (p *process) serve(ctx context.Context, js jetstream.JetStream) error {
	bucket, err := leader.CreateOrUpdateBucket(ctx, js, leader.BucketConfig{Name: bucketName})
	if err != nil {
		return err
	}
	if p.ledger, err = openLedger(ctx, js); err != nil {
		return err
	}
	jobs, err := schedule.Campaign(ctx, bucket, "cron", schedule.Every(every), leader.Config{ID: p.name})
	if err != nil {
		return err
	}
	c := jobs.Candidate()
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { scaffold.Report(p.tl, p.name, c) })

	var term *leader.Term
	for slot := range jobs.Slots() {
		if term != slot.Term { // for the example
			term = slot.Term
			others.Go(func() { p.handOver(ctx, slot.Term) })
		}
		for _, missed := range slot.Missed {
			p.tl.Say(p.name, "missed", "token %d, the run of %s", term.Token(), missed.Format(time.TimeOnly))
		}
		p.book(term.Context(), term.Token(), slot.Time)
	}
	return c.Err()
}

// book runs the job for one slot. The lease makes it unlikely that two leaders
// try. The ledger compares their tokens, which makes it impossible that both
// succeed.
func (p *process) book(ctx context.Context, token uint64, slot time.Time) {
	err := p.ledger.book(ctx, token, slot, p.name)
	switch {
	case errors.Is(err, errStale), errors.Is(err, errTaken):
		p.tl.Say(p.name, "refused", "token %d, %v", token, err)
	case ctx.Err() != nil: // the term has ended meanwhile
	case err != nil:
		p.tl.Say(p.name, "faulted", "token %d, %v", token, err)
	default:
		p.tl.Say(p.name, "job", "token %d, the run of %s", token, slot.Format(time.TimeOnly))
	}
}
