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
	"github.com/natsleader/natsleader/leader"
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

// lens is a link whose reads of one key fail, or take longer.
type lens struct {
	*leadertest.Link
	key   string
	err   error
	later time.Duration
}

func (l lens) Backend() backend.Store { return through{l.Link.Backend(), l} }

type through struct {
	backend.Store
	lens lens
}

func (s through) Get(ctx context.Context, key string, reply func(backend.Entry, error)) {
	switch {
	case key != s.lens.key:
		s.Store.Get(ctx, key, reply)
	case s.lens.err != nil:
		reply(backend.Entry{}, s.lens.err)
	default:
		time.AfterFunc(s.lens.later, func() { s.Store.Get(ctx, key, reply) })
	}
}

// A Lookup that misses one of its keys is an error, and not a view of less. A view has the tokens of the grants, and no value
// of a member that publishes none. A registry that was deleted is no group.
func TestLookup_MissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		m, _ := member(t, store, shard.Config{Shards: 2, ID: "a"})
		begun := hold(t, m)
		time.Sleep(time.Second)
		for _, key := range []string{group.RegistryKey(named), group.PageKey(named, 0), group.AssignerKey(named), group.MemberKey(named, "a")} {
			v, err := shard.Lookup(t.Context(), lens{Link: store.Link("b"), key: key, err: leader.ErrPermission}, named)
			check.Is(t, err, leader.ErrPermission)
			check.Deep(t, v, shard.View{})
		}
		v := check.Got(shard.Lookup(t.Context(), store, named))(t)
		check.Equal(t, v.Assigner.ID, "a", "the assigner is %s")
		for range 2 {
			s := next(t, begun)
			check.Deep(t, v.Owners[s.Number()], shard.Owner{State: shard.OwnerWorks, ID: "a", Token: s.Token()})
			context.AfterFunc(s.Context(), s.Release)
		}
		check.OK(t, m.Stop())
		store.Delete(group.RegistryKey(named))
		check.Is(t, check.Err(shard.Lookup(t.Context(), store, named)), shard.ErrNoGroup)
	})
}
