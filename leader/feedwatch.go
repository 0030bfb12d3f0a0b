package leader

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// consume opens a watch feed: an ephemeral push consumer of the one key, on
// the server that the server chooses, in memory.
//
// It is not the ordered consumer of jetstream.KeyValue's Watch. That one heals
// itself, but only when heartbeats have been missing for 13 to 20s, costs five
// goroutines, and stops with a request that waits for its reply. A candidate
// notices a deaf feed sooner and opens another, so that no heartbeat, and no
// permission for flow control, is needed.
func (s *source) consume(ctx context.Context) error {
	b, stored := s.bucket, s.bucket.pre+s.key
	inbox := b.nc.NewInbox()
	name := inbox[strings.LastIndexByte(inbox, '.')+1:]
	_, err := s.listen(&s.bucket.streamAPI, inbox, func(m *nats.Msg) {
		meta, err := m.Metadata()
		if err != nil || meta.Stream != b.stream || meta.Consumer != name || m.Subject != stored {
			return
		}
		s.pass(newEntry(meta.Sequence.Stream, meta.Timestamp, m.Header, m.Data), m.Sub)
	})
	if err != nil {
		return err
	}
	s.setConsumer(name) // from here on it may exist, whatever the reply
	before := b.nc.LastError()
	_, err = b.js.CreatePushConsumer(undated{ctx}, b.stream, jetstream.ConsumerConfig{
		Name:           name,
		Description:    "natsleader",
		DeliverSubject: inbox,
		DeliverPolicy:  jetstream.DeliverLastPerSubjectPolicy,
		AckPolicy:      jetstream.AckNonePolicy,
		FilterSubject:  stored,
		Replicas:       1,
		MemoryStorage:  true,
	})
	if err == nil {
		return b.denied(inbox, before)
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		s.setConsumer("")
		return b.refusal(api)
	}
	// The name is another with every try; what is told must not be, or it would
	// be told every time.
	subject := b.api + "CONSUMER.CREATE." + b.stream + "."
	err = b.failure(subject+name+"."+stored, before, err)
	switch every := subject + "*." + stored; {
	case errors.Is(err, ErrPermission) && strings.Contains(err.Error(), subject+name):
		return fmt.Errorf("%w: %w for Publish to %q", ErrPermission, nats.ErrPermissionViolation, every)
	case errors.Is(err, ErrUnreachable) && strings.Contains(err.Error(), subject+name):
		return fmt.Errorf("%w: no reply on %s", ErrUnreachable, every)
	}
	return err
}

func (s *source) setConsumer(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.consumer = name
}

// orphaned ends a watch feed after the connection was away: the server deletes
// a consumer that nobody has listened to for 5s, or has lost it with its own
// memory.
func (s *source) orphaned() {
	s.mu.Lock()
	watches := s.consumer != ""
	s.mu.Unlock()
	if watches {
		s.bucket.hub.distrust(s)
		s.tell(FeedEvent{Err: fmt.Errorf("%w: the connection was lost, and perhaps the consumer with it", ErrUnreachable)})
	}
}

// deleteConsumer asks the server to, and does not wait for its answer: a
// consumer to which nobody listens goes away by itself.
func (s *source) deleteConsumer() {
	s.mu.Lock()
	name := s.consumer
	s.mu.Unlock()
	b := s.bucket
	if name == "" || b.connected() != nil {
		return
	}
	_ = b.nc.Publish(b.api+"CONSUMER.DELETE."+b.stream+"."+name, nil)
}
