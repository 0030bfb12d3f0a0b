package jsapi

import (
	"context"
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
)

// The window of a stream on a connection. A server does all that it can with a few requests in
// flight, and with more than mostSlots each one only waits longer.
const (
	leastSlots = 32
	mostSlots  = 512
)

// Window returns the window for requests to the stream on its connection; nil for a zero value.
// Each stream has its own: one that hangs must not keep the elections of another waiting.
func (a *Stream) Window() *backend.Window { return a.window }

// urgent is after what time in line a request goes before the reads of waiting candidates.
const urgent = 5 * time.Second

// Turn waits until the connection has a slot for a request. The request has the rank of a waiting
// candidate's read, and that of its write after some time, because reads that the server does not
// answer may have all slots of theirs. done gives the slot back. If ctx ends before, the error is
// unsent and ErrUnreachable. The requests of a key are sent by candidates that have a slot already.
func (a *Stream) Turn(ctx context.Context) (done func(), err error) {
	t, w := turn{granted: make(chan struct{})}, a.window
	done = func() { w.Return(&t.place, backend.Reply{}) }
	take := func(r backend.Rank) bool {
		return w.Take(&t.place, r, &t, time.Time{}) // no instant: only candidates, which have clocks, count how long they wait
	}
	if take(backend.RankRead) {
		return done, nil
	}
	waited, cancel := deadline.Within(context.Background(), urgent)
	defer cancel()
	for late := waited.Done(); ; {
		select {
		case <-t.granted:
			return done, nil
		case <-late:
			if late = nil; take(backend.RankTake) {
				return done, nil
			}
		case <-ctx.Done():
			done() // or leaves the line
			return nil, unsent{fmt.Errorf("%w: too many requests to stream %s are in flight: %w", backend.ErrUnreachable, a.Name, ctx.Err())}
		}
	}
}

// turn waits for a slot.
type turn struct {
	place   backend.Place
	granted chan struct{}
}

// Granted implements [backend.Waiter].
func (t *turn) Granted() { close(t.granted) }
