//go:build field

package leader_test

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	netlink "github.com/natsleader/natsleader/internal/link"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// The link between a hub and a leaf node is cut. Each has a JetStream domain of its own, and the
// bucket is in that of the hub. A leader at the hub goes on, and a leader at the leaf node is
// succeeded by one at the hub when its lease is over. When the link is back, the other side hears who
// leads.
func TestTopology_LeafCutOff(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	hub := tcpServe(t, tcpOptions(t, `server_name: hub, jetstream { domain: hub }, leafnodes { host: 127.0.0.1, port: -1, no_advertise: true }`))
	link := linkTo(t, fmt.Sprint("127.0.0.1:", tcpLeafPort(t, hub)))
	leaf := tcpServe(t, tcpOptions(t, fmt.Sprintf(`server_name: leaf, jetstream { domain: leaf }
		leafnodes { reconnect: "50ms", remotes: [ { url: "nats-leaf://%s" } ] }`, link.Addr())))
	joined := func() {
		t.Helper()
		tcpEventually(t, "the leaf is connected", func() bool { return hub.NumLeafNodes() == 1 && leaf.NumLeafNodes() == 1 })
	}
	joined()
	tcpCreate(t, tcpJS(t, tcpDial(t, hub.ClientURL())), leader.BucketConfig{})
	open := func(s *server.Server) *leader.Bucket {
		js := check.Got(jetstream.NewWithDomain(tcpDial(t, s.ClientURL()), "hub"))(t)
		return tcpBucket(t, js)
	}
	near, far, term := tcpElectionOf(t, "e").pair(open(hub),
		open(leaf), leader.Config{LeaseDuration: operationLease, TurnTimeout: longTurn})

	link.Set(netlink.Cut)
	far.Expect(leadertest.Faulted(leader.ErrUnreachable), leadertest.Observed(""))
	tcpRenewed(t, open(hub), "e", 4)
	err := leader.Err(term.Context())
	check.That(t, err == nil && far.State() == leader.StateCandidate, "near has %v, far is %v", err, far.State())
	link.Set(netlink.Works)
	joined()
	far.Expect(leadertest.Observed("a"))

	check.OK(t, leadertest.Resign(t.Context(), near.Candidate))
	near.Expect(leadertest.Deposed(leader.ErrResigned))
	far.Expect(leadertest.Elected())
	near.Expect(leadertest.Observed("b"))
	link.Set(netlink.Cut)
	far.Expect(leadertest.Faulted(leader.ErrUnreachable), leadertest.Fenced(leader.ErrLeaseExpired))
	near.Expect(leadertest.Observed(""), leadertest.Elected())
	link.Set(netlink.Works)
	joined()
	far.Expect(leadertest.Deposed(leader.ErrLeaseExpired), leadertest.Observed("a"))
}
