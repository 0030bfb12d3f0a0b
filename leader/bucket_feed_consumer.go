package leader

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
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
	_, err := b.follow(ctx, &s.subscription, jetstream.ConsumerConfig{FilterSubject: stored}, s.setConsumer, func(m *nats.Msg, meta *nats.MsgMetadata) {
		if meta != nil && m.Subject == stored {
			s.pass(newEntry(meta.Sequence.Stream, meta.Timestamp, m.Header, m.Data), m.Sub)
		}
	})
	return err
}

// follow subscribes to an ephemeral push consumer of what the filter of conf
// matches, the newest of each subject first. named is told what has to be deleted
// in the end: its name, or nothing if there is none. meta is nil for what the
// consumer says besides messages.
func (a *streamAPI) follow(ctx context.Context, s *subscription, conf jetstream.ConsumerConfig, named func(string), handle func(m *nats.Msg, meta *nats.MsgMetadata)) (*jetstream.ConsumerInfo, error) {
	inbox := a.nc.NewInbox()
	name := inbox[strings.LastIndexByte(inbox, '.')+1:]
	_, err := s.listen(a, inbox, func(m *nats.Msg) {
		meta, err := m.Metadata()
		if err != nil {
			handle(m, nil)
		} else if meta.Stream == a.stream && meta.Consumer == name {
			handle(m, meta)
		}
	})
	if err != nil {
		return nil, err
	}
	named(name) // from here on it may exist, whatever the reply
	conf.Name, conf.Description, conf.DeliverSubject = name, "natsleader", inbox
	conf.DeliverPolicy, conf.AckPolicy = jetstream.DeliverLastPerSubjectPolicy, jetstream.AckNonePolicy
	conf.Replicas, conf.MemoryStorage = 1, true
	before := a.nc.LastError()
	made, err := a.js.CreatePushConsumer(undated{ctx}, a.stream, conf)
	if err == nil {
		return made.CachedInfo(), a.denied(inbox, before)
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		named("")
		return nil, a.refusal(api)
	}
	// The name is another with every try; what is told must not be, or it would
	// be told every time.
	subject := a.api + "CONSUMER.CREATE." + a.stream + "."
	err = a.failure(subject+name+"."+conf.FilterSubject, before, err)
	switch every := subject + "*." + conf.FilterSubject; {
	case errors.Is(err, ErrPermission) && strings.Contains(err.Error(), subject+name):
		err = fmt.Errorf("%w: %w for Publish to %q", ErrPermission, nats.ErrPermissionViolation, every)
	case errors.Is(err, ErrUnreachable) && strings.Contains(err.Error(), subject+name):
		err = fmt.Errorf("%w: no reply on %s", ErrUnreachable, every)
	}
	return nil, err
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
		s.tell(backend.FeedEvent{Err: fmt.Errorf("%w: the connection was lost, and perhaps the consumer with it", ErrUnreachable)})
	}
}

// deleteConsumer asks the server to, and does not wait for its answer: a
// consumer to which nobody listens goes away by itself.
func (a *streamAPI) deleteConsumer(name string) {
	if name != "" && a.connected() == nil {
		_ = a.nc.Publish(a.api+"CONSUMER.DELETE."+a.stream+"."+name, nil)
	}
}
