package jsapi

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
)

// Follow subscribes to an ephemeral push consumer of the subjects that the filter of conf
// matches. The consumer delivers the newest message of each subject first. Follow calls
// named with the name of the consumer that has to be deleted in the end, or with an empty
// name if there is none. For a message that is not a stored one, such as a heartbeat, handle
// gets a nil meta.
func (a *Stream) Follow(ctx context.Context, s *Subscription, conf jetstream.ConsumerConfig, named func(string), handle func(m *nats.Msg, meta *nats.MsgMetadata)) (*jetstream.ConsumerInfo, error) {
	inbox := a.Conn.NewInbox()
	name := inbox[strings.LastIndexByte(inbox, '.')+1:]
	_, err := s.subscribe(a, inbox, func(m *nats.Msg) {
		meta, err := m.Metadata()
		if err != nil {
			handle(m, nil)
		} else if meta.Stream == a.Name && meta.Consumer == name {
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
	filter := conf.FilterSubject
	apart := a.Conn.Opts.Pedantic && !LiteralSubject(filter)
	if apart {
		// nats.go puts a single filter into the subject of the request. The server refuses to
		// take a subject with wildcards from a pedantic client, and nats.go closes the
		// connection for good when it hears that.
		conf.FilterSubject, conf.FilterSubjects = "", []string{filter}
	}
	before := a.Conn.LastError()
	made, err := a.JS.CreatePushConsumer(undated{ctx}, a.Name, conf)
	if err == nil {
		return made.CachedInfo(), a.denied(inbox, before)
	}
	var api *jetstream.APIError
	if errors.As(err, &api) {
		named("")
		return nil, a.refusal(api)
	}
	// The consumer has another name with every try. The error must not differ with it, or it
	// would be reported with every try.
	subject, rest := a.Prefix+"CONSUMER.CREATE."+a.Name+".", "."+filter
	if apart {
		rest = ""
	}
	err = a.failure(subject+name+rest, before, err)
	switch every := subject + "*" + rest; {
	case errors.Is(err, backend.ErrPermission) && strings.Contains(err.Error(), subject+name):
		err = Permission(fmt.Sprintf("Publish to %q", every), nats.ErrPermissionViolation)
	case errors.Is(err, backend.ErrUnreachable) && strings.Contains(err.Error(), subject+name):
		err = fmt.Errorf("%w: no reply on %s", backend.ErrUnreachable, every)
	}
	return nil, err
}

// DeleteConsumer asks the server to delete a consumer, and does not wait for the reply. A
// consumer without a subscriber goes away by itself.
func (a *Stream) DeleteConsumer(name string) {
	if name != "" && a.Connected() == nil {
		_ = a.Conn.Publish(a.Prefix+"CONSUMER.DELETE."+a.Name+"."+name, nil)
	}
}
