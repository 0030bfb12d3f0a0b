package main

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
)

func natsleaderSystem() system {
	of := func(lease time.Duration) settings {
		return settings{Lease: lease, Renew: lease / 6, Late: time.Second}
	}
	return system{
		name:      "natsleader",
		libraries: []string{"github.com/natsleader/natsleader", "github.com/nats-io/nats-server/v2", "github.com/nats-io/nats.go"},
		serve:     serveNATS,
		ready:     30 * time.Millisecond,
		single:    true,
		dial: func(addr string, s settings) (client, error) {
			nc, err := dialNATS(addr)
			if err != nil {
				return nil, err
			}
			js, err := jetstream.New(nc)
			if err != nil {
				nc.Close()
				return nil, err
			}
			b, err := leader.EnsureBucket(js, leader.BucketConfig{Name: "elections"})
			if err != nil {
				nc.Close()
				return nil, err
			}
			return &natsleaderClient{nc: nc, bucket: b, lease: s.Lease}, nil
		},
		usual: of(15 * time.Second),
		short: of(time.Second),
	}
}

type natsleaderClient struct {
	nc     *nats.Conn
	bucket *leader.Bucket
	lease  time.Duration
}

func (c *natsleaderClient) close() { c.nc.Close() }

func (c *natsleaderClient) campaign(election, id string) candidate {
	n := &natsleaderCandidate{}
	n.c, n.err = leader.Campaign(context.Background(), c.bucket, election, leader.Config{ID: id, LeaseDuration: c.lease})
	n.start(func(context.Context) {
		if n.err != nil {
			return
		}
		for term := range n.c.Terms() {
			n.mu.Lock()
			n.term = term
			n.mu.Unlock()
			n.set()
			<-term.Context().Done()
		}
	})
	return n
}

type natsleaderCandidate struct {
	running
	c   *leader.Candidate
	err error

	mu   sync.Mutex
	term *leader.Term
}

func (n *natsleaderCandidate) leads() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.term != nil && n.term.Context().Err() == nil
}

func (n *natsleaderCandidate) resign(ctx context.Context) error {
	if n.err != nil {
		return n.err
	}
	return n.c.Stop(ctx)
}

func (n *natsleaderCandidate) drop() {
	if n.err != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = n.c.Stop(ctx)
}
