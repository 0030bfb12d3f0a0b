package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// subscription is a subscription of nats.go. Its goroutine has ended when close returns.
type subscription struct {
	sub    *nats.Subscription
	exited chan struct{} // closed when the subscription's goroutine is about to end; nil: there is none
	leave  func()        // called by close, if not nil
}

// listen subscribes, and returns the last error of the connection from before.
func (s *subscription) listen(a *streamAPI, subject string, handle nats.MsgHandler) (before, err error) {
	if err = a.connected(); err != nil {
		return nil, err
	}
	before = a.nc.LastError()
	s.sub, err = a.nc.Subscribe(subject, handle)
	if err != nil {
		return before, a.failure(subject, before, err)
	}
	exited := make(chan struct{})
	s.sub.SetClosedHandler(func(string) { close(exited) })
	if !s.sub.IsValid() {
		// It was closed before the handler was set, so the handler may never be called.
		return before, fmt.Errorf("%w: the connection was lost while subscribing to %s", ErrUnreachable, subject)
	}
	s.exited = exited
	return before, nil
}

// listenAllowed is listen for a subject that may be denied. A denied subscription looks
// alive. The server has reported the denial before it answers the ping.
func (s *subscription) listenAllowed(ctx context.Context, a *streamAPI, subject string, handle nats.MsgHandler) error {
	before, err := s.listen(a, subject, handle)
	if err != nil {
		return err
	}
	if err := a.nc.FlushWithContext(undated{ctx}); err != nil {
		return a.failure(subject, before, err)
	}
	return a.denied(subject, before)
}

// close ends the subscription and waits for its goroutine.
func (s *subscription) close() {
	if s.leave != nil {
		s.leave()
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
