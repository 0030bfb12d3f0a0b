package leadertest

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/keyset"
	"github.com/natsleader/natsleader/leader"
)

// KeySet returns the store as a bucket of keys over the link, for package keys. Its watches count as feeds, and have their
// faults. A watch ends when the link is restored, and when the store is dropped, made again or rolled back.
func (l *Link) KeySet() keyset.Bucket { return &keys{link: l} }

// KeySet is that of Link("").
func (s *Store) KeySet() keyset.Bucket { return s.Link("").KeySet() }

// keys is a store as a bucket of keys.
type keys struct {
	link     *Link
	followed bool // under the lock of the store
	made     int  // of the store that was followed last
}

// Name returns a name for all stores.
func (k *keys) Name() string { return "store" }

// Check reads the settings of the bucket.
func (k *keys) Check(ctx context.Context) error {
	done := make(chan error, 1)
	k.link.Backend().Settings(ctx, func(_ backend.Settings, err error) { done <- err })
	return <-done
}

// Get reads a key.
func (k *keys) Get(ctx context.Context, key string) (keyset.Entry, error) {
	type answer struct {
		entry backend.Entry
		err   error
	}
	done := make(chan answer, 1)
	k.link.Backend().Get(ctx, key, func(e backend.Entry, err error) { done <- answer{e, err} })
	a := <-done
	if a.err != nil || a.entry.Marker || a.entry.Revision == 0 {
		return keyset.Entry{}, a.err
	}
	return keyset.Entry{Name: key, Value: a.entry.Value, Revision: a.entry.Revision}, nil
}

// Delete deletes a key at a revision.
func (k *keys) Delete(ctx context.Context, key string, revision uint64) error {
	done := make(chan error, 1)
	k.link.Backend().Mark(ctx, key, nil, revision, func(_ uint64, err error) { done <- err })
	return <-done
}

// Guard returns the guard of the link at a key.
func (k *keys) Guard(key string) (leader.Guard, func(*leader.Term) fence.KVWriter, error) {
	g := k.link.Guard(key)
	return g, func(t *leader.Term) fence.KVWriter { return g.Writer(t) }, nil
}

// Follow opens a watch, and delivers what it receives until it ends.
func (k *keys) Follow(ctx context.Context, filters []string, deliver func(keyset.Change)) error {
	s := k.link.store
	w := &watch{link: k.link, filters: filters, bell: make(chan struct{}, 1)}
	opened := make(chan error, 1)
	k.link.ask(ctx, watches, func(err error) { opened <- err }, func(fault) func() {
		if k.link.knows = !s.gone; s.gone {
			return func() { opened <- leader.ErrNoBucket }
		}
		if k.followed && k.made != s.made {
			w.tell(keyset.Change{Kind: keyset.Remade})
		}
		k.followed, k.made = true, s.made
		w.list()
		s.watches = append(s.watches, w)
		return func() { opened <- nil }
	})
	defer w.stop()
	if err := <-opened; err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.bell:
		}
		received, err, over := w.take()
		for _, c := range received {
			deliver(c)
		}
		if over {
			return err
		}
	}
}

// watch is an open watch of keys.
type watch struct {
	link    *Link
	filters []string
	open    bool
	last    time.Time // when the last message arrives
	bell    chan struct{}

	mu       sync.Mutex
	received []keyset.Change
	err      error
	over     bool
}

// list sends all keys. The lock of the store is held, as below.
func (w *watch) list() {
	w.open = true
	type message struct {
		key string
		backend.Entry
	}
	var all []message
	for key, e := range w.link.store.keys {
		all = append(all, message{key, e})
	}
	slices.SortFunc(all, func(a, b message) int { return cmp.Compare(a.Revision, b.Revision) })
	for _, m := range all {
		w.stored(m.key, m.Entry)
	}
	w.tell(keyset.Change{Kind: keyset.Listed, Entry: keyset.Entry{Revision: w.link.store.seq}})
}

// stored sends a message that was stored, if it matches.
func (w *watch) stored(key string, e backend.Entry) {
	if !slices.ContainsFunc(w.filters, func(filter string) bool { return jsapi.Covers(filter, key) }) {
		return
	}
	kind := keyset.Put
	if e.Marker {
		kind = keyset.Gone
	}
	w.tell(keyset.Change{Kind: kind, Entry: keyset.Entry{Name: key, Value: e.Value, Revision: e.Revision}})
}

// tell sends a message of the watch over the link.
func (w *watch) tell(c keyset.Change) {
	stored := c.Revision
	if c.Kind == keyset.Listed {
		stored = 0
	}
	if w.link.loses(stored) {
		return
	}
	w.link.inOrder(&w.last, &w.open, func() { w.receive(func() { w.received = append(w.received, c) }) })
}

// end ends the watch.
func (w *watch) end(err error) {
	if w.open {
		w.open = false
		w.receive(func() { w.err, w.over = err, true })
	}
}

// receive changes what has arrived, and rings the bell.
func (w *watch) receive(change func()) {
	w.mu.Lock()
	change()
	w.mu.Unlock()
	select {
	case w.bell <- struct{}{}:
	default:
	}
}

// take returns what has arrived. No lock is held.
func (w *watch) take() (received []keyset.Change, err error, over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	received, w.received = w.received, nil
	return received, w.err, w.over
}

// stop forgets the watch. No lock is held.
func (w *watch) stop() {
	s := w.link.store
	s.mu.Lock()
	defer s.mu.Unlock()
	w.open = false
	s.watches = slices.DeleteFunc(slices.Clone(s.watches), func(o *watch) bool { return o == w }) // it may be being ranged over
}

// endWatches ends the open watches of keys on some links.
func (s *Store) endWatches(err error, of func(*Link) bool) {
	for _, w := range s.watches {
		if of(w.link) {
			w.end(err)
		}
	}
}
