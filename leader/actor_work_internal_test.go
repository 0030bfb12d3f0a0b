package leader

import (
	"slices"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/machine"
)

// The pause between two reminders doubles up to a bound, and begins anew when the candidate has held the
// key in between.
func TestReminder_DoublesUpToABound(t *testing.T) {
	const lease = 10 * time.Second
	var zero time.Time
	var r reminder
	reported := func(from, until time.Duration) (at []time.Duration) {
		r.due(zero.Add(from), false, lease)
		r.due(zero.Add(from), true, lease)
		for next := r.at; !next.After(zero.Add(until)); next = r.at {
			if r.due(next.Add(-1), true, lease) || !r.due(next, true, lease) || !r.at.After(next) {
				t.Fatalf("at %v: due at the wrong time", next.Sub(zero))
			}
			at = append(at, next.Sub(zero)-from)
		}
		return at
	}
	want := []time.Duration{lease}
	for double, pause := 1, 2*lease; double <= 10; double++ {
		want = append(want, want[len(want)-1]+pause)
		pause = min(2*pause, lease<<machine.PatienceDoubles)
	}
	zero = zero.Add(time.Hour)
	if got := reported(0, want[len(want)-1]); !slices.Equal(got, want) {
		t.Errorf("reported at %v, want %v", got, want)
	}
	again := 100 * time.Hour
	if got := reported(again, again+time.Minute); !slices.Equal(got, want[:2]) {
		t.Errorf("after another term: reported at %v, want %v", got, want[:2])
	}
}

// A loop that ends with its body is left before the term is finished, or another term could begin in between.
func TestLoops_LeftBeforeTheEndOfTheTerm(t *testing.T) {
	c, l := new(Candidate), &loops{running: 1}
	c.box.bell = make(chan struct{}, 1)
	l.work(c, &Term{box: &c.box}, func(*Term) bool { return false })
	var got []machine.InputKind
	for _, m := range c.box.mails {
		got = append(got, m.in.Kind)
	}
	if want := []machine.InputKind{machine.InNoLoop, machine.InWorked}; !slices.Equal(got, want) {
		t.Errorf("the candidate gets the inputs %v, want %v", got, want)
	}
}
