package jsapi

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

// holder has a slot of a window.
type holder struct{ backend.Place }

// Granted implements [backend.Waiter].
func (*holder) Granted() {}

// A request that the server denies ends with the next look at the connection's errors, and
// gives back the slots of the stream's window before that. One that is sent soon after a denial
// is looked at earlier. The others go on. Without a request, nobody looks.
func TestDenial_EndsRequest(t *testing.T) {
	withWire(t, func(t *wired) {
		t.serve("silence", func(*nats.Msg) {})
		var h holder
		t.a.window.Take(&h.Place, backend.RankRead, &h, time.Time{})
		other := t.ask(t.within(time.Second), "silence", "")
		var mu sync.Mutex
		slots := -1
		began := time.Now()
		var after time.Duration
		t.a.RequestThen(t.within(time.Minute), &nats.Msg{Subject: "denied.a"}, func(*nats.Msg, error) {
			mu.Lock()
			defer mu.Unlock()
			slots, after = t.a.window.Used(), time.Since(began)
		})
		time.Sleep(calmPause)
		synctest.Wait()
		check.That(t, slots == 0 && after == calmPause, "ended after %v with %d slots", after, slots)
		t.a.window.Return(&h.Place, backend.Reply{})
		b := t.ask(t.within(time.Minute), "denied.b", "")
		c := t.ask(t.within(time.Minute), "denied.c", "")
		time.Sleep(10 * busyPause)
		t.want("one of two", c, "", backend.ErrPermission, busyPause)
		time.Sleep(time.Second - calmPause)
		t.want("another", other, "", backend.ErrUnreachable, time.Second)
		check.That(t, b.replies == 0, "nats.go keeps the last denial only, but the one before is known: %v", b.err)
	})
}

// While a request waits for its reply, one look follows another after a pause.
func TestDenial_LooksRegularly(t *testing.T) {
	withWire(t, func(t *wired) {
		t.serve("silence", func(*nats.Msg) {})
		time.Sleep(time.Second)
		t.ask(t.within(time.Minute-calmPause/2), "silence", "")
		time.Sleep(2*calmPause + calmPause/2)
		t.ask(t.within(time.Second-calmPause/2), "silence", "")
		synctest.Wait()
		t.mu.Lock()
		t.pings = 0
		t.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		t.wantPings(int(2 * time.Second / calmPause))
	})
}

// A question for the settings that is given up before the denial is found has the denial as its reason, also if
// another caller has sent it. One that was given up before it was sent has no other's.
func TestDenial_OfInfo(t *testing.T) {
	withWire(t, func(t *wired) {
		t.a.Prefix = "denied.API."
		check.Is(t, check.Err(t.a.Info(t.within(calmPause/2))), backend.ErrPermission)
		check.Is(t, t.a.LastError(), nats.ErrPermissionViolation)
		time.Sleep(time.Minute)
		check.Is(t, check.Err(t.a.Info(t.within(calmPause/2))), backend.ErrPermission)
		t.a.infoBefore.Store(nil)
		fly := func(r *round[*jetstream.StreamInfo]) {
			t.a.infos.mu.Lock()
			defer t.a.infos.mu.Unlock()
			t.a.infos.flying = r
		}
		fly(&round[*jetstream.StreamInfo]{}) // the next one waits for it
		err := check.Err(t.a.Info(check.Ended()))
		check.That(t, IsUnanswered(err), "given up at once: %v", err)
		fly(nil)
	})
}

// A denial from before a request is not that of the request.
func TestDenial_OfSubscription(t *testing.T) {
	withWire(t, func(t *wired) {
		nc := check.Got(nats.Connect("", nats.InProcessServer(t.s), nats.UserInfo("all", "")))(t)
		defer nc.Close()
		check.OK(t, check.Err(nc.Subscribe("denied.x", func(*nats.Msg) {})))
		t.ok(nc.Flush())
		var s Subscription
		check.Is(t, s.Listen(t.Context(), &t.a, "denied.x", func(*nats.Msg) {}, func() bool { return false }), backend.ErrPermission)
		s.Close()
		r := t.ask(t.within(time.Second), "denied.x", "")
		time.Sleep(time.Minute)
		t.want("no reply", r, "", backend.ErrUnreachable, time.Second)

		// And the next subscription is made once.
		t.mu.Lock()
		t.pings = 0
		t.mu.Unlock()
		check.Is(t, <-t.opening(t.Context(), "x"), nil)
		t.wantPings(1)
	}, func(o *server.Options) {
		o.Users[0].Permissions.Publish = nil
		o.Users = append(o.Users, &server.User{Username: "all"})
	})
}

// The first request of a connection, which nats.go sends with an inbox of its own, is looked
// at, too, and so is one that is sent with the old style of requests.
func TestDenial_EndsDelegatedRequest(t *testing.T) {
	withWire(t, func(t *wired) {
		inboxes := 0
		t.serve("ask", func(m *nats.Msg) {
			if strings.HasPrefix(m.Reply, t.a.conn.inbox) {
				inboxes++
			}
			_ = m.Respond(nil)
		})
		for _, old := range []bool{false, true} {
			t.a.conn.primed.Store(old)
			t.a.Conn.Opts.UseOldRequestStyle = old
			r := t.ask(t.within(time.Minute), "denied.x", "")
			time.Sleep(calmPause)
			t.want("a denied request", r, "", backend.ErrPermission, calmPause)
			for range 3 { // the looks have ended
				time.Sleep(calmPause)
			}
			if old {
				t.want("the old style", t.ask(t.Context(), "ask", ""), "", nil, 0)
				check.Equal(t, inboxes, 0, "the reply to %d requests comes to the other subscription")
			}
		}
	})
}
