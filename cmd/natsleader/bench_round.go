package main

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
)

// bench measures elections, and the bare writes that they are made of.
type bench struct {
	ends     [2]benchEnd
	feed     string // prefix of the subjects of the keys' feeds
	patience time.Duration
	rows     []row
}

// benchEnd is one of the two sides, with a connection of its own.
type benchEnd struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	bucket *leader.Bucket
	kv     jetstream.KeyValue
}

func (e *benchEnd) open(ctx context.Context, name string) (err error) {
	if e.bucket, err = leader.OpenBucket(e.js, name); err != nil {
		return err
	}
	e.kv, err = e.js.KeyValue(ctx, name)
	return err
}

const (
	rowElection = iota
	rowRenewal
	rowHandover
)

func newRows() []row {
	return []row{{name: "election"}, {name: "renewal", bareName: "update"}, {name: "handover", bareName: "update, delivery, update"}}
}

// renewals is how many renewals, and how many updates, a round measures.
const renewals = 5

// recordBytes is about the size of a record.
const recordBytes = 180

// round elects, renews and hands over once, and does the bare writes in turn.
func (b *bench) round(ctx context.Context, election string, lease time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	one, two := &b.ends[0], &b.ends[1]
	began := time.Now()
	a, err := stand(ctx, one.bucket, election, leader.Config{ID: "one", LeaseDuration: lease})
	if err != nil {
		return err
	}
	defer a.stop()
	at, err := a.elected(ctx)
	if err != nil {
		return err
	}
	b.rows[rowElection].ours = append(b.rows[rowElection].ours, at.Sub(began))
	if err = b.renew(ctx, a.Candidate, "bare."+election); err != nil {
		return err
	}
	c, err := stand(ctx, two.bucket, election, leader.Config{ID: "two", LeaseDuration: lease})
	if err != nil {
		return err
	}
	defer c.stop()
	if err = c.observed(ctx); err != nil {
		return err
	}
	if err = b.settle(ctx); err != nil {
		return err
	}
	began = time.Now()
	if err = a.Resign(ctx); err != nil {
		return err
	}
	if at, err = c.elected(ctx); err != nil {
		return err
	}
	b.rows[rowHandover].ours = append(b.rows[rowHandover].ours, at.Sub(began))
	return b.relay(ctx, "relay."+election)
}

// renew measures renewals, brought about by Proclaim, and updates of as many bytes.
func (b *bench) renew(ctx context.Context, c *leader.Candidate, key string) error {
	kv, value := b.ends[0].kv, make([]byte, recordBytes)
	revision, err := kv.Update(ctx, key, value, 0)
	if err != nil {
		return err
	}
	r := &b.rows[rowRenewal]
	for range renewals {
		began := time.Now()
		if err = c.Proclaim(ctx, nil); err != nil {
			return err
		}
		r.ours = append(r.ours, time.Since(began))
		began = time.Now()
		if revision, err = kv.Update(ctx, key, value, revision); err != nil {
			return err
		}
		r.bare = append(r.bare, time.Since(began))
	}
	return nil
}

// relay measures a handover without an election: an update, its delivery, and an update
// by the receiver.
func (b *bench) relay(ctx context.Context, key string) error {
	one, two, value := b.ends[0], b.ends[1], make([]byte, recordBytes)
	revision, err := one.kv.Update(ctx, key, value, 0)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	sub, err := two.nc.Subscribe(b.feed+key, func(*nats.Msg) {
		_, failed := two.kv.Update(ctx, key, value, revision+1)
		offer(done, failed)
	})
	if err != nil {
		return err
	}
	defer sub.Unsubscribe() //nolint:errcheck // it may be gone with the connection
	if err = b.settle(ctx); err != nil {
		return err
	}
	began := time.Now()
	if _, err = one.kv.Update(ctx, key, value, revision); err != nil {
		return err
	}
	select {
	case err = <-done:
	case <-ctx.Done():
		err = fmt.Errorf("nothing came on %s: %w", b.feed+key, ctx.Err())
	}
	if err != nil {
		return err
	}
	b.rows[rowHandover].bare = append(b.rows[rowHandover].bare, time.Since(began))
	return nil
}

// settle gives both kinds of measurement the same start: after an idle moment, with
// warm connections.
func (b *bench) settle(ctx context.Context) error {
	const idle, pings = 5 * time.Millisecond, 5
	time.Sleep(idle)
	for range pings {
		for i := range b.ends {
			if err := b.ends[i].nc.FlushWithContext(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// benchCandidate is a candidate, and those of its events that a round waits for.
type benchCandidate struct {
	*leader.Candidate
	electedAt chan time.Time
	sees      chan struct{}
	faults    chan error
}

func stand(ctx context.Context, bucket *leader.Bucket, election string, cfg leader.Config) (*benchCandidate, error) {
	c, err := leader.Campaign(context.WithoutCancel(ctx), bucket, election, cfg)
	if err != nil {
		return nil, err
	}
	s := &benchCandidate{c, make(chan time.Time, 1), make(chan struct{}, 1), make(chan error, 1)}
	go func() {
		for e := range c.Events(context.Background()) {
			switch e := e.(type) {
			case leader.Elected:
				offer(s.electedAt, time.Now())
			case leader.Observed:
				offer(s.sees, struct{}{})
			case leader.Faulted:
				offer(s.faults, e.Err)
			case leader.Pending, leader.Fenced, leader.Deposed:
			}
		}
	}()
	return s, nil
}

// offer hands over a value that a receiver may be waiting for; only the first counts.
func offer[T any](to chan<- T, v T) {
	select {
	case to <- v:
	default:
	}
}

func (s *benchCandidate) elected(ctx context.Context) (time.Time, error) {
	return await(ctx, s, s.electedAt, "not elected in time")
}

func (s *benchCandidate) observed(ctx context.Context) error {
	_, err := await(ctx, s, s.sees, "has not heard of the leader in time")
	return err
}

// await fails on a fault: nothing can be measured when something goes wrong.
func await[T any](ctx context.Context, s *benchCandidate, what <-chan T, otherwise string) (T, error) {
	var none T
	select {
	case v := <-what:
		return v, nil
	case err := <-s.faults:
		return none, err
	case <-ctx.Done():
		return none, fmt.Errorf("candidate %s: %s: %w", s.ID(), otherwise, ctx.Err())
	}
}

func (s *benchCandidate) stop() { _ = s.Stop(context.Background()) }
