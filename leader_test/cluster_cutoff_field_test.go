//go:build field

package leader_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	netlink "github.com/natsleader/natsleader/internal/link"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

var cutOffs = flag.Int("cutoffs", proof.Size(1, 3), "how many servers TestClusterCutOff cuts off, one after the other")

// routeLink is the way from one server to the address of another one for routes.
type routeLink struct {
	*tcpLink
	from, to string
}

// clusterLinked starts three servers that are connected by links which can be cut.
func clusterLinked(tb testing.TB) *cluster {
	tb.Helper()
	const n = 3
	ports := tcpFreePorts(tb, 2*n)
	c := &cluster{tb: tb, nodes: make(map[string]*clusterNode)}
	name := func(i int) string { return fmt.Sprintf("s%d", i+1) }
	c.form(ports, func(i int) string {
		var routes []string
		for j := range n {
			if j != i {
				l := linkTo(tb, ports[n+j])
				c.links = append(c.links, routeLink{l, name(i), name(j)})
				routes = append(routes, fmt.Sprintf(`"nats-route://127.0.0.1:%d"`, l.port))
			}
		}
		return fmt.Sprintf("advertise: %q, no_advertise: true, routes: [ %s ]", "127.0.0.1:1", strings.Join(routes, ", "))
	}, func(string) string { return "" })
	return c
}

// isolate sets what all routes of a server do.
func (c *cluster) isolate(n *clusterNode, mode string) {
	for _, l := range c.links {
		if l.from == n.name || l.to == n.name {
			l.Set(mode)
		}
	}
}

// All candidates are on one server, as after a rolling restart. That server loses its routes, and the
// others of the cluster are well. Either the leader keeps its lease, or another candidate leads within
// one lease; that server stays cut off until then and for longer than a lease. `-cutoffs 10` for ten
// runs; each server in turn, and so the one that leads the stream.
func TestClusterCutOff_LeadershipGoesOn(t *testing.T) {
	t.Parallel()
	c := clusterLinked(t)
	const lease = 15 * time.Second
	for run := range *cutOffs {
		victim := c.leads()
		if run > 0 {
			victim = c.nodes[fmt.Sprintf("s%d", run%3+1)]
		}
		c.cutOff(t, victim, lease)
		c.isolate(victim, netlink.Works)
		c.heal()
	}
	proof.Ran(*cutOffs, "servers cut off")
}

// cutOff cuts a server off to which three candidates are connected.
func (c *cluster) cutOff(t *testing.T, victim *clusterNode, lease time.Duration) {
	t.Helper()
	el := tcpElectionOf(t, "e")
	var all []*tcpCandidate
	for _, id := range []string{"a", "b", "d"} {
		cfg := leader.Config{ID: id, ForceReconnect: true, LeaseDuration: lease}
		all = append(all, el.stand(tcpBucket(t, tcpJS(t, c.dialTo(victim))), cfg))
	}
	leads := func() (n int) {
		for _, one := range all {
			if one.IsLeader() {
				n++
			}
		}
		return n
	}
	tcpEventually(t, "one leads", func() bool { return leads() == 1 })
	c.isolate(victim, netlink.Cut)
	began, vacantSince := time.Now(), time.Time{}
	var vacant time.Duration
	for time.Since(began) < lease*time.Duration(proof.Size(2, 8)) {
		switch n := leads(); {
		case n > 1:
			t.Fatalf("%d lead", n)
		case n == 0 && vacantSince.IsZero():
			vacantSince = time.Now()
		case n == 1 && !vacantSince.IsZero():
			vacant += time.Since(vacantSince)
			vacantSince = time.Time{}
		}
		time.Sleep(time.Millisecond)
	}
	check.Must(t, vacantSince.IsZero(), "%s cut off: nobody has led for %v", victim.name, time.Since(vacantSince))
	t.Logf("%s cut off: nobody led for %v", victim.name, vacant)
	check.That(t, vacant < lease, "that is more than a lease")
	for _, one := range all {
		check.OK(t, one.Stop(t.Context()))
	}
}
