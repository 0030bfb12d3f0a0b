package jsapi

import (
	"context"
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// The window of a stream on a connection. A server does all that it can with a few requests in flight, and
// with more than mostSlots each one only waits longer.
const (
	leastSlots = 32
	mostSlots  = 512
)

// Window returns the window for requests to the stream on its connection; nil for a zero value.
// Each stream has its own: one that hangs must not keep the elections of another waiting.
func (a *Stream) Window() *backend.Window { return a.window }

// Turn waits until the connection has a slot for a request of that rank. done gives the slot
// back. If ctx ends before, the error is unsent and ErrUnreachable. The requests of a key are
// sent by candidates that have a slot already.
func (a *Stream) Turn(ctx context.Context, r backend.Rank) (done func(), err error) {
	t, w := turn{granted: make(chan struct{})}, a.window
	done = func() { w.Return(&t.place, backend.Reply{}) }
	if w.Take(&t.place, r, &t, time.Time{}) { // the age of the line is that of candidates, by their clocks
		return done, nil
	}
	select {
	case <-t.granted:
		return done, nil
	case <-ctx.Done():
		done() // or leaves the line
		return nil, unsent{fmt.Errorf("%w: too many requests to stream %s are in flight: %w", backend.ErrUnreachable, a.Name, ctx.Err())}
	}
}

// turn waits for a slot.
type turn struct {
	place   backend.Place
	granted chan struct{}
}

// Granted implements [backend.Waiter].
func (t *turn) Granted() { close(t.granted) }
