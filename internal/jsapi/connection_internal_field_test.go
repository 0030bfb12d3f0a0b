//go:build field

package jsapi

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

// block makes nats.go hold its lock until the result is called.
func (w *wired) block() (release func()) {
	w.Helper()
	freeze, frozen := make(chan struct{}), make(chan struct{})
	w.mu.Lock()
	w.freeze, w.frozen = freeze, frozen
	w.mu.Unlock()
	w.ok(w.a.Conn.Publish("nothing", nil))
	<-frozen
	return sync.OnceFunc(func() {
		w.mu.Lock()
		w.freeze = nil
		w.mu.Unlock()
		close(freeze)
	})
}

// While nats.go holds its lock, a request ends soon after its context and is not sent later.
// One goroutine waits for all of them, and one that looks for denials. It is not in a bubble, because a goroutine that waits
// for a lock keeps the time of a bubble from passing.
func TestConnection_Blocked(t *testing.T) {
	emptyPools()
	wireUp(t, func(t *wired) {
		var mu sync.Mutex
		var heard []string
		t.serve("ask", func(m *nats.Msg) {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, string(m.Data))
		})
		type reply struct {
			what string
			err  error
		}
		replies := make(chan reply, 2*maxLeft)
		ask := func(ctx context.Context, what string) {
			t.a.RequestThen(ctx, &nats.Msg{Subject: "ask", Data: []byte(what)}, func(_ *nats.Msg, err error) { replies <- reply{what, err} })
		}
		next := func() reply {
			select {
			case r := <-replies:
				return r
			case <-time.After(5 * time.Second):
				t.Fatal("a request has no reply although its context has ended, or too many are left behind")
				return reply{}
			}
		}
		lost, give := context.WithCancel(t.Context())
		ask(lost, "in flight")
		check.Soon(t, "the request in flight is sent", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(heard) == 1
		}, runtime.Gosched)
		release := t.block()
		defer release()
		before := runtime.NumGoroutine()
		for range maxLeft - 1 {
			ask(lost, "lost")
		}
		ask(t.Context(), "patient")
		n := runtime.NumGoroutine() - before
		check.That(t, n <= 2, "%d goroutines wait", n)
		give()
		for range maxLeft {
			r := next()
			check.That(t, errors.Is(r.err, backend.ErrUnreachable) && IsUnsent(r.err) != (r.what == "in flight"),
				"%s: %v", r.what, r.err)
		}
		ask(t.Context(), "rejected")
		r := next()
		check.That(t, r.what == "rejected" && errors.Is(r.err, backend.ErrUnreachable) && IsUnsent(r.err),
			"%s: %v", r.what, r.err)
		release()
		for answered, from := false, time.Now(); !answered; runtime.Gosched() {
			check.Must(t, time.Since(from) <= time.Minute, "requests are rejected although nats.go goes on")
			_, err := t.a.Request(t.Context(), &nats.Msg{Subject: "echo"}) // rejected until the goroutine goes on
			answered = err == nil
		}
		err := t.replier.Flush()
		check.That(t, err == nil, "%v", err)
		mu.Lock()
		defer mu.Unlock()
		want := []string{"in flight", "patient"}
		check.That(t, slices.Equal(heard, want) && len(replies) == 0, "sent: %q", heard)
	})
}
