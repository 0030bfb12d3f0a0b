package jsapi

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

// listener is a subscription, and the messages that it has handled.
type listener struct {
	Subscription
	mu    sync.Mutex
	heard []string
}

func (w *wired) listen(subject string, handle func(m *nats.Msg), apart bool) *listener {
	w.Helper()
	l := &listener{}
	err := l.Listen(w.Context(), &w.a, subject, func(m *nats.Msg) {
		if handle != nil {
			handle(m)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.heard = append(l.heard, string(m.Data))
	}, func() bool { return apart })
	w.ok(err)
	return l
}

// tell publishes messages.
func (w *wired) tell(subject string, texts ...string) {
	w.Helper()
	for _, text := range texts {
		w.ok(w.replier.Publish(subject, []byte(text)))
	}
	w.ok(w.replier.Flush())
	synctest.Wait()
}

func (l *listener) want(t *wired, want ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	check.That(t, slices.Equal(l.heard, want), "%s: heard %q, want %q", l.sub.Subject, l.heard, want)
}

// lanes returns the number of lanes.
func (w *wired) lanes() int {
	w.a.conn.lanes.mu.Lock()
	defer w.a.conn.lanes.mu.Unlock()
	return len(w.a.conn.lanes.all)
}

// laneGoroutines returns the number of goroutines of lanes when everything has come to rest.
func laneGoroutines() int {
	synctest.Wait()
	all := make([]byte, 1<<20)
	return strings.Count(string(all[:runtime.Stack(all, true)]), "(*lane).run(")
}

// Many subscriptions share a goroutine. Each hears its own messages in order, none after
// Close, and the goroutine ends with the last of them.
func TestLane_SharesGoroutine(t *testing.T) {
	withWire(t, func(t *wired) {
		var all []*listener
		for i := range 2*laneSize + 1 {
			all = append(all, t.listen(fmt.Sprint("x.", i/2), nil, i%2 == 0)) // two of each subject
		}
		if n := laneGoroutines(); n != 3 || t.lanes() != 3 {
			t.Errorf("%d goroutines, %d lanes", n, t.lanes())
		}
		for i := range all[:laneSize] {
			if i%2 == 0 {
				t.tell(fmt.Sprint("x.", i/2), fmt.Sprint(i), "b", "c")
			}
		}
		for i, l := range all[:laneSize] {
			l.want(t, fmt.Sprint(i/2*2), "b", "c")
		}
		all[0].Close()
		t.tell("x.0", "d")
		all[0].want(t, "0", "b", "c")
		all[1].want(t, "0", "b", "c", "d")
		for _, l := range all[1:] {
			l.Close()
		}
		synctest.Wait()
		if n := laneGoroutines(); n != 0 || t.lanes() != 0 {
			t.Errorf("%d goroutines and %d lanes are left", n, t.lanes())
		}
	})
}

// A subscription with messages that take long to handle does not hold up another. It handles
// them in order, and Close waits for the one that is being handled.
func TestLane_SlowHandler(t *testing.T) {
	withWire(t, func(t *wired) {
		waits := make(chan bool, 3)
		var slow *listener
		slow = t.listen("slow", func(m *nats.Msg) {
			time.Sleep(time.Second)
			waits <- slow.Waiting(m)
		}, true)
		other := t.listen("other", nil, false)
		t.tell("slow", "1", "2", "3")
		t.tell("other", "x")
		other.want(t, "x")
		slow.want(t)
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		slow.want(t, "1", "2")
		t.tell("slow", "4")
		began := time.Now()
		slow.Close()
		d := time.Since(began)
		check.That(t, d == 500*time.Millisecond, "Close returned after %v", d)
		time.Sleep(time.Minute)
		slow.want(t, "1", "2", "3")
		a, b, c := <-waits, <-waits, <-waits
		check.That(t, a && b && !c, "another message waited: %v, %v, %v", a, b, c)
		other.Close()
	})
}

// While a lane is busy, a burst of messages waits for it. None of them is lost.
func TestLane_KeepsBurst(t *testing.T) {
	withWire(t, func(t *wired) {
		busy := make(chan struct{})
		first := t.listen("first", func(*nats.Msg) { <-busy }, false)
		other := t.listen("other", nil, false)
		t.tell("first", "x")
		t.tell("other", slices.Repeat([]string{"y"}, laneQueue)...)
		close(busy)
		synctest.Wait()
		check.Equal(t, len(other.heard), laneQueue, "%d messages are handled")
		first.Close()
		other.Close()
	})
}

// A message that comes before its subscription is known is handled first, and one for a
// subscription that could not be made is forgotten. None is kept for a subscription that has
// gone, unless another to its subject is being opened.
func TestLane_EarlyMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ls lanes
		l := ls.join("x")
		check.Must(t, ls.join("y") == l && ls.join("x") == l, "another lane")
		var heard []string
		s := &Subscription{sub: &nats.Subscription{Subject: "x"}}
		s.handle = func(m *nats.Msg) { heard = append(heard, string(m.Data)) }
		s.apart = func() bool { return false }
		send := func(sub *nats.Subscription, text string) { l.messages <- &nats.Msg{Sub: sub, Data: []byte(text)} }
		wantKept := func(want ...string) {
			t.Helper()
			synctest.Wait()
			var kept []string
			for _, m := range l.early {
				kept = append(kept, string(m.Data))
			}
			check.That(t, slices.Equal(kept, want), "kept %q, want %q", kept, want)
		}
		send(s.sub, "1")
		send(&nats.Subscription{Subject: "x"}, "another")
		send(&nats.Subscription{Subject: "y"}, "failed")
		for range laneQueue { // they leave no room
			send(&nats.Subscription{Subject: "z"}, "gone")
		}
		send(s.sub, "2")
		wantKept("1", "another", "failed", "2")
		l.opened(s, "x")
		wantKept("another", "failed")
		send(s.sub, "3")
		synctest.Wait()
		check.That(t, slices.Equal(heard, []string{"1", "2", "3"}), "heard %q", heard)
		l.opened(&Subscription{}, "y")
		wantKept("another")
		l.opened(&Subscription{}, "x")
		wantKept()
		send(&nats.Subscription{Subject: "x"}, "gone")
		wantKept()
		check.That(t, len(l.opening) == 0 && l.size == 1, "%d subjects and %d subscriptions are kept", len(l.opening), l.size)
		other := &Subscription{sub: &nats.Subscription{Subject: "w"}}
		ls.join("w").opened(other, "w")
		l.remove(s.sub)
		l.remove(s.sub)
		if l.size != 1 {
			t.Errorf("%d subscriptions", l.size)
			return
		}
		l.remove(other.sub)
	})
}

// A message that is handled at once does not overtake those that wait for a slow one.
func TestLane_KeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard []string
		slow := true
		h := &handling{apart: func() bool { return slow }}
		h.handle = func(m *nats.Msg) {
			if string(m.Data) != "2" {
				time.Sleep(time.Second)
			}
			heard = append(heard, string(m.Data))
		}
		h.take(&nats.Msg{Data: []byte("1")})
		synctest.Wait()
		slow = false
		h.take(&nats.Msg{Data: []byte("2")})
		time.Sleep(time.Minute)
		synctest.Wait()
		check.That(t, slices.Equal(heard, []string{"1", "2"}), "heard %q", heard)
		began := time.Now()
		h.take(&nats.Msg{Data: []byte("3")})
		check.That(t, time.Since(began) == time.Second && !h.waiting(), "a message that comes alone is not handled at once")
		h.take(&nats.Msg{Data: []byte("4")})
		synctest.Wait()
		check.That(t, slices.Equal(heard, []string{"1", "2", "3", "4"}), "heard %q", heard)
	})
}

// The end of a subscription waits for the message that the lane handles, and another message for its own
// goroutine waits, too.
func TestLane_EndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var heard []string
		h := &handling{apart: func() bool { return false }}
		h.handle = func(m *nats.Msg) {
			time.Sleep(time.Second)
			heard = append(heard, string(m.Data))
		}
		began := time.Now()
		go h.take(&nats.Msg{Data: []byte("1")})
		synctest.Wait()
		h.enqueue(&nats.Msg{Data: []byte("2")})
		synctest.Wait()
		check.That(t, h.waiting(), "two messages are handled at once")
		h.end()
		d := time.Since(began)
		check.That(t, d == time.Second && slices.Equal(heard, []string{"1"}), "ended after %v, heard %q", d, heard)
	})
}

// A subscription keeps a bounded number of messages, drops all that wait when it ends, and
// handles none afterwards.
func TestLane_Bounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handled, release := 0, make(chan struct{})
		h := &handling{apart: func() bool { return true }}
		h.handle = func(*nats.Msg) {
			<-release
			handled++
		}
		for range laneQueue + 2 {
			h.take(&nats.Msg{})
			synctest.Wait()
		}
		if n := len(h.queue); n != laneQueue || !h.waiting() {
			t.Errorf("%d messages are kept, waiting: %v", n, h.waiting())
		}
		var ends atomic.Int32
		for range 2 { // both wait
			go func() {
				h.end()
				ends.Add(1)
			}()
		}
		synctest.Wait()
		check.That(t, ends.Load() == 0, "the end does not wait for the message that is being handled")
		close(release)
		synctest.Wait()
		check.That(t, ends.Load() == 2 && handled == 1, "%d ends, %d messages handled", ends.Load(), handled)
		h.take(&nats.Msg{})
		h.apart = func() bool { return false }
		h.take(&nats.Msg{})
		synctest.Wait()
		check.That(t, handled == 1 && !h.waiting(), "%d messages handled after the end", handled)
		h.end() // nothing is being handled

		var ls lanes
		l := ls.join("x")
		for range laneQueue + 1 {
			l.messages <- &nats.Msg{Sub: &nats.Subscription{Subject: "x"}}
			synctest.Wait()
		}
		check.Equal(t, len(l.early), laneQueue, "%d early messages are kept")
		l.opened(&Subscription{}, "x")
		check.That(t, len(ls.all) == 0, "a lane is left of a subscription that could not be made")
	})
}

// A connection that is closed or drained ends the lanes.
func TestLane_ConnectionClosed(t *testing.T) {
	for _, end := range []func(nc *nats.Conn){(*nats.Conn).Close, func(nc *nats.Conn) { _ = nc.Drain() }} {
		withWire(t, func(t *wired) {
			l := t.listen("x", nil, false)
			end(t.a.Conn)
			time.Sleep(time.Minute)
			synctest.Wait()
			check.Equal(t, t.lanes(), 0, "%d lanes are left")
			l.Close()
			late := &listener{}
			err := late.Listen(t.Context(), &t.a, "y", func(*nats.Msg) {}, func() bool { return false })
			check.That(t, errors.Is(err, backend.ErrConnectionClosed) && t.lanes() == 0, "afterwards: %v", err)
			late.Close()
		})
	}
}

// A lane that ends takes no more subscriptions, and the others do.
func TestLane_EndsAlone(t *testing.T) {
	var ls lanes
	var first *lane
	for range laneSize {
		first = ls.join("x")
	}
	second := ls.join("y")
	second.opened(&Subscription{}, "y")
	<-second.ended
	check.That(t, len(ls.all) == 1 && ls.all[0] == first, "%d lanes are left", len(ls.all))
	for range laneSize {
		first.opened(&Subscription{}, "x")
	}
	check.Equal(t, len(ls.all), 0, "%d lanes are left")
}
