//go:build field && prove

package leader_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testcluster"
	"github.com/natsleader/natsleader/leader"
)

// A cluster is updated from the oldest supported release to the newest, server by server, and the
// leader stays the same.
func TestCompatibility_RollingUpdate(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, 3, testcluster.Options{Binaries: slices.Repeat([]string{binaryOf(t, releases[0])}, 3)})
	dial := func() jetstream.JetStream {
		return tcpJS(t, tcpDial(t, c.URLs, nats.RetryOnFailedConnect(true), nats.PingInterval(time.Second)))
	}
	js := dial()
	// settled waits, as an operator does before the next server: the server answers, all replicas are
	// current, and the leader has renewed its lease.
	settled := func(n *testcluster.Node) {
		t.Helper()
		tcpEventually(t, n.Name+" answers", func() bool {
			nc, err := nats.Connect("nats://" + n.Address)
			if err != nil {
				return false
			}
			defer nc.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return check.Err(tcpJS(t, nc).AccountInfo(ctx)) == nil
		})
		c.Whole("E")
		tcpRenewed(t, tcpBucket(t, js), "e", 1)
	}
	_, _, term := tcpElectionOf(t, "e").pair(tcpBucket(t, js), tcpBucket(t, dial()), leader.Config{})
	for _, version := range releases[1:] {
		for _, n := range c.Nodes {
			n.Become(binaryOf(t, version))
			settled(n)
			t.Logf("%s is of version %s", n.Name, version)
		}
	}
	check.Is(t, leader.Err(term.Context()), nil)
	h, err := leader.Lookup(t.Context(), tcpBucket(t, js), "e")
	check.That(t, err == nil && h.ID == "a" && h.Token == term.Token(), "Lookup: %v, %v", h, err)
}
