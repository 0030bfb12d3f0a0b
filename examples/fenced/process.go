package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/natsleader/natsleader/examples/internal/timeline"
	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/leader"
)

const (
	key    = "send-to"              // that only the leader may write
	tenure = 200 * time.Millisecond // after which the first leader resigns
)

// process is one process of a service: a candidate, and a worker that writes
// while it leads.
type process struct {
	name    string
	bucket  string // that it writes to
	guarded bool   // false: with plain Put, to show the difference
	orders  *fence.Bucket
	kv      jetstream.KeyValue
	*stage
}

// run stands in the election until ctx ends.
func (p *process) run(ctx context.Context, url string) error {
	nc, err := nats.Connect(url, nats.Name(p.name), nats.MaxReconnects(-1))
	if err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
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

// writeOn writes as fast as it can until a write is refused or the run ends.
// Meanwhile its candidate hands over.
func (p *process) writeOn(ctx context.Context, c *leader.Candidate, put put) error {
	var resigning errgroup.Group
	resigning.Go(func() error {
		select {
		case <-time.After(tenure):
		case <-ctx.Done():
			return nil
		}
		p.tl.Say(p.name, "RESIGNS", "and its worker, which was not told, writes on")
		return c.Resign(ctx)
	})
	var last uint64
	for n := 0; ; n++ {
		revision, err := put(ctx, key, []byte(p.name))
		switch {
		case errors.Is(err, leader.ErrFenced):
			p.tl.Say(p.name, "refused", "%s: %d of its writes were accepted, the last one as revision %d", timeline.Reason(err), n, last)
			p.refuse()
			return resigning.Wait()
		case err != nil:
			return errors.Join(err, resigning.Wait())
		}
		last = revision
	}
}

// succeed writes once. It reads the key when the zombie has been refused, or has
// written over it.
func (p *process) succeed(ctx context.Context, _ *leader.Candidate, put put) error {
	revision, err := put(ctx, key, []byte(p.name))
	if err != nil {
		return err
	}
	p.tl.Say(p.name, "writes", "%s=%s, as revision %d", key, p.name, revision)
	if p.guarded {
		<-p.refused.Done()
	}
	for {
		e, err := p.kv.Get(ctx, key)
		switch {
		case err != nil:
			return err
		case p.guarded || e.Revision() > revision:
			p.tl.Say(p.name, "reads", "%s=%s, of revision %d", key, e.Value(), e.Revision())
			p.wrote, p.read = p.name, string(e.Value())
			p.end()
			return nil
		}
	}
}

// stage is the state that the processes of a run share for the demonstration. A
// service has nothing like it.
type stage struct {
	tl      *timeline.Timeline
	zombie  atomic.Bool     // the first term has begun; its worker is one
	refused context.Context // ends when the zombie was refused
	refuse  func()
	end     func() // of the run

	wrote, read string // by the zombie's successor
}
