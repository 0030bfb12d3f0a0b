//go:build field

package leader_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// The servers of a cluster are processes of their own, so that they can be killed and
// paused. The test binary starts itself again with this variable.
const clusterEnv = "NATSLEADER_TEST_CLUSTER_SERVER"

func init() {
	if config := os.Getenv(clusterEnv); config != "" {
		os.Exit(clusterServe(config))
	}
}

// clusterServe runs a server. It shuts down when its standard input is closed, so that
// it does not outlive the test. It takes signals if its configuration says how long the
// lame duck mode lasts.
func clusterServe(config string) int {
	opts := &server.Options{}
	if err := opts.ProcessConfigString(config); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 2
	}
	opts.NoSigs, opts.NoLog = opts.LameDuckDuration == 0, true
	s, err := server.NewServer(opts)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 2
	}
	s.Start()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		s.Shutdown()
	}()
	s.WaitForShutdown()
	return 0
}

// cluster is three servers or more on the loopback interface.
type cluster struct {
	tb    testing.TB
	nodes map[string]*clusterNode
	urls  string
	nc    *nats.Conn
	js    jetstream.JetStream
	links []routeLink // between the servers; nil: they connect to one another without
}

type clusterNode struct {
	name, config string
	cmd          *exec.Cmd // nil while it is down
	stdin        io.Closer
}

// clusterStart starts three servers and makes the bucket E with three replicas
// on file.
func clusterStart(tb testing.TB) *cluster {
	tb.Helper()
	return clusterOf(tb, 3, func(string) string { return "" })
}

// clusterOf starts n servers, each with some more configuration, and makes the same bucket.
func clusterOf(tb testing.TB, n int, more func(name string) string) *cluster {
	tb.Helper()
	ports := tcpFreePorts(tb, 2*n)
	c := &cluster{tb: tb, nodes: make(map[string]*clusterNode)}
	var routes []string
	for _, p := range ports[n:] {
		routes = append(routes, fmt.Sprintf(`"nats-route://127.0.0.1:%d"`, p))
	}
	c.form(ports, func(int) string { return "routes: [ " + strings.Join(routes, ", ") + " ]" }, more)
	return c
}

// form starts servers with their routes and some more configuration, and makes the bucket.
func (c *cluster) form(ports []int, routes func(i int) string, more func(name string) string) {
	tb, n := c.tb, len(ports)/2
	tb.Helper()
	var urls []string
	for i, p := range ports[:n] {
		name := "s" + strconv.Itoa(i+1)
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", p))
		c.nodes[name] = &clusterNode{name: name, config: fmt.Sprintf(`
			server_name: %s, host: 127.0.0.1, port: %d
			jetstream { store_dir: %q }
			cluster { name: C, host: 127.0.0.1, port: %d, %s }
			%s`,
			name, p, testserver.StoreDir(tb), ports[n+i], routes(i), more(name))}
	}
	c.urls = strings.Join(urls, ",")
	tb.Cleanup(func() {
		for _, n := range c.nodes {
			c.shut(n)
		}
	})
	for _, n := range c.nodes {
		c.start(n)
	}
	emptyPools()
	tcpEventually(tb, "a server answers", func() bool {
		nc, err := nats.Connect(c.urls)
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
	c.nc = c.dial()
	c.js = tcpJS(tb, c.nc)
	tcpEventually(tb, "the bucket can be made", func() bool {
		ctx, cancel := context.WithTimeout(tb.Context(), 2*time.Second)
		defer cancel()
		_, err := leader.CreateBucket(ctx, c.js, leader.BucketConfig{Name: "E", Replicas: 3})
		return err == nil
	})
	c.heal()
}

// clusterPlaced makes a stream. It tries again while the server that places streams takes
// another for offline, as it does for a moment when two routes between them become one, and while
// there is no answer, because the servers of the stream have not elected one that leads it.
func clusterPlaced(tb testing.TB, create func() error) {
	tb.Helper()
	tcpEventually(tb, "the servers take the stream", func() bool {
		err := create()
		var api *jetstream.APIError
		if errors.As(err, &api) && api.ErrorCode == noSuitablePeers || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, leader.ErrUnreachable) {
			return false
		}
		check.OK(tb, err)
		return true
	})
}

// noSuitablePeers is the server's JSClusterNoPeersErrF.
const noSuitablePeers = 10005

func (c *cluster) start(n *clusterNode) {
	c.tb.Helper()
	self := check.Got(os.Executable())(c.tb)
	n.cmd = exec.Command(self)
	n.cmd.Env = append(os.Environ(), clusterEnv+"="+n.config)
	n.cmd.Stderr = os.Stderr
	n.stdin = check.Got(n.cmd.StdinPipe())(c.tb)
	check.OK(c.tb, n.cmd.Start())
}

// shut ends a server in good order.
func (c *cluster) shut(n *clusterNode) {
	if n.cmd != nil {
		_ = n.stdin.Close()
		_ = n.cmd.Wait()
		n.cmd = nil
	}
}

// kill ends a server at once.
func (c *cluster) kill(n *clusterNode) {
	if n.cmd != nil {
		_ = n.cmd.Process.Kill()
		_ = n.cmd.Wait()
		n.cmd = nil
	}
}

// dial connects to any of the servers.
func (c *cluster) dial() *nats.Conn {
	c.tb.Helper()
	return tcpDial(c.tb, c.urls)
}

// dialTo connects to that server first, and to another when it is lost.
func (c *cluster) dialTo(n *clusterNode) *nats.Conn {
	c.tb.Helper()
	for range 100 {
		nc := c.dial()
		if nc.ConnectedServerName() == n.name {
			return nc
		}
		nc.Close()
	}
	c.tb.Fatalf("no connection to %s", n.name)
	return nil
}

// info returns the cluster's information on the stream, nil if there is no answer.
func (c *cluster) info() *jetstream.StreamInfo {
	ctx, cancel := context.WithTimeout(c.tb.Context(), time.Second)
	defer cancel()
	s, err := c.js.Stream(ctx, "KV_E")
	if err != nil || s.CachedInfo().Cluster == nil {
		return nil
	}
	return s.CachedInfo()
}

// heal waits until all servers are up and have all of the stream.
func (c *cluster) heal() {
	c.tb.Helper()
	for _, n := range c.nodes {
		if n.cmd == nil {
			c.start(n)
		}
	}
	tcpEventually(c.tb, "all replicas are current", func() bool {
		i := c.info()
		if i == nil || i.Cluster.Leader == "" || len(i.Cluster.Replicas) != 2 {
			return false
		}
		for _, r := range i.Cluster.Replicas {
			if !r.Current || r.Offline {
				return false
			}
		}
		return true
	})
}

// leads returns the server that leads the stream.
func (c *cluster) leads() *clusterNode {
	c.tb.Helper()
	var n *clusterNode
	tcpEventually(c.tb, "the stream has a leader", func() bool {
		if i := c.info(); i != nil {
			n = c.nodes[i.Cluster.Leader]
		}
		return n != nil && n.cmd != nil
	})
	return n
}

// Fault 15 of docs/faults.md. At default settings none of these losses costs the
// leadership, not even for a moment, because there would be a new term.
func TestClusterFault15_LeaderStays(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	c := clusterStart(t)
	el := tcpElectionOf(t, "e")
	first := c.leads()
	// Both are on the server that leads the stream, which is lost first.
	a := el.stand(tcpBucket(t, tcpJS(t, c.dialTo(first))), leader.Config{ID: "a", TurnTimeout: longTurn})
	term := tcpTerm(a)
	b := el.stand(tcpBucket(t, tcpJS(t, c.dialTo(first))), leader.Config{ID: "b"})
	b.Expect(leadertest.Observed("a"))
	holders := check.Got(leader.Observe(t.Context(), tcpBucket(t, tcpJS(t, c.dial())), "e"))(t)
	tcpShows(t, holders, "a", "")
	stays := func(t *testing.T, what string) {
		t.Helper()
		tcpRenewed(t, tcpBucket(t, c.js), "e", 2)
		err := term.Err()
		check.Must(t, err == nil, "%s: the term ended: %v", what, err)
		s := b.State()
		check.Must(t, s == leader.StateCandidate, "%s: b is %v", what, s)
		h, ok := b.Leader()
		check.That(t, ok && h.ID == "a" && h.Token == term.Token(), "%s: b believes %v", what, h)
	}
	t.Run("the stream's leader steps down", func(t *testing.T) {
		reply := check.Got(c.nc.Request("$JS.API.STREAM.LEADER.STEPDOWN.KV_E", nil, tcpLimit))(t)
		check.Must(t, !strings.Contains(string(reply.Data), "error"), "%s", reply.Data)
		stays(t, "step down")
	})
	t.Run("the stream's leader is shut down", func(t *testing.T) {
		c.shut(c.leads())
		stays(t, "one server down")
		c.heal()
	})
	t.Run("the stream's leader is killed", func(t *testing.T) {
		c.kill(c.leads())
		stays(t, "one server killed")
		c.heal()
	})
	t.Run("rolling restart", func(t *testing.T) {
		for _, n := range c.nodes {
			c.shut(n)
			stays(t, n.name+" down")
			c.heal()
		}
	})
	t.Run("the holder hands over", func(t *testing.T) {
		check.OK(t, a.Resign(t.Context()))
		a.Expect(leadertest.Deposed(leader.ErrResigned))
		b.Expect(leadertest.Elected())
		tcpShows(t, holders, "b", "")
	})
	for _, e := range b.Watcher.Events() {
		o, ok := e.(leader.Observed)
		check.That(t, !ok || o.Holder.ID == "a" || o.Holder.ID == "", "b: %v", e)
	}
	check.Is(t, context.Cause(term.Context()), leader.ErrResigned)
}
