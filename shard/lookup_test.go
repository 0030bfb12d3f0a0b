package shard_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/shard"
)

// slowReader is a link whose reads take a moment and are counted.
type slowReader struct {
	*leadertest.Link
	reads *readCount
}

type readCount struct{ all, now, most atomic.Int32 }

func (s slowReader) Backend() backend.Store { return slowReads{s.Link.Backend(), s.reads} }

type slowReads struct {
	backend.Store
	reads *readCount
}

func (s slowReads) Get(ctx context.Context, key string, reply func(backend.Entry, error)) {
	s.reads.all.Add(1)
	s.reads.most.Store(max(s.reads.most.Load(), s.reads.now.Add(1)))
	go func() {
		time.Sleep(10 * time.Millisecond)
		s.reads.now.Add(-1)
		s.Store.Get(ctx, key, reply)
	}()
}

// A Lookup of a large group has few requests under way at once.
func TestLookup_FewReadsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pages = group.MaxPages
		store := leadertest.NewStore(nil)
		r := group.Registry{Layout: group.Layout{Shards: pages, PageSize: 1}, Base: 1}
		store.Put(group.RegistryKey(named), r.Encode())
		var reads readCount
		v := check.Got(shard.Lookup(t.Context(), slowReader{store.Link("a"), &reads}, named))(t)
		check.That(t, len(v.Owners) == pages && reads.all.Load() >= pages && reads.most.Load() <= 16,
			"%d owners, %d reads, %d at once", len(v.Owners), reads.all.Load(), reads.most.Load())
	})
}
