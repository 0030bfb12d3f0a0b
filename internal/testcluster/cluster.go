//go:build field

// Package testcluster runs the servers of field tests, each in a process of its own, so that a test
// can kill, pause and update them.
//
// Its files:
//
//	cluster.go     servers of field tests in processes of their own, alone or as a cluster
//	process.go     children of a test, and the server that a test binary can be
//	pause_unix.go  processes that are stopped and go on
package testcluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testserver"
)

// Options are the options of a cluster.
type Options struct {
	Binaries []string                     // of the servers; empty: this test binary
	Dir      string                       // for stores and logs; empty: stores of their own, and no logs
	Route    func(from, to *Node) string  // the address at which a server reaches another; nil: its own
	More     func(name string) string     // more configuration; nil: none
	Attr     *syscall.SysProcAttr         // of the processes
	Connect  func(urls string) *nats.Conn // connects the test
}

// Cluster is servers on the loopback interface. One alone is no cluster for the server.
type Cluster struct {
	Nodes []*Node
	URLs  string
	NC    *nats.Conn
	JS    jetstream.JetStream

	tb   testing.TB
	attr *syscall.SysProcAttr
}

// Node is one of the servers.
type Node struct {
	Name    string
	Address string // where it listens for clients
	Routes  string // where it listens for other servers
	Store   string
	Process *Process // nil: the test has ended it

	c      *Cluster
	binary string // empty: this test binary
	config string // the path
	output string // the path; empty: the output of the test
	since  time.Time
	resume func() // nil: it is not paused
}

// New starts the servers s1, s2 and so on. With routes of their own they do not advertise one another
// to clients, and they advertise to one another an address where no server listens. Otherwise they
// would be connected without these routes.
func New(tb testing.TB, o Options) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, attr: o.Attr}
	var urls []string
	for i, binary := range o.Binaries {
		n := &Node{Name: fmt.Sprintf("s%d", i+1), Address: FreeAddress(tb), Routes: FreeAddress(tb), c: c, binary: binary}
		c.Nodes, urls = append(c.Nodes, n), append(urls, "nats://"+n.Address)
	}
	c.URLs = strings.Join(urls, ",")
	for _, n := range c.Nodes {
		config := fmt.Sprintf("server_name: %s, listen: %q\n", n.Name, n.Address)
		if n.Store = filepath.Join(o.Dir, n.Name); o.Dir == "" {
			n.Store = testserver.StoreDir(tb)
		} else {
			n.output = n.Store + ".out"
			config += fmt.Sprintf("logfile: %q, logtime: true\n", n.Store+".log")
		}
		config += fmt.Sprintf("jetstream { store_dir: %q }\n", n.Store)
		if len(c.Nodes) > 1 {
			config += fmt.Sprintf("cluster { name: C, listen: %q, %s }\n", n.Routes, c.routes(n, o.Route))
		}
		if o.More != nil {
			config += o.More(n.Name)
		}
		n.config = filepath.Join(tb.TempDir(), n.Name+".conf")
		check.OK(tb, os.WriteFile(n.config, []byte(config), 0o600))
	}
	for _, n := range c.Nodes {
		n.Up()
	}
	c.NC = o.Connect(c.URLs)
	c.JS = check.Got(jetstream.New(c.NC))(tb)
	return c
}

func (c *Cluster) routes(n *Node, own func(from, to *Node) string) string {
	var routes []string
	for _, other := range c.Nodes {
		address := other.Routes
		if own != nil && other != n {
			address = own(n, other)
		}
		if own == nil || other != n {
			routes = append(routes, fmt.Sprintf(`"nats-route://%s"`, address))
		}
	}
	text := fmt.Sprintf("routes: [ %s ]", strings.Join(routes, ", "))
	if own != nil {
		text += fmt.Sprintf(", advertise: %q, no_advertise: true", FreeAddress(c.tb))
	}
	return text
}

// FreeAddress returns an address on the loopback interface that stays free while the process that is
// to listen there is down.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	return fmt.Sprintf("127.0.0.1:%d", testserver.FreePort(tb))
}

// Up starts a server that is down, and resumes one that is paused.
func (n *Node) Up() {
	n.c.tb.Helper()
	switch {
	case n.Process == nil:
		cmd := Self(n.c.tb, serverEnv, n.config)
		if n.binary != "" {
			cmd = exec.Command(n.binary, "-c", n.config)
		}
		cmd.SysProcAttr = n.c.attr
		if n.output != "" {
			n.Process = StartTo(n.c.tb, n.Name, cmd, n.output)
		} else {
			cmd.Stderr = n.c.tb.Output()
			n.Process = Start(n.c.tb, n.Name, cmd)
		}
	case !n.Process.Alive():
		n.c.tb.Fatalf("it has died by itself: %v", n.Process)
	case n.resume != nil:
		n.resume()
	default:
		return
	}
	n.since, n.resume = time.Now(), nil
}

// Kill ends a server at once.
func (n *Node) Kill() {
	if n.Process != nil {
		n.Process.Kill()
		n.Process, n.resume = nil, nil
	}
}

// Shut ends a server in good order.
func (n *Node) Shut() {
	switch {
	case n.Process == nil:
		return
	case n.binary != "":
		_ = n.Process.Cmd.Process.Signal(syscall.SIGTERM)
	default:
		_ = n.Process.Stdin.Close()
	}
	n.Process.Wait()
	n.Process = nil
}

// Become ends a server, as an operator does, and starts another binary on the same store.
func (n *Node) Become(binary string) {
	n.c.tb.Helper()
	n.Shut()
	n.binary = binary
	n.Up()
}

// Node returns the server of that name, nil if there is none.
func (c *Cluster) Node(name string) *Node {
	for _, n := range c.Nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// Info returns the cluster's information on a bucket's stream, nil if there is no answer.
func (c *Cluster) Info(bucket string) *jetstream.StreamInfo {
	ctx, cancel := context.WithTimeout(c.tb.Context(), time.Second)
	defer cancel()
	s, err := c.JS.Stream(ctx, "KV_"+bucket)
	if err != nil {
		return nil
	}
	return s.CachedInfo()
}

// current reports whether all replicas have all of a bucket, and the stream's leader has received
// something from their servers since they were started.
func (c *Cluster) current(bucket string) bool {
	i := c.Info(bucket)
	if i == nil || len(c.Nodes) == 1 {
		return i != nil
	}
	if i.Cluster == nil || i.Cluster.Leader == "" || len(i.Cluster.Replicas) != i.Config.Replicas-1 {
		return false
	}
	for _, r := range i.Cluster.Replicas {
		if !r.Current || r.Offline || r.Active > time.Since(c.Node(r.Name).since) {
			return false
		}
	}
	return true
}

// Whole waits until all servers are up, and have all of the buckets.
func (c *Cluster) Whole(buckets ...string) {
	c.tb.Helper()
	for _, n := range c.Nodes {
		n.Up()
	}
	for _, b := range buckets {
		Eventually(c.tb, "all replicas of "+b+" are current", func() bool { return c.current(b) })
	}
}

// Leads returns the server that leads a bucket's stream.
func (c *Cluster) Leads(bucket string) *Node {
	c.tb.Helper()
	var n *Node
	Eventually(c.tb, "the stream of "+bucket+" has a leader", func() bool {
		switch i := c.Info(bucket); {
		case len(c.Nodes) == 1:
			n = c.Nodes[0]
		case i != nil && i.Cluster != nil:
			n = c.Node(i.Cluster.Leader)
		}
		return n != nil && n.Process != nil
	})
	return n
}

// Lead makes a server lead a bucket's stream.
func (c *Cluster) Lead(bucket string, n *Node) {
	c.tb.Helper()
	Eventually(c.tb, n.Name+" leads the stream", func() bool {
		if c.Leads(bucket) == n {
			return true
		}
		_, _ = c.NC.Request("$JS.API.STREAM.LEADER.STEPDOWN.KV_"+bucket,
			fmt.Appendf(nil, `{"placement": {"preferred": %q}}`, n.Name), time.Second)
		time.Sleep(100 * time.Millisecond)
		return false
	})
}

// patience is the limit for events on a machine that is busy with others. Nothing is measured with it.
const patience = 2 * time.Minute

// Eventually waits until so reports true.
func Eventually(tb testing.TB, what string, so func() bool) {
	tb.Helper()
	start := time.Now()
	defer func() {
		if took := time.Since(start); took > patience/8 {
			tb.Logf("took %v: %s", took.Round(time.Millisecond), what)
		}
	}()
	for ; !so(); time.Sleep(5 * time.Millisecond) {
		check.Must(tb, time.Since(start) <= patience, "not after %v: %s", patience, what)
	}
}

// Until makes a request again and again, each for two seconds at most, until it succeeds.
func Until(tb testing.TB, what string, request func(ctx context.Context) error) {
	tb.Helper()
	Eventually(tb, what, func() bool {
		ctx, cancel := context.WithTimeout(tb.Context(), 2*time.Second)
		defer cancel()
		return request(ctx) == nil
	})
}
