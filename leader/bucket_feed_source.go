package leader

import (
	"cmp"
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
)

// source is what the feeds of one key have in common: a subscription, with a
// goroutine of nats.go, and for a watch feed a consumer.
type source struct {
	bucket *bucketStore
	key    string

	opened    chan struct{} // closed when it is known whether it works
	err       error         // set before opened is closed, as is abandoned
	abandoned bool          // it does not work because its opener gave up

	subscription

	mu       sync.Mutex
	feeds    map[*feed]struct{}
	consumer string // on the server; empty: none
}

// open opens the source for everybody who has joined.
func (s *source) open(ctx context.Context, conf jetstream.StreamConfig) {
	if prefix, ok := s.bucket.feedOf(conf); ok {
		s.err = s.subscribe(ctx, prefix+"."+s.key)
	} else {
		s.err = s.consume(ctx)
	}
	if s.err != nil {
		s.abandoned = ctx.Err() != nil
		s.bucket.hub.distrust(s)
	}
	close(s.opened)
}

// crowd is how many feeds are told before those that wait for a processor get a
// chance. When a key is released to thousands, the first of them have it before
// the last have heard, who then need not try.
const crowd = 64

// tell tells every feed of something that is no message.
func (s *source) tell(ev backend.FeedEvent) { s.tellUnless(ev, func() bool { return false }) }

// pass tells every feed of a message, or, if another comes in meanwhile, those
// that are left of that one only.
func (s *source) pass(e backend.Entry, by *nats.Subscription) {
	s.tellUnless(backend.FeedEvent{Entry: e}, func() bool {
		waiting, _, err := by.Pending() // with the one being told
		return err == nil && waiting > 1
	})
}

func (s *source) tellUnless(ev backend.FeedEvent, outdated func() bool) {
	s.mu.Lock()
	first, follows := s.look(&ev)
	follows = follows && len(s.feeds) > crowd
	s.mu.Unlock() // whoever leaves meanwhile does not wait for the head start
	if first != nil {
		first.tell(ev)
		runtime.Gosched()
	}
	if follows && s.goesAhead(outdated) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	told := 0
	for f := range s.feeds {
		if f == first {
			continue
		}
		if told++; told%crowd == 0 {
			if outdated() {
				return
			}
			runtime.Gosched()
		}
		f.tell(ev)
	}
}

// headStart is how long thousands are left in peace while the one who follows takes a
// free key. They would wait for a turn of it anyway, and all of their work at that
// moment would come before its own.
const headStart = 5 * time.Millisecond

// goesAhead gives the one who follows a head start, here or on another connection, and
// reports whether the others need not be told any more.
func (s *source) goesAhead(outdated func() bool) bool {
	for range 10 {
		if outdated() {
			return true
		}
		_ = idle(context.Background(), headStart/10) // without an end
	}
	return outdated()
}

// look looks at a message once for all feeds. Of a release it tells whether somebody
// follows, and which feed is the one's, if it is here: among thousands it is to be the
// first to hear. The lock is held.
func (s *source) look(ev *backend.FeedEvent) (first *feed, follows bool) {
	if len(s.feeds) < 2 || ev.Err != nil || ev.Reconnected {
		return nil, false
	}
	seen := sees(ev.Entry)
	ev.Decoded = &seen
	next := cmp.Or(seen.rec.to, seen.rec.next.first())
	if seen.rec.phase != phaseReleased || next == "" {
		return nil, false
	}
	for f := range s.feeds {
		if who := f.who.Load(); who != nil && (who.session == next || who.id == next) {
			return f, true
		}
	}
	return nil, true
}

// subscribe opens a republish feed: a plain subscription.
func (s *source) subscribe(ctx context.Context, subject string) error {
	stream, stored := s.bucket.stream, s.bucket.pre+s.key
	return s.listenAllowed(ctx, &s.bucket.streamAPI, subject, func(m *nats.Msg) {
		// What comes by way of a consumer keeps the subject that it was stored
		// under, whatever it is delivered to, and the headers of its publisher.
		if m.Subject != subject {
			return
		}
		if e, ok := storedEntry(m, stream, stored); ok {
			s.pass(e, m.Sub)
		}
	})
}

// reconnected tells that the connection is back. nats.go subscribes anew
// before anything else is sent, so that whoever looks now misses nothing
// afterwards.
func (s *source) reconnected() {
	s.tell(backend.FeedEvent{Reconnected: true})
	s.orphaned()
}

// close ends the subscription and the consumer.
func (s *source) close() {
	s.subscription.close()
	s.mu.Lock()
	name := s.consumer
	s.mu.Unlock()
	s.bucket.deleteConsumer(name)
}

// hub keeps the sources of a bucket, and hears for all of them what becomes of
// the connection, in one goroutine that runs while there is a feed.
type hub struct {
	mu      sync.Mutex
	sources map[*source]struct{}
	trusted map[string]*source // by key: the one to join
	status  chan nats.Status
	ended   chan struct{}
}

// join makes f a feed of the key, and reports whether it is the first of its
// source and has to open it. It may wait for the connection's lock, and holds none of
// its own meanwhile.
func (h *hub) join(b *bucketStore, key string, f *feed) (first bool) {
	var status chan nats.Status
	h.mu.Lock()
	for len(h.sources) == 0 && status == nil {
		h.mu.Unlock()
		status = b.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
		h.mu.Lock()
	}
	if len(h.sources) == 0 {
		h.sources, h.trusted = make(map[*source]struct{}), make(map[string]*source)
		h.status, h.ended = status, make(chan struct{})
		go h.listen(b, h.status, h.ended)
		status = nil
	}
	first = h.enter(b, key, f)
	h.mu.Unlock()
	if status != nil { // another was faster
		b.nc.RemoveStatusListener(status)
	}
	return first
}

// enter is join while somebody listens for what becomes of the connection. The hub is
// locked.
func (h *hub) enter(b *bucketStore, key string, f *feed) (first bool) {
	s := h.trusted[key]
	if first = s == nil; first {
		s = &source{bucket: b, key: key, opened: make(chan struct{}), feeds: make(map[*feed]struct{})}
		h.sources[s] = struct{}{}
		h.trusted[key] = s
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.feeds[f] = struct{}{}
	f.source = s
	return first
}

// distrust keeps new feeds away from a source that was found deaf or has ended.
func (h *hub) distrust(s *source) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.trusted[s.key] == s {
		delete(h.trusted, s.key)
	}
}

// leave takes f away from its source, and ends the source with its last feed.
func (h *hub) leave(f *feed) {
	s := f.source
	h.mu.Lock()
	s.mu.Lock()
	delete(s.feeds, f)
	empty := len(s.feeds) == 0
	s.mu.Unlock()
	var status chan nats.Status
	var ended chan struct{}
	if empty {
		delete(h.sources, s)
		if h.trusted[s.key] == s {
			delete(h.trusted, s.key)
		}
		if len(h.sources) == 0 {
			status, ended = h.status, h.ended
		}
	}
	h.mu.Unlock()
	if empty {
		<-s.opened // by a feed that has joined, and leaves after it
		s.close()
	}
	if status != nil {
		s.bucket.nc.RemoveStatusListener(status) // closes it
		<-ended
	}
}

func (h *hub) listen(b *bucketStore, status <-chan nats.Status, ended chan<- struct{}) {
	defer close(ended)
	for s := range status {
		b.known.Store(nil) // the bucket may have been set otherwise meanwhile
		// nats.go drops what a full channel does not take, and CLOSED is the
		// last status there is.
		closed := s == nats.CLOSED || b.nc.IsClosed()
		for _, src := range h.all() {
			if closed {
				src.tell(backend.FeedEvent{Err: ErrConnectionClosed})
			} else {
				src.reconnected()
			}
		}
	}
}

func (h *hub) all() []*source {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.sources))
}
