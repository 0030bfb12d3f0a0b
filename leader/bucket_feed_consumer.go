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
	_, err := b.follow(ctx, &s.subscription, jetstream.ConsumerConfig{FilterSubject: stored}, s.setConsumer, func(m *nats.Msg, meta *nats.MsgMetadata) {
		if meta != nil && m.Subject == stored {
			s.pass(newEntry(meta.Sequence.Stream, meta.Timestamp, m.Header, m.Data), m.Sub)
		}
	})
	return err
}

// follow subscribes to an ephemeral push consumer of the subjects that the filter of conf
// matches. The consumer delivers the newest message of each subject first. follow calls
// named with the name of the consumer that has to be deleted in the end, or with an empty
// name if there is none. For a message that is not a stored one, such as a heartbeat, handle
// gets a nil meta.
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
	named(name) // from here on the consumer may exist, whatever the reply
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
	// The consumer has another name with every try. The error must not differ with it, or it
	// would be reported with every try.
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

// deleteConsumer asks the server to delete a consumer, and does not wait for the reply. A
// consumer without a subscriber goes away by itself.
func (a *streamAPI) deleteConsumer(name string) {
	if name != "" && a.connected() == nil {
		_ = a.nc.Publish(a.api+"CONSUMER.DELETE."+a.stream+"."+name, nil)
	}
}
