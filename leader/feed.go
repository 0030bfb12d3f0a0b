package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Watch implements [Store]. Where the bucket republishes its messages, the feed
// is one plain subscription, and costs no consumer on the server; otherwise it
// is a consumer of the one key. Errors: those of Settings, and what the server
// answers to the creation of a consumer.
//
// Messages that arrive faster than deliver takes them may be dropped by
// nats.go; the feed goes on. Stop waits for a deliver that is running, and must
// not be called from within it.
func (b *Bucket) Watch(ctx context.Context, key string, deliver func(FeedEvent), reply func(Feed, error)) {
	go func() {
		f, err := b.watch(ctx, key, deliver)
		if err != nil {
			reply(nil, err)
			return
		}
		reply(f, nil)
		f.begin()
	}()
}

func (b *Bucket) watch(ctx context.Context, key string, deliver func(FeedEvent)) (*feed, error) {
	if !validKey(key) {
		return nil, invalidKey(key)
	}
	conf, err := b.config(ctx)
	if err != nil {
		return nil, err
	}
	f := &feed{bucket: b, deliver: deliver}
	// Before anything is subscribed to, so that no reconnection is missed.
	b.hub.add(b, f)
	if prefix, ok := b.feedOf(conf); ok {
		err = f.subscribe(ctx, prefix+"."+key, b.pre+key)
	} else {
		err = f.consume(ctx, b.pre+key)
	}
	if err != nil {
		f.Stop()
		return nil, err
	}
	return f, nil
}

// feed is one open feed. Its only goroutine is that of the subscription.
type feed struct {
	bucket  *Bucket
	deliver func(FeedEvent)

	sub    *nats.Subscription
	exited chan struct{} // closed when the subscription's goroutine is about to end; nil: there is none

	stop sync.Once

	mu       sync.Mutex // held during deliver: one call at a time, and none after Stop
	consumer string     // of a watch feed, on the server; empty: none
	begun    bool
	early    []FeedEvent // from before begin
	over     bool
}

// earlyEvents is how many events are kept until the feed begins. Older ones
// only say what a newer one says again.
const earlyEvents = 16

// tell delivers an event, unless the feed is over.
func (f *feed) tell(ev FeedEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.over:
	case !f.begun:
		if len(f.early) == earlyEvents {
			f.early = f.early[1:]
		}
		f.early = append(f.early, ev)
	default:
		f.hand(ev)
	}
}

// hand delivers. An error ends the feed.
func (f *feed) hand(ev FeedEvent) {
	f.over = f.over || ev.Err != nil
	f.deliver(ev)
}

// begin delivers what came before the one who watches knew of its feed.
func (f *feed) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun = true
	for _, ev := range f.early {
		if f.over {
			break
		}
		f.hand(ev)
	}
	f.early = nil
}

// Stop implements [Feed]. It sends no request, and is over when the goroutines
// of the feed are; while nats.go dials it may have to wait for the
// connection's lock.
func (f *feed) Stop() {
	f.stop.Do(func() {
		f.mu.Lock()
		f.over = true
		f.mu.Unlock()
		if f.sub != nil {
			err := f.sub.Unsubscribe()
			if f.exited != nil && !errors.Is(err, nats.ErrConnectionDraining) { // a drain ends it in its own time
				<-f.exited
			}
		}
		f.deleteConsumer()
		f.bucket.hub.remove(f.bucket, f)
	})
}

// subscribe opens a republish feed: a plain subscription.
func (f *feed) subscribe(ctx context.Context, subject, stored string) error {
	stream := f.bucket.stream
	before, err := f.listen(subject, func(m *nats.Msg) {
		if e, ok := storedEntry(m, stream, stored); ok {
			f.tell(FeedEvent{Entry: e})
		}
	})
	if err != nil {
		return err
	}
	// A denied subscription looks alive. The server has answered it before it
	// answers the ping.
	if err := f.bucket.nc.FlushWithContext(undated{ctx}); err != nil {
		return f.bucket.failure(subject, before, err)
	}
	return f.bucket.denied(subject, before)
}

// listen subscribes, and returns the last error of the connection from before.
func (f *feed) listen(subject string, handle nats.MsgHandler) (before, err error) {
	b := f.bucket
	if err = b.connected(); err != nil {
		return nil, err
	}
	before = b.nc.LastError()
	f.sub, err = b.nc.Subscribe(subject, handle)
	if err != nil {
		return before, b.failure(subject, before, err)
	}
	exited := make(chan struct{})
	f.sub.SetClosedHandler(func(string) { close(exited) })
	if !f.sub.IsValid() {
		// Closed before the handler was there: it may never be called.
		return before, fmt.Errorf("%w: the connection was lost while subscribing to %s", ErrUnreachable, subject)
	}
	f.exited = exited
	return before, nil
}

// undated is a context whose end is not a matter of a deadline. nats.go asks
// for one where it has another way to bound a request (FlushWithContext), or
// sets one of its own by the system clock (jetstream).
type undated struct {
	context.Context //nolint:containedctx // it is a context
}

// Deadline returns a time that does not come.
func (undated) Deadline() (time.Time, bool) { return time.Unix(1<<40, 0), true }

// hub hears for all feeds of a bucket what becomes of the connection, in one
// goroutine that runs while there is a feed.
type hub struct {
	mu     sync.Mutex
	feeds  map[*feed]struct{}
	status chan nats.Status
	ended  chan struct{}
}

func (h *hub) add(b *Bucket, f *feed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.feeds) == 0 {
		h.feeds = make(map[*feed]struct{})
		h.status, h.ended = b.nc.StatusChanged(nats.CONNECTED, nats.CLOSED), make(chan struct{})
		go h.listen(b, h.status, h.ended)
	}
	h.feeds[f] = struct{}{}
}

func (h *hub) remove(b *Bucket, f *feed) {
	h.mu.Lock()
	_, was := h.feeds[f]
	delete(h.feeds, f)
	last := was && len(h.feeds) == 0
	status, ended := h.status, h.ended
	h.mu.Unlock()
	if last {
		b.nc.RemoveStatusListener(status) // closes it
		<-ended
	}
}

func (h *hub) listen(b *Bucket, status <-chan nats.Status, ended chan<- struct{}) {
	defer close(ended)
	for s := range status {
		b.known.Store(nil) // the bucket may have been set otherwise meanwhile
		// nats.go drops what a full channel does not take, and CLOSED is the
		// last status there is.
		closed := s == nats.CLOSED || b.nc.IsClosed()
		for _, f := range h.all() {
			if closed {
				f.tell(FeedEvent{Err: ErrConnectionClosed})
			} else {
				f.reconnected()
			}
		}
	}
}

func (h *hub) all() []*feed {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*feed, 0, len(h.feeds))
	for f := range h.feeds {
		all = append(all, f)
	}
	return all
}

// reconnected tells that the connection is back. nats.go subscribes anew
// before anything else is sent, so that whoever looks now misses nothing
// afterwards.
func (f *feed) reconnected() {
	f.tell(FeedEvent{Reconnected: true})
	f.orphaned()
}
