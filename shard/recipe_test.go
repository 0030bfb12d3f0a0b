package shard_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// recipe is how replicas shared shards before there were groups: an election for each shard, in which a hash of the
// shard and the replica is the priority, with preemption.
type recipe struct {
	store *leadertest.Store

	mu     sync.Mutex
	to     []string // who has led last, by the number of the shard
	begins int
	runs   int
}

// start starts a replica. It returns a function that stops it and waits for that.
func (r *recipe) start(t *testing.T, id string) (leave func()) {
	r.runs++
	link := r.store.Link(fmt.Sprintf("%s#%d", id, r.runs))
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for shard := range r.to {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", shard, id))
		order := &leader.Queue{Priority: int(binary.BigEndian.Uint16(sum[:])), Preempt: true}
		cfg := leader.Config{ID: id, LeaseDuration: lease, Queue: order}
		c := check.Got(leader.Campaign(ctx, link, fmt.Sprintf("shard.%d", shard), cfg))(t)
		all.Go(func() {
			for term := range c.Terms() {
				r.mu.Lock()
				r.begins++
				r.to[shard] = id
				r.mu.Unlock()
				<-term.Context().Done()
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

func (r *recipe) granted() (begins int, to []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begins, slices.Clone(r.to)
}

// figures are what one way to share shards comes to.
type figures struct {
	spread   [3][]int // after 5, 20 and 60 s: how many shards each replica has, the most first
	starts   int      // of work in a rolling restart
	moves    int      // in it, from one replica to another
	after    []int    // the spread at its end
	requests float64  // of all replicas at rest, each second
	memory   int      // of each replica at rest, bytes
}

func (f *figures) String() string {
	return fmt.Sprintf("%v | %v | %v | %d | %d | %v | %.1f | %d kB",
		f.spread[0], f.spread[1], f.spread[2], f.starts, f.moves, f.after, f.requests, f.memory>>10)
}

// measure starts four replicas within a second. After a rest it restarts one after the other: each is down for 3 s, and
// 10 s pass before the next one. granted returns how often work has begun, and on which replica it last did, for each
// shard.
func measure(store *leadertest.Store, start func(id string) func(), granted func() (int, []string)) (f figures) {
	replicas := []string{"a", "b", "c", "d"}
	spread := func() (sizes []int) {
		_, to := granted()
		for _, id := range replicas {
			others := slices.DeleteFunc(slices.Clone(to), func(s string) bool { return s == id })
			sizes = append(sizes, len(to)-len(others))
		}
		slices.SortFunc(sizes, func(a, b int) int { return b - a })
		return sizes
	}
	memory := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // a second time, for what finalizers kept
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc + m.StackInuse)
	}
	before, from, leave := memory(), time.Now(), make(map[string]func())
	for _, id := range replicas {
		leave[id] = start(id)
		time.Sleep(200 * time.Millisecond)
	}
	for i, d := range []time.Duration{5 * time.Second, 20 * time.Second, time.Minute} {
		time.Sleep(time.Until(from.Add(d)))
		f.spread[i] = spread()
	}
	time.Sleep(time.Minute)
	f.memory = (memory() - before) / len(replicas)
	requests := store.Requests().Total()
	time.Sleep(2 * time.Minute)
	f.requests = float64(store.Requests().Total()-requests) / 120

	first, was := granted()
	look := func() {
		n, to := granted()
		f.starts = n - first
		for i := range to {
			if to[i] != was[i] {
				f.moves++
			}
		}
		was = to
	}
	for _, id := range replicas {
		leave[id]()
		time.Sleep(3 * time.Second)
		look()
		leave[id] = start(id)
		time.Sleep(10 * time.Second)
		look()
	}
	f.after = spread()
	for _, id := range replicas {
		leave[id]()
	}
	return f
}

// A group of 50 shards beside an election for each, with the figures of docs/scale.md. With Hold, nothing moves in
// a rolling restart.
func TestGroup_BesideRecipe(t *testing.T) {
	proof.NotRaced(t)
	var elections figures
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil, leadertest.WithLatency(oneWay))
		r := &recipe{store: store, to: make([]string, 50)}
		elections = measure(store, func(id string) func() { return r.start(t, id) }, r.granted)
		time.Sleep(lease)
	})
	t.Log("after 5 s, 20 s, 60 s | starts and moves in a rolling restart, the spread after it | requests/s | memory")
	t.Logf("elections: %v", &elections)
	for _, hold := range []time.Duration{0, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, 50, leadertest.WithLatency(oneWay))
			f.config = func(_ string, cfg *shard.Config) { cfg.Hold = hold }
			group := measure(f.store, func(id string) func() {
				p := f.start(id)
				return func() {
					p.leave()
					<-p.member.Done()
				}
			}, func() (begins int, to []string) {
				begins, by := f.granted()
				for _, p := range by {
					to = append(to, p.id)
				}
				return begins, to
			})
			f.stop()
			t.Logf("group, Hold %v: %v", hold, &group)
			even := []int{13, 13, 12, 12}
			check.Deep(t, group.spread, [3][]int{even, even, even})
			check.Deep(t, group.after, even)
			moves := map[bool]int{true: 0, false: 2 * 50}[hold > 0]
			check.That(t, group.moves <= moves, "%d moves", group.moves)
			check.That(t, group.starts <= max(moves, 50), "%d starts", group.starts)
			check.That(t, group.requests < elections.requests/10, "%.1f requests/s", group.requests)
			check.That(t, group.memory < 1<<20, "%d bytes", group.memory)
		})
	}
}
