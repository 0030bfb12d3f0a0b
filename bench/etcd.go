package main

import (
	"context"
	"errors"
	"net/url"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

func etcdSystem() system {
	of := func(lease time.Duration) settings {
		return settings{Lease: lease, Renew: lease / 3, Late: 3 * time.Second}
	}
	return system{
		name:      "etcd",
		libraries: []string{"go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/server/v3"},
		serve:     serveEtcd,
		ready:     150 * time.Millisecond, // the server adds a watch to those that it serves every 100 ms
		dial: func(addr string, s settings) (client, error) {
			c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
			if err != nil {
				return nil, err
			}
			return &etcdClient{c: c, ttl: int(s.Lease / time.Second)}, nil
		},
		usual: of(time.Minute),
		short: of(2 * time.Second), // the server makes a shorter TTL longer (minLeaseTTL)
	}
}

// etcdServer is one etcd member. It does not sync its log to disk, because the other servers
// of this program do not either.
type etcdServer struct {
	e   *embed.Etcd
	dir string
	at  string
}

func serveEtcd() (server, error) {
	dir, err := os.MkdirTemp("", "natsleader-bench-")
	if err != nil {
		return nil, err
	}
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.UnsafeNoFsync = true
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	zap.ReplaceGlobals(zap.NewNop())
	loopback := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{loopback}, []url.URL{loopback}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{loopback}, []url.URL{loopback}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := &etcdServer{e: e, dir: dir, at: e.Clients[0].Addr().String()}
	select {
	case <-e.Server.ReadyNotify():
		return s, nil
	case <-time.After(30 * time.Second):
		s.close()
		return nil, errors.New("etcd does not start")
	}
}

func (s *etcdServer) addr() string { return s.at }

// requests counts the messages of all gRPC calls, those on streams among them.
func (s *etcdServer) requests() uint64 {
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		return 0
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != "grpc_server_msg_received_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue()
		}
	}
	return uint64(sum)
}

func (s *etcdServer) close() {
	s.e.Close()
	_ = os.RemoveAll(s.dir)
}

type etcdClient struct {
	c   *clientv3.Client
	ttl int
}

func (c *etcdClient) close() { _ = c.c.Close() }

func (c *etcdClient) campaign(election, id string) candidate {
	e := &etcdCandidate{}
	e.start(func(ctx context.Context) {
		s, err := concurrency.NewSession(c.c, concurrency.WithTTL(c.ttl), concurrency.WithContext(ctx))
		if err != nil {
			return
		}
		el := concurrency.NewElection(s, "/"+election)
		if el.Campaign(ctx, id) != nil {
			return
		}
		e.session, e.election = s, el
		e.lead(s.Ctx())
	})
	return e
}

type etcdCandidate struct {
	running
	session  *concurrency.Session // set before the candidate leads, as is election
	election *concurrency.Election
}

// resign ends the term first, so that the time of the handover does not contain the end of the
// session.
func (e *etcdCandidate) resign(ctx context.Context) error {
	select {
	case <-e.elected():
	default:
		return errors.New("does not lead")
	}
	err := e.election.Resign(ctx)
	err = errors.Join(err, e.session.Close())
	e.cancel()
	return err
}
