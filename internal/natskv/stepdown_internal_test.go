package natskv

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

// The time of a step-down listener's opening counts from when it has a slot. One that waits in
// line leaves when its context ends.
func TestListen_WaitsInLine(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		b := mustCreate(t, dialJS(t, t.s), Config{})
		listen := func(ctx context.Context) <-chan error {
			outcome := make(chan error, 1)
			b.Listen(ctx, "a", func([]byte, func([]byte)) {}, func(shut func(func()), err error) {
				if shut != nil {
					shut(func() {})
				}
				outcome <- err
			})
			return outcome
		}
		defer full(b.Window(), backend.RankRead)() // reads that are never answered hold up a listener for five seconds
		begun := time.Now()
		err := check.Comes(t, "the listener's opening", listen(t.Context()))
		check.Must(t, err == nil && time.Since(begun) >= 5*time.Second && time.Since(begun) <= 6*time.Second,
			"%v %v", time.Since(begun), err)
		synctest.Wait() // the first listener's slot is free again
		release := full(b.Window(), backend.RankTake)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		leaves, stays := listen(ctx), listen(t.Context())
		time.Sleep(time.Minute)
		synctest.Wait()
		wantErr(t, check.Comes(t, "the end of the opening that leaves", leaves), backend.ErrUnreachable, "too many requests")
		time.Sleep(time.Hour)
		release()
		check.Is(t, check.Comes(t, "the opening of the listener that stays", stays), nil)
		n, _ := b.Window().Waiting(time.Now())
		check.That(t, n == 0, "%d wait", n)
	})
}

// A listener that was closed is forgotten, also on a connection whose server does not deliver it the
// requests of the same connection.
func TestListen_ClosedIsForgotten(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		b := mustCreate(t, dialJS(t, t.s, nats.NoEcho()), Config{})
		listeners := func() int {
			noEcho.mu.Lock()
			defer noEcho.mu.Unlock()
			return len(noEcho.listeners)
		}
		before := listeners()
		for range 10 {
			shut, err := await(func(r func(func(func()), error)) { b.Listen(t.Context(), "a", func([]byte, func([]byte)) {}, r) })
			t.ok(err)
			check.Equal(t, listeners()-before, 1, "%d listeners")
			closed := make(chan struct{})
			shut(func() { close(closed) })
			<-closed
			check.Equal(t, listeners()-before, 0, "%d listeners are left")
		}
	})
}

// A holder replies to inboxes only: a requester chooses the subject, and the holder publishes.
func TestIsInbox_Subjects(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		own, plain := mustOpen(t, dialJS(t, t.s, nats.CustomInboxPrefix("me"))), mustOpen(t, dialJS(t, t.s))
		for subject, want := range map[string][2]bool{ // with an inbox prefix, and without
			"me.x": {true, false}, "me.x.y": {true, false}, "menace.x": {}, "me": {}, "me.*": {},
			"_INBOX.x": {true, true}, "_INBOX_a.x": {true, true}, "_R_.x": {true, true}, "_R_x": {},
			"$KV.E.a": {}, "_INBOX.>": {}, "_INBOX..x": {}, "": {},
		} {
			got := [2]bool{own.isInbox(subject), plain.isInbox(subject)}
			check.That(t, got == want, "%q: %v, want %v", subject, got, want)
		}
	})
}
