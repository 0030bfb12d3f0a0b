package jsapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

// withhold holds back what the server sends until the result is called. No ping was sent yet
// then.
func (w *wired) withhold() (release func()) {
	synctest.Wait()
	deaf := make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deaf, w.pings = deaf, 0
	return func() {
		w.mu.Lock()
		w.deaf = nil
		w.mu.Unlock()
		close(deaf)
		synctest.Wait()
	}
}

func (w *wired) wantPings(want int) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	check.That(w, w.pings == want, "%d pings, want %d", w.pings, want)
}

// opening subscribes. The result has the outcome.
func (w *wired) opening(ctx context.Context, subject string) <-chan error {
	outcome := make(chan error, 1)
	go func() {
		s := &Subscription{}
		outcome <- s.Listen(ctx, &w.a, subject, func(*nats.Msg) {}, func() bool { return false })
		s.Close()
	}()
	synctest.Wait()
	return outcome
}

// Two pings are in flight at most. Subscriptions that are opened meanwhile share the next one, which is sent after the last of
// them. One that is given up takes nothing from the others.
func TestListen_SharesPing(t *testing.T) {
	withWire(t, func(t *wired) {
		release := t.withhold()
		ctx, cancel := context.WithCancel(t.Context())
		outcomes := []<-chan error{t.opening(t.Context(), "first")}
		t.wantPings(1)
		for i := range 100 {
			outcomes = append(outcomes, t.opening(t.Context(), fmt.Sprint("x.", i)))
		}
		givenUp := t.opening(ctx, "y")
		t.wantPings(2)
		cancel()
		check.Is(t, check.Comes(t, "the end of the opening that is given up", givenUp), backend.ErrUnreachable)
		release()
		t.wantPings(3)
		for _, outcome := range outcomes {
			check.Is(t, check.Comes(t, "the reply to the ping", outcome), nil)
		}
	})
}

// Subscriptions that are denied at the same time all return it, although nats.go keeps only the last denial.
func TestListen_DeniedTogether(t *testing.T) {
	withWire(t, func(t *wired) {
		before := t.a.Conn.NumSubscriptions()
		release := t.withhold()
		outcomes := []<-chan error{t.opening(t.Context(), "first")}
		for i := range 20 {
			outcomes = append(outcomes, t.opening(t.Context(), fmt.Sprint("denied.", i)))
		}
		release()
		check.Is(t, check.Comes(t, "the reply to the first ping", outcomes[0]), nil)
		for _, outcome := range outcomes[1:] {
			check.Is(t, check.Comes(t, "the denial", outcome), backend.ErrPermission)
		}
		check.Equal(t, t.a.Conn.NumSubscriptions(), before, "%d subscriptions are left")
	})
}

// A subscription that waits to be made again can be given up.
func TestListen_DeniedTogetherGivenUp(t *testing.T) {
	withWire(t, func(t *wired) {
		t.a.conn.again <- struct{}{} // another one is made again, without end
		ctx, cancel := context.WithCancel(t.Context())
		release := t.withhold()
		t.opening(ctx, "first")
		t.opening(ctx, "second") // with the second ping in flight: those that follow share the next
		outcomes := []<-chan error{t.opening(ctx, "denied.x"), t.opening(ctx, "denied.y")}
		release()
		synctest.Wait()
		cancel()
		var unreachable, denied int
		for _, outcome := range outcomes {
			switch err := check.Comes(t, "the end of an opening", outcome); {
			case errors.Is(err, backend.ErrUnreachable):
				unreachable++
			case errors.Is(err, backend.ErrPermission):
				denied++
			}
		}
		check.That(t, unreachable == 1 && denied == 1, "%d were given up and %d denied", unreachable, denied)
	})
}

// While the server denies other subjects all the time, a subscription is made again only a few times.
func TestListen_OthersAlwaysDenied(t *testing.T) {
	withWire(t, func(t *wired) {
		synctest.Wait()
		t.mu.Lock()
		t.pings, t.denies = 0, 100
		t.mu.Unlock()
		check.Is(t, <-t.opening(t.Context(), "x"), nil)
		t.wantPings(1 + relistens)
		t.mu.Lock()
		t.denies = 0
		t.mu.Unlock()
	})
}

// A connection that is lost or closed ends the openings that wait for a ping.
func TestListen_ConnectionLost(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(t *wired)
		want error
	}{
		{"lost", func(t *wired) { _ = t.conn.Close() }, backend.ErrUnreachable},
		{"closed", func(t *wired) { t.a.Conn.Close() }, backend.ErrConnectionClosed},
	} {
		t.Run(tt.name, func(tt2 *testing.T) {
			withWire(tt2, func(t *wired) {
				release := t.withhold()
				first, second := t.opening(t.Context(), "first"), t.opening(t.Context(), "second")
				tt.end(t)
				release()
				time.Sleep(time.Minute)
				check.Is(t, check.Comes(t, "the end of the first opening", first), tt.want)
				// The second one's ping may be sent on the new connection, which has its subscription.
				if err := check.Comes(t, "the end of the second opening", second); err != nil && !errors.Is(err, tt.want) {
					t.Errorf("gathering: %v", err)
				}
			})
		})
	}
}

// A denial that comes as soon as the server has read the subscription counts. nats.go writes a long
// subject at once, while the opening is already known to the lanes.
func TestListen_DeniedAtOnce(t *testing.T) {
	late := time.After(10 * time.Second) // of real time: that of a bubble stands still while a goroutine waits for a lock
	withWire(t, func(t *wired) {
		denied := make(chan struct{}, 1000) // a denial that is not heeded is followed by others
		t.a.Conn.SetErrorHandler(func(*nats.Conn, *nats.Subscription, error) { denied <- struct{}{} })
		freeze, frozen := make(chan struct{}), make(chan struct{})
		t.mu.Lock()
		t.freeze, t.frozen = freeze, frozen
		t.mu.Unlock()
		outcome := make(chan error, 1)
		go func() {
			var s Subscription
			defer s.Close()
			outcome <- s.Listen(t.Context(), &t.a, "denied."+strings.Repeat("x", 1<<16), func(*nats.Msg) {}, func() bool { return false })
		}()
		<-frozen // in the midst of the call of nats.go
		t.mu.Lock()
		t.freeze = nil
		t.mu.Unlock()
		t.a.conn.lanes.mu.Lock() // holds up the opening after that call
		close(freeze)
		isDenied := false
		select {
		case <-denied:
			isDenied = true
		case <-late:
		}
		t.a.conn.lanes.mu.Unlock()
		check.Must(t, isDenied, "the server reports no denial")
		check.Is(t, check.Comes(t, "the denial", outcome), backend.ErrPermission)
	}, func(o *server.Options) { o.MaxControlLine = 1 << 20 })
}

// A subscription that is denied fails, and so does one without a connection. Close calls Leave,
// ends the subscription in nats.go, and does so for one that was never made, too.
func TestListen_Fails(t *testing.T) {
	withWire(t, func(t *wired) {
		before := t.a.Conn.NumSubscriptions()
		for _, tt := range []struct {
			subject string
			end     func()
			want    error
		}{
			{"x", func() {}, nil},
			{"denied.x", func() {}, backend.ErrPermission},
			{"", func() {}, backend.ErrUnreachable},
			{"x", t.a.Conn.Close, backend.ErrConnectionClosed},
		} {
			tt.end()
			left := false
			s := &Subscription{Leave: func() { left = true }}
			err := s.Listen(t.Context(), &t.a, tt.subject, func(*nats.Msg) {}, func() bool { return false })
			check.That(t, errors.Is(err, tt.want) && (err == nil) == (tt.want == nil), "%q: %v", tt.subject, err)
			check.That(t, t.a.Left().Subscriptions == 1 || err != nil, "left: %+v", t.a.Left())
			s.Close()
			if n := t.a.Conn.NumSubscriptions(); n > before || t.a.Left() != (Left{}) || !left {
				t.Errorf("%q: %d subscriptions too many, left: %+v, Leave: %v", tt.subject, n-before, t.a.Left(), left)
			}
		}
	})
}

// A subscription with a goroutine of its own knows whether messages wait.
func TestSubscription_Waiting(t *testing.T) {
	withWire(t, func(t *wired) {
		var s Subscription
		var waiting []bool
		check.OK(t, check.Err(s.subscribe(&t.a, "x", func(m *nats.Msg) {
			time.Sleep(time.Second)
			waiting = append(waiting, s.Waiting(m))
		})))
		t.ok(t.a.Conn.Flush())
		t.tell("x", "1", "2")
		time.Sleep(time.Minute)
		synctest.Wait()
		check.Deep(t, waiting, []bool{true, false})
		s.Close()
	})
}
