package jsapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
)

// Subscription is a subscription of nats.go. No message is being handled when Close has
// returned.
type Subscription struct {
	sub *nats.Subscription
	handling
	exited chan struct{} // of one without a lane: closed when its goroutine is about to end; nil: there is none
	Leave  func()        // called by Close, if not nil
	Sent   func()        // called each time that Listen has handed its subscription to the connection, if not nil
}

// subscribe subscribes with a goroutine of nats.go, and returns the last error of the
// connection from before.
func (s *Subscription) subscribe(a *Stream, subject string, handle nats.MsgHandler) (before, err error) {
	if err = a.Connected(); err != nil {
		return nil, err
	}
	before = a.Conn.LastError()
	s.sub, err = a.Conn.Subscribe(subject, handle)
	if err != nil {
		return before, a.failure(subject, before, err)
	}
	exited := make(chan struct{})
	a.conn.lone.Add(1)
	s.sub.SetClosedHandler(func(string) {
		a.conn.lone.Add(-1)
		close(exited)
	})
	if !s.sub.IsValid() {
		// It was closed before the handler was set, so the handler may never be called.
		return before, fmt.Errorf("%w: the connection was lost while subscribing to %s", backend.ErrUnreachable, subject)
	}
	s.exited = exited
	return before, nil
}

// Listen subscribes to a subject that may be denied. A denied subscription looks
// alive. The server has reported the denial before it answers the ping. nats.go keeps only the last
// denial. So if another subject was denied meanwhile, Listen waits until no other call on the
// connection does the same, and subscribes again.
//
// The subscriptions of a connection share goroutines. If apart returns true, the next
// message may take long to handle, and a goroutine of this subscription handles it. apart
// must not block.
func (s *Subscription) Listen(ctx context.Context, a *Stream, subject string, handle nats.MsgHandler, apart func() bool) error {
	other, err := s.listen(ctx, a, subject, handle, apart)
	if !other || err != nil {
		return err
	}
	select {
	case a.conn.again <- struct{}{}:
		defer func() { <-a.conn.again }()
	case <-ctx.Done():
		return fmt.Errorf("%w: gave up while subscribing to %s: %w", backend.ErrUnreachable, subject, ctx.Err())
	}
	for range relistens {
		_ = s.sub.Unsubscribe()
		s.lane.remove(s.sub)
		if other, err = s.listen(ctx, a, subject, handle, apart); !other || err != nil {
			return err
		}
	}
	return nil // other subjects are denied all the time, and this one was not the last of them
}

// relistens is how often Listen subscribes again.
const relistens = 5

// listen subscribes once. It reports whether another subject was denied meanwhile.
func (s *Subscription) listen(ctx context.Context, a *Stream, subject string, handle nats.MsgHandler, apart func() bool) (other bool, err error) {
	if err := a.Connected(); err != nil {
		return false, err
	}
	before := a.Conn.LastError()
	if err := s.share(a, subject, handle, apart); err != nil {
		return false, a.failure(subject, before, err)
	}
	if s.Sent != nil {
		s.Sent()
	}
	if err := a.ping(ctx); err != nil {
		return false, a.failure(subject, before, err)
	}
	last := a.Conn.LastError()
	other = last != before && errors.Is(last, nats.ErrPermissionViolation) //nolint:errorlint // the same value, not the same kind
	return other, a.deniedBy(last, subject, before)
}

// ping returns when the server has answered a ping that was sent after the call. Calls on a
// connection that come at the same time share it. Two are in flight at most, so that the first feed
// of a candidate need not wait for that of the cordon.
func (a *Stream) ping(ctx context.Context) error {
	pings := &a.conn.pings[0]
	if pings.waits() {
		pings = &a.conn.pings[1]
	}
	_, _, err := pings.ask(ctx, func(ctx context.Context) (struct{}, error) {
		return InTime(ctx, a, func() (struct{}, error) { return struct{}{}, a.Conn.FlushWithContext(undated{ctx}) }, nil)
	})
	return err
}

// share subscribes on a lane.
func (s *Subscription) share(a *Stream, subject string, handle nats.MsgHandler, apart func() bool) (err error) {
	s.handle, s.apart = handle, apart
	l := a.conn.lanes.join(subject)
	s.sub, err = a.Conn.ChanSubscribe(subject, l.messages)
	if err != nil {
		s.sub = nil
	}
	l.opened(s, subject)
	if err != nil {
		return err
	}
	s.lane = l
	sub := s.sub
	sub.SetClosedHandler(func(string) { l.remove(sub) })
	if !sub.IsValid() { // it was closed before the handler was set
		return nats.ErrConnectionClosed
	}
	return nil
}

// Waiting reports whether messages of the subscription wait while m is being handled.
func (s *Subscription) Waiting(m *nats.Msg) bool {
	n, _, err := m.Sub.Pending() // with m
	if errors.Is(err, nats.ErrTypeSubscription) {
		return s.waiting()
	}
	return err == nil && n > 1
}

// Close ends the subscription and waits for the message that is being handled.
func (s *Subscription) Close() {
	if s.Leave != nil {
		s.Leave()
	}
	if s.sub == nil {
		return
	}
	err := s.sub.Unsubscribe()
	switch {
	case s.lane != nil:
		s.lane.remove(s.sub)
		s.end()
	case s.exited != nil && !errors.Is(err, nats.ErrConnectionDraining): // a drain ends it in its own time
		<-s.exited
	}
}

// undated is a context that does not end by its deadline. nats.go requires a deadline
// where it has another way to bound a request (FlushWithContext), or sets one of its own
// by the system clock (jetstream).
type undated struct {
	context.Context //nolint:containedctx // it is a context
}

// Deadline returns a time that does not come.
func (undated) Deadline() (time.Time, bool) { return time.Unix(1<<40, 0), true }

// Follow subscribes to an ephemeral push consumer of the subjects that the filter of conf
// matches. The consumer delivers the newest message of each subject first. Follow calls
// named with the name of the consumer that has to be deleted in the end, or with an empty
// name if there is none. For a message that is not a stored one, such as a heartbeat, handle
// gets a nil meta.
func (a *Stream) Follow(ctx context.Context, s *Subscription, conf jetstream.ConsumerConfig, named func(string), handle func(m *nats.Msg, meta *nats.MsgMetadata)) (*jetstream.ConsumerInfo, error) {
	inbox := a.Conn.NewInbox()
	name := inbox[strings.LastIndexByte(inbox, '.')+1:]
	before, err := s.subscribe(a, inbox, func(m *nats.Msg) {
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
