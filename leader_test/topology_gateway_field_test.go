//go:build field

package leader_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	netlink "github.com/natsleader/natsleader/internal/link"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/testcluster"
	"github.com/natsleader/natsleader/leader"
)

// supercluster is two clusters, EAST with three servers and WEST with two, and the links between
// their gateways.
type supercluster struct {
	tb         testing.TB
	east, west []*server.Server
	links      []*tcpLink
}

func startSupercluster(t *testing.T) *supercluster {
	t.Helper()
	const n = 5
	routes, gateways := tcpFreePorts(t, n), tcpFreePorts(t, n)
	c := &supercluster{tb: t}
	remotes := make(map[string][]string) // URLs of the gateways of a cluster
	peers := make(map[string][]string)   // URLs of the routes of a cluster
	home := func(i int) string {
		if i < 3 {
			return "EAST"
		}
		return "WEST"
	}
	for i := range n {
		c.links = append(c.links, linkTo(t, fmt.Sprint("127.0.0.1:", gateways[i])))
		remotes[home(i)] = append(remotes[home(i)], fmt.Sprintf(`"nats://%s"`, c.links[i].Addr()))
		peers[home(i)] = append(peers[home(i)], fmt.Sprintf(`"nats-route://127.0.0.1:%d"`, routes[i]))
	}
	for i := range n {
		name := home(i)
		// The servers of the other cluster hear of a gateway by the address that it advertises.
		opts := tcpOptions(t, fmt.Sprintf(`
			server_name: s%d
			cluster { name: %s, host: 127.0.0.1, port: %d, routes: [ %s ] }
			gateway {
				name: %s, host: 127.0.0.1, port: %d, advertise: %q
				gateways: [ { name: EAST, urls: [ %s ] }, { name: WEST, urls: [ %s ] } ]
			}`, i, name, routes[i], strings.Join(peers[name], ", "), name, gateways[i], c.links[i].Addr(),
			strings.Join(remotes["EAST"], ", "), strings.Join(remotes["WEST"], ", ")))
		s := tcpServe(t, opts)
		if name == "EAST" {
			c.east = append(c.east, s)
		} else {
			c.west = append(c.west, s)
		}
	}
	c.joined()
	return c
}

// joined waits until each server has a connection to the other cluster.
func (c *supercluster) joined() {
	c.tb.Helper()
	tcpEventually(c.tb, "the gateways are connected", func() bool {
		for _, s := range append(c.east[:3:3], c.west...) {
			if s.NumOutboundGateways() != 1 {
				return false
			}
		}
		return true
	})
}

func (c *supercluster) set(mode string) {
	c.tb.Helper()
	for _, l := range c.links {
		l.Set(mode)
	}
	if mode == netlink.Works {
		c.joined()
	}
}

// A supercluster of two clusters, with the bucket in one of them and candidates in both, loses the
// link between its gateways. A leader beside the bucket goes on, and a leader in the other cluster is
// succeeded by one beside the bucket when its lease is over.
func TestTopology_Supercluster(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	c := startSupercluster(t)
	js := tcpJS(t, tcpDial(t, c.east[0].ClientURL()))
	testcluster.Until(t, "the bucket can be made", func(ctx context.Context) error {
		return check.Err(leader.CreateOrUpdateBucket(ctx, js, leader.BucketConfig{
			Name: "E", Replicas: 3, Placement: &jetstream.Placement{Cluster: "EAST"},
		}))
	})
	open := func(s *server.Server) *leader.Bucket { return tcpBucket(t, tcpJS(t, tcpDial(t, s.ClientURL()))) }
	el := tcpElectionOf(t, "e")
	east, west, term := el.pair(open(c.east[1]), open(c.west[0]), leader.Config{LeaseDuration: operationLease})

	c.set(netlink.Cut)
	west.Expect(leadertest.Faulted(leader.ErrUnreachable), leadertest.Observed(""))
	tcpRenewed(t, open(c.east[2]), "e", 4)
	if err := leader.Err(term.Context()); err != nil || west.State() != leader.StateCandidate {
		t.Errorf("east has %v, west is %v", err, west.State())
	}
	c.set(netlink.Works)
	west.Expect(leadertest.Observed("a"))

	// Right after the gateways are connected again a reply to west may get lost, and it tries again
	// within a lease. If east resigned, it would follow itself by then, so it stops.
	check.OK(t, east.Stop(t.Context()))
	east.Expect(leadertest.Deposed(leader.ErrStopped))
	west.Expect(leadertest.Elected())
	east = el.stand(open(c.east[1]), leader.Config{ID: "a", LeaseDuration: operationLease})
	east.Expect(leadertest.Observed("b"))
	c.set(netlink.Cut)
	west.Expect(leadertest.Faulted(leader.ErrUnreachable), leadertest.Fenced(leader.ErrLeaseExpired))
	east.Expect(leadertest.Observed(""), leadertest.Elected())
	c.set(netlink.Works)
	west.Expect(leadertest.Deposed(leader.ErrLeaseExpired), leadertest.Observed("a"))
}
