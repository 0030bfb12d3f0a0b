package jsapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/deadline"
)

// wired is a server in a bubble with two connections: one sends the requests, and the other
// replies to them.
type wired struct {
	*testing.T
	s       *server.Server
	a       Stream
	replier *nats.Conn

	mu     sync.Mutex
	conn   net.Conn
	freeze chan struct{} // not nil: writes block until it is closed
	frozen chan struct{} // closed by a write that blocks
	deaf   chan struct{} // not nil: what the server sends is held back until it is closed
	pings  int           // sent by the client
	denies int           // how many of the next pings come just after a message that the server denies
	ends   []func()      // of the contexts of requests
	denied bool          // new connections are
}

// ok ends the test if there is an error.
func (w *wired) ok(err error) {
	w.Helper()
	check.OK(w, err)
}

func withWire(t *testing.T, f func(w *wired), opts ...func(*server.Options)) {
	t.Helper()
	emptyPools()
	synctest.Test(t, func(t *testing.T) {
		wireUp(t, func(w *wired) {
			synctest.Wait() // the goroutine of the first request has ended
			held, subscriptions := deadline.Held(), w.a.Conn.NumSubscriptions()
			f(w)
			w.wantNothingLeft(held, subscriptions)
		}, opts...)
	})
}

// wantNothingLeft checks that nothing is left of requests whose contexts have ended and of
// subscriptions that were closed.
func (w *wired) wantNothingLeft(held, subscriptions int) {
	w.Helper()
	for _, end := range w.ends {
		end()
	}
	time.Sleep(2 * lapse)
	synctest.Wait()
	w.mu.Lock()
	w.pings = 0
	w.mu.Unlock()
	time.Sleep(time.Second)
	synctest.Wait()
	w.wantPings(0)
	c := w.a.conn
	c.mu.Lock()
	if c.hears {
		subscriptions++
	}
	busy := c.running || c.watched
	c.mu.Unlock()
	n := w.a.Conn.NumSubscriptions()
	check.That(w, n <= subscriptions, "nats.go has %d subscriptions too many", n-subscriptions)
	check.Equal(w, deadline.Held()-held, 0, "%d limits were not released")
	left, calls := w.a.Left(), w.a.left.Load()
	check.That(w, left == (Left{}) && !busy && calls == 0, "left: %+v, %d calls, busy: %v", left, calls, busy)
}

// emptyPools collects twice, which empties nats.go's pool of timers. They must not get from
// one bubble to another, or out of one.
func emptyPools() {
	runtime.GC()
	runtime.GC()
}

func wireUp(t *testing.T, f func(w *wired), opts ...func(*server.Options)) {
	t.Helper()
	denied := &server.SubjectPermission{Deny: []string{"denied.>"}}
	o := &server.Options{DontListen: true, NoSigs: true, NoLog: true, Users: []*server.User{{
		Username: "u", Password: "x", Permissions: &server.Permissions{Publish: denied, Subscribe: denied},
	}}}
	for _, opt := range opts {
		opt(o)
	}
	s, err := server.NewServer(o)
	w := &wired{T: t, s: s}
	w.ok(err)
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	user, quiet := nats.UserInfo("u", "x"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	nc, err := nats.Connect("", nats.InProcessServer(w), user, quiet, nats.IgnoreAuthErrorAbort(), nats.ReconnectWait(time.Second), nats.ReconnectJitter(0, 0))
	w.ok(err)
	defer nc.Close()
	w.replier, err = nats.Connect("", nats.InProcessServer(s), user)
	w.ok(err)
	defer w.replier.Close()
	js, err := jetstream.New(nc)
	w.ok(err)
	w.a.Init(js, "S")
	w.serve("echo", func(m *nats.Msg) { _ = m.Respond(m.Data) })
	_, err = w.a.Request(t.Context(), &nats.Msg{Subject: "echo"}) // the first one is nats.go's
	w.ok(err)
	f(w)
}

// InProcessConn implements nats.InProcessConnProvider.
func (w *wired) InProcessConn() (net.Conn, error) {
	c, err := w.s.InProcessConn()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conn = c
	if w.denied {
		near, far := net.Pipe()
		go deny(far)
		return near, c.Close()
	}
	return &freezing{c, w}, err
}

// refuse lets the server deny new connections.
func (w *wired) refuse(denied bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.denied = denied
}

// deny is a server that has revoked the user.
func deny(c net.Conn) {
	_, _ = c.Write([]byte("INFO {}\r\n"))
	for b := make([]byte, 4096); ; {
		if n, err := c.Read(b); err != nil || bytes.HasSuffix(b[:n], []byte("PING\r\n")) {
			break
		}
	}
	_, _ = c.Write([]byte("-ERR 'Authorization Violation'\r\n"))
	_ = c.Close()
}

type freezing struct {
	net.Conn
	w *wired
}

// Write implements net.Conn.
func (f *freezing) Write(b []byte) (int, error) {
	f.w.mu.Lock()
	freeze, frozen := f.w.freeze, f.w.frozen
	pings := bytes.Count(b, []byte("PING\r\n"))
	f.w.pings += pings
	denied := min(pings, f.w.denies)
	f.w.denies -= denied
	f.w.mu.Unlock()
	for range denied {
		if _, err := f.Conn.Write([]byte("PUB denied.other 0\r\n\r\n")); err != nil {
			return 0, err
		}
	}
	if freeze != nil {
		close(frozen) // only one goroutine of nats.go writes at a time
		<-freeze
	}
	return f.Conn.Write(b)
}

// Read implements net.Conn.
func (f *freezing) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	f.w.mu.Lock()
	deaf := f.w.deaf
	f.w.mu.Unlock()
	if deaf != nil {
		<-deaf
		if closed := f.SetReadDeadline(time.Time{}); closed != nil {
			return 0, closed // what was held back is lost
		}
	}
	return n, err
}

// lose breaks the connection.
func (w *wired) lose() {
	w.mu.Lock()
	_ = w.conn.Close()
	w.mu.Unlock()
	synctest.Wait()
}

// hold lets requests wait in the queue from now on.
func (c *Connection) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = true
}

// serve handles the messages of a subject.
func (w *wired) serve(subject string, handle nats.MsgHandler) {
	w.Helper()
	check.OK(w, check.Err(w.replier.Subscribe(subject, handle)))
	w.ok(w.replier.Flush())
}

// sent is a request, and its reply if there was one.
type sent struct {
	replies int
	resp    *nats.Msg
	err     error
	after   time.Duration
}

// ask sends a request. The reply must be read after synctest.Wait only.
func (w *wired) ask(ctx context.Context, subject, data string) *sent {
	var mu sync.Mutex
	r, began := &sent{}, time.Now()
	w.a.RequestThen(ctx, &nats.Msg{Subject: subject, Data: []byte(data)}, func(m *nats.Msg, err error) {
		mu.Lock()
		defer mu.Unlock()
		r.replies++
		r.resp, r.err, r.after = m, err, time.Since(began)
	})
	return r
}

// want checks the reply to a request.
func (w *wired) want(what string, r *sent, data string, err error, after time.Duration) {
	w.Helper()
	synctest.Wait()
	got := ""
	if r.resp != nil {
		got = string(r.resp.Data)
	}
	check.That(w, r.replies == 1 && got == data && errors.Is(r.err, err) && r.after == after,
		"%s: %d replies, the last with %q, %v after %v", what, r.replies, got, r.err, r.after)
}

func (w *wired) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(w.Context(), d)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends = append(w.ends, cancel)
	return ctx
}

// Requests are sent in their order. A reply counts for its own request, once and in time.
func TestConnection_Replies(t *testing.T) {
	withWire(t, func(t *wired) {
		var asked []*nats.Msg
		t.serve("ask", func(m *nats.Msg) { asked = append(asked, m) })
		var all []*sent
		for i := range 100 {
			all = append(all, t.ask(t.within(time.Minute), "ask", fmt.Sprint(i)))
		}
		late := t.ask(t.within(time.Second), "ask", "late")
		synctest.Wait()
		subjects := make(map[string]bool)
		for i, m := range asked[:100] {
			subjects[m.Reply] = true
			check.Must(t, string(m.Data) == fmt.Sprint(i), "message %d is %q", i, m.Data)
		}
		check.That(t, len(subjects) == 100, "%d subjects of replies", len(subjects))
		time.Sleep(2 * time.Second)
		t.want("late", late, "", backend.ErrUnreachable, time.Second)
		check.That(t, !IsUnsent(late.err) && IsUnanswered(late.err) && errors.Is(late.err, context.DeadlineExceeded),
			"it was sent, and there was no reply: %v", late.err)
		for _, m := range slices.Backward(asked) {
			for _, text := range []string{"x" + string(m.Data), "second"} {
				t.ok(m.Respond([]byte(text)))
			}
		}
		inbox := asked[0].Reply[:strings.LastIndexByte(asked[0].Reply, '.')+1]
		for _, subject := range []string{inbox + "00000000", inbox + "x"} {
			t.ok(t.replier.Publish(subject, []byte("forged")))
		}
		for i, r := range all {
			t.want(fmt.Sprint(i), r, fmt.Sprint("x", i), nil, 2*time.Second)
		}
		t.want("late", late, "", backend.ErrUnreachable, time.Second)
		check.Equal(t, len(t.a.conn.pending), 0, "%d requests are kept")
	})
}

// The reasons why there is no reply.
func TestConnection_Failures(t *testing.T) {
	withWire(t, func(t *wired) {
		t.serve("silence", func(*nats.Msg) {})
		r := t.ask(t.Context(), "nobody", "")
		t.want("no responders", r, "", nats.ErrNoResponders, 0)
		t.serve("busy", func(m *nats.Msg) {
			_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"503"}}, Data: []byte("why")})
		})
		t.want("an error of the responder", t.ask(t.Context(), "busy", ""), "why", nil, 0)
		r = t.ask(t.Context(), "echo", strings.Repeat("x", 2<<20))
		t.want("too large", r, "", backend.ErrValueTooLarge, 0)
		r = t.ask(check.Ended(), "echo", "")
		t.want("over before", r, "", backend.ErrUnreachable, 0)
		check.That(t, IsUnsent(r.err), "it was not sent: %v", r.err)

		// A lost connection has a reply later, or none.
		lost := t.ask(t.within(10*time.Second), "silence", "")
		synctest.Wait()
		t.lose()
		down := t.ask(t.Context(), "echo", "")
		t.want("while disconnected", down, "", backend.ErrUnreachable, 0)
		check.That(t, IsUnsent(down.err), "it was not sent: %v", down.err)
		time.Sleep(5 * time.Second)
		t.want("reconnected", t.ask(t.Context(), "echo", "x"), "x", nil, 0)
		time.Sleep(10 * time.Second)
		t.want("lost", lost, "", backend.ErrUnreachable, 10*time.Second)

		r = t.ask(t.Context(), "silence", "")
		time.Sleep(time.Second)
		t.a.Conn.Close()
		t.want("closed", r, "", backend.ErrConnectionClosed, time.Second)
		r = t.ask(t.Context(), "silence", "")
		t.want("closed before", r, "", backend.ErrConnectionClosed, 0)
		check.Is(t, check.Err(t.a.Info(t.Context())), backend.ErrConnectionClosed)
	})
}

// Callers that ask for the settings at the same time share requests, and each is told which reply it misses.
func TestInfo_IsShared(t *testing.T) {
	withWire(t, func(t *wired) {
		asked := 0
		t.serve("$JS.API.STREAM.INFO.S", func(*nats.Msg) { asked++ })
		failed := make(chan error, 1000)
		for range cap(failed) {
			go func() {
				_, err := t.a.Info(t.within(time.Second))
				failed <- err
			}()
		}
		for range cap(failed) {
			err := <-failed
			check.Must(t, IsUnanswered(err) && strings.Contains(err.Error(), "$JS.API.STREAM.INFO.S"), "%v", err)
		}
		check.That(t, asked == 2, "%d requests", asked)
	})
}

// While the connection is drained, requests are sent and answered until the subscriptions of
// the application have ended.
func TestConnection_Drained(t *testing.T) {
	withWire(t, func(t *wired) {
		t.serve("silence", func(*nats.Msg) {})
		slow := make(chan struct{})
		check.OK(t, check.Err(t.a.Conn.Subscribe("slow", func(*nats.Msg) { <-slow })))
		t.ok(t.a.Conn.Publish("slow", nil))
		t.want("before", t.ask(t.Context(), "echo", "x"), "x", nil, 0)
		r := t.ask(t.within(time.Minute), "silence", "")
		synctest.Wait()
		t.ok(t.a.Conn.Drain())
		time.Sleep(time.Second)
		synctest.Wait()
		check.That(t, r.replies == 1 && errors.Is(r.err, backend.ErrUnreachable), "in flight: %+v", r)
		t.want("while draining", t.ask(t.Context(), "echo", "y"), "y", nil, 0)
		close(slow)
		time.Sleep(time.Minute)
		t.want("drained", t.ask(t.Context(), "echo", "z"), "", backend.ErrConnectionClosed, 0)
	})
}

// A connection has one Connection, which is forgotten with it.
func TestConnectionOf_IsWeak(t *testing.T) {
	var key weak.Pointer[nats.Conn]
	withWire(t, func(t *wired) {
		check.That(t, ConnectionOf(t.a.Conn) == t.a.conn, "another one")
		key = weak.Make(t.a.Conn)
	})
	for range 100 {
		runtime.GC()
		connections.mu.Lock()
		_, kept := connections.all[key]
		connections.mu.Unlock()
		if !kept {
			return
		}
		runtime.Gosched()
	}
	t.Error("it is kept")
}
