package leader_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/leader"
)

// The key is deleted during the body. The candidate does not campaign before the body has
// ended, and others lead.
func TestTerms_KeyDeleted(t *testing.T) { story(t) }

// A candidate whose application has left its loop warns after one lease, and then at intervals
// that double.
func TestTerms_NoLoopWarns(t *testing.T) {
	inSealed(t, func(w *world) {
		log := new(warnings)
		a := w.standAs(leader.Config{ID: "a", Logger: slog.New(log)})
		go func() {
			for range a.Terms() {
				time.Sleep(time.Second)
				break
			}
		}()
		const text = "no loop takes terms; instead=the candidate does not campaign since its loop over Terms was left: begin another loop, or stop the candidate"
		w.at(time.Second + lease - 1)
		log.were(w)
		w.at(time.Second + lease)
		log.were(w, text)
		w.at(time.Second + 7*lease)
		log.were(w, text, text)
		go func() {
			for term := range a.Terms() {
				<-term.Context().Done()
			}
		}()
		w.at(time.Hour)
		log.were(w)
	})
}

// The application closes the connection during the body. The candidate ends at once, and the
// loop when the body has ended.
func TestTerms_ConnectionClosed(t *testing.T) { story(t) }

// A request from outside to hand over ends the body in order.
func TestTerms_StepDown(t *testing.T) { story(t) }

// A candidate of a higher priority waits for the body.
func TestTerms_Preempted(t *testing.T) { story(t) }

// A loop that begins before the bucket is there takes the first term.
func TestTerms_BeforeTheBucket(t *testing.T) { story(t) }

// A guard that is raised by a stranger during the body fences the term. The next term raises
// it again, after the body.
func TestTerms_Guarded(t *testing.T) {
	inSealed(t, func(w *world) {
		orders := w.orders()
		g := w.guard("a", "orders")
		go func() {
			for term := range g.Terms() {
				<-term.Context().Done()
				time.Sleep(2 * time.Second)
			}
		}()
		w.at(3500 * time.Millisecond)
		token, _ := w.standing(orders)
		w.write(orders, fence.DefaultGuardKey, fmt.Sprintf(`{"v":1,"election":"E/e","token":%d,"id":"x","session":"X"}`, token+1))
		w.at(20 * time.Second)
		g.sawBut(t, "observed|pending", "0s elected", "6s fenced overtaken", "8s deposed overtaken", "8s elected")
	})
}
