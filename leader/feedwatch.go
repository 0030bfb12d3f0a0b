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
func (f *feed) consume(ctx context.Context, stored string) error {
	b := f.bucket
	inbox := b.nc.NewInbox()
	name := inbox[strings.LastIndexByte(inbox, '.')+1:]
	_, err := f.listen(inbox, func(m *nats.Msg) {
		meta, err := m.Metadata()
		if err != nil || meta.Stream != b.stream || meta.Consumer != name || m.Subject != stored {
			return
		}
		f.tell(FeedEvent{Entry: newEntry(meta.Sequence.Stream, meta.Timestamp, m.Header, m.Data)})
	})
	if err != nil {
		return err
	}
	f.setConsumer(name) // from here on it may exist, whatever the reply
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
		f.setConsumer("")
		return b.refusal(api)
	}
	return b.failure(b.api+"CONSUMER.CREATE."+b.stream+"."+name+"."+stored, before, err)
}

func (f *feed) setConsumer(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.consumer = name
}

// orphaned ends a watch feed after the connection was away: the server deletes
// a consumer that nobody has listened to for 5s, or has lost it with its own
// memory.
func (f *feed) orphaned() {
	f.mu.Lock()
	watches := f.consumer != ""
	f.mu.Unlock()
	if watches {
		f.tell(FeedEvent{Err: fmt.Errorf("%w: the connection was lost, and perhaps the consumer with it", ErrUnreachable)})
	}
}

// deleteConsumer asks the server to, and does not wait for its answer: a
// consumer to which nobody listens goes away by itself.
func (f *feed) deleteConsumer() {
	f.mu.Lock()
	name := f.consumer
	f.mu.Unlock()
	b := f.bucket
	if name == "" || b.connected() != nil {
		return
	}
	_ = b.nc.Publish(b.api+"CONSUMER.DELETE."+b.stream+"."+name, nil)
}
