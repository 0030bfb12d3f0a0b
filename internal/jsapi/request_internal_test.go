package jsapi

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

// A request that has its reply forgets its context, which may live for long.
func TestRequest_ForgetsItsContext(t *testing.T) {
	withWire(t, func(t *wired) {
		for _, primed := range []bool{false, true} {
			t.a.conn.primed.Store(primed)
			for _, subject := range []string{"echo", "nobody"} {
				ctx := &observed{Context: t.Context()}
				t.ask(ctx, subject, "")
				ctx.wantUnwatched(t.T)
			}
		}
	})
}

// The context of a request ends while nats.go writes the request. The request ends when the
// write has ended, if that is soon, and else without it. The write has begun, so the request may
// have been sent. A request that waits behind it ends at the same time, and was not sent.
func TestRequest_EndsDuringWrite(t *testing.T) {
	for name, tt := range map[string]struct{ write, after time.Duration }{
		"short": {patience / 2, time.Second + patience/2},
		"long":  {time.Minute, time.Second + patience},
	} {
		t.Run(name, func(t *testing.T) {
			withWire(t, func(t *wired) {
				t.serve("silence", func(*nats.Msg) {})
				large := strings.Repeat("x", 1<<17) // larger than the buffer, so it is written at once
				t.want("before", t.ask(t.Context(), "echo", "x"), "x", nil, 0)
				freeze := make(chan struct{})
				looks := func(not bool) { // a look would wait for nats.go's lock, and time would not pass
					t.a.conn.mu.Lock()
					defer t.a.conn.mu.Unlock()
					t.a.conn.watched = not
				}
				time.Sleep(10 * time.Second) // the looks have ended, and the server has sent its first ping
				looks(true)
				defer looks(false)
				t.mu.Lock()
				t.freeze, t.frozen = freeze, make(chan struct{})
				t.mu.Unlock()
				r := t.ask(t.within(time.Second), "silence", large)
				synctest.Wait()
				behind := t.ask(t.within(time.Second), "silence", "")
				time.Sleep(time.Second + min(tt.write, 2*patience))
				t.mu.Lock()
				t.freeze = nil
				t.mu.Unlock()
				close(freeze)
				t.want("the request", r, "", backend.ErrUnreachable, tt.after)
				check.That(t, IsUnanswered(r.err), "it may have been sent: %v", r.err)
				t.want("the request behind it", behind, "", backend.ErrUnreachable, tt.after)
				check.That(t, IsUnsent(behind.err), "it was not sent: %v", behind.err)
				why := t.a.ConnError()
				check.That(t, (name == "long") == (why != nil) && (why == nil || why.Error() == "timeout: the network does not answer"), "it is down: %v", why)
				t.want("after", t.ask(t.Context(), "echo", "x"), "x", nil, 0)
				check.OK(t, t.a.ConnError())
			})
		})
	}
}

// A request that has ended is not registered for a reply, so it is not sent. One that finds the
// subscription to the replies closed goes back to the queue.
func TestConnection_RegistersWaitingRequests(t *testing.T) {
	withWire(t, func(t *wired) {
		c := t.a.conn
		t.want("before", t.ask(t.Context(), "echo", "x"), "x", nil, 0)
		never, ignore := func() bool { return true }, func(*nats.Msg, error) {}
		ended := &request{a: &t.a, c: c, ctx: t.Context(), msg: &nats.Msg{Subject: "echo"}, stop: never, reply: ignore, stage: requestReplied}
		check.That(t, !c.register(ended) && len(c.pending) == 0, "a request that has ended may be sent")
		heard := 0
		t.serve("ended", func(*nats.Msg) { heard++ })
		ended.msg.Subject = "ended"
		check.OK(t, c.hand(ended))
		c.delegate(ended)
		synctest.Wait()
		check.Equal(t, heard, 0, "a request that has ended was sent %d times")
		c.mu.Lock()
		c.hears, c.running = false, true // nothing is sent meanwhile
		c.mu.Unlock()
		waits := &request{a: &t.a, c: c, ctx: t.Context(), msg: &nats.Msg{Subject: "echo"}, stop: never, reply: ignore}
		check.That(t, !c.register(waits) && len(c.pending) == 0 && c.first == waits && waits.token == "",
			"a request may be sent whose reply nobody hears")
		left := t.a.Left()
		check.That(t, left.Requests == 1, "left: %+v", left)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.remove(waits)
		c.hears, c.running = true, false
	})
}

// The queue keeps its order while requests leave it from anywhere.
func TestConnection_Queue(t *testing.T) {
	c := &Connection{running: true}
	requests := make([]*request, 5)
	for i := range requests {
		requests[i] = &request{c: c}
		c.push(requests[i])
	}
	for _, i := range []int{2, 2, 0, 4} {
		c.remove(requests[i])
	}
	c.push(requests[2])
	c.left = maxLeft
	var order []int
	for r, _ := c.pop(); r != nil && len(order) < 10; r, _ = c.pop() {
		order = append(order, slices.Index(requests, r))
	}
	check.That(t, slices.Equal(order, []int{1, 3, 2}) && !c.running && c.last == nil && c.left == 0,
		"the order is %v, running: %v, %d were left", order, c.running, c.left)
}

// A zero stream sends nothing.
func TestStream_Zero(t *testing.T) {
	var a Stream
	var got error
	a.RequestThen(t.Context(), &nats.Msg{}, func(_ *nats.Msg, err error) { got = err })
	_, asked := a.Info(t.Context())
	for what, err := range map[string]error{"a request": got, "a question": asked} {
		check.That(t, errors.Is(err, backend.ErrInvalidConfig) && errors.Is(err, backend.ErrNotOpened) && IsUnsent(err),
			"%s: %v", what, err)
	}
	check.Is(t, a.Connected(), backend.ErrNotOpened)
	a.Move(0, func(string) bool { t.Error("it moves"); return false })
	a.DeleteConsumer("")
	check.Equal(t, a.Left(), Left{}, "left: %+v")
	tries, forever := a.Reconnects()
	check.That(t, tries == 0 && forever && a.LastError() == nil, "%d reconnections, forever: %v, last error: %v", tries, forever, a.LastError())
}

// A message belongs to its owner again when Request has returned, although the request may
// still be sent.
func TestRequest_CopiesItsMessage(t *testing.T) {
	withWire(t, func(t *wired) {
		var heard []string
		t.serve("ask", func(m *nats.Msg) { heard = append(heard, string(m.Data)+m.Header.Get("X")) })
		data := []byte("mine")
		c := t.a.conn
		c.hold() // nothing is sent meanwhile
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, _ = t.a.Request(ctx, &nats.Msg{Subject: "ask", Header: nats.Header{"X": {"-x"}}, Data: data})
		}()
		synctest.Wait()
		copy(data, "gone")
		go c.run()
		synctest.Wait()
		cancel()
		synctest.Wait()
		check.That(t, slices.Equal(heard, []string{"mine-x"}), "sent: %q", heard)
	})
}

// A request that nats.go sends with an inbox of its own ends with its context, and with the
// connection. If nothing was sent, the next request goes the same way, because nats.go may not
// have its subscription to replies yet.
func TestRequest_EndsDelegated(t *testing.T) {
	withWire(t, func(t *wired) {
		t.serve("silence", func(*nats.Msg) {})
		for _, tt := range []struct {
			ends   time.Duration
			primed bool
		}{{time.Second, false}, {time.Minute, true}} {
			t.a.conn.primed.Store(false)
			r := t.ask(t.within(tt.ends), "silence", "")
			synctest.Wait()
			left := t.a.Left()
			check.That(t, left.Requests == 1, "left: %+v", left)
			t.a.conn.mu.Lock()
			for r := range t.a.conn.delegated {
				check.Equal(t, r.stage, requestSent, "a request that may have been sent is in stage %d")
			}
			t.a.conn.mu.Unlock()
			time.Sleep(2 * time.Second)
			if tt.primed {
				t.a.Conn.Close()
				t.want("closed", r, "", backend.ErrConnectionClosed, 2*time.Second)
			} else {
				t.want("silence", r, "", backend.ErrUnreachable, time.Second)
			}
			if left, primed := t.a.Left(), t.a.conn.primed.Load(); left.Requests != 0 || primed != tt.primed {
				t.Errorf("left: %+v, primed: %v", left, primed)
			}
		}
	})
}

// A request is replied to once, whatever ends it in addition.
func TestRequest_RepliesOnce(t *testing.T) {
	withWire(t, func(t *wired) {
		c, replies := t.a.conn, 0
		ctx := check.Ended()
		r := &request{a: &t.a, c: c, ctx: ctx, msg: &nats.Msg{Subject: "x"}, stop: func() bool { return true }, reply: func(*nats.Msg, error) { replies++ }}
		for range 2 {
			r.end(nil, nil)
			r.leave()
		}
		check.That(t, replies == 1 && c.left == 0, "%d replies, %d left behind", replies, c.left)
	})
}

// A request whose reply cannot be received ends with the reason, and so does the next one, until the
// subscription to the replies can be made.
func TestConnection_CannotListen(t *testing.T) {
	withWire(t, func(t *wired) {
		c := t.a.conn
		inbox := c.inbox
		c.inbox = "no..subject."
		for range 2 {
			t.want("no subscription", t.ask(t.within(time.Minute), "echo", "x"), "", nats.ErrBadSubject, 0)
		}
		c.inbox = inbox
		t.want("afterwards", t.ask(t.Context(), "echo", "x"), "x", nil, 0)
	})
}

// After the subscription to the replies was closed, the next request makes another one.
func TestConnection_ListensAgain(t *testing.T) {
	withWire(t, func(t *wired) {
		t.serve("silence", func(*nats.Msg) {})
		t.want("before", t.ask(t.Context(), "echo", "x"), "x", nil, 0)
		r := t.ask(t.within(time.Minute), "silence", "")
		synctest.Wait()
		before := t.a.Conn.NumSubscriptions()
		t.a.conn.deafen() // nats.go keeps the subscription here
		t.want("in flight", r, "", backend.ErrUnreachable, 0)
		t.want("after", t.ask(t.Context(), "echo", "y"), "y", nil, 0)
		n := t.a.Conn.NumSubscriptions()
		check.That(t, n == before+1, "%d subscriptions, and %d before", n, before)
		t.a.Conn.Close()
	})
}

// A connection takes no more requests while as many as it may have are left behind.
func TestConnection_BoundsThoseLeftBehind(t *testing.T) {
	withWire(t, func(t *wired) {
		c := t.a.conn
		ctx := check.Ended()
		leave := func(n int) {
			for range n {
				(&request{a: &t.a, c: c, ctx: ctx, reply: func(*nats.Msg, error) {}}).leave()
			}
		}
		c.hold() // nothing is sent meanwhile
		leave(maxLeft - 1)
		last := t.ask(t.within(time.Minute), "echo", "x")
		leave(1)
		rejected := t.ask(t.within(time.Minute), "echo", "x")
		t.want("one too many", rejected, "", backend.ErrUnreachable, 0)
		if !IsUnsent(rejected.err) || t.a.Left().Requests != 1 {
			t.Errorf("%v, left: %+v", rejected.err, t.a.Left())
		}
		go c.run()
		t.want("the last one", last, "x", nil, 0)
	})
}
