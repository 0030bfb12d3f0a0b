package leader_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// wide is a window that has grown to eight slots.
func wide(t *testing.T) *backend.Window {
	t.Helper()
	w := backend.NewWindow(1, 8)
	for rounds := 0; slots(w) < 8; rounds++ {
		check.Must(t, rounds < 100, "the window does not grow beyond %d slots", slots(w))
		has := new(backend.Place)
		var all []*backend.Place
		for ; w.Take(has, backend.RankHolder, granted{}, time.Now()); has = new(backend.Place) {
			all = append(all, has)
		}
		for _, p := range append(all, has) { // has waits, which makes the window grow
			w.Return(p, backend.Reply{Took: 1, Limit: time.Second})
		}
	}
	return w
}

type granted struct{}

// Granted does nothing.
func (granted) Granted() {}

// slots returns how many slots are free.
func slots(w *backend.Window) (n int) {
	var all []*backend.Place
	for range 100 {
		p := new(backend.Place)
		all = append(all, p)
		if !w.Take(p, backend.RankHolder, granted{}, time.Now()) {
			break
		}
		n++
	}
	for i := range all { // the last one first: it waits
		w.Return(all[len(all)-1-i], backend.Reply{})
	}
	return n
}

// The window of a bucket becomes smaller when a write of the holder is not answered. Prompt replies, and
// requests of a waiting candidate that are not answered, leave it as it is.
func TestSlots_LearnFromReplies(t *testing.T) {
	for name, c := range map[string]struct {
		silent string // the call that is not answered
		waits  bool   // another candidate holds the key
		want   int
	}{
		"all is answered":                  {"", false, 8},
		"a write of the holder is lost":    {"Update", false, 1},
		"a read of a waiting candidate is": {"Get", true, 8},
		"a waiting candidate is answered":  {"", true, 8},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLedger(nil)
				l.window = wide(t)
				if c.waits {
					newLedgerOn(l.plainStore, nil).stand(t.Context(), t, leader.Config{})
				}
				cand := l.stand(t.Context(), t, leader.Config{})
				time.Sleep(20 * time.Second)
				check.Must(t, cand.IsLeader() != c.waits, "the wrong candidate leads")
				l.answer(c.silent, whenGivenUp)
				l.tellAll(backend.FeedEvent{Reconnected: true}) // which makes candidates read
				time.Sleep(2500 * time.Millisecond)
				lost := l.count(l.asked, c.silent)
				l.answer(c.silent, atOnce)
				time.Sleep(10 * time.Second)
				check.That(t, c.silent == "" || lost != 0, "no %s was lost", c.silent)
				check.Equal(t, slots(l.window), c.want, "%d slots")
			})
		})
	}
}

// A candidate that has waited for a slot, and needs it no more, gives it back.
func TestSlots_UnusedGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(nil)
		l.window = backend.NewWindow(1, 1)
		other := newLedgerOn(l.plainStore, nil)
		first := other.stand(t.Context(), t, leader.Config{})
		c := l.stand(t.Context(), t, leader.Config{})
		time.Sleep(time.Second / 2)
		own := new(backend.Place)
		check.Must(t, l.window.Take(own, backend.RankHolder, granted{}, time.Now()), "no slot is free")
		_ = first.Stop()
		synctest.Wait()
		n := c.Stats().Queued
		check.Must(t, n == 1, "%d requests wait", n)
		second := other.stand(t.Context(), t, leader.Config{})
		check.Must(t, second.IsLeader(), "the second candidate does not lead")
		l.window.Return(own, backend.Reply{})
		synctest.Wait()
		check.Equal(t, slots(l.window), 1, "%d slots are free")
		writes := l.count(l.asked, "Update")
		l.tell(backend.FeedEvent{Reconnected: true})
		check.That(t, l.count(l.asked, "Update") == writes && !c.IsLeader(), "it has used the slot")
	})
}
