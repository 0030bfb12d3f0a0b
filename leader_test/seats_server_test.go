package leader_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// seated returns the leader on each seat.
func (w *world) seated(all []*candidate) map[int]*candidate {
	w.Helper()
	synctest.Wait()
	by := make(map[int]*candidate)
	for _, c := range all {
		term, ok := c.Term()
		if !ok {
			continue
		}
		if other := by[term.Seat()]; other != nil {
			w.Errorf("%v: %s and %s lead on seat %d", w.now(), other.ID(), c.ID(), term.Seat())
		}
		by[term.Seat()] = c
	}
	return by
}

// Faults of the leaders of one election, on a real server.
func TestSeats_OnAServer(t *testing.T) {
	forEachKind(t, func(w *world, unknown time.Duration) {
		var all []*candidate
		for i := range 5 {
			id := fmt.Sprintf("c%d", i)
			all = append(all, w.mute(w.Context(), w.dial(id), "e", leader.Config{ID: id, Seats: 3}))
		}
		defer func() {
			for _, c := range all {
				w.ok(c.Stop(w.Context()))
				c.nc.Close()
			}
		}()
		full := func() map[int]*candidate {
			w.Helper()
			by := w.seated(all)
			check.Must(w, len(by) == 3, "%v: %d lead", w.now(), len(by))
			return by
		}
		waits := func(by map[int]*candidate) []*candidate {
			return slices.DeleteFunc(slices.Clone(all), func(c *candidate) bool { return c == by[1] || c == by[2] || c == by[3] })
		}
		w.at(20500 * time.Millisecond)
		by := full()
		for _, c := range all {
			for i, h := range c.Leaders() {
				if h.Seat != i+1 || h.ID != by[i+1].ID() {
					t.Errorf("%s sees %v, and %s leads on seat %d", c.ID(), h, by[i+1].ID(), i+1)
				}
			}
		}

		next := waits(by)
		w.ok(by[3].Resign(w.Context()))
		now := full()
		if w.isAt(20500*time.Millisecond, "the next leads"); now[3] == by[3] || !slices.Contains(next, now[3]) {
			t.Errorf("%s leads on seat 3", now[3].ID())
		}

		w.at(30500 * time.Millisecond)
		by, next = full(), waits(full())
		h, err := leader.StepDown(w.Context(), w.ops.bucket(t), leader.SeatKey("e", 2), "jane")
		w.ok(err)
		if now = full(); h.ID != by[2].ID() || h.Seat != 2 || now[1] != by[1] || now[3] != by[3] || !slices.Contains(next, now[2]) {
			t.Errorf("%v was asked", h)
		}

		w.at(40500 * time.Millisecond)
		by, next = full(), waits(full())
		renewed, err := leader.Lookup(w.Context(), w.ops.bucket(t), "e")
		w.ok(err)
		over := renewed.Renewed.Sub(w.zero) + lease
		by[1].cut()
		w.at(over - time.Millisecond)
		if now = w.seated(all); len(now) != 2 {
			t.Errorf("%d lead before the lease of the dead is over", len(now))
		}
		w.at(over + 10*time.Millisecond)
		if now = full(); !slices.Contains(next, now[1]) {
			t.Errorf("%s leads on seat 1", now[1].ID())
		}
		by[1].open()

		w.at(over + 10*time.Second)
		by = full()
		w.ok(w.kv().Delete(w.Context(), leader.SeatKey("e", 3)))
		synctest.Wait()
		if now = w.seated(all); now[3] != nil {
			t.Errorf("%s leads on seat 3 although the lease may be running", now[3].ID())
		}
		check.Is(t, by[3].Resign(w.Context()), leader.ErrNotLeader)
		w.at(w.now() + unknown + 100*time.Millisecond)
		if now = full(); now[1] != by[1] || now[2] != by[2] {
			t.Error("the other seats have changed hands")
		}
	})
}
