//go:build field

package leader_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	netlink "github.com/natsleader/natsleader/internal/link"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/testcluster"
	"github.com/natsleader/natsleader/leader"
)

// The gateways are cut. A leader beside the bucket goes on, and a leader in the other region is
// succeeded by a candidate beside the bucket when its lease is over. With ForceReconnect a connection that
// knows both regions moves to the other one, and a leader on it keeps its term.
func TestRegions_GatewaysCut(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	c := superclusterOf(t, 2)
	el := tcpElectionOf(t, "e")
	cfg := leader.Config{LeaseDuration: operationLease}
	east, west, term := el.pair(c.east.bucket(t, 1), c.west.bucket(t, 0), cfg)

	c.set(netlink.Cut)
	west.Expect(leadertest.Faulted(leader.ErrUnreachable), leadertest.Observed(""))
	tcpRenewed(t, c.east.bucket(t, 2), "e", 4)
	if err := leader.Err(term.Context()); err != nil || west.State() != leader.StateCandidate {
		t.Errorf("east has %v, west is %v", err, west.State())
	}
	back := time.Now()
	c.set(netlink.Works)
	west.Expect(leadertest.Observed("a"))
	inLeases(t, "west knows the leader", back)

	// Right after the gateways are connected again a reply to west may get lost, and it tries again
	// within a lease. If east resigned, it would follow itself by then, so it stops.
	check.OK(t, east.Stop())
	east.Expect(leadertest.Deposed(leader.ErrStopped))
	west.Expect(leadertest.Elected())
	cfg.ID = "a"
	east = el.stand(c.east.bucket(t, 1), cfg)
	east.Expect(leadertest.Observed("b"))
	moves := c.both()
	mover := tcpElectionOf(t, "f").stand(tcpBucket(t, tcpJS(t, moves)),
		leader.Config{ID: "m", LeaseDuration: operationLease, ForceReconnect: true})
	kept := tcpTerm(mover)
	cut := time.Now()
	c.set(netlink.Cut)
	fenced(t, west, cut)
	east.Expect(leadertest.Observed(""), leadertest.Elected())
	inLeases(t, "east leads", cut)
	tcpEventually(t, "the leader that can reach both regions leads in the other", func() bool {
		return moves.ConnectedUrl() == c.east.hosts[0].srv.ClientURL() && mover.IsLeader()
	})
	inLeases(t, "the leader that can reach both regions leads in the other", cut)
	check.OK(t, leader.Err(kept.Context())) // the lease from before the cut would be over by now
	c.set(netlink.Works)
	west.Expect(leadertest.Deposed(leader.ErrLeaseExpired), leadertest.Observed("a"))
}

// All servers of the region without the bucket are lost. A leader there goes on if its connection knows
// a server of the other region. Otherwise a candidate beside the bucket succeeds it.
func TestRegions_OtherLost(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	c := superclusterOf(t, 2)
	el := tcpElectionOf(t, "e")
	cfg := leader.Config{LeaseDuration: operationLease}
	moves := c.both()
	west, east, term := el.pair(tcpBucket(t, tcpJS(t, moves)), c.east.bucket(t, 1), cfg)
	c.west.lose()
	tcpEventually(t, "the leader has moved", func() bool {
		return moves.ConnectedUrl() == c.east.hosts[0].srv.ClientURL() && west.IsLeader()
	})
	t.Logf("the leader has moved, its first term has the error %v", leader.Err(term.Context()))
	c.up(c.west)
	check.OK(t, west.Stop())
	east.Expect(leadertest.Elected())
	cfg.ID = "c"
	west = el.stand(c.west.bucket(t, 0), cfg)
	west.Expect(leadertest.Observed("b"))
	check.OK(t, east.Stop())
	west.Expect(leadertest.Elected())
	cfg.ID = "d"
	east = el.stand(c.east.bucket(t, 1), cfg)
	east.Expect(leadertest.Observed("c"))
	lost := time.Now()
	c.west.lose()
	fenced(t, west, lost)
	east.Expect(leadertest.Elected())
	inLeases(t, "east leads", lost)
	c.up(c.west)
}

// All servers of the region with the bucket are lost. Nobody leads until they are back, and the servers
// of the other region, which are not the majority of all, make no bucket.
func TestRegions_HomeLost(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	c := superclusterOf(t, 2)
	el := tcpElectionOf(t, "e")
	west, east, _ := el.pair(c.west.bucket(t, 0), c.east.bucket(t, 1), leader.Config{LeaseDuration: operationLease})
	js := c.west.js(t, 1)
	lost := time.Now()
	c.east.lose()
	fenced(t, west, lost)
	ctx, cancel := context.WithTimeout(t.Context(), 2*operationLease)
	defer cancel()
	_, err := leader.CreateOrUpdateBucket(ctx, js, leader.BucketConfig{Name: "W"})
	check.Is(t, err, leader.ErrUnreachable)
	check.That(t, !west.IsLeader() && !east.IsLeader(), "a candidate leads without the bucket")
	back := time.Now()
	c.up(c.east)
	inLeases(t, "the gateways are connected", back)
	tcpEventually(t, "one leads", func() bool { return west.IsLeader() || east.IsLeader() })
	inLeases(t, "one leads", back)
}

// The region with the bucket is lost, and the servers of the other are the majority of all. An operator
// deletes the bucket there, waits for MaxLease and makes it anew. The tokens rise.
func TestRegions_BucketMadeAnew(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	c := superclusterOf(t, 4)
	el := tcpElectionOf(t, "e")
	cfg := leader.Config{LeaseDuration: operationLease}
	east, west, term := el.pair(c.east.bucket(t, 1), c.west.bucket(t, 0), cfg)
	c.east.lose()
	west.Expect(leadertest.Faulted(leader.ErrUnreachable), leadertest.Observed(""))
	lost := time.Now()
	c.moved()
	west.Expect(leadertest.Elected())
	inLeases(t, "west leads in a new bucket", lost)
	check.That(t, west.Watcher.Term().Token() > term.Token(), "token %d after %d", west.Watcher.Term().Token(), term.Token())
	c.up(c.east)
	east.Expect(leadertest.Fenced(leader.ErrLeaseExpired), leadertest.Observed("b"))
	tcpRenewed(t, c.east.bucket(t, 0), "e", 2)
	check.OK(t, leader.Err(west.Watcher.Term().Context()))
}

// The same while the region with the bucket is not lost but cut off. Its servers do not learn that the
// bucket was deleted. So two candidates lead until the gateways are connected again, and the token in
// the new bucket is the greater one.
func TestRegions_BucketMadeAnewWhileCutOff(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	c := superclusterOf(t, 4)
	cfg := leader.Config{LeaseDuration: operationLease, ID: "a"}
	// Each is of an election of its own for the checks.
	east := tcpElectionOf(t, "e").stand(c.east.bucket(t, 1), cfg)
	term := tcpTerm(east)
	cfg.ID = "b"
	west := tcpElectionOf(t, "e").stand(c.west.bucket(t, 0), cfg)
	west.Expect(leadertest.Observed("a"))
	c.set(netlink.Cut)
	west.Expect(leadertest.Faulted(leader.ErrUnreachable), leadertest.Observed(""))
	c.moved()
	west.Expect(leadertest.Elected())
	tcpRenewed(t, c.east.bucket(t, 0), "e", 2)
	check.That(t, east.IsLeader() && west.IsLeader(), "east leads: %v, west: %v", east.IsLeader(), west.IsLeader())
	check.That(t, west.Watcher.Term().Token() > term.Token(), "token %d after %d", west.Watcher.Term().Token(), term.Token())
	back := time.Now()
	c.set(netlink.Works)
	east.Expect(leadertest.Deposed(leader.ErrRegressed), leadertest.Observed("b"))
	inLeases(t, "east follows", back)
}

// moved deletes the bucket and its roster by a server of WEST, and makes them there after MaxLease.
func (c *supercluster) moved() {
	c.tb.Helper()
	js := c.west.js(c.tb, 1)
	for _, name := range []string{"E", "E_roster"} {
		testcluster.Until(c.tb, name+" is deleted", func(ctx context.Context) error {
			err := js.DeleteKeyValue(ctx, name)
			if errors.Is(err, jetstream.ErrBucketNotFound) {
				return nil // an earlier request has deleted it
			}
			return err
		})
	}
	time.Sleep(operationLease)
	c.make(c.west)
}

// A mirror of the bucket is promoted. Its records have lost their conditions on the way, and count as
// foreign. Its revisions go on after the last message that has reached it, so a token falls unless the
// candidates have a MinToken.
func TestRegions_MirrorPromoted(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	c := superclusterOf(t, 4)
	js := c.west.js(t, 1)
	conf := jetstream.StreamConfig{
		Name: "KV_W", Placement: &jetstream.Placement{Cluster: "WEST"}, MaxMsgsPerSubject: 1, AllowDirect: true,
		Mirror: &jetstream.StreamSource{Name: "KV_E", SubjectTransforms: []jetstream.SubjectTransformConfig{
			{Source: "$KV.E.>", Destination: "$KV.W.>"},
		}},
	}
	testcluster.Until(t, "the mirror can be made", func(ctx context.Context) error {
		return check.Err(js.CreateStream(ctx, conf))
	})
	ends := func() (last uint64) {
		testcluster.Until(t, "the mirror answers", func(ctx context.Context) error {
			s, err := js.Stream(ctx, "KV_W")
			if err == nil {
				last = s.CachedInfo().State.LastSeq
			}
			return err
		})
		return last
	}
	// leads returns the token of a candidate's term. Each is of an election of its own for the checks.
	leads := func(store *leader.Bucket, cfg leader.Config, first ...leadertest.Matcher) uint64 {
		cfg.LeaseDuration = operationLease
		one := tcpElectionOf(t, "e").stand(store, cfg)
		one.Expect(first...)
		token := tcpTerm(one).Token()
		check.OK(t, one.Stop())
		return token
	}
	first := leads(c.east.bucket(t, 0), leader.Config{ID: "a"})
	tcpEventually(t, "the mirror has the term", func() bool { return ends() > first })
	c.set(netlink.Cut)
	unseen := leads(c.east.bucket(t, 0), leader.Config{ID: "b"})
	c.east.lose()

	last := ends()
	conf.Mirror, conf.Subjects = nil, []string{"$KV.W.>"}
	testcluster.Until(t, "the mirror is promoted", func(ctx context.Context) error {
		return check.Err(js.UpdateStream(ctx, conf))
	})
	promoted := leader.BucketConfig{Name: "W", MaxLease: operationLease}
	_, err := leader.CreateOrUpdateBucket(t.Context(), js, promoted)
	check.Is(t, err, leader.ErrIncompatibleBucket)
	promoted.Adopt = true
	w := check.Got(leader.CreateOrUpdateBucket(t.Context(), js, promoted))(t)
	token := leads(w, leader.Config{ID: "c"}, leadertest.Faulted(leader.ErrForeignRecord))
	t.Logf("tokens %d and %d in the bucket, %d in the promoted mirror, which ended at %d", first, unseen, token, last)
	check.That(t, first < token && token == last+1 && token <= unseen, "a token of %d", token)
	token = leads(w, leader.Config{ID: "d", MinToken: unseen})
	check.That(t, token > unseen, "with MinToken a token of %d", token)
}

// Candidates near the bucket lead by their priority, and one far away leads only if there is no other.
func TestRegions_Priority(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	c := superclusterOf(t, 2)
	el := tcpElectionOf(t, "e")
	stand := func(r *region, id string, priority int) *tcpCandidate {
		return el.stand(r.bucket(t, 1), leader.Config{
			ID: id, LeaseDuration: operationLease, Queue: &leader.Queue{Priority: priority, Preempt: true},
		})
	}
	far := stand(c.west, "far", 0)
	far.Expect(leadertest.Elected())
	near := stand(c.east, "near", 1)
	began := time.Now()
	near.Expect(leadertest.Elected())
	inLeases(t, "near leads", began)
	far.Expect(leadertest.Deposed(leader.ErrResigned), leadertest.Observed("near"))
	// far has waited for longer than next.
	next := stand(c.east, "next", 1)
	next.Expect(leadertest.Observed("near"))
	tcpRenewed(t, c.east.bucket(t, 0), "e", 6)
	check.OK(t, near.Stop())
	next.Expect(leadertest.Elected())
	far.Expect(leadertest.Observed("next"))
	check.OK(t, next.Stop())
	far.Expect(leadertest.Elected())
}
