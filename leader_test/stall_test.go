package leader_test

import (
	"testing"
	"time"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// A candidate whose work hangs hands over, and does not campaign again before the work has ended.
func TestStall_HandsOver(t *testing.T) { story(t) }

// All ways to ask show that the work goes on. The term ends one StallTimeout after the last.
func TestStall_AskingIsASign(t *testing.T) { story(t) }

// A guarded write shows that the work goes on, too.
func TestStall_WriteIsASign(t *testing.T) {
	inSealed(t, func(w *world) {
		w.orders()
		cl := w.dial("a")
		orders := check.Got(fence.OpenBucket(cl.js, "orders"))(t)
		a := w.campaign(w.Context(), cl, "e", leader.Config{ID: "a", Guards: []leader.Guard{orders}, StallTimeout: 10 * time.Second})
		w.at(0)
		end, _ := leadertest.Work(a.lastTerm(t))
		defer end()
		w.at(3 * time.Second)
		check.Got(orders.Writer(a.lastTerm(t)).Put(w.Context(), "x", nil))(t)
		w.at(13 * time.Second)
		a.saw(t, "0s pending", "0s elected", "13s fenced stalled")
	})
	k, stores := guardedKit(t, 0, 1)
	cfg := guarding("a", stores...)
	cfg.StallTimeout = 10 * time.Second
	_, w := k.stand("a", cfg)
	w.Expect(leadertest.Elected())
	end, _ := leadertest.Work(w.Term())
	defer end()
	k.clock.Advance(3 * time.Second)
	check.Got(stores[0].Link("a").Guard().Writer(w.Term()).Put(t.Context(), "x", nil))(t)
	k.clock.Advance(10*time.Second - 1)
	check.That(t, w.Term().Remaining() > 0, "the term has ended too soon")
	k.clock.Advance(1)
	w.Expect(leadertest.Fenced(leader.ErrStalled))
}

// What others ask of the candidate does not show that its work goes on.
func TestStall_OthersAreNoSign(t *testing.T) { story(t) }

// Work that has ended cannot hang.
func TestStall_ReleasedWork(t *testing.T) { story(t) }

// While the process stands still, no time passes for the work. If it stands still for longer than
// the lease, it has lost that.
func TestStall_Pause(t *testing.T) { story(t) }

// A candidate takes no other seat while its work hangs.
func TestStall_Seats(t *testing.T) { story(t) }

// A lock whose work hangs is lost.
func TestStall_Lock(t *testing.T) { story(t) }
