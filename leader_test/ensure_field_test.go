//go:build field

package leader_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// A candidate that may not create the bucket says so with the subject, and works when
// the bucket is there. It tries less and less often: each try is a violation that the
// application's error handler gets.
func TestEnsure_Denied(t *testing.T) {
	t.Parallel()
	h := permServer(t, permList("a", "a", false))
	nc := permDial(t, h, "a")
	js := tcpJS(t, nc)
	b := check.Got(leader.EnsureBucket(js, leader.BucketConfig{Name: "E"}))(t)
	a := tcpElectionOf(t, "a").stand(b, leader.Config{})
	a.Expect(leadertest.Match("Faulted that names the subject", func(e leader.Event) bool {
		f, ok := e.(leader.Faulted)
		return ok && errors.Is(f.Err, leader.ErrPermission) && errors.Is(f.Err, nats.ErrPermissionViolation) &&
			f.Err.Error() == `create bucket E: leader: permission denied: Publish to "$JS.API.STREAM.CREATE.KV_E"`
	}))
	tcpCreate(t, permJS(t, h, "admin"), leader.BucketConfig{})
	a.Expect(leadertest.Elected())
	faults := 0
	for _, e := range a.Watcher.Events() {
		if _, ok := e.(leader.Faulted); ok {
			faults++
		}
	}
	check.That(t, faults == 1, "%d faults, want one", faults)
}

// The bucket has three replicas, and one server of the cluster is up at first.
func TestEnsure_ClusterComesLate(t *testing.T) {
	t.Parallel()
	c := clusterStart(t)
	for _, n := range c.Nodes[1:] {
		n.Kill()
	}
	js := tcpJS(t, c.dial())
	b := check.Got(leader.EnsureBucket(js, leader.BucketConfig{Name: "F", Replicas: 3}))(t)
	a := tcpElectionOf(t, "e").stand(b, leader.Config{})
	a.Expect(leadertest.Faulted(leader.ErrUnreachable))
	c.Whole("E")
	a.Expect(leadertest.Elected())
	info := check.Got(b.Info(t.Context()))(t)
	check.That(t, info.Replicas == 3, "the bucket is %+v", info)
}
