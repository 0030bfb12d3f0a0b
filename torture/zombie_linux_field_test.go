//go:build field && linux

package torture_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testcluster"
	"github.com/natsleader/natsleader/leader"
)

// A worker that does not ask for its term is found. The checkers can fail, from end to
// end: both find candidates that go on claiming when their lease is over.
func TestZombieWorker_IsFound(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	c := startCluster(t, 1)
	d := newDriver(t, c, rand.New(rand.NewPCG(1, 1)), candidateSpec{Lease: lease, Ping: time.Second, Zombie: true}, lease,
		leader.BucketConfig{Name: "E", MaxLease: lease})
	for range 2 {
		d.seat()
	}
	d.calm()
	b := d.buckets[0]
	first, claim := d.leader(b)
	first.links[0].swallow(toServer, otherWay)
	testcluster.Eventually(t, "another leads", func() bool {
		for _, s := range d.seats {
			if now, leads := s.lives[b].leading(t); leads && now.Token != claim.Token {
				return true
			}
		}
		return false
	})
	time.Sleep(lease)
	first.links[0].heal()
	d.calm()
	undo := d.pauseCandidate()
	time.Sleep(2 * lease)
	undo()
	d.calm()
	for _, s := range d.seats {
		s.kill()
		s.lives[b].follow(t)
	}
	v := check(b.history)
	for _, fault := range []string{"two leaders: ", "after it was paused for"} {
		found := strings.Join(v.broken, "\n")
		expect.That(t, strings.Contains(found, fault), "the checker does not say %q: %s", fault, found)
	}
	expect.That(t, !orderly(t, "lock", lockModel, locked(b.history, v.terms), c.dir), "porcupine finds nothing")
}
