//go:build field

package leader_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	netlink "github.com/natsleader/natsleader/internal/link"
	"github.com/natsleader/natsleader/internal/testcluster"
	"github.com/natsleader/natsleader/leader"
)

// region is the servers of one cluster of a supercluster.
type region struct {
	name  string
	hosts []*tcpHost
}

// supercluster is two clusters, and the links between their gateways. EAST has three servers and the
// bucket E with its roster, with three replicas.
type supercluster struct {
	tb         testing.TB
	east, west *region
	links      []*tcpLink
}

// superclusterOf starts EAST, and WEST with n servers, and makes the bucket.
func superclusterOf(tb testing.TB, n int) *supercluster {
	tb.Helper()
	c := &supercluster{tb: tb, east: &region{name: "EAST"}, west: &region{name: "WEST"}}
	n += 3
	routes, gateways := tcpFreePorts(tb, n), tcpFreePorts(tb, n)
	remotes := make(map[*region][]string) // URLs of the gateways of a cluster
	peers := make(map[*region][]string)   // URLs of the routes of a cluster
	home := func(i int) *region {
		if i < 3 {
			return c.east
		}
		return c.west
	}
	for i := range n {
		c.links = append(c.links, linkTo(tb, fmt.Sprint("127.0.0.1:", gateways[i])))
		remotes[home(i)] = append(remotes[home(i)], fmt.Sprintf(`"nats://%s"`, c.links[i].Addr()))
		peers[home(i)] = append(peers[home(i)], fmt.Sprintf(`"nats-route://127.0.0.1:%d"`, routes[i]))
	}
	for i := range n {
		r := home(i)
		// The servers of the other cluster hear of a gateway by the address that it advertises.
		opts := tcpOptions(tb, fmt.Sprintf(`
			server_name: s%d
			cluster { name: %s, host: 127.0.0.1, port: %d, routes: [ %s ] }
			gateway {
				name: %s, host: 127.0.0.1, port: %d, advertise: %q
				gateways: [ { name: EAST, urls: [ %s ] }, { name: WEST, urls: [ %s ] } ]
			}`, i, r.name, routes[i], strings.Join(peers[r], ", "), r.name, gateways[i], c.links[i].Addr(),
			strings.Join(remotes[c.east], ", "), strings.Join(remotes[c.west], ", ")))
		r.hosts = append(r.hosts, tcpHostOf(tb, opts))
	}
	c.up(c.east)
	c.up(c.west)
	c.make(c.east)
	return c
}

// lose shuts all servers of a region down.
func (r *region) lose() {
	for _, h := range r.hosts {
		h.down()
	}
}

// up starts the servers of a region, and waits until those of both regions are connected.
func (c *supercluster) up(r *region) {
	c.tb.Helper()
	for _, h := range r.hosts {
		h.up()
	}
	c.joined()
}

// joined waits until each server that is up has a connection to the other cluster, if that is up.
func (c *supercluster) joined() {
	c.tb.Helper()
	if c.east.hosts[0].srv == nil || c.west.hosts[0].srv == nil {
		return
	}
	tcpEventually(c.tb, "the gateways are connected", func() bool {
		for _, h := range append(c.east.hosts[:3:3], c.west.hosts...) {
			if h.srv.NumOutboundGateways() != 1 {
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

// js is a connection of its own to a server of a region.
func (r *region) js(tb testing.TB, i int) jetstream.JetStream {
	tb.Helper()
	return tcpJS(tb, tcpDial(tb, r.hosts[i].srv.ClientURL()))
}

// bucket opens the bucket E on a connection of its own to a server of a region.
func (r *region) bucket(tb testing.TB, i int) *leader.Bucket {
	tb.Helper()
	return tcpBucket(tb, r.js(tb, i))
}

// both connects to the first server of WEST, and to the first of EAST when that does not serve.
func (c *supercluster) both() *nats.Conn {
	c.tb.Helper()
	return tcpDial(c.tb, c.west.hosts[0].srv.ClientURL()+","+c.east.hosts[0].srv.ClientURL(), nats.DontRandomize())
}

// make makes the bucket E by a connection to a region. The servers make it there.
func (c *supercluster) make(r *region) {
	c.tb.Helper()
	js := r.js(c.tb, 0)
	testcluster.Until(c.tb, "the bucket can be made in "+r.name, func(ctx context.Context) error {
		return check.Err(leader.CreateOrUpdateBucket(ctx, js, leader.BucketConfig{
			Name: "E", Replicas: 3, MaxLease: operationLease, Roster: true,
		}))
	})
	testcluster.Until(c.tb, "the bucket has a leader", func(ctx context.Context) error {
		s, err := js.Stream(ctx, "KV_E")
		if err == nil {
			check.Equal(c.tb, s.CachedInfo().Cluster.Name, r.name, "the bucket is in another region")
		}
		return err
	})
}

// inLeases prints the time since a fault, in leases.
func inLeases(t *testing.T, what string, since time.Time) {
	t.Helper()
	t.Logf("%s after %.1f leases", what, float64(time.Since(since))/float64(operationLease))
}

// fenced waits until a leader is fenced after a fault. It asks for the state, because the leader may have been
// fenced before, when replies through new gateways were lost.
func fenced(t *testing.T, c *tcpCandidate, since time.Time) {
	t.Helper()
	tcpEventually(t, c.ID()+" is fenced", func() bool { return c.State() == leader.StateFenced })
	inLeases(t, c.ID()+" is fenced", since)
}
