package leader_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// lookout is an observer of an election.
type lookout struct {
	mu   sync.Mutex
	told []string
	last leader.Holder
	done chan struct{}
}

func (w *world) observe(ctx context.Context, cl *client) *lookout {
	w.Helper()
	ch := check.Got(leader.Observe(ctx, cl.bucket(w.T), "e"))(w)
	l := &lookout{done: make(chan struct{})}
	go func() {
		defer close(l.done)
		for h := range ch {
			l.mu.Lock()
			l.told, l.last = append(l.told, w.now().String()+" "+holderName(h)), h
			l.mu.Unlock()
		}
	}()
	return l
}

// saw checks the observations, except those that another one overtook at the same
// instant. A slow reader gets only the newest observation. A test cannot know which of
// two goroutines is slower when both have work at the same instant.
func (l *lookout) saw(t *testing.T, want ...string) leader.Holder {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	check.That(t, strings.Join(lastOfEach(l.told), "|") == strings.Join(lastOfEach(want), "|"),
		"observed %q, want %q", l.told, want)
	l.told = nil
	return l.last
}

// lastOfEach returns the last line of each instant.
func lastOfEach(lines []string) []string {
	var last []string
	for i, line := range lines {
		at, _, _ := strings.Cut(line, " ")
		if i+1 == len(lines) || !strings.HasPrefix(lines[i+1], at+" ") {
			last = append(last, line)
		}
	}
	return last
}

// Observers agree with the record from the first leader on. Fault 19 of docs/faults.md.
func TestObserver_AgreesWithRecord(t *testing.T) {
	inSealed(t, func(w *world) {
		ctx, cancel := context.WithCancel(w.Context())
		eye := w.dial("eye")
		l := w.observe(ctx, eye)
		agree := func(h leader.Holder) {
			t.Helper()
			got := check.Got(leader.Lookup(w.Context(), eye.bucket(t), "e"))(w)
			if got.ID != h.ID || h.State == leader.HolderLeading && got.Token != h.Token || got.State != h.State || string(got.Value) != string(h.Value) || !got.Since.Equal(h.Since) {
				t.Errorf("%v: looked up %+v, observed %+v", w.now(), got, h)
			}
		}
		agree(l.saw(t, "0s nobody"))
		w.at(500 * time.Millisecond)
		a := w.standAs(leader.Config{ID: "a", Value: []byte("there")})
		h := l.saw(t, "500ms a")
		if h.Token != a.lastTerm(t).Token() || string(h.Value) != "there" || h.Lease != lease || !h.Since.Equal(w.zero.Add(500*time.Millisecond)) || h.State != leader.HolderLeading {
			t.Errorf("observed %+v", h)
		}
		agree(h)
		w.at(3600 * time.Millisecond)
		agree(l.saw(t)) // renewals are not reported
		b := w.stand("b")
		w.at(3700 * time.Millisecond)
		w.ok(leadertest.Resign(w.Context(), a))
		agree(l.saw(t, "3.7s nobody", "3.7s b"))
		b.cut()
		w.at(11 * time.Second) // b wrote last at 3.7s; a takes over at 9.7s
		agree(l.saw(t, "9.7s nobody", "9.7s a"))
		check.Got(w.kv().Put(w.Context(), "e", []byte("junk")))(w)
		h = l.saw(t, "11s foreign")
		check.That(t, h.State == leader.HolderForeign, "observed %+v", h)
		w.at(20 * time.Second)
		agree(l.saw(t, "17s nobody", "17s a"))
		w.ok(w.kv().Delete(w.Context(), "e"))
		agree(l.saw(t, "20s nobody"))
		w.at(22 * time.Second)
		h = l.saw(t, "21s a pending")
		check.That(t, h.State == leader.HolderPending && h.Since.IsZero(), "observed %+v", h)
		agree(h)
		w.at(30 * time.Second)
		agree(l.saw(t, "26s a"))
		cancel()
		synctest.Wait()
		select {
		case <-l.done:
		default:
			t.Error("the channel is not closed")
		}
	})
}

// An observer that comes later learns of the leader at once.
func TestObserver_LateLearnsAtOnce(t *testing.T) {
	kinds(t, func(w *world) {
		a := w.stand("a")
		w.at(20500 * time.Millisecond)
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		l := w.observe(ctx, w.dial("eye"))
		h := l.saw(w.T, "20.5s a")
		check.That(w, h.Token == a.lastTerm(w.T).Token(), "observed %+v", h)
	})
}

func TestObserver_GetsOverOutage(t *testing.T) {
	kinds(t, func(w *world) {
		a, b := w.veterans()
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		eye := w.dial("eye")
		l := w.observe(ctx, eye)
		l.saw(w.T, "20.5s a")
		eye.cut()
		w.at(30500 * time.Millisecond)
		l.saw(w.T, "26.5s nobody") // one lease after it received the record
		w.ok(leadertest.Resign(w.Context(), a))
		eye.open()
		w.at(31 * time.Second)
		l.saw(w.T, "30.6s b")
		w.leads(a, b)
	})
}

func TestLookup_ReturnsErrors(t *testing.T) {
	bubble(t, func(w *world) {
		check.Is(t, check.Err(leader.Lookup(w.Context(), w.ops.bucket(t), "e")), leader.ErrNoBucket)
		w.sealed()
		h, err := leader.Lookup(w.Context(), w.ops.bucket(t), "e")
		check.That(t, err == nil && h.State == leader.HolderNone, "without a leader: %+v, %v", h, err)
		for _, name := range []string{"", ".", "a b"} {
			_, err := leader.Lookup(w.Context(), w.ops.bucket(t), name)
			check.That(t, errors.Is(err, leader.ErrInvalidConfig), "%q: %v", name, err)
			if _, err := leader.Observe(w.Context(), w.ops.bucket(t), name); !errors.Is(err, leader.ErrInvalidConfig) {
				t.Errorf("%q: %v", name, err)
			}
		}
		cl := w.dial("cut")
		cl.blackhole(up)
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		check.Is(t, check.Err(leader.Lookup(ctx, cl.bucket(t), "e")), context.DeadlineExceeded)
		w.isAt(time.Second, "Lookup returned")
		cl.cut()
		synctest.Wait()
		check.Is(t, check.Err(leader.Lookup(w.Context(), cl.bucket(t), "e")), leader.ErrUnreachable)
		cl.nc.Close()
		check.Is(t, check.Err(leader.Lookup(w.Context(), cl.bucket(t), "e")), leader.ErrConnectionClosed)
	})
}

func TestProclaim_ValueReachesOthers(t *testing.T) {
	kinds(t, func(w *world) {
		a, b := w.veterans()
		binary := []byte{0, 0xff, '<', '"'}
		for _, v := range [][]byte{[]byte("one"), binary, {}} {
			w.ok(leadertest.Led(a).Proclaim(w.Context(), v))
			w.isAt(20500*time.Millisecond, "Proclaim returned")
			synctest.Wait()
			for _, c := range []*candidate{a, b} {
				h := c.Leader()
				check.That(w, h.State == leader.HolderLeading && string(h.Value) == string(v), "%s sees %q", c.ID(), h.Value)
			}
			h, err := leader.Lookup(w.Context(), w.ops.bucket(w.T), "e")
			check.That(w, err == nil && string(h.Value) == string(v), "looked up %q, %v", h.Value, err)
		}
		b.saw(w.T, "20.5s observed a", "20.5s observed a", "20.5s observed a")
		w.ok(leadertest.Led(a).Proclaim(w.Context(), binary))
		b.news()
		w.at(time.Minute)
		a.saw(w.T)
		b.saw(w.T) // renewals keep the value
		h := b.Leader()
		check.That(w, string(h.Value) == string(binary), "b sees %q", h.Value)
		w.ok(leadertest.Resign(w.Context(), a))
		synctest.Wait()
		w.ok(leadertest.Resign(w.Context(), b))
		w.at(2 * time.Minute)
		if h := w.leads(a, b).Leader(); h.ID == "a" && string(h.Value) != string(binary) {
			w.Errorf("a later term publishes %q", h.Value)
		}
	})
}

func TestProclaim_ReturnsErrors(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b := w.pair()
		check.Is(t, leadertest.Led(b).Proclaim(w.Context(), nil), leader.ErrNotLeader)
		check.Is(t, leadertest.Led(a).Proclaim(w.Context(), make([]byte, maxValue+1)), leader.ErrValueTooLarge)
		w.ok(leadertest.Led(a).Proclaim(w.Context(), make([]byte, maxValue)))
		a.blackhole(up)
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		check.Is(t, leadertest.Led(a).Proclaim(ctx, []byte("lost")), context.DeadlineExceeded)
		w.isAt(4500*time.Millisecond, "Proclaim returned")
		late := w.begin(func() error { return leadertest.Led(a).Proclaim(w.Context(), []byte("late")) })
		w.at(10 * time.Second)
		// The write of the first Proclaim, at 3.5s, was acknowledged.
		late.returned(8300*time.Millisecond, leader.ErrNotLeader)
		a.open()
	})
}
