package jsapi

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/deadline"
)

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
