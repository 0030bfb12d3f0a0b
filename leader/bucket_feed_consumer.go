package leader

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/jsapi"
)

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
			s.pass(jsapi.NewEntry(meta.Sequence.Stream, meta.Timestamp, m.Header, m.Data), m.Sub)
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
		s.tell(backend.FeedEvent{Err: fmt.Errorf("%w: the connection was lost, and perhaps the consumer with it", ErrUnreachable)})
	}
}
