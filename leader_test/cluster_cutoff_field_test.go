//go:build field

package leader_test

import (
	"flag"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	netlink "github.com/natsleader/natsleader/internal/link"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/testcluster"
	"github.com/natsleader/natsleader/leader"
)

var cutOffs = flag.Int("cutoffs", proof.Size(1, 3), "how many servers TestClusterCutOff cuts off, one after the other")

// linkedCluster is three servers that are connected by links, which can be cut.
type linkedCluster struct {
	*cluster
	links map[*testcluster.Node][]*tcpLink // from and to a server
}

func clusterLinked(tb testing.TB) *linkedCluster {
	tb.Helper()
	links := make(map[*testcluster.Node][]*tcpLink)
	c := clusterOf(tb, 3, testcluster.Options{Route: func(from, to *testcluster.Node) string {
		l := linkTo(tb, to.Routes)
		links[from], links[to] = append(links[from], l), append(links[to], l)
		return l.Addr()
	}})
	return &linkedCluster{c, links}
}

// isolate sets what all routes of a server do.
func (c *linkedCluster) isolate(n *testcluster.Node, mode string) {
	for _, l := range c.links[n] {
		l.Set(mode)
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
		victim := c.Leads("E")
		if run > 0 {
			victim = c.Nodes[run%3]
		}
		c.cutOff(t, victim, lease)
		c.isolate(victim, netlink.Works)
		c.Whole("E")
	}
	proof.Ran(*cutOffs, "servers cut off")
}

// cutOff cuts a server off to which three candidates are connected.
func (c *linkedCluster) cutOff(t *testing.T, victim *testcluster.Node, lease time.Duration) {
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
	check.Must(t, vacantSince.IsZero(), "%s cut off: nobody has led for %v", victim.Name, time.Since(vacantSince))
	t.Logf("%s cut off: nobody led for %v", victim.Name, vacant)
	check.That(t, vacant < lease, "that is more than a lease")
	for _, one := range all {
		check.OK(t, one.Stop())
	}
}
