package shard_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/shard"
)

// meter is the link of a process that counts what it receives, and keeps a copy of its own, as a process does.
type meter struct {
	*leadertest.Link
	bytes atomic.Int64 // of feeds and reads
}

func (m *meter) Backend() backend.Store { return metered{m.Link.Backend(), m} }

type metered struct {
	backend.Store
	meter *meter
}

func (b metered) received(e backend.Entry) backend.Entry {
	b.meter.bytes.Add(int64(len(e.Value)))
	e.Value = bytes.Clone(e.Value)
	return e
}

func (b metered) Get(ctx context.Context, key string, reply func(backend.Entry, error)) {
	b.Store.Get(ctx, key, func(e backend.Entry, err error) { reply(b.received(e), err) })
}

func (b metered) Watch(ctx context.Context, key string, instead backend.Feed, deliver func(backend.FeedEvent), reply func(backend.Feed, error)) {
	b.Store.Watch(ctx, key, instead, func(e backend.FeedEvent) {
		e.Entry = b.received(e.Entry)
		deliver(e)
	}, reply)
}

// crowd is many members that do nothing with their shards.
type crowd struct {
	t       *testing.T
	store   *leadertest.Store
	owners  []atomic.Pointer[shard.Shard] // by the number of the shard
	members []*one
}

type one struct {
	*meter
	member *shard.Member
	cancel context.CancelFunc
	mu     sync.Mutex
	grants []*shard.Shard // that it was given
}

// pages returns how many pages have shards of the member.
func (o *one) pages() int {
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	pages := map[int]bool{}
	for _, s := range o.grants {
		if s.Context().Err() == nil {
			pages[s.Number()/1000] = true
		}
	}
	return len(pages)
}

// start starts one more member.
func (c *crowd) start() {
	name := fmt.Sprintf("worker-%04d", len(c.members))
	ctx, cancel := context.WithCancel(context.Background())
	o := &one{meter: &meter{Link: c.store.Link(name)}, cancel: cancel}
	var err error
	o.member, err = shard.Join(ctx, o, named, shard.Config{Shards: len(c.owners), ID: name})
	check.OK(c.t, err)
	c.members = append(c.members, o)
	runs(o.member, func(lead context.Context, s *shard.Shard) {
		c.owners[s.Number()].Store(s)
		o.mu.Lock()
		o.grants = append(o.grants, s)
		o.mu.Unlock()
		<-lead.Done()
	})
}

// owned returns how many shards have an owner.
func (c *crowd) owned() (n int) {
	for i := range c.owners {
		if s := c.owners[i].Load(); s != nil && s.Context().Err() == nil {
			n++
		}
	}
	return n
}

// received returns how many MB all members have received since the last call.
func (c *crowd) received() (mb float64) {
	for _, o := range c.members {
		mb += float64(o.bytes.Swap(0)) / 1e6
	}
	return mb
}

func (c *crowd) requests() (n int) {
	for _, o := range c.members {
		n += o.Requests().Total()
	}
	return n
}

// even waits until all shards are owned, and returns how long that took.
func (c *crowd) even() time.Duration {
	from := time.Now()
	n := c.owned()
	for ; n != len(c.owners) && time.Since(from) < 3*lease; n = c.owned() {
		time.Sleep(100 * time.Millisecond)
	}
	check.Equal(c.t, n, len(c.owners), "%d shards have an owner")
	return time.Since(from)
}

// usage is what this process has used.
type usage struct {
	processor time.Duration
	allocated uint64 // in bytes, in all
	memory    uint64 // in bytes, in use
}

func used() usage {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	for range 6 {
		runtime.GC() // each halves a stack that is too large
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{time.Duration(u.Utime.Nano() + u.Stime.Nano()), m.TotalAlloc, m.HeapAlloc + m.StackInuse}
}

// With many shards a member sends no more requests at rest, and receives little when another dies. Nothing is decoded or
// planned at rest.
func TestManyShards_CostLittle(t *testing.T) {
	raced := 1.0
	if proof.Race {
		raced = 3
	}
	for _, members := range []int{10, 100}[:proof.Size(1, 2)] {
		synctest.Test(t, func(t *testing.T) {
			c := &crowd{t: t, store: leadertest.NewStore(nil, leadertest.WithLatency(oneWay)), owners: make([]atomic.Pointer[shard.Shard], 1000*members)}
			from := used()
			for range members {
				c.start()
			}
			took := c.even()
			started := used()
			t.Logf("%d members with %d shards start in %v, %v of processor, %.1f MB received by all",
				members, len(c.owners), took, started.processor-from.processor, c.received())
			time.Sleep(3 * lease)

			rest, n := used(), c.requests()
			c.received()
			const span = 4 * lease
			time.Sleep(span)
			now, each := used(), float64(c.requests()-n)/span.Seconds()/float64(members)
			memory, busy := (now.memory-from.memory)/uint64(members), float64(now.allocated-rest.allocated)/span.Seconds()/float64(members)
			received := c.received()
			t.Logf("at rest for each member: %.3f requests/s, %d kB of memory, %.0f µs of processor/s, %.1f kB/s allocated, %.2f kB/s received",
				each, memory/1000, float64((now.processor-rest.processor).Microseconds())/span.Seconds()/float64(members), busy/1000, 1000*received/span.Seconds()/float64(members))
			check.That(t, each < 0.5, "%.3f requests/s", each)
			check.That(t, busy < 30e3*raced, "%.1f kB/s are allocated", busy/1000)

			dead := c.members[members/2]
			pages := dead.pages() // chance decides how the shards are scattered when all begin at once
			c.members = slices.Delete(c.members, members/2, members/2+1)
			dead.Close()
			dead.cancel()
			time.Sleep(span)
			died := c.received()
			c.even()
			t.Logf("in the minute of the death of one with shards on %d pages: %.2f MB received by all, at rest %.2f MB", pages, died, received)
			check.That(t, died < received+0.03*float64(members*pages), "%.2f MB, at rest %.2f, with %d pages", died, received, pages)
			check.That(t, float64(memory) < 6e6*raced || members > 10, "%d bytes of memory", memory) // half of it the goroutines of the work
			for _, o := range c.members {
				o.cancel()
			}
			for _, o := range c.members {
				<-o.member.Done()
			}
			time.Sleep(lease)
		})
	}
}
