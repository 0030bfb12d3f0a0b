//go:build field

package leader_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/testcluster"
	"github.com/natsleader/natsleader/leader"
)

// cluster is a cluster with the bucket E, with three replicas on file.
type cluster struct {
	*testcluster.Cluster
	tb testing.TB
}

// clusterStart starts three servers.
func clusterStart(tb testing.TB) *cluster {
	tb.Helper()
	return clusterOf(tb, 3, testcluster.Options{})
}

// clusterOf starts n servers and makes the bucket.
func clusterOf(tb testing.TB, n int, o testcluster.Options) *cluster {
	tb.Helper()
	o.Binaries = append(o.Binaries, make([]string, n-len(o.Binaries))...)
	o.Connect = func(urls string) *nats.Conn { return tcpDial(tb, urls, nats.RetryOnFailedConnect(true)) }
	c := &cluster{testcluster.New(tb, o), tb}
	testcluster.Until(tb, "the bucket can be made", func(ctx context.Context) error {
		return check.Err(leader.CreateOrUpdateBucket(ctx, c.JS, leader.BucketConfig{Name: "E", Replicas: 3}))
	})
	c.Whole("E")
	return c
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

// dial connects to any of the servers.
func (c *cluster) dial() *nats.Conn {
	c.tb.Helper()
	return tcpDial(c.tb, c.URLs)
}

// dialTo connects to that server first, and to another when it is lost.
func (c *cluster) dialTo(n *testcluster.Node) *nats.Conn {
	c.tb.Helper()
	for range 100 {
		nc := c.dial()
		if nc.ConnectedServerName() == n.Name {
			return nc
		}
		nc.Close()
	}
	c.tb.Fatalf("no connection to %s", n.Name)
	return nil
}

// Fault 15 of docs/faults.md. At default settings none of these losses costs the
// leadership, not even for a moment, because there would be a new term.
func TestClusterFault15_LeaderStays(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	c := clusterStart(t)
	first := c.Leads("E")
	// Both are on the server that leads the stream, which is lost first.
	a, b, term := tcpElectionOf(t, "e").pair(tcpBucket(t, tcpJS(t, c.dialTo(first))),
		tcpBucket(t, tcpJS(t, c.dialTo(first))), leader.Config{TurnTimeout: longTurn})
	holders := check.Got(leader.Observe(t.Context(), tcpBucket(t, tcpJS(t, c.dial())), "e"))(t)
	tcpShows(t, holders, "a", "")
	stays := func(t *testing.T, what string) {
		t.Helper()
		tcpRenewed(t, tcpBucket(t, c.JS), "e", 2)
		err := leader.Err(term.Context())
		check.Must(t, err == nil, "%s: the term ended: %v", what, err)
		s := b.State()
		check.Must(t, s == leader.StateCandidate, "%s: b is %v", what, s)
		h := b.Leader()
		check.That(t, h.State == leader.HolderLeading && h.ID == "a" && h.Token == term.Token(), "%s: b believes %v", what, h)
	}
	t.Run("the stream's leader steps down", func(t *testing.T) {
		reply := check.Got(c.NC.Request("$JS.API.STREAM.LEADER.STEPDOWN.KV_E", nil, tcpLimit))(t)
		check.Must(t, !strings.Contains(string(reply.Data), "error"), "%s", reply.Data)
		stays(t, "step down")
	})
	t.Run("the stream's leader is shut down", func(t *testing.T) {
		c.Leads("E").Shut()
		stays(t, "one server down")
		c.Whole("E")
	})
	t.Run("the stream's leader is killed", func(t *testing.T) {
		c.Leads("E").Kill()
		stays(t, "one server killed")
		c.Whole("E")
	})
	t.Run("rolling restart", func(t *testing.T) {
		for _, n := range c.Nodes {
			n.Shut()
			stays(t, n.Name+" down")
			c.Whole("E")
		}
	})
	t.Run("the holder hands over", func(t *testing.T) {
		check.OK(t, leadertest.Resign(t.Context(), a.Candidate))
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
