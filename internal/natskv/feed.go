package natskv

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/jsapi"
)

// Watch implements [backend.Store]. If the bucket republishes its messages, the feed is one plain
// subscription and costs no consumer on the server. Otherwise it is a consumer of the one
// key. All feeds of a key that are opened on one Bucket share it, unless it was found
// deaf. Errors: those of Settings, and those of the server for the creation of a
// consumer.
//
// nats.go may drop messages that arrive faster than deliver takes them; the feed goes on.
// Stop waits for a running call of deliver, and must not be called from within deliver.
func (b *Bucket) Watch(ctx context.Context, key string, instead backend.Feed, deliver func(backend.FeedEvent), reply func(backend.Feed, error)) {
	go func() {
		if old, ok := instead.(*Feed); ok && old != nil {
			b.hub.distrust(old.source)
			old.Stop()
		}
		f, err := b.watchInTime(ctx, key, deliver, b.api.Config, nil)
		if err != nil {
			reply(nil, err)
			return
		}
		reply(f, nil)
		f.Begin()
	}()
}

// settingsReader returns the settings of a bucket.
type settingsReader func(context.Context) (jetstream.StreamConfig, error)

// watchInTime is watch, until ctx ends.
func (b *Bucket) watchInTime(ctx context.Context, key string, deliver func(backend.FeedEvent), settings settingsReader, sent func()) (*Feed, error) {
	return jsapi.InTime(ctx, &b.api, func() (*Feed, error) { return b.watch(ctx, key, deliver, settings, sent) }, (*Feed).Stop)
}

// watch opens a feed. It calls sent, if not nil, each time that the subscription was handed to the connection.
func (b *Bucket) watch(ctx context.Context, key string, deliver func(backend.FeedEvent), settings settingsReader, sent func()) (*Feed, error) {
	conf, err := settings(ctx)
	if err != nil {
		return nil, err
	}
	for {
		f := &Feed{deliver: deliver}
		// Join before any subscription is made, so that no reconnection is missed.
		first := b.hub.join(b, b.topic(conf, key), f)
		if first {
			f.source.Sent = sent
			f.source.open(ctx)
			f.source.Sent = nil
		} else {
			select {
			case <-f.source.opened:
			case <-ctx.Done():
				f.Stop()
				return nil, fmt.Errorf("%w: the feed of %s was not opened in time", backend.ErrUnreachable, key)
			}
		}
		err := f.source.err
		if err == nil {
			return f, nil
		}
		f.Stop()
		if first || ctx.Err() != nil || !f.source.abandoned {
			return nil, err
		}
		// The feed that opened the source gave up. That says nothing about this one.
	}
}

// Feed is one open feed: the part of a source that belongs to one candidate.
type Feed struct {
	source  *source
	deliver func(backend.FeedEvent)
	who     atomic.Pointer[subscriber] // nil: not known
	stop    sync.Once

	mu    sync.Mutex // held during deliver: one call at a time, and none after Stop
	begun bool
	over  bool
	early []backend.FeedEvent // events from before begin
}

// Identify names the candidate that the feed belongs to.
func (f *Feed) Identify(id, session string) { f.who.Store(&subscriber{id, session}) }

// subscriber identifies the candidate that a feed belongs to.
type subscriber struct{ id, session string }

// earlyEvents is the number of events that are kept until Begin. Older events
// contain nothing that a newer one does not.
const earlyEvents = 16

// tell delivers an event, unless the feed is over.
func (f *Feed) tell(ev backend.FeedEvent) {
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
func (f *Feed) hand(ev backend.FeedEvent) {
	f.over = f.over || ev.Err != nil
	f.deliver(ev)
}

// Begin delivers the events that came before the feed was taken, and those that come later. It is called once, by Watch, or by the
// caller of Open.
func (f *Feed) Begin() {
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

// Stop implements [backend.Feed]. It waits for a running call of deliver, and for no reply.
// The last feed of a source closes the source: it unsubscribes, asks the server to delete
// the consumer of a watch feed, and waits for the source's goroutines, but only for a
// moment, because closing may need the connection's lock.
func (f *Feed) Stop() {
	f.stop.Do(func() {
		f.mu.Lock()
		f.over = true
		f.mu.Unlock()
		jsapi.Soon(func() { f.source.bucket.hub.leave(f) })
	})
}

// consume opens a watch feed: an ephemeral push consumer of the one key, in memory, on a
// server that NATS chooses.
//
// It is not the ordered consumer of jetstream.KeyValue's Watch. An ordered consumer heals
// itself, but only when heartbeats have been missing for 13 to 20s. It costs five
// goroutines, and stops with a request that waits for its reply. A candidate notices a
// deaf feed sooner and opens another, so it needs no heartbeat and no permission for flow
// control.
func (s *source) consume(ctx context.Context) error {
	b, stored := s.bucket, s.bucket.pre+s.key
	_, err := b.api.Follow(ctx, &s.Subscription, jetstream.ConsumerConfig{FilterSubject: stored}, s.setConsumer, func(m *nats.Msg, meta *nats.MsgMetadata) {
		if meta != nil && m.Subject == stored {
			s.pass(jsapi.NewEntry(meta.Sequence.Stream, meta.Timestamp, m.Header, m.Data), m)
		}
	})
	return err
}

func (s *source) setConsumer(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.consumer = name
}

// orphaned ends a watch feed after the connection was lost. The server deletes a consumer
// that has had no subscriber for 5s, or it has lost the consumer with its own memory.
func (s *source) orphaned() {
	s.mu.Lock()
	watches := s.consumer != ""
	s.mu.Unlock()
	if watches {
		s.bucket.hub.distrust(s)
		s.tell(backend.FeedEvent{Err: fmt.Errorf("%w: the connection was lost, and perhaps the consumer with it", backend.ErrUnreachable)})
	}
}
