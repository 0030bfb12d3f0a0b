//go:build field

package leader_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/testcluster"
	"github.com/natsleader/natsleader/leader"
)

// movedFrom waits until the stream has three current replicas and none on that server.
func (c *cluster) movedFrom(name string) {
	c.tb.Helper()
	tcpEventually(c.tb, "the stream has left "+name, func() bool {
		i := c.Info("E")
		if i == nil || i.Cluster.Leader == "" || i.Cluster.Leader == name || len(i.Cluster.Replicas) != 2 {
			return false
		}
		for _, r := range i.Cluster.Replicas {
			if r.Name == name || !r.Current || r.Offline || r.Lag > 0 {
				return false
			}
		}
		return true
	})
}

// The replicas of the bucket move to other servers of a cluster of four: an operator removes the peer
// that leads the stream, and then changes the placement. The leader stays the same each time.
func TestOperations_PeersMoved(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	// A placement by the tag not-s1 is on the three others.
	c := clusterOf(t, 4, testcluster.Options{More: func(name string) string {
		var tags []string
		for i := range 4 {
			if other := fmt.Sprintf("s%d", i+1); other != name {
				tags = append(tags, "not-"+other)
			}
		}
		return "server_tags: [ " + strings.Join(tags, ", ") + " ]"
	}})
	a, b, term := tcpElectionOf(t, "e").pair(tcpBucket(t, tcpJS(t, c.dialTo(c.Leads("E")))),
		tcpBucket(t, tcpJS(t, c.dial())), leader.Config{TurnTimeout: longTurn})
	stays := func(what string) {
		t.Helper()
		tcpRenewed(t, tcpBucket(t, c.JS), "e", 2)
		err := leader.Err(term.Context())
		check.Must(t, err == nil && b.State() == leader.StateCandidate,
			"%s: the term has %v, b is %v", what, err, b.State())
	}

	removed := c.Leads("E")
	request := check.Got(json.Marshal(map[string]string{"peer": removed.Name}))(t)
	reply := check.Got(c.NC.Request("$JS.API.STREAM.PEER.REMOVE.KV_E", request, tcpLimit))(t)
	check.Must(t, strings.Contains(string(reply.Data), `"success":true`), "PEER.REMOVE: %s", reply.Data)
	c.movedFrom(removed.Name)
	stays("a peer was removed")

	avoided := c.Leads("E")
	conf := c.Info("E").Config
	conf.Placement = &jetstream.Placement{Tags: []string{"not-" + avoided.Name}}
	testcluster.Until(t, "the placement can be changed", func(ctx context.Context) error {
		return check.Err(c.JS.UpdateStream(ctx, conf))
	})
	c.movedFrom(avoided.Name)
	stays("the placement was changed")

	avoided.Shut()
	stays("the server was retired")
	check.OK(t, leadertest.Resign(t.Context(), a.Candidate))
	b.Expect(leadertest.Elected())
}
