package main

import (
	"context"
	"errors"
	"sync"
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
	// open creates the bucket, or finds it, when a key is first used.
	open func() (jetstream.KeyValue, error)
	s    settings
}

func dialBare(addr string, s settings) (client, error) {
	nc, js, err := dialJetStream(addr)
	if err != nil {
		return nil, err
	}
	open := sync.OnceValues(func() (jetstream.KeyValue, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "bare"})
	})
	return &bareClient{nc: nc, open: open, s: s}, nil
}

func (c *bareClient) close() { c.nc.Close() }

// bareKey is a key that is free if its value is empty, or if there is none.
type bareKey struct {
	c        *bareClient
	key, id  string
	revision uint64 // of the last message of the key that is known
}

func (c *bareClient) lock(name, id string) lock { return &bareKey{c: c, key: name, id: id} }

// write updates the key.
func (k *bareKey) write(ctx context.Context, value []byte) error {
	kv, err := k.c.open()
	if err != nil {
		return err
	}
	r, err := kv.Update(ctx, k.key, value, k.revision)
	if err == nil {
		k.revision = r
	}
	return err
}

// try supposes that the key is as it was last seen.
func (k *bareKey) try(ctx context.Context) error {
	err := k.write(ctx, []byte(k.id))
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return errHeld
	}
	return err
}

func (k *bareKey) take(ctx context.Context) error {
	err := k.try(ctx)
	if !errors.Is(err, errHeld) {
		return err
	}
	w, err := k.watch(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = w.Stop() }()
	return k.follow(ctx, w)
}

func (k *bareKey) giveBack(ctx context.Context) error { return k.write(ctx, nil) }

func (k *bareKey) watch(ctx context.Context) (jetstream.KeyWatcher, error) {
	kv, err := k.c.open()
	if err != nil {
		return nil, err
	}
	return kv.Watch(ctx, k.key)
}

// follow reads a watch of the key until it has taken it.
func (k *bareKey) follow(ctx context.Context, w jetstream.KeyWatcher) error {
	for {
		select {
		case e, ok := <-w.Updates():
			if !ok {
				return errors.New("the watch has ended")
			}
			if e == nil { // all that the bucket has was delivered
				continue
			}
			k.revision = e.Revision()
			if len(e.Value()) > 0 {
				continue
			}
			if err := k.try(ctx); !errors.Is(err, errHeld) {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *bareClient) campaign(election, id string) candidate {
	b := &bareCandidate{release: make(chan struct{}), released: make(chan error, 1)}
	b.start(func(ctx context.Context) { b.run(ctx, &bareKey{c: c, key: election, id: id}) })
	return b
}

type bareCandidate struct {
	running
	release  chan struct{} // closed by resign
	released chan error
}

// run writes and watches. A leader gives the key up before it stops its watch, which is a request.
func (b *bareCandidate) run(ctx context.Context, k *bareKey) {
	err := k.try(ctx)
	if err == nil {
		b.set()
	}
	w, werr := k.watch(ctx)
	if werr != nil {
		return
	}
	defer func() { _ = w.Stop() }()
	if err != nil {
		if k.follow(ctx, w) != nil {
			return
		}
		b.set()
	}
	tick := time.NewTicker(k.c.s.Renew)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = k.write(ctx, []byte(k.id))
		case <-w.Updates():
		case <-b.release:
			b.released <- k.giveBack(ctx)
			return
		case <-ctx.Done():
			return
		}
	}
}

func (b *bareCandidate) leads() bool { return false }

func (b *bareCandidate) resign(ctx context.Context) error {
	select {
	case <-b.elected():
	default:
		return errors.New("does not lead")
	}
	close(b.release)
	select {
	case err := <-b.released:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
