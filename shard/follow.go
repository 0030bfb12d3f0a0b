package shard

import (
	"context"
	"sync"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/group"
)

// follower keeps the newest entry of one key of the store. A feed is a hint: it may lose messages. So the key is
// read when the feed opens, when the connection was lost, and now and then.
type follower struct {
	store backend.Store
	key   string
	again time.Duration // after which silence the key is read
	bells []bell        // are rung when there is a newer entry, and when the key was first read

	erasable bool // a read that finds nothing shows that the key was erased, as by a purge of the stream
	looks    bell // is rung when the key is to be read

	mu        sync.Mutex
	newest    backend.Entry
	expected  uint64 // a revision that the key has, as another says
	read      bool
	forgotten int // how often forget was called
}

const (
	openAgain = time.Second
	rollAgain = 30 * time.Second
)

// stored is where a group is stored.
type stored struct {
	name   string
	port   backend.Store
	layout group.Layout
}

// pageAgain is how often a page is read. All pages together cost one read in 20 s.
func (s *stored) pageAgain() time.Duration { return time.Duration(s.layout.Pages()) * 20 * time.Second }

// followMap follows the registry or a page until ctx ends.
func followMap(ctx context.Context, store backend.Store, key string, again time.Duration, rings ...bell) *follower {
	f := newFollower(store, key, again, rings)
	f.erasable = true
	go f.run(ctx)
	return f
}

// follow follows the record of a member until ctx ends. Its member writes a record that is missing anew.
func follow(ctx context.Context, store backend.Store, key string, again time.Duration, rings ...bell) *follower {
	f := newFollower(store, key, again, rings)
	go f.run(ctx)
	return f
}

func newFollower(store backend.Store, key string, again time.Duration, rings []bell) *follower {
	return &follower{store: store, key: key, bells: rings, again: again, looks: make(bell, 1)}
}

// entry returns the newest entry that is known.
func (f *follower) entry() backend.Entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.newest
}

// take takes an entry that was delivered or written.
func (f *follower) take(e backend.Entry) { f.takeIf(e, func() bool { return true }) }

// takeRead takes an entry that was read, and reports whether it is newer than the one before. forgets is what forgets returned
// when the read was sent: a reply from before the last call of forget shows nothing.
func (f *follower) takeRead(e backend.Entry, forgets int) (newer bool) {
	return f.takeIf(e, func() bool { return forgets == f.forgotten })
}

// takeIf takes an entry if that shows something, which is asked under the lock.
func (f *follower) takeIf(e backend.Entry, shows func() bool) (newer bool) {
	f.mu.Lock()
	current := shows()
	first := current && !f.read
	if newer = current && e.Revision > f.newest.Revision; newer {
		f.newest = e
	}
	f.read = f.read || current
	f.mu.Unlock()
	if newer || first {
		f.ring()
	}
	return newer
}

// forgets returns how often forget was called.
func (f *follower) forgets() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.forgotten
}

// erase forgets an entry that a read did not find, unless there is a newer one.
func (f *follower) erase(revision uint64) {
	f.mu.Lock()
	gone := f.erasable && revision != 0 && f.newest.Revision == revision
	if gone {
		f.newest = backend.Entry{}
	}
	f.mu.Unlock()
	if gone {
		f.ring()
	}
}

// forget forgets the entry and reads the key, when a term begins: the store may have lost writes since the last one, and
// have lower revisions.
func (f *follower) forget() {
	f.mu.Lock()
	f.newest, f.read = backend.Entry{}, false
	f.forgotten++
	f.mu.Unlock()
	f.look()
}

func (f *follower) ring() {
	for _, b := range f.bells {
		b.ring()
	}
}

// decoded is the value of a key of the map that is followed, decoded once for each entry. One goroutine uses it.
type decoded[T any] struct {
	*follower
	of     func(backend.Entry) (T, error)
	isRead bool          // the key was read before at was taken
	at     backend.Entry // that value and err are of
	value  T
	err    error
}

func decode[T any](f *follower, of func(backend.Entry) (T, error)) *decoded[T] {
	v := &decoded[T]{follower: f, of: of}
	v.value, v.err = of(v.at)
	return v
}

// refresh takes the newest entry, and reports whether that has changed anything.
func (v *decoded[T]) refresh() (changed bool) {
	isRead, e := v.known(), v.entry() // in this order: the key may be read meanwhile
	changed = isRead != v.isRead
	if v.isRead = isRead; e.Revision != v.at.Revision {
		changed, v.at = true, e
		v.value, v.err = v.of(e)
	}
	return changed
}

// decodeRegistry decodes the registry for one goroutine.
func (m *Member) decodeRegistry() *decoded[group.Registry] {
	return decode(m.registryKey, func(e backend.Entry) (group.Registry, error) { return group.DecodeRegistry(e.Value) })
}

// page follows a page until ctx ends.
func (m *Member) page(ctx context.Context, page int, rings bell) *decoded[group.Map] {
	return decode(followMap(ctx, m.port, group.PageKey(m.name, page), m.pageAgain(), rings), func(e backend.Entry) (group.Map, error) {
		return m.layout.DecodePage(page, e.Value, e.Revision)
	})
}

// expect takes note of a revision that the key has, as another says. If it is not delivered, the key is read.
func (f *follower) expect(revision uint64) {
	f.mu.Lock()
	f.expected = revision
	f.mu.Unlock()
	if f.isBehind() {
		time.AfterFunc(openAgain, func() {
			if f.isBehind() {
				f.look()
			}
		})
	}
}

func (f *follower) isBehind() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.newest.Revision < f.expected
}

// look reads the key soon.
func (f *follower) look() { f.looks.ring() }

// known reports whether the key was read.
func (f *follower) known() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read
}

func (f *follower) run(ctx context.Context) {
	var last backend.Feed
	for ctx.Err() == nil {
		var deaf bool
		if last, deaf = f.listen(ctx, last); !deaf {
			f.pause(ctx)
		}
	}
	if last != nil {
		last.Stop()
	}
}

// pause waits before another feed is opened, unless the key is to be read.
func (f *follower) pause(ctx context.Context) {
	limited, cancel := deadline.Within(ctx, openAgain)
	defer cancel()
	select {
	case <-limited.Done():
	case <-f.looks:
	}
}

// listen opens a feed in place of the last one, reads the key, and returns the feed when it has ended or is deaf.
func (f *follower) listen(ctx context.Context, instead backend.Feed) (feed backend.Feed, deaf bool) {
	ended, heard := make(chan struct{}), make(bell, 1)
	var once sync.Once
	feed, err := await(ctx, func(ctx context.Context, reply func(backend.Feed, error)) {
		f.store.Watch(ctx, f.key, instead, func(e backend.FeedEvent) {
			switch {
			case e.Err != nil:
				once.Do(func() { close(ended) })
			case e.Reconnected:
				f.looks.ring()
			case e.Entry.Revision != 0:
				f.take(e.Entry)
				heard.ring()
			}
		}, reply)
	})
	if err != nil {
		return nil, false
	}
	// Not a channel of a timer: one that is due when a select begins crashes the race detector in a bubble
	// (https://go.dev/issue/78156).
	due := make(bell, 1)
	again := time.AfterFunc(f.again, due.ring)
	defer again.Stop()
	opened := make(bell, 1)
	opened.ring()
	for {
		silent := false
		select {
		case <-ctx.Done():
			return feed, false
		case <-ended:
			return feed, false
		case <-heard:
			again.Reset(f.again)
			continue
		case <-opened:
		case <-f.looks:
		case <-due:
			silent = true
		}
		before, behind, forgets := f.entry().Revision, f.isBehind(), f.forgets()
		e, err := get(ctx, f.store, f.key)
		if err == nil && e.Revision == 0 {
			f.erase(before)
		}
		switch {
		case err != nil:
			again.Reset(openAgain)
			continue
		case f.takeRead(e, forgets) && (silent || behind):
			return feed, true
		case f.isBehind(): // a replica that lags has answered
			again.Reset(openAgain)
			continue
		}
		again.Reset(f.again)
	}
}

// get reads the newest entry of a key.
func get(ctx context.Context, store backend.Store, key string) (backend.Entry, error) {
	return await(ctx, func(ctx context.Context, reply func(backend.Entry, error)) { store.Get(ctx, key, reply) })
}

// update writes an entry on the condition that its last revision is still that one, and returns the new one.
func update(ctx context.Context, store backend.Store, key string, value []byte, revision uint64) (uint64, error) {
	return await(ctx, func(ctx context.Context, reply func(uint64, error)) { store.Update(ctx, key, value, revision, reply) })
}

// await waits for the reply to a request, for 5 s at most.
func await[T any](ctx context.Context, send func(context.Context, func(T, error))) (T, error) {
	ctx, cancel := deadline.Within(ctx, deadline.Default)
	defer cancel()
	return backend.Await(func(reply func(T, error)) { send(ctx, reply) })
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) { _ = deadline.Sleep(ctx, d) }
