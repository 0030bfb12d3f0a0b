package jsapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/backend"
)

// Subscription is a subscription of nats.go. Its goroutine has ended when Close returns.
type Subscription struct {
	sub    *nats.Subscription
	exited chan struct{} // closed when the subscription's goroutine is about to end; nil: there is none
	Leave  func()        // called by Close, if not nil
}

// subscribe subscribes, and returns the last error of the connection from before.
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
	s.sub.SetClosedHandler(func(string) { close(exited) })
	if !s.sub.IsValid() {
		// It was closed before the handler was set, so the handler may never be called.
		return before, fmt.Errorf("%w: the connection was lost while subscribing to %s", backend.ErrUnreachable, subject)
	}
	s.exited = exited
	return before, nil
}

// Listen subscribes to a subject that may be denied. A denied subscription looks
// alive. The server has reported the denial before it answers the ping.
func (s *Subscription) Listen(ctx context.Context, a *Stream, subject string, handle nats.MsgHandler) error {
	before, err := s.subscribe(a, subject, handle)
	if err != nil {
		return err
	}
	if err := a.Conn.FlushWithContext(undated{ctx}); err != nil {
		return a.failure(subject, before, err)
	}
	return a.denied(subject, before)
}

// Close ends the subscription and waits for its goroutine.
func (s *Subscription) Close() {
	if s.Leave != nil {
		s.Leave()
	}
	if s.sub != nil {
		err := s.sub.Unsubscribe()
		if s.exited != nil && !errors.Is(err, nats.ErrConnectionDraining) { // a drain ends it in its own time
			<-s.exited
		}
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
