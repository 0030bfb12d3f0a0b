package snippets_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
	"github.com/natsleader/natsleader/shard"
)

// shards works on the shards that are granted to this process, until ctx ends.
func shards(ctx context.Context, bucket leader.Store, hostname string, item func(ctx context.Context, shard int, token uint64)) error {
	m, err := shard.Join(ctx, bucket, "orders", shard.Config{Shards: 50, ID: hostname})
	if err != nil {
		return err
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	for s := range m.Shards() { // each shard that this process is to work on, as it is granted
		workers.Go(func() {
			defer s.Release()                             // the work is over: the shard may move
			for lead := s.Context(); lead.Err() == nil; { // asks the clock
				item(lead, s.Number(), s.Token())
			}
		})
	}
	return m.Err() // nil if ctx has ended
}

// shardOf returns the shard of a key: its FNV-1a hash of 64 bits, modulo the number of shards.
func shardOf(key string, shards uint64) int {
	h := fnv.New64a()
	h.Write([]byte(key))
	return int(h.Sum64() % shards)
}

// Three processes share 50 shards, and two of them the shards of the one that stops.
func TestShards_AreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		var mu sync.Mutex
		owners := make([]string, 50)
		item := func(id string) func(context.Context, int, uint64) {
			return func(ctx context.Context, shard int, _ uint64) {
				mu.Lock()
				check.Equal(t, owners[shard], "", "%d is owned by %s", shard)
				owners[shard] = id
				mu.Unlock()
				<-ctx.Done()
				mu.Lock()
				owners[shard] = ""
				mu.Unlock()
			}
		}
		spread := func() map[string]int {
			mu.Lock()
			defer mu.Unlock()
			of := make(map[string]int)
			for _, id := range owners {
				of[id]++
			}
			return of
		}
		stops := make(map[string]context.CancelFunc)
		var processes sync.WaitGroup
		for _, id := range []string{"a", "b", "c"} {
			ctx, cancel := context.WithCancel(t.Context())
			stops[id] = cancel
			processes.Go(func() { check.OK(t, shards(ctx, store.Link(id), id, item(id))) })
			time.Sleep(time.Second)
		}
		check.Equal(t, fmt.Sprint(spread()), "map[a:17 b:17 c:16]", "%s, want %s")
		stops["a"]()
		time.Sleep(time.Second)
		check.Equal(t, fmt.Sprint(spread()), "map[b:25 c:25]", "%s, want %s")
		stops["b"]()
		stops["c"]()
		processes.Wait()
	})
}

// Programs in other languages compute the same shards of these keys.
func TestShardOf_IsStable(t *testing.T) {
	for key, want := range map[string]int{"": 37, "customer-17": 12, "order-4711": 39} {
		check.Equal(t, shardOf(key, 50), want, "shard %d, want %d, for "+key)
	}
}
