package main

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// bareSystem is what an election on NATS cannot do without: an update that gives the key up, its
// delivery to a watcher, and the watcher's update. It has no lease, so it finds no crash.
func bareSystem() system {
	of := func(lease time.Duration) settings {
		return settings{Lease: lease, Renew: lease / 6}
	}
	none := "no election: only the update, the delivery and the update that a handover needs"
	return system{
		name:      "bare NATS",
		libraries: []string{"github.com/nats-io/nats-server/v2", "github.com/nats-io/nats.go"},
		serve:     serveNATS,
		ready:     30 * time.Millisecond,
		dial:      dialBare,
		usual:     of(15 * time.Second),
		short:     of(time.Second),
		notes: map[string]string{
			measureCrash: none, measureCut: none, measurePause: none, measureWaiting: none, measureLeading: none,
		},
	}
}

type bareClient struct {
	nc *nats.Conn
	kv jetstream.KeyValue
	s  settings
}

func dialBare(addr string, s settings) (client, error) {
	nc, js, err := dialJetStream(addr)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	kv, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "bare"})
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &bareClient{nc: nc, kv: kv, s: s}, nil
}

func (c *bareClient) close() { c.nc.Close() }

func (c *bareClient) campaign(election, id string) candidate {
	b := &bareCandidate{c: c, key: election}
	b.start(func(ctx context.Context) { b.run(ctx, id) })
	return b
}

type bareCandidate struct {
	running
	c        *bareClient
	key      string
	revision uint64 // of the own record, until done is closed not to be read
}

func (b *bareCandidate) run(ctx context.Context, id string) {
	w, err := b.c.kv.Watch(ctx, b.key)
	if err != nil {
		return
	}
	defer func() { _ = w.Stop() }()
	revision, free := uint64(0), true
	for b.revision == 0 {
		if free {
			if r, err := b.c.kv.Update(ctx, b.key, []byte(id), revision); err == nil {
				b.revision = r
				b.set()
				break
			}
		}
		select {
		case e, ok := <-w.Updates():
			if !ok {
				return
			}
			free = e != nil && len(e.Value()) == 0
			if e != nil {
				revision = e.Revision()
			}
		case <-ctx.Done():
			return
		}
	}
	tick := time.NewTicker(b.c.s.Renew)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if r, err := b.c.kv.Update(ctx, b.key, []byte(id), b.revision); err == nil {
				b.revision = r
			}
		case <-w.Updates():
		case <-ctx.Done():
			return
		}
	}
}

func (b *bareCandidate) leads() bool { return false }

func (b *bareCandidate) resign(ctx context.Context) error {
	if err := b.running.resign(ctx); err != nil {
		return err
	}
	if b.revision == 0 {
		return errors.New("does not lead")
	}
	_, err := b.c.kv.Update(ctx, b.key, nil, b.revision)
	return err
}
