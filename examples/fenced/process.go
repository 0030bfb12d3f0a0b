package main

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/natsleader/natsleader/examples/internal/timeline"
	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/leader"
)

const key = "send-to" // that only the leader may write

// process is one process of a service: a candidate, and a worker that writes
// while it leads.
type process struct {
	name    string
	bucket  string // that it writes to
	guarded bool   // false: with plain Put, to show the difference
	orders  *fence.Bucket
	kv      jetstream.KeyValue
	*play
}

// run stands in the election until ctx ends.
func (p *process) run(ctx context.Context, js jetstream.JetStream) error {
	elections, err := leader.CreateBucket(ctx, js, leader.BucketConfig{Name: "natsleader-examples"})
	if err != nil {
		return err
	}
	p.orders, err = fence.CreateBucket(ctx, js, jetstream.KeyValueConfig{Bucket: p.bucket})
	if err != nil {
		return err
	}
	if p.kv, err = js.KeyValue(ctx, p.bucket); err != nil { // to read, and for plain Put
		return err
	}
	cfg := leader.Config{ID: p.name}
	if p.guarded {
		cfg.Guards = []leader.Guard{p.orders}
	}
	c, err := leader.Campaign(context.Background(), elections, p.bucket, cfg)
	if err != nil {
		return err
	}
	err = p.serve(ctx, c)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // a worker was interrupted
	}
	return err
}

// serve starts a worker in each term until ctx ends.
func (p *process) serve(ctx context.Context, c *leader.Candidate) error {
	defer context.AfterFunc(ctx, func() {
		stopping, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := c.Stop(stopping); err != nil {
			p.tl.Say(p.name, "faulted", "stopped without releasing the key: %v", err)
		}
	})()

	var workers errgroup.Group
	for ev := range c.Events() {
		switch ev := ev.(type) {
		case leader.Elected:
			workers.Go(func() error {
				err := p.lead(ctx, c, ev.Term)
				if err != nil {
					p.end()
				}
				return err
			})
		case leader.Deposed:
			// A careful program waits here for its worker. Here the wait would be long.
			p.tl.Say(p.name, "deposed", "token %d, %s", ev.Term.Token(), timeline.Reason(ev.Cause))
		case leader.Faulted:
			p.tl.Say(p.name, "faulted", "%s", timeline.Reason(ev.Err))
		case leader.Fenced, leader.Pending, leader.Observed:
		}
	}
	return errors.Join(c.Err(), workers.Wait())
}

// lead is the worker of a term. The worker of the first term is a zombie, that of
// the second term its successor.
func (p *process) lead(ctx context.Context, c *leader.Candidate, term *leader.Term) error {
	put := p.kv.Put
	if !p.guarded {
		p.tl.Say(p.name, "elected", "token %d", term.Token())
	} else {
		put = p.orders.Writer(term).Put
		raised, _ := term.Fence(p.orders)
		p.tl.Say(p.name, "elected", "token %d, and the guard stands at revision %d", term.Token(), raised)
		stock, err := takeStock(ctx, p.kv, raised)
		if err != nil {
			return err
		}
		if e, ok := stock[key]; ok {
			p.tl.Say(p.name, "finds", "%s=%s, of revision %d", key, e.Value(), e.Revision())
		}
	}
	work := p.succeed
	if p.zombie.CompareAndSwap(false, true) {
		work = p.writeOn
	}
	return work(ctx, c, put)
}

// put is the Put of a plain bucket, or that of a term's writer.
type put func(ctx context.Context, key string, value []byte) (revision uint64, err error)
