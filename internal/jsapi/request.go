package jsapi

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
)

// The stages of a request.
type requestStage int

const (
	requestWaits   requestStage = iota // not handed to nats.go
	requestSends                       // being handed to nats.go
	requestSent                        // a reply may come
	requestReplied                     // reply was called, or is about to be
)

// request is one request. The fields after reply are guarded by the Connection.
type request struct {
	a     *Stream
	c     *Connection
	ctx   context.Context //nolint:containedctx // of the request
	msg   *nats.Msg
	stop  func() bool // ends the watch of ctx
	reply func(*nats.Msg, error)

	stage      requestStage
	before     error  // the last error of the connection from before the request was sent: a later one may be its denial
	token      string // in Connection.pending
	queued     bool
	prev, next *request // in the queue
}

// RequestThen sends a request once and replies with the response. It returns at once. reply must
// not block. The error is unsent if the request was not sent and will not be. m belongs to
// the request from here on.
func (a *Stream) RequestThen(ctx context.Context, m *nats.Msg, reply func(*nats.Msg, error)) {
	if err := a.Opened(); err != nil {
		reply(nil, unsent{err})
		return
	}
	r := &request{a: a, c: a.conn, ctx: ctx, msg: m, reply: reply}
	r.stop = context.AfterFunc(ctx, r.expire)
	r.c.mu.Lock()
	if left := r.c.left; left >= maxLeft {
		r.c.mu.Unlock()
		r.end(nil, unsent{fmt.Errorf("%w: the connection does not take what is sent, and %d calls have waited for it", backend.ErrUnreachable, left)})
		return
	}
	r.c.push(r)
	r.c.mu.Unlock()
}

// advance takes a request from one stage to another, and returns false if it is in another.
func (r *request) advance(from, to requestStage) bool {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if r.stage != from {
		return false
	}
	r.stage = to
	return true
}

// failed ends a request with the reason why there is no reply.
func (r *request) failed(err error) { r.end(nil, r.failure(err)) }

// failure returns that reason. It may wait for the connection's lock.
func (r *request) failure(err error) error { return r.a.failure(r.msg.Subject, r.before, err) }

// end replies, unless that was done before.
func (r *request) end(resp *nats.Msg, err error) {
	r.c.mu.Lock()
	if r.stage == requestReplied {
		r.c.mu.Unlock()
		return
	}
	r.close()
	r.c.mu.Unlock()
	r.finish(resp, err)
}

// finish replies. r is closed.
func (r *request) finish(resp *nats.Msg, err error) {
	r.stop()
	r.reply(resp, err)
}

// close makes r a request that is replied to. The Connection is locked.
func (r *request) close() {
	r.stage = requestReplied
	r.c.remove(r)
	delete(r.c.delegated, r)
	if r.token != "" {
		delete(r.c.pending, r.token)
	}
}

// expire is called when the context of a request has ended. The reason why there is no
// reply is read under the connection's lock, so the Connection's goroutine finds it.
func (r *request) expire() {
	r.c.mu.Lock()
	over := r.stage == requestReplied
	if r.stage == requestSent {
		r.c.push(r)
	}
	r.c.mu.Unlock()
	if !over {
		deadline.After(patience, r.leave)
	}
}

// leave ends a request while nats.go holds up the Connection's goroutine.
func (r *request) leave() {
	r.c.mu.Lock()
	if r.stage == requestReplied {
		r.c.mu.Unlock()
		return
	}
	waits := r.stage == requestWaits
	r.close()
	r.c.left++
	r.c.mu.Unlock()
	r.c.heldUp()
	err := fmt.Errorf("%w: the connection does not take what is sent: %w", backend.ErrUnreachable, r.ctx.Err())
	outcome := error(unanswered{err})
	if waits {
		outcome = unsent{err}
	}
	r.reply(nil, outcome)
}
