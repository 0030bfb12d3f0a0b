package jsapi

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

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
		for range 2 {
			t.ask(t.within(time.Second-calmPause/2), "silence", "")
		}
		synctest.Wait()
		t.mu.Lock()
		t.pings = 0
		t.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		t.wantPings(int(time.Second/calmPause) - 1)
	})
}

// The first request of a connection, which nats.go sends with an inbox of its own, is looked
// at, too, and so is one that is sent with the old style of requests.
func TestDenial_EndsDelegatedRequest(t *testing.T) {
	withWire(t, func(t *wired) {
		for _, old := range []bool{false, true} {
			t.a.conn.primed.Store(old)
			t.a.Conn.Opts.UseOldRequestStyle = old
			r := t.ask(t.within(time.Minute), "denied.x", "")
			time.Sleep(calmPause)
			t.want("a denied request", r, "", backend.ErrPermission, calmPause)
			for range 3 { // the looks have ended
				time.Sleep(calmPause)
			}
		}
	})
}
