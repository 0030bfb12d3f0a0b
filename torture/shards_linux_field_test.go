//go:build field && linux

package torture_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/testcluster"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// shardPace is between two claims of one shard, of which a process has many.
const shardPace = 5 * time.Millisecond

// tidying is how long the work on a shard goes on after the end of its context, at most.
const tidying = 100 * time.Millisecond

// writing is the shard whose owners write to a ledger, if there is one.
const writing = 0

// share works on the shards of a member until it has left.
func (w *worker) share(ctx context.Context, bucket leader.Store, spec candidateSpec) {
	cfg := shard.Config{Shards: spec.Shards, ID: spec.Member, Hold: spec.Hold, LeaseDuration: spec.Lease}
	if w.desk != nil {
		cfg.Guards = func(n int) []leader.Guard {
			if n != writing {
				return nil
			}
			return w.desk.guards()
		}
	}
	m := must(shard.Join(ctx, bucket, electionName, cfg))
	must(0, m.Serve(w.work))
}

// work claims a shard until the end of its context, and a while longer.
func (w *worker) work(lead context.Context, s *shard.Shard) {
	p := w.of(s.Term())
	p.shard = strconv.Itoa(s.Number())
	p.write(entry{At: monotonic(), What: elected})
	if w.desk != nil && s.Number() == writing {
		w.desk.employ(s.Term())
	}
	for ; lead.Err() == nil; time.Sleep(shardPace) {
		p.claim()
	}
	p.haunt()
	p.flush()
	p.tidy()
	p.lose(monotonic(), deposed, context.Cause(lead))
}

// tidy works on after the end of the context, and claims that time, too, because no other may work on the shard
// meanwhile, unless the lease can have run out.
func (p *post) tidy() {
	time.Sleep(rand.N(tidying))
	if now := monotonic(); p.now != 0 && now < p.now+int64(p.remained) {
		p.first, p.now = p.now, now
		p.flush()
	}
}

// assigner returns the assigner of a group, nil if it cannot be read.
func (d *driver) assigner(b *bucket) *seat {
	d.tb.Helper()
	ctx, cancel := context.WithTimeout(d.tb.Context(), time.Second)
	defer cancel()
	store, err := leader.OpenBucket(d.c.JS, b.cfg.Name)
	if err != nil {
		return nil
	}
	h, _ := leader.Lookup(ctx, store, group.AssignerKey(electionName))
	i := slices.IndexFunc(d.seats, func(s *seat) bool { return s.member == h.ID })
	if i < 0 {
		return nil
	}
	return d.seats[i]
}

// key returns the key of an election, or any of a group.
func (d *driver) key(b *bucket) string {
	if b.shards == 0 {
		return electionName
	}
	return []string{
		group.AssignerKey(electionName), group.RegistryKey(electionName), group.PageKey(electionName, 0),
		group.MemberKey(electionName, d.seats[d.rng.IntN(len(d.seats))].member),
	}[d.rng.IntN(4)]
}

// shared reports whether each shard of a group has one owner that renews, and all members have as many, but for one.
func (d *driver) shared(b *bucket) bool {
	d.tb.Helper()
	d.alive()
	owned, least, most := make(map[string]bool), b.shards, 0
	for _, s := range d.seats {
		holds := s.lives[b].holds(d.tb, d.fence/2)
		for n := range holds {
			if owned[n] {
				return false
			}
			owned[n] = true
		}
		least, most = min(least, len(holds)), max(most, len(holds))
	}
	return len(owned) == b.shards && most <= least+1
}

// holds returns the shards that the life has claimed just now, with a lease that lasts that long.
func (l *life) holds(tb testing.TB, left time.Duration) map[string]bool {
	tb.Helper()
	l.follow(tb)
	holds, seen := make(map[string]bool), make(map[string]bool)
	for _, e := range slices.Backward(l.entries) {
		switch {
		case monotonic()-e.At > int64(time.Second):
			return holds
		case e.Shard == "" || seen[e.Shard]:
			continue
		}
		seen[e.Shard] = true
		if e.What == leads && time.Duration(e.Left) > left {
			holds[e.Shard] = true
		}
	}
	return holds
}

// join lets one more member come, and leave again.
func (d *driver) join() func() {
	s := d.seat()
	return func() {
		s.stop()
		d.finish(s)
		d.seats = slices.DeleteFunc(d.seats, func(o *seat) bool { return o == s })
	}
}

// groupFaults are the faults that a group outlives, and those that make its bucket forget.
func (d *driver) groupFaults() []fault {
	lease := d.spec.Lease
	all := slices.Concat(d.faults(), d.oblivions(), []fault{{"a member joins and leaves", "candidate", lease, 3 * lease, (*driver).join}})
	return slices.DeleteFunc(all, func(f fault) bool {
		return slices.Contains([]string{"leader resigns", "stream purged"}, f.kind)
	})
}

// sampled are the faults of a short run.
var sampled = []string{
	"candidate stopped", "candidate killed", "candidate paused, longer than a lease", "a member joins and leaves",
	"links black-holed", "links cut", "rolling restart",
}

// Faults of any kind between processes that share shards. No shard has two owners, its tokens rise, and work that moves
// ends before it begins again. After each fault each shard has an owner, and the shards are spread evenly.
func TestTorture_Shards(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	d := newDriver(t, startCluster(t, 3), seeded(t),
		candidateSpec{Lease: lease, Ping: time.Second, Shards: 24}, lease*8/10, sealed(lease))
	for range 5 {
		d.seat()
	}
	defer func() { d.table(d.check()) }()
	d.calm()
	if proof.Long {
		d.torture(*duration, d.groupFaults)
	} else {
		for _, f := range d.groupFaults() {
			if slices.Contains(sampled, f.kind) {
				d.step([]fault{f})
			}
		}
	}
	d.close()
}

// The owners of a shard write through its guards, and ignore the ends of their contexts. No write of an earlier owner is
// accepted after a later one was granted the shard or has written.
func TestTorture_OnlyNewestOwnerWrites(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	const lease = 2 * time.Second
	d := newDriver(t, startCluster(t, 3), seeded(t),
		candidateSpec{Lease: lease, Ping: time.Second, Shards: 8}, lease*8/10, sealed(lease))
	d.keep(d.buckets[0], jetstream.FileStorage, ledgerSpec{})
	for range 4 {
		d.seat()
	}
	defer func() {
		d.table(d.check())
		d.checkLedgers()
	}()
	d.calm()
	d.torture(*duration, func() []fault {
		return slices.DeleteFunc(d.groupFaults(), func(f fault) bool { return f.kind == "all stores rolled back" })
	})
	d.close()
}

// Work that goes on after the end of its context, although its lease has expired, is found.
func TestZombieMember_IsFound(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	d := newDriver(t, startCluster(t, 1), rand.New(rand.NewPCG(1, 1)),
		candidateSpec{Lease: lease, Ping: time.Second, Shards: 4, Zombie: true}, lease, sealed(lease))
	b := d.buckets[0]
	d.seat()
	d.seat()
	d.calm()
	first := d.seats[0]
	first.proc.Pause()
	testcluster.Eventually(t, "the other has all shards", func() bool { return len(d.seats[1].lives[b].holds(t, 0)) == b.shards })
	first.proc.Resume()
	d.calm()
	for _, s := range d.seats {
		s.kill()
		s.lives[b].follow(t)
	}
	var found []string
	for _, h := range b.histories() {
		found = append(found, check(h).broken...)
	}
	expect.That(t, strings.Contains(strings.Join(found, "\n"), "two leaders: "), "the checker finds %q", found)
}
