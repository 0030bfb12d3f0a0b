package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/bench/internal/kvelect"
)

func kvelectSystem() system {
	of := func(ttl time.Duration) settings {
		every := kvelect.Interval(ttl)
		// A request takes up to 5 s, the default of nats.go, at a TTL of 30 s.
		return settings{Lease: ttl, Renew: every, Poll: every, Wait: ttl / 6, Late: every*2 + 2*time.Second}
	}
	return system{
		name:      "kv-elect",
		libraries: []string{"github.com/nats-io/nats-server/v2", "github.com/nats-io/nats.go"},
		serve:     serveNATS,
		ready:     30 * time.Millisecond,
		dial:      dialKVElect,
		usual:     of(kvelect.MinTTL),
		short:     of(2 * time.Second),
		slow:      true,
		notes:     map[string]string{measureLock: "has no lock"},
	}
}

type kvelectClient struct {
	nc *nats.Conn
	// open creates the bucket, or finds it, for the first candidate.
	open func() (nats.KeyValue, error)
	s    settings
}

func dialKVElect(addr string, s settings) (client, error) {
	nc, err := dialNATS(addr)
	if err != nil {
		return nil, err
	}
	js, err := nc.JetStream(nats.MaxWait(s.Wait))
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &kvelectClient{nc: nc, open: sync.OnceValues(func() (nats.KeyValue, error) { return openKVElect(js, s.Lease) }), s: s}, nil
}

func openKVElect(js nats.JetStreamContext, ttl time.Duration) (kv nats.KeyValue, err error) {
	// The time-out of js is for the requests of the election. A server that has just started may take longer.
	for try := time.Now(); ; {
		const bucket = "kvelect"
		kv, err = js.KeyValue(bucket)
		if errors.Is(err, nats.ErrBucketNotFound) {
			kv, err = js.CreateKeyValue(&nats.KeyValueConfig{Bucket: bucket, TTL: ttl})
		}
		if !errors.Is(err, nats.ErrTimeout) || time.Since(try) > time.Minute {
			return kv, err
		}
	}
}

func (c *kvelectClient) close() { c.nc.Close() }

func (c *kvelectClient) campaign(election, id string) candidate {
	k := &kvelectCandidate{}
	k.start(func(ctx context.Context) {
		kv, err := c.open()
		if err != nil {
			return
		}
		p := &kvelect.Process{
			KV: kv, Key: election, Name: id, Interval: c.s.Renew,
			Won:  func() { k.leader.Store(true); k.set() },
			Lost: func() { k.leader.Store(false) },
		}
		defer k.leader.Store(false)
		p.Run(ctx)
	})
	return k
}

type kvelectCandidate struct {
	running
	leader atomic.Bool // by the callbacks, as in the library's example
}

func (k *kvelectCandidate) leads() bool { return k.leader.Load() }
