package jsapi

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
)

// Connection is what all streams on one connection of nats.go share: it sends their requests
// and receives the replies.
//
// One goroutine, which runs while a request waits to be sent, hands the requests to nats.go
// in their order. Only that goroutine waits while nats.go holds the connection's lock, so
// only one is left behind. Replies come to one subscription, and its goroutine calls the
// functions that wait for them.
//
// nats.go has such a multiplexer for RequestMsgWithContext, and it blocks a goroutine for each
// request: 10,000 requests in flight take 10,000 goroutines and 4.9 kB each, and one goroutine and
// 0.8 kB each here. If the connection hangs, all those goroutines hang with it.
type Connection struct {
	nc    *nats.Conn
	inbox string // prefix of the subjects of replies, with the dot
	lanes lanes
	lone  atomic.Int32 // subscriptions without a lane
	pings [2]shared[struct{}]
	mover mover
	why   atomic.Pointer[backend.ConnError] // it is down; nil: it is up, or nothing is known
	again chan struct{}                     // full while a subscription is made again (Listen)

	mu        sync.Mutex            // not held during a call of nats.go, nor of reply
	first     *request              // to be handed to nats.go, or to be classified
	last      *request              // of the queue
	running   bool                  // the goroutine
	left      int                   // requests that were given up since the goroutine began its present step
	pending   map[string]*request   // by the last token of the subject of the reply
	delegated map[*request]struct{} // that nats.go has sent with an inbox of its own
	watched   bool                  // for denials
	denied    error                 // the last error of the connection at the last look for denials, which alone uses it
	hears     bool                  // the subscription to the replies exists
	primed    atomic.Bool           // nats.go has been given a request; see Connection.delegate
}

// connections has the values that ConnectionOf has returned. It keeps neither them nor the
// connections alive.
var connections = struct {
	mu  sync.Mutex
	all map[weak.Pointer[nats.Conn]]weak.Pointer[Connection]
}{all: make(map[weak.Pointer[nats.Conn]]weak.Pointer[Connection])}

// ConnectionOf returns the Connection of nc. There is one at a time. It lives as long as a
// Stream, another reference or a subscription uses it.
func ConnectionOf(nc *nats.Conn) *Connection {
	key := weak.Make(nc)
	connections.mu.Lock()
	defer connections.mu.Unlock()
	if c := connections.all[key].Value(); c != nil {
		return c
	}
	c := &Connection{nc: nc, inbox: nc.NewInbox() + ".", pending: make(map[string]*request), delegated: make(map[*request]struct{}), again: make(chan struct{}, 1)}
	connections.all[key] = weak.Make(c)
	runtime.AddCleanup(c, forgetConnection, key)
	return c
}

// forgetConnection is called when a Connection is gone.
func forgetConnection(key weak.Pointer[nats.Conn]) {
	connections.mu.Lock()
	defer connections.mu.Unlock()
	if connections.all[key].Value() == nil { // there may be another one by now
		delete(connections.all, key)
	}
}

// push puts a request into the queue. c is locked.
func (c *Connection) push(r *request) {
	if r.queued || r.stage == requestReplied {
		return
	}
	r.queued, r.prev = true, c.last
	if c.last == nil {
		c.first = r
	} else {
		c.last.next = r
	}
	c.last = r
	if !c.running {
		c.running = true
		go c.run()
	}
}

// remove takes a request out of the queue. c is locked.
func (c *Connection) remove(r *request) {
	if !r.queued {
		return
	}
	if r.prev == nil {
		c.first = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		c.last = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.queued, r.prev, r.next = false, nil, nil
}

// pop returns the next request of the queue, or nil, after which the goroutine has to end.
func (c *Connection) pop() (r *request, sent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = 0
	if r = c.first; r == nil {
		c.running = false
		return nil, false
	}
	c.remove(r)
	return r, r.stage == requestSent
}

// run hands requests to nats.go until none is left.
func (c *Connection) run() {
	for {
		switch r, sent := c.pop(); {
		case r == nil:
			return
		case sent:
			r.failed(r.ctx.Err())
		default:
			c.send(r)
		}
	}
}

// send hands a request to nats.go, or ends it.
func (c *Connection) send(r *request) {
	if err := c.hand(r); err != nil {
		r.end(nil, err)
	}
}

// hand hands a request to nats.go. An error ends the request.
func (c *Connection) hand(r *request) error {
	status, err := r.a.status()
	if err != nil {
		return unsent{err}
	}
	r.before = c.nc.LastError()
	if err := r.ctx.Err(); err != nil {
		return unsent{r.failure(err)}
	}
	if !c.primed.Load() || status != nats.CONNECTED || c.nc.Opts.UseOldRequestStyle {
		c.delegate(r)
		return nil
	}
	if err := c.listen(); err != nil {
		return r.failure(err)
	}
	if !c.register(r) {
		return nil
	}
	if err := c.nc.PublishMsg(r.msg); err != nil {
		return r.failure(err)
	}
	if r.advance(requestSends, requestSent) && r.ctx.Err() != nil {
		return r.failure(r.ctx.Err()) // expire has left it to this goroutine
	}
	return nil
}

// delegate has nats.go send a request with an inbox of its own, and on a goroutine. A
// connection that is being drained closes all subscriptions except the one to the replies
// of these requests. nats.go makes that one with the first request, and makes none while it
// drains. So the first request of each connection takes this way, too.
func (c *Connection) delegate(r *request) {
	c.mu.Lock()
	waits := r.stage == requestWaits
	if waits {
		r.stage = requestSent
		c.delegated[r] = struct{}{}
		c.watch()
	}
	c.mu.Unlock()
	if !waits {
		return
	}
	go func() {
		resp, err := c.nc.RequestMsgWithContext(r.ctx, r.msg)
		if err == nil || r.ctx.Err() == nil { // or nothing may have been sent
			c.primed.Store(true)
		}
		if err != nil {
			r.failed(err)
			return
		}
		r.end(resp, nil)
	}()
}

// listen subscribes to the replies. Only the goroutine that sends calls it.
func (c *Connection) listen() error {
	c.mu.Lock()
	hears := c.hears
	c.hears = true
	c.mu.Unlock()
	if hears {
		return nil
	}
	s, err := c.nc.Subscribe(c.inbox+"*", c.receive)
	if err == nil {
		s.SetClosedHandler(func(string) { c.deafen() })
		if s.IsValid() {
			return nil
		}
		err = nats.ErrConnectionClosed // it was closed before the handler was set
	}
	c.deafen()
	return err
}

// deafen ends the requests that wait for replies to a subscription that was closed. The
// connection is closed or being drained.
func (c *Connection) deafen() {
	c.mu.Lock()
	c.hears = false
	all := make([]*request, 0, len(c.pending))
	for _, r := range c.pending {
		all = append(all, r)
	}
	c.mu.Unlock()
	for _, r := range all {
		r.failed(nats.ErrConnectionClosed)
	}
}

// The last token of the subject of a reply. A responder knows the subject of the reply to
// its request, and must not be able to guess another.
const (
	tokenLength  = 8
	tokenLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// register prepares for the reply to a request that is about to be sent. It returns false if
// the request must not be sent any more.
func (c *Connection) register(r *request) bool {
	subject := make([]byte, len(c.inbox), len(c.inbox)+tokenLength)
	copy(subject, c.inbox)
	for n := rand.Uint64(); len(subject) < cap(subject); n /= uint64(len(tokenLetters)) {
		subject = append(subject, tokenLetters[n%uint64(len(tokenLetters))])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.stage != requestWaits {
		return false
	}
	r.msg.Reply = string(subject)
	r.token = r.msg.Reply[len(c.inbox):]
	if _, used := c.pending[r.token]; used || !c.hears {
		r.token = ""
		c.push(r) // again, with another token, or when the connection is known to be closed
		return false
	}
	r.stage = requestSends
	c.pending[r.token] = r
	c.watch()
	return true
}

// receive takes a reply. A reply to a request that has ended is ignored.
func (c *Connection) receive(m *nats.Msg) {
	token, _ := strings.CutPrefix(m.Subject, c.inbox)
	c.mu.Lock()
	r := c.pending[token]
	if r != nil {
		r.close()
	}
	c.mu.Unlock()
	switch {
	case r == nil:
		return
	case len(m.Data) == 0 && m.Header.Get("Status") == "503": // as nats.go decides
		r.finish(nil, r.failure(nats.ErrNoResponders))
	default:
		r.finish(m, nil)
	}
}

// The server does not reply to a request that it denies. It reports the denial to the
// connection, before it answers a ping that was sent after the request. nats.go keeps the last
// error only. So of requests that are denied between two looks at it, one is known to be denied.
// The others may be denied, too, or their replies may be late. They go on, but do not
// keep their slots of the window: thousands of them would keep sound requests waiting.
const (
	// calmPause is the time from a request to the first look, and between looks.
	calmPause = 20 * time.Millisecond
	// busyPause is that time after a look that has found a denial. More of them are likely.
	busyPause = time.Millisecond
)

// watch begins to look for denials, unless that has begun. It goes on while a request waits for
// its reply. c is locked.
func (c *Connection) watch() {
	if !c.watched {
		c.watched = true
		deadline.After(calmPause, c.look)
	}
}

// look looks for denials once, and then again after a pause. It may wait for the connection's
// lock, and no other look begins meanwhile.
func (c *Connection) look() {
	c.mu.Lock()
	all := make([]*request, 0, len(c.pending)+len(c.delegated))
	for _, r := range c.pending {
		all = append(all, r)
	}
	for r := range c.delegated {
		all = append(all, r)
	}
	c.watched = len(all) > 0
	c.mu.Unlock()
	if len(all) == 0 {
		return
	}
	pause := calmPause
	if last := c.denial(); last != nil && endDenied(all, last) {
		pause = busyPause
	}
	deadline.After(pause, c.look)
}

// denial returns the last error of the connection if it is a denial that was not there at the
// look before, and nil otherwise.
func (c *Connection) denial() error {
	if c.nc.Status() != nats.CONNECTED {
		return nil
	}
	ctx, cancel := deadline.Within(context.Background(), deadline.Default)
	defer cancel()
	if c.nc.FlushWithContext(ctx) != nil {
		return nil
	}
	last, before := c.nc.LastError(), c.denied
	c.denied = last
	if last == before || !errors.Is(last, nats.ErrPermissionViolation) { //nolint:errorlint // the same value, not the same kind
		return nil
	}
	return last
}

// endDenied ends the requests that the error is about, and reports whether there are any. Others
// to the same stream may have been denied, too, so they keep no slots.
func endDenied(all []*request, last error) (found bool) {
	for _, r := range all {
		if err := r.a.deniedBy(last, r.msg.Subject, r.before); err != nil {
			found = true
			r.a.window.Clear() // first, so that it clears no slot that a caller takes once it has the error
			r.end(nil, err)
		}
	}
	return found
}
