package leader_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// The key is deleted during the body. The candidate does not campaign before the body has
// ended, and others lead.
func TestTerms_KeyDeleted(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b, atA, atB := w.workers(leader.Config{}, 20*time.Second)
		w.ok(w.kv().Delete(w.Context(), "e"))
		w.at(20 * time.Second)
		atA.worked()
		atB.worked("9.5s begins") // after one unknown lease
		w.ok(b.Stop(w.Context()))
		w.at(30 * time.Second)
		atA.worked("23.5s ends", "23.5s begins")
		a.sawBut(t, "observed|pending", "3.5s deposed deleted", "9.5s faulted not released", "21.5s faulted not released", "23.5s elected")
	})
}

// A candidate whose application has left its loop warns after one lease, and then at intervals
// that double.
func TestTerms_NoLoopWarns(t *testing.T) {
	inSealed(t, func(w *world) {
		log := new(warnings)
		a := w.standAs(leader.Config{ID: "a", Logger: slog.New(log)})
		w.employ(a, func(*leader.Term) bool { time.Sleep(time.Second); return false })
		const text = "no loop takes terms; instead=the candidate does not campaign since its loop over Terms was left: begin another loop, or stop the candidate"
		w.at(time.Second + lease - 1)
		log.were(w)
		w.at(time.Second + lease)
		log.were(w, text)
		w.at(time.Second + 7*lease)
		log.were(w, text, text)
		w.employ(a, after(0))
		w.at(time.Hour)
		log.were(w)
	})
}

// The application closes the connection during the body. The candidate ends at once, and the
// loop when the body has ended.
func TestTerms_ConnectionClosed(t *testing.T) {
	inSealed(t, func(w *world) {
		a, _, atA, atB := w.workers(leader.Config{}, 20*time.Second)
		a.nc.Close()
		w.at(5 * time.Second)
		a.ended(t, leader.ErrConnectionClosed)
		check.That(t, !atA.ended(), "the loop has left its body")
		w.at(30 * time.Second)
		atA.worked("23.5s ends")
		atB.worked("9s begins")
		check.That(t, atA.ended(), "the loop goes on")
	})
}

// A request from outside to hand over ends the body in order.
func TestTerms_StepDown(t *testing.T) {
	inSealed(t, func(w *world) {
		_, _, atA, atB := w.workers(leader.Config{}, 2*time.Second)
		check.Got(leader.StepDown(w.Context(), w.ops.bucket(t), "e", "operator"))(w)
		w.at(10 * time.Second)
		atA.worked("5.5s ends")
		atB.worked("5.5s begins")
	})
}

// A candidate of a higher priority waits for the body.
func TestTerms_Preempted(t *testing.T) {
	inRostered(t, func(w *world) {
		low := w.standAs(leader.Config{ID: "low", Queue: true})
		atLow := w.employ(low, after(3*time.Second))
		w.at(10 * time.Second)
		high := w.standAs(leader.Config{ID: "high", Queue: true, Priority: 1, Preempt: true})
		w.at(30 * time.Second)
		w.ledBy(high, low, high)
		got := low.without("observed", "pending", "elected")
		check.That(t, len(got) == 2, "%q", got)
		atLow.mu.Lock()
		defer atLow.mu.Unlock()
		check.That(t, len(atLow.did) == 2, "%q", atLow.did)
	})
}

// A loop that begins before the bucket is there takes the first term.
func TestTerms_BeforeTheBucket(t *testing.T) {
	bubble(t, func(w *world) {
		a := w.stand("a")
		atA := w.employ(a, after(0))
		w.at(time.Minute)
		w.sealed()
		w.at(2 * time.Minute)
		a.news()
		atA.mu.Lock()
		defer atA.mu.Unlock()
		check.That(t, len(atA.did) == 1, "%q", atA.did)
	})
}

// A guard that is raised by a stranger during the body fences the term. The next term raises
// it again, after the body.
func TestTerms_Guarded(t *testing.T) {
	inSealed(t, func(w *world) {
		orders := w.orders()
		g := w.guard("a", "orders")
		atA := w.employ(g.candidate, after(2*time.Second))
		w.at(3500 * time.Millisecond)
		atA.worked("0s begins")
		token, _ := w.standing(orders)
		w.write(orders, fence.DefaultGuardKey, fmt.Sprintf(`{"v":1,"election":"E/e","token":%d,"id":"x","session":"X"}`, token+1))
		w.at(20 * time.Second)
		g.sawBut(t, "observed|pending", "0s elected", "6s fenced overtaken", "8s deposed overtaken", "8s elected")
		atA.worked("8s ends", "8s begins")
	})
}
