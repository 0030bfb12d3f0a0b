//go:build field && linux

package torture_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// serve is the process of a server.
func serve(config string) int {
	opts := &server.Options{}
	if err := opts.ProcessConfigString(config); err != nil {
		return failed(err)
	}
	opts.NoSigs = true
	s, err := server.NewServer(opts)
	if err != nil {
		return failed(err)
	}
	s.ConfigureLogger()
	s.Start()
	_, _ = io.Copy(io.Discard, os.Stdin)
	s.Shutdown()
	s.WaitForShutdown()
	return 0
}

// cluster is three servers on the loopback interface, or one.
type cluster struct {
	tb    testing.TB
	dir   string
	nodes []*node
	nc    *nats.Conn // to the servers themselves, not through links
	js    jetstream.JetStream
}

type node struct {
	name, address, routes string // where it listens for clients, and for other servers
	store, config, log    string

	links  []*link // between it and other servers, both ways
	proc   *process
	since  time.Time // when it was started
	down   bool      // by the driver
	paused bool
}

// startCluster starts the servers. They do not advertise one another to clients, and
// they advertise to one another an address where no server listens. Otherwise they
// would be connected without the links.
func startCluster(tb testing.TB, n int) *cluster {
	tb.Helper()
	c := &cluster{tb: tb, dir: keptDir(tb)}
	var urls []string
	for i := range n {
		s := &node{name: fmt.Sprintf("s%d", i+1), address: freePort(tb), routes: freePort(tb), down: true}
		s.store, s.log = filepath.Join(c.dir, s.name), filepath.Join(c.dir, s.name+".log")
		s.config = fmt.Sprintf("server_name: %s, listen: %q, logfile: %q, logtime: true\njetstream { store_dir: %q }\n",
			s.name, s.address, s.log, s.store)
		urls = append(urls, "nats://"+s.address)
		c.nodes = append(c.nodes, s)
	}
	nowhere := freePort(tb)
	for _, s := range c.nodes {
		var routes []string
		for _, other := range c.nodes {
			if other != s {
				l := newLink(tb, other.name, other.routes)
				s.links, other.links = append(s.links, l), append(other.links, l)
				routes = append(routes, fmt.Sprintf(`"nats-route://%s"`, l.proxy.Listen))
			}
		}
		if n > 1 {
			s.config += fmt.Sprintf("cluster { name: C, listen: %q, advertise: %q, no_advertise: true, routes: [ %s ] }\n",
				s.routes, nowhere, strings.Join(routes, ", "))
		}
		c.up(s)
	}
	c.nc = c.dial(strings.Join(urls, ","))
	c.js = expect.Got(jetstream.New(c.nc))(tb)
	return c
}

// dial connects the driver, which soon notices a server that hangs.
func (c *cluster) dial(urls string) *nats.Conn {
	c.tb.Helper()
	nc, err := nats.Connect(urls, nats.Name("driver"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(100*time.Millisecond), nats.PingInterval(time.Second), nats.Timeout(time.Second))
	ok(c.tb, err)
	c.tb.Cleanup(nc.Close)
	return nc
}

// create makes a bucket, as soon as the cluster accepts it.
func (c *cluster) create(cfg leader.BucketConfig) {
	c.tb.Helper()
	cfg.Replicas = len(c.nodes)
	eventually(c.tb, "the bucket can be made", func() bool {
		ctx, cancel := context.WithTimeout(c.tb.Context(), 2*time.Second)
		defer cancel()
		_, err := leader.CreateBucket(ctx, c.js, cfg)
		return err == nil
	})
}

// up starts a server that is down and wakes one that is paused.
func (c *cluster) up(s *node) {
	c.tb.Helper()
	switch {
	case s.down:
		s.proc = start(c.tb, s.name, serverEnv, s.config, s.log+".out")
	case !s.proc.alive():
		c.tb.Fatalf("%s has died by itself: %v", s.name, s.proc.cmd.ProcessState)
	case s.paused:
		s.proc.unpause()
	default:
		return
	}
	s.since, s.down, s.paused = time.Now(), false, false
}

func (s *node) kill() {
	s.proc.kill()
	s.down, s.paused = true, false
}

func (s *node) shutdown() {
	s.proc.shutdown()
	s.down = true
}

func (s *node) pause() {
	s.proc.pause()
	s.paused = true
}

// swap puts another copy of the store in its place. The server is down.
func (s *node) swap(tb testing.TB, copied string) {
	tb.Helper()
	ok(tb, os.RemoveAll(s.store))
	ok(tb, os.CopyFS(s.store, os.DirFS(copied)))
}

// save copies the store. The server is down, or it would be unclear what the copy
// contains.
func (s *node) save(tb testing.TB) string {
	tb.Helper()
	copied := filepath.Join(tb.TempDir(), s.name)
	ok(tb, os.CopyFS(copied, os.DirFS(s.store)))
	return copied
}

// info returns the cluster's information on a bucket's stream, nil if there is no
// answer.
func (c *cluster) info(bucket string) *jetstream.StreamInfo {
	ctx, cancel := context.WithTimeout(c.tb.Context(), time.Second)
	defer cancel()
	s, err := c.js.Stream(ctx, "KV_"+bucket)
	if err != nil {
		return nil
	}
	return s.CachedInfo()
}

// current reports whether all servers have all of the bucket, and the stream's leader
// has heard from them since they were started.
func (c *cluster) current(bucket string) bool {
	i := c.info(bucket)
	if i == nil || len(c.nodes) == 1 {
		return i != nil
	}
	if i.Cluster == nil || i.Cluster.Leader == "" || len(i.Cluster.Replicas) != len(c.nodes)-1 {
		return false
	}
	for _, r := range i.Cluster.Replicas {
		if !r.Current || r.Offline || r.Active > time.Since(c.node(r.Name).since) {
			return false
		}
	}
	return true
}

// whole waits until all servers are up and have all of the buckets.
func (c *cluster) whole(buckets ...string) {
	c.tb.Helper()
	for _, s := range c.nodes {
		c.up(s)
	}
	for _, b := range buckets {
		eventually(c.tb, "all replicas of "+b+" are current", func() bool { return c.current(b) })
	}
}

// leads returns the server that leads the bucket's stream.
func (c *cluster) leads(bucket string) *node {
	c.tb.Helper()
	var n *node
	eventually(c.tb, "the stream of "+bucket+" has a leader", func() bool {
		switch i := c.info(bucket); {
		case len(c.nodes) == 1:
			n = c.nodes[0]
		case i != nil && i.Cluster != nil:
			n = c.node(i.Cluster.Leader)
		}
		return n != nil
	})
	return n
}

// node returns the server of that name, nil if there is none.
func (c *cluster) node(name string) *node {
	for _, s := range c.nodes {
		if s.name == name {
			return s
		}
	}
	return nil
}
