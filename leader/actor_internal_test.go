package leader

import (
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/record"
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
			check.Must(t, !r.due(next.Add(-1), true, lease) && r.due(next, true, lease) && r.at.After(next),
				"at %v: due at the wrong time", next.Sub(zero))
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
	got := reported(0, want[len(want)-1])
	check.That(t, slices.Equal(got, want), "reported at %v, want %v", got, want)
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
	want := []machine.InputKind{machine.InNoLoop, machine.InWorked}
	check.That(t, slices.Equal(got, want), "the candidate gets the inputs %v, want %v", got, want)
}

// Of each thousand candidates that an application adds, these two types take most of the heap.
// Go allocates in classes, with 8 bytes more for a type of this size that has pointers. A
// field that comes here either finds room, or makes each candidate larger by 64 to 256
// bytes: is it needed by a candidate that waits, or can it stand behind a pointer that is
// made when it is needed?
func TestActor_SizeClass(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		proof.Skip(t, "for pointers of 8 bytes")
	}
	const header = 8
	n := unsafe.Sizeof(actor{}) + header
	check.That(t, n <= 3200, "an actor takes %d bytes, more than its size class of 3200", n)
	if n := unsafe.Sizeof(Candidate{}) + header; n > 704 {
		t.Errorf("a Candidate takes %d bytes, more than its size class of 704", n)
	}
}

// An own record is decoded until its term is dated, because its counter shows the time of the server. A renewal later
// costs no more than the look at its session.
func TestActor_DecodesOwnRecordsUntilDated(t *testing.T) {
	rec := record.Record{Phase: record.PhaseLeading, ID: "a", Session: "s", Counter: 9, Lease: time.Second, Token: 5}
	e := backend.Entry{Revision: 7, Value: rec.Encode(0)}
	for _, dated := range []bool{false, true} {
		a := &actor{Params: &machine.Params{Session: "s"}}
		a.status.Dated, a.requests.own = dated, []byte(`"session":"s"`)
		got := a.decodeDelivered(e, nil)
		check.That(t, got.Revision == 7 && got.Rec.Session == "s" && (got.Rec.Counter == 0) == dated, "dated: %v, decoded: %+v", dated, got)
	}
}
