//go:build field

package leader_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
)

// ensureIn returns the bucket E of EnsureBucket, in the domain that the JetStream context names, or in that of the
// server.
func ensureIn(t *testing.T, nc *nats.Conn, domain string) *leader.Bucket {
	t.Helper()
	js := tcpJS(t, nc)
	if domain != "" {
		js = check.Got(jetstream.NewWithDomain(nc, domain))(t)
	}
	return check.Got(leader.EnsureBucket(js, leader.BucketConfig{Name: "E"}))(t)
}

// refusedOnLeaf matches the report of a candidate whose bucket EnsureBucket does not make on a leaf node.
func refusedOnLeaf(domain string) leadertest.Matcher {
	return leadertest.Match("Faulted by the leaf node", func(e leader.Event) bool {
		f, ok := e.(leader.Faulted)
		return ok && errors.Is(f.Err, leader.ErrNoBucket) && strings.Contains(f.Err.Error(), fmt.Sprintf("on a leaf node, in the JetStream domain %q", domain))
	})
}

// logLines keeps the lines of a log.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *logLines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(line))
	return len(line), nil
}

func (l *logLines) domains() (named []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, line := range l.lines {
		if strings.Contains(line, "domain=hub") {
			named = append(named, i)
		}
	}
	return named
}

// A hub and a leaf node have a JetStream domain each. EnsureBucket makes the bucket at the hub, and none on the
// leaf node unless the context names its domain: then each has a leader. A candidate whose connection moves from
// the hub to the leaf node does not take the bucket there for its own.
func TestTopology_TwoDomains(t *testing.T) {
	t.Parallel()
	hub := tcpHostOf(t, tcpOptions(t, `server_name: hub, jetstream { domain: hub }, leafnodes { host: 127.0.0.1, port: -1, no_advertise: true }`))
	at := hub.up()
	leaf := tcpServe(t, tcpOptions(t, fmt.Sprintf(`server_name: edge, jetstream { domain: edge }
		leafnodes { reconnect: "50ms", remotes: [ { url: "nats-leaf://127.0.0.1:%d" } ] }`, tcpLeafPort(t, at))))
	tcpEventually(t, "the leaf is connected", func() bool { return at.NumLeafNodes() == 1 && leaf.NumLeafNodes() == 1 })

	edge := tcpElectionOf(t, "e")
	astray := edge.stand(ensureIn(t, tcpDial(t, leaf.ClientURL()), ""), leader.Config{ID: "astray"})
	astray.Expect(refusedOnLeaf("edge"))
	check.OK(t, astray.Stop())

	var log logLines
	el := tcpElectionOf(t, "e")
	both := tcpDial(t, at.ClientURL()+","+leaf.ClientURL(), nats.DontRandomize())
	moves := ensureIn(t, both, "")
	a := el.stand(moves, leader.Config{ID: "a", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	a.Expect(leadertest.Elected())
	check.Equal(t, check.Got(moves.Info(t.Context()))(t).Domain, "hub", "the domain is %q")
	far := el.stand(ensureIn(t, tcpDial(t, leaf.ClientURL()), "hub"), leader.Config{ID: "far"})
	far.Expect(leadertest.Observed("a"))
	check.OK(t, far.Stop())

	own := ensureIn(t, tcpDial(t, leaf.ClientURL()), "edge")
	b := edge.stand(own, leader.Config{ID: "b"})
	b.Expect(leadertest.Elected())
	check.Equal(t, check.Got(own.Info(t.Context()))(t).Domain, "edge", "the domain is %q")

	hub.down()
	a.Expect(leadertest.Match("Faulted by the other domain", func(e leader.Event) bool {
		f, ok := e.(leader.Faulted)
		return ok && errors.Is(f.Err, leader.ErrIncompatibleBucket) && strings.Contains(f.Err.Error(), `in the JetStream domain "edge", and this process found it in the JetStream domain "hub"`)
	}))
	check.OK(t, a.Stop())
	check.That(t, b.IsLeader(), "the leader in the other domain is %v", b.State())
	named := log.domains()
	check.That(t, len(named) == 1 && named[0] == 0, "lines %v of %q name the domain", named, log.lines)
}

// A leaf node that is in a cluster is recognised by its connection to the hub.
func TestTopology_LeafCluster(t *testing.T) {
	t.Parallel()
	hub := tcpServe(t, tcpOptions(t, `server_name: hub, jetstream { domain: hub }, leafnodes { host: 127.0.0.1, port: -1, no_advertise: true }`))
	ports := [3]int{testserver.FreePort(t), testserver.FreePort(t), testserver.FreePort(t)}
	var nodes []*server.Server
	for i, port := range ports {
		nodes = append(nodes, tcpServe(t, tcpOptions(t, fmt.Sprintf(`server_name: edge%d, jetstream { domain: edge }
			cluster { name: EDGE, host: 127.0.0.1, port: %d, routes: [ "nats://127.0.0.1:%d", "nats://127.0.0.1:%d", "nats://127.0.0.1:%d" ] }
			leafnodes { reconnect: "50ms", remotes: [ { url: "nats-leaf://127.0.0.1:%d" } ] }`, i, port, ports[0], ports[1], ports[2], tcpLeafPort(t, hub)))))
	}
	tcpEventually(t, "the leaf nodes are connected, and one leads", func() bool {
		return hub.NumLeafNodes() == len(nodes) && slices.ContainsFunc(nodes, (*server.Server).JetStreamIsLeader)
	})
	astray := tcpElectionOf(t, "e").stand(ensureIn(t, tcpDial(t, nodes[2].ClientURL()), ""), leader.Config{ID: "astray"})
	astray.Expect(refusedOnLeaf("edge"))
}
