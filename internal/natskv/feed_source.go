package natskv

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
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/record"
)

// source is the part that all feeds of one key share: a subscription, and for a watch feed a
// consumer.
type source struct {
	bucket *Bucket
	topic

	opened    chan struct{} // closed when it is known whether the source works
	err       error         // set before opened is closed, as is abandoned
	abandoned bool          // the source does not work because its opener gave up

	jsapi.Subscription

	mu       sync.Mutex
	feeds    map[*Feed]struct{}
	consumer string // on the server; empty: none
}

// open opens the source for all feeds that have joined.
func (s *source) open(ctx context.Context) {
	if s.subject != "" {
		s.err = s.subscribe(ctx, s.subject)
	} else {
		s.err = s.consume(ctx)
	}
	if s.err != nil {
		s.abandoned = ctx.Err() != nil
		s.bucket.hub.distrust(s)
	}
	close(s.opened)
}

// crowd is the number of feeds that get an event before goroutines that wait for a
// processor get a chance to run. When a key is released to thousands of candidates, the
// first of them take it before the last have received the release. The last need not try
// then.
const crowd = 64

// tell delivers an event that is not a message to every feed.
func (s *source) tell(ev backend.FeedEvent) { s.tellUnless(ev, func() bool { return false }) }

// pass delivers a message to every feed. If another message arrives meanwhile, the feeds
// that are left get only that one.
func (s *source) pass(e backend.Entry, by *nats.Msg) {
	s.bucket.api.Signed()
	s.tellUnless(backend.FeedEvent{Entry: e}, func() bool { return s.Waiting(by) })
}

// crowded reports whether the delivery of a message to all feeds may take long.
func (s *source) crowded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.feeds) > crowd
}

func (s *source) tellUnless(ev backend.FeedEvent, outdated func() bool) {
	s.mu.Lock()
	first, follows := s.look(&ev)
	follows = follows && len(s.feeds) > crowd
	s.mu.Unlock() // a feed that leaves meanwhile does not wait for the head start
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

// headStart is how long the other feeds, possibly thousands, get no event while the
// successor takes a free key. Their candidates would wait for its turn anyway, and all of
// their work at that moment would come before the successor's.
const headStart = 5 * time.Millisecond

// goesAhead gives the successor a head start, here or on another connection, and reports
// whether the others need not get the event any more.
func (s *source) goesAhead(outdated func() bool) bool {
	for range 10 {
		if outdated() {
			return true
		}
		deadline.Pause(headStart / 10)
	}
	return outdated()
}

// look decodes a message once for all feeds. For a release it reports whether there is a
// successor, named or first in line, and returns its feed if it is here: among thousands of
// feeds, that one gets the release first. The lock is held.
func (s *source) look(ev *backend.FeedEvent) (first *Feed, follows bool) {
	if len(s.feeds) < 2 || ev.Err != nil || ev.Reconnected {
		return nil, false
	}
	seen := record.DecodeEntry(ev.Entry)
	ev.Decoded = &seen
	next := cmp.Or(seen.Rec.To, seen.Rec.Next.First())
	if seen.Rec.Phase != record.PhaseReleased || next == "" {
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
	stream, stored := s.bucket.api.Name, s.bucket.pre+s.key
	return s.Listen(ctx, &s.bucket.api, subject, func(m *nats.Msg) {
		// A message that comes through a consumer keeps the subject under which it was stored,
		// whatever subject it is delivered to, and the headers of its publisher.
		if m.Subject != subject {
			return
		}
		if e, ok := jsapi.StoredEntry(m, stream, stored); ok {
			s.pass(e, m)
		}
	}, s.crowded)
}

// reconnected reports to all feeds that the connection is back. nats.go subscribes again
// before it sends anything else, so a candidate that reads the key now misses no later
// message.
func (s *source) reconnected() {
	s.tell(backend.FeedEvent{Reconnected: true})
	s.orphaned()
}

// close ends the subscription and the consumer.
func (s *source) close() {
	s.Close()
	s.mu.Lock()
	name := s.consumer
	s.mu.Unlock()
	s.bucket.api.DeleteConsumer(name)
}

// hub keeps the sources of a bucket. In one goroutine, which runs while there is a feed,
// it watches the status of the connection for all of them.
type hub struct {
	mu      sync.Mutex
	sources map[*source]struct{}
	trusted map[topic]*source // the one to join
	status  chan nats.Status
	ended   chan struct{}
}

// topic is what a source delivers. The settings of a bucket may change, or were guessed (Bucket.Open), so two sources of one key may
// subscribe to two subjects.
type topic struct {
	key     string
	subject string // empty: it is a consumer
}

// topic returns how a key is heard with these settings.
func (b *Bucket) topic(conf jetstream.StreamConfig, key string) topic {
	if prefix, ok := b.feedOf(conf); ok {
		return topic{key, prefix + "." + key}
	}
	return topic{key: key}
}

// join makes f a feed of the topic, and reports whether it is the first of its source and
// has to open it. It may wait for the connection's lock, and holds no lock of its own
// meanwhile.
func (h *hub) join(b *Bucket, t topic, f *Feed) (first bool) {
	var status chan nats.Status
	h.mu.Lock()
	for len(h.sources) == 0 && status == nil {
		h.mu.Unlock()
		status = b.api.Conn.StatusChanged(nats.CONNECTED, nats.CLOSED)
		h.mu.Lock()
	}
	if len(h.sources) == 0 {
		h.sources, h.trusted = make(map[*source]struct{}), make(map[topic]*source)
		h.status, h.ended = status, make(chan struct{})
		go h.listen(b, h.status, h.ended)
		status = nil
	}
	first = h.enter(b, t, f)
	h.mu.Unlock()
	if status != nil { // another call was faster
		b.api.Conn.RemoveStatusListener(status)
	}
	return first
}

// enter is join while the hub listens to the status of the connection. The hub is locked.
func (h *hub) enter(b *Bucket, t topic, f *Feed) (first bool) {
	s := h.trusted[t]
	if first = s == nil; first {
		s = &source{bucket: b, topic: t, opened: make(chan struct{}), feeds: make(map[*Feed]struct{})}
		h.sources[s] = struct{}{}
		h.trusted[t] = s
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
	if h.trusted[s.topic] == s {
		delete(h.trusted, s.topic)
	}
}

// leave removes f from its source, and closes the source with its last feed.
func (h *hub) leave(f *Feed) {
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
		if h.trusted[s.topic] == s {
			delete(h.trusted, s.topic)
		}
		if len(h.sources) == 0 {
			status, ended = h.status, h.ended
		}
	}
	h.mu.Unlock()
	if empty {
		s.close() // it is open, because the feed that opens it leaves only after that
	}
	if status != nil {
		s.bucket.api.Conn.RemoveStatusListener(status) // closes it
		<-ended
	}
}

func (h *hub) listen(b *Bucket, status <-chan nats.Status, ended chan<- struct{}) {
	defer close(ended)
	for s := range status {
		all, n := h.all()
		b.api.Reconnected(n) // before the candidates hear of it, and ask
		// nats.go drops a status that a full channel does not take, and CLOSED is the last one.
		closed := s == nats.CLOSED || b.api.Conn.IsClosed()
		for _, src := range all {
			if closed {
				src.tell(backend.FeedEvent{Err: backend.ErrConnectionClosed})
			} else {
				src.reconnected()
			}
		}
	}
}

// all returns the sources, and the number of their feeds.
func (h *hub) all() (all []*source, feeds int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.sources {
		s.mu.Lock()
		feeds += len(s.feeds)
		s.mu.Unlock()
	}
	return slices.Collect(maps.Keys(h.sources)), feeds
}
