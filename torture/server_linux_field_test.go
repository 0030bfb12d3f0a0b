//go:build field && linux

package torture_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testcluster"
	"github.com/natsleader/natsleader/leader"
)

// cluster is three servers on the loopback interface, or one.
type cluster struct {
	*testcluster.Cluster
	tb    testing.TB
	dir   string
	links map[*testcluster.Node][]*link // between a server and others, both ways
}

// dies makes the kernel kill a process, stopped or not, when the thread that started it is gone. (Go
// ends no thread before the process, except threads that are locked to a goroutine that returns. There
// is none here.)
var dies = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

// startCluster starts the servers. The connection of the test is to the servers themselves, not through
// links.
func startCluster(tb testing.TB, n int) *cluster {
	tb.Helper()
	c := &cluster{tb: tb, dir: keptDir(tb), links: make(map[*testcluster.Node][]*link)}
	c.Cluster = testcluster.New(tb, testcluster.Options{
		Binaries: make([]string, n), Dir: c.dir, Attr: dies, Connect: c.dial,
		Route: func(from, to *testcluster.Node) string {
			l := newLink(tb, to.Name, to.Routes)
			c.links[from], c.links[to] = append(c.links[from], l), append(c.links[to], l)
			return l.proxy.Listen
		},
	})
	return c
}

// dial connects the driver, which soon notices a server that hangs.
func (c *cluster) dial(urls string) *nats.Conn {
	c.tb.Helper()
	nc := expect.Got(nats.Connect(urls, nats.Name("driver"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(100*time.Millisecond), nats.PingInterval(time.Second), nats.Timeout(time.Second)))(c.tb)
	c.tb.Cleanup(nc.Close)
	return nc
}

// create makes a bucket, as soon as the cluster accepts it.
func (c *cluster) create(cfg leader.BucketConfig) {
	c.tb.Helper()
	cfg.Replicas = len(c.Nodes)
	testcluster.Until(c.tb, "the bucket can be made", func(ctx context.Context) error {
		return expect.Err(leader.CreateOrUpdateBucket(ctx, c.JS, cfg))
	})
}

// swap puts another copy of the store in its place. The server is down.
func swap(tb testing.TB, n *testcluster.Node, copied string) {
	tb.Helper()
	expect.OK(tb, os.RemoveAll(n.Store))
	expect.OK(tb, os.CopyFS(n.Store, os.DirFS(copied)))
}

// save copies the store. The server is down, or it would be unclear what the copy
// contains.
func save(tb testing.TB, n *testcluster.Node) string {
	tb.Helper()
	copied := filepath.Join(tb.TempDir(), n.Name)
	expect.OK(tb, os.CopyFS(copied, os.DirFS(n.Store)))
	return copied
}
