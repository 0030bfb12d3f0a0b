package main

import (
	"context"
	"errors"
	"os"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
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
			nc, js, err := dialJetStream(addr)
			if err != nil {
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
			n.lead(term.Context())
			<-term.Context().Done()
		}
	})
	return n
}

type natsleaderCandidate struct {
	running
	c   *leader.Candidate
	err error
}

func (n *natsleaderCandidate) resign(context.Context) error {
	if n.err != nil {
		return n.err
	}
	return n.c.Stop()
}

func (n *natsleaderCandidate) drop() {
	if n.err != nil {
		return
	}
	_ = n.c.Stop()
}

func (c *natsleaderClient) lock(name, id string) lock {
	return &natsleaderLock{c: c, name: name, cfg: leader.Config{ID: id, LeaseDuration: c.lease}}
}

type natsleaderLock struct {
	c    *natsleaderClient
	name string
	cfg  leader.Config
	held *leader.Lock
}

func (l *natsleaderLock) take(ctx context.Context) (err error) {
	l.held, err = leader.Acquire(ctx, l.c.bucket, l.name, l.cfg)
	return err
}

func (l *natsleaderLock) try(ctx context.Context) (err error) {
	l.held, err = leader.TryAcquire(ctx, l.c.bucket, l.name, l.cfg)
	if held := (*leader.HeldError)(nil); errors.As(err, &held) {
		return errHeld
	}
	return err
}

func (l *natsleaderLock) giveBack(ctx context.Context) error { return l.held.Unlock(ctx) }

// natsServer is one nats-server with JetStream. Its buckets are on file, and the server syncs
// them at an interval, as it does by default.
type natsServer struct {
	s   *natsserver.Server
	dir string
}

func serveNATS() (server, error) {
	dir, err := os.MkdirTemp("", "natsleader-bench-")
	if err != nil {
		return nil, err
	}
	s, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.Start()
	n := &natsServer{s: s, dir: dir}
	if !s.ReadyForConnections(30 * time.Second) {
		n.close()
		return nil, errors.New("nats-server does not start")
	}
	return n, nil
}

func (n *natsServer) addr() string { return n.s.Addr().String() }

// requests counts the messages that clients have published, those without a reply among them.
func (n *natsServer) requests() uint64 {
	v, err := n.s.Varz(nil)
	if err != nil {
		return 0
	}
	return uint64(v.InMsgs)
}

func (n *natsServer) close() {
	n.s.Shutdown()
	n.s.WaitForShutdown()
	_ = os.RemoveAll(n.dir)
}

func dialNATS(addr string) (*nats.Conn, error) {
	return nats.Connect("nats://"+addr, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.Timeout(5*time.Second))
}

func dialJetStream(addr string) (*nats.Conn, jetstream.JetStream, error) {
	nc, err := dialNATS(addr)
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
	}
	return nc, js, err
}
