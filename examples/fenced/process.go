package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/examples/internal/scaffold"
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
	elections, err := leader.CreateOrUpdateBucket(ctx, js, leader.BucketConfig{Name: "natsleader-examples"})
	if err != nil {
		return err
	}
	p.orders, err = fence.CreateOrUpdateBucket(ctx, js, jetstream.KeyValueConfig{Bucket: p.bucket})
	if err != nil {
		return err
	}
	if p.kv, err = js.KeyValue(ctx, p.bucket); err != nil { // to read, and for plain Put
		return err
	}
	cfg := leader.Config{ID: p.name, GracePeriod: patience, Logger: slog.New(slog.DiscardHandler)} // the table shows the faults
	if p.guarded {
		cfg.Guards = []leader.Guard{p.orders}
	}
	c, err := leader.Campaign(ctx, elections, p.bucket, cfg)
	if err != nil {
		return err
	}
	err = p.serve(ctx, c)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // a worker was interrupted
	}
	return err
}

// patience is how long others wait for the work of a leader that steps down. The zombie takes
// longer.
const patience = 100 * time.Millisecond

// serve works in each term until ctx ends.
func (p *process) serve(ctx context.Context, c *leader.Candidate) (err error) {
	var reports sync.WaitGroup
	defer reports.Wait()
	reports.Go(func() { scaffold.Report(p.tl, p.name, c) })

	for term := range c.Terms() {
		if failed := p.lead(ctx, term); failed != nil {
			err = errors.Join(err, failed)
			p.end()
		}
	}
	return errors.Join(c.Err(), err)
}

// lead is the worker of a term. The worker of the first term is a zombie, that of
// the second term its successor.
func (p *process) lead(ctx context.Context, term *leader.Term) error {
	put := p.kv.Put
	if p.guarded {
		writer := p.orders.Writer(term)
		put = writer.Put
		raised := writer.GuardRevision()
		p.tl.Say(p.name, "finds", "token %d, and the guard stands at revision %d", term.Token(), raised)
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
	return work(ctx, term, put)
}

// put is the Put of a plain bucket, or that of a term's writer.
type put func(ctx context.Context, key string, value []byte) (revision uint64, err error)
