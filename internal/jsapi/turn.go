package jsapi

import (
	"context"
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// The window of a connection. A server does all that it can with a few requests in flight, and
// with more than mostSlots each one only waits longer.
const (
	leastSlots = 32
	mostSlots  = 512
)

// Window returns the window for requests on the connection; nil for a zero value.
func (a *Stream) Window() *backend.Window {
	if a.conn == nil {
		return nil
	}
	return a.conn.window
}

// Turn waits until the connection has a slot for a request of that rank. done gives the slot
// back. If ctx ends before, the error is unsent and ErrUnreachable. The requests of a key are
// sent by candidates that have a slot already.
func (a *Stream) Turn(ctx context.Context, r backend.Rank) (done func(), err error) {
	t, w := turn{granted: make(chan struct{})}, a.Window()
	done = func() { w.Return(&t.place, backend.Neither) }
	if w.Take(&t.place, r, &t, time.Now()) {
		return done, nil
	}
	select {
	case <-t.granted:
		return done, nil
	case <-ctx.Done():
		done() // or leaves the line
		return nil, unsent{fmt.Errorf("%w: too many requests of this connection are in flight: %w", backend.ErrUnreachable, ctx.Err())}
	}
}

// turn waits for a slot.
type turn struct {
	place   backend.Place
	granted chan struct{}
}

// Granted implements [backend.Waiter].
func (t *turn) Granted() { close(t.granted) }
