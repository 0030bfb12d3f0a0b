package jsapi

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
)

// nats.go holds the connection's lock while it writes to the socket and while it dials.
// When the network swallows packets and the socket's buffer is full, a write lasts for
// nats.FlusherTimeout, a minute by default. Every function of nats.go that takes the lock
// waits as long, whatever its context says. So such functions run on goroutines of their
// own, which are left behind when they are late.

const (
	// maxLeft bounds the goroutines of one stream that are left behind at a time.
	maxLeft = 64
	// patience is how long a call of nats.go may go on after its context has ended. A call
	// that does not wait for the lock returns at once then, and with a more precise error.
	patience = 100 * time.Millisecond
)

// unsent is an error which means that nothing was sent, nor will be.
type unsent struct{ error }

// Unwrap returns the error.
func (u unsent) Unwrap() error { return u.error }

// IsUnsent reports whether an error means that nothing was sent, nor will be.
func IsUnsent(err error) bool {
	var u unsent
	return errors.As(err, &u)
}

// The states of a call.
const (
	callBegins int32 = iota
	callSends
	callReturned
	callLeft
)

// call is a call of nats.go that may wait for the connection's lock.
type call[T any] struct {
	a     *Stream
	state atomic.Int32
	ctx   context.Context //nolint:containedctx // for its error only
	late  func(T)
	reply func(T, error)
}

// inTime calls f on a goroutine of its own, and replies with the result of f. If f has not
// returned soon after ctx has ended, the reply is ErrUnreachable.
//
// f calls maySend before it sends a message that must not be sent after the reply. The
// error is unsent if f has not called maySend, or if maySend returned false. late
// releases a value that f returns too late and without an error; nil: there is nothing to
// release.
func inTime[T any](ctx context.Context, a *Stream, f func(maySend func() bool) (T, error), late func(T), reply func(T, error)) {
	if n := a.left.Load(); n >= maxLeft {
		var none T
		reply(none, unsent{fmt.Errorf("%w: the connection does not take what is sent, and %d calls wait for it", backend.ErrUnreachable, n)})
		return
	}
	c := &call[T]{a: a, ctx: ctx, late: late, reply: reply}
	stop := context.AfterFunc(ctx, func() { deadline.After(patience, c.leave) })
	go func() {
		value, err := f(c.maySend)
		stop()
		if c.state.Swap(callReturned) != callLeft {
			reply(value, err)
			return
		}
		a.left.Add(-1)
		if late != nil && err == nil {
			late(value)
		}
	}()
}

func (c *call[T]) maySend() bool { return c.state.CompareAndSwap(callBegins, callSends) }

// leave replies, unless the call has returned.
func (c *call[T]) leave() {
	c.a.left.Add(1)
	err := fmt.Errorf("%w: the connection does not take what is sent: %w", backend.ErrUnreachable, c.ctx.Err())
	switch {
	case c.state.CompareAndSwap(callBegins, callLeft):
		err = unsent{err}
	case c.state.CompareAndSwap(callSends, callLeft):
		err = unanswered{err}
	default:
		c.a.left.Add(-1)
		return
	}
	var none T
	c.reply(none, err)
}

// InTime calls f, and returns ErrUnreachable if f has not returned soon after ctx has ended.
// late releases a value that f returns too late and without an error; nil: there is nothing
// to release.
func InTime[T any](ctx context.Context, a *Stream, f func() (T, error), late func(T)) (T, error) {
	return waitFor(ctx, a, func(func() bool) (T, error) { return f() }, late)
}

// waitFor is inTime for callers that wait for the reply.
func waitFor[T any](ctx context.Context, a *Stream, f func(maySend func() bool) (T, error), late func(T)) (T, error) {
	r := <-replied(func(reply func(T, error)) { inTime(ctx, a, f, late, reply) })
	return r.value, r.err
}

// outcome is what a reply consists of.
type outcome[T any] struct {
	value T
	err   error
}

// replied calls begin, and returns the channel of the outcome.
func replied[T any](begin func(reply func(T, error))) <-chan outcome[T] {
	outcomes := make(chan outcome[T], 1)
	begin(func(value T, err error) { outcomes <- outcome[T]{value, err} })
	return outcomes
}

// Soon calls a function that may wait for the connection's lock, and waits for the
// function for a moment only.
func Soon(end func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		end()
	}()
	grace, cancel := deadline.Within(context.Background(), patience)
	defer cancel()
	select {
	case <-ended:
	case <-grace.Done():
	}
}
