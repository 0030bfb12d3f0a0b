package leader_test

import (
	"testing"
	"time"

	"github.com/natsleader/natsleader/leader"
)

// A stop lets the body end what it has begun. The next leader begins in the same instant.
func TestTerms_StopAwaitsTheBody(t *testing.T) { story(t) }

// The end of the context stops likewise. A body that never ends is not waited for longer
// than StopTimeout, and the key is released in time.
func TestTerms_StopTimeout(t *testing.T) { story(t) }

// StopTimeout bounds the stop while the store is away, to the instant.
func TestStopTimeout_StoreAway(t *testing.T) { story(t) }

// A StopTimeout that is set, or a GracePeriod that is set, moves the ends of the drain and of
// the stop.
func TestStopTimeout_Relations(t *testing.T) { story(t) }

// The end of the context bounds a drain that is under way for another reason, and a Stop that
// has no bound.
func TestStopTimeout_AfterAnotherEnd(t *testing.T) { story(t) }

// While the body works on in a term that has ended, the candidate keeps its key, and no other
// begins. It is elected again when the body ends in time.
func TestTerms_FencedKeepsTheKey(t *testing.T) { story(t) }

// The body ends too late: the candidate gives up its key in time, and does not campaign before
// the end of the body.
func TestTerms_DrainIsOver(t *testing.T) { story(t) }

// A leader that was overtaken while its body works on reports that, and takes no free key.
func TestTerms_Overtaken(t *testing.T) { story(t) }

// After a break, a panic and a Goexit the candidate hands over, and does not campaign before
// the next loop.
func TestTerms_LoopIsLeft(t *testing.T) { story(t) }

// A body that returns early hands over. The candidate waits one lease before it leads again.
func TestTerms_BodyReturnsEarly(t *testing.T) { story(t) }

// A term that is over before a loop could take it is left out.
func TestTerms_OverBeforeTheLoop(t *testing.T) { story(t) }

// A loop that begins while the candidate leads takes that term, and no other loop does.
func TestTerms_LateLoop(t *testing.T) { story(t) }

// A loop over the terms of a candidate that has ended, or of a zero one, ends at once.
func TestTerms_AfterTheEnd(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.stand("a")
		w.at(time.Second)
		w.ok(a.Stop())
		for range a.Terms() {
			t.Error("a term of a candidate that has ended")
		}
		for range new(leader.Candidate).Terms() {
			t.Error("a term of a zero candidate")
		}
	})
}

// A Stop that is given up ends the candidate at once. The loop ends with its body.
func TestTerms_Abandoned(t *testing.T) { story(t) }

// With several seats, work that goes on on one seat keeps the process from all others.
func TestTerms_Seats(t *testing.T) { story(t) }

// A handover by name awaits the body, too.
func TestTerms_Transfer(t *testing.T) { story(t) }
