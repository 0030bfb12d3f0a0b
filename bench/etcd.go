package main

import (
	"context"
	"errors"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

func etcdSystem() system {
	of := func(lease time.Duration) settings {
		// The client looks every 500 ms whether a third of the TTL has passed (sendKeepAliveLoop).
		return settings{Lease: lease, Renew: lease / 3, Grain: 500 * time.Millisecond, Late: 3 * time.Second}.grained()
	}
	return system{
		name:      "etcd",
		libraries: []string{"go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/server/v3"},
		serve:     serveEtcd,
		ready:     150 * time.Millisecond, // the server adds a watch to those that it serves every 100 ms
		dial: func(addr string, s settings) (client, error) {
			c, err := dialEtcd(addr)
			if err != nil {
				return nil, err
			}
			return &etcdClient{c: c, open: sessions(c, s), end: (*concurrency.Session).Close}, nil
		},
		usual: of(time.Minute),
		short: of(2 * time.Second), // the server makes a shorter TTL longer (minLeaseTTL)
	}
}

// etcdOneSessionSystem has one session for all elections and locks of a client, as applications have it.
func etcdOneSessionSystem() system {
	sys := etcdSystem()
	sys.name += ", one session"
	sys.dial = func(addr string, s settings) (client, error) {
		c, err := dialEtcd(addr)
		if err != nil {
			return nil, err
		}
		one := sync.OnceValues(func() (*concurrency.Session, error) { return sessions(c, s)(c.Ctx()) })
		return &etcdClient{
			c:    c,
			open: func(context.Context) (*concurrency.Session, error) { return one() },
			end:  func(*concurrency.Session) error { return nil },
		}, nil
	}
	same := "one election, as with a session of its own"
	sys.notes = map[string]string{
		measureHandover: same, measureCrash: same, measureCut: same, measurePause: same, measureRenewal: same,
		measureWaiting: "the candidates of one election would have one key, and all lead",
	}
	return sys
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
	c *clientv3.Client
	// open returns the session of a candidate or a lock, and end ends a session that is the candidate's own.
	open func(ctx context.Context) (*concurrency.Session, error)
	end  func(*concurrency.Session) error
}

func dialEtcd(addr string) (*clientv3.Client, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err = c.Get(ctx, "/"); err != nil { // connects
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// sessions returns a function that makes a session that ends with ctx.
func sessions(c *clientv3.Client, s settings) func(ctx context.Context) (*concurrency.Session, error) {
	return func(ctx context.Context) (*concurrency.Session, error) {
		return concurrency.NewSession(c, concurrency.WithTTL(int(s.Lease/time.Second)), concurrency.WithContext(ctx))
	}
}

func (c *etcdClient) close() { _ = c.c.Close() }

func (c *etcdClient) campaign(election, id string) candidate {
	e := &etcdCandidate{c: c}
	e.start(func(ctx context.Context) {
		s, err := c.open(ctx)
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
	c        *etcdClient
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
	err = errors.Join(err, e.c.end(e.session))
	e.cancel()
	return err
}

func (c *etcdClient) lock(name, _ string) lock { return &etcdLock{c: c, name: name} }

type etcdLock struct {
	c       *etcdClient
	name    string
	session *concurrency.Session
	mutex   *concurrency.Mutex
}

func (l *etcdLock) take(ctx context.Context) error {
	if err := l.open(); err != nil {
		return err
	}
	return l.mutex.Lock(ctx)
}

func (l *etcdLock) try(ctx context.Context) error {
	if err := l.open(); err != nil {
		return err
	}
	err := l.mutex.TryLock(ctx)
	if errors.Is(err, concurrency.ErrLocked) {
		return errors.Join(errHeld, l.c.end(l.session))
	}
	return err
}

func (l *etcdLock) open() (err error) {
	if l.session, err = l.c.open(l.c.c.Ctx()); err != nil {
		return err
	}
	l.mutex = concurrency.NewMutex(l.session, "/"+l.name)
	return nil
}

func (l *etcdLock) giveBack(ctx context.Context) error {
	return errors.Join(l.mutex.Unlock(ctx), l.c.end(l.session))
}
