package leadertest

import (
	"fmt"
	"strings"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/leader"
)

// TB is the part of testing.TB that the kit needs.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(f func())
}

// Watcher reads the events of a candidate for a test. It has no goroutine and reads only when
// it is asked, so its results are the same in every run. See [leader.Candidate.Events] for what a
// candidate leaves out of more than 1,024 unread events, and of more than 32 before Watch.
//
// A Watcher belongs to the goroutine of the test.
type Watcher struct {
	tb      TB
	clock   *Clock
	unread  func() (event any, ok bool)
	bell    <-chan struct{}
	ignored []Matcher
	seen    []leader.Event // all that was received, in order
	next    int            // no Expect has passed seen[next:] yet
}

// Watch returns a watcher of the events of a [leader.Candidate]. The clock is that of its
// store. With a nil clock, for a store in the process' time, Expect waits up to
// a minute of that time, and a test in a bubble should call synctest.Wait
// before it calls ExpectExactly.
//
// At the end of the test the candidate ends, in the clean-up, by [Crash].
func Watch(tb TB, clock *Clock, candidate *leader.Candidate) *Watcher {
	tb.Cleanup(func() { Crash(tb, candidate) })
	w := &Watcher{tb: tb, clock: clock}
	w.unread, w.bell = backend.EventsOf(candidate)
	return w
}

// Crash ends a candidate at once, and returns when it has ended. It does not wait for its store, whose time may stand
// still, or for work, and may keep its key.
func Crash(tb TB, c *leader.Candidate) {
	tb.Helper()
	backend.Crash(c)
	select {
	case <-c.Done():
	case <-time.After(patience):
		tb.Fatalf("leadertest: a candidate that was stopped has not ended for %v", patience)
	}
}

// Ignore lets ExpectExactly pass over events that match, as Expect does anyway,
// and returns the watcher. Events still returns them.
func (w *Watcher) Ignore(ms ...Matcher) *Watcher {
	w.ignored = append(w.ignored, ms...)
	return w
}

// Expect fails the test unless the events include the expected ones in that
// order, with any others before and between. It goes on where the last Expect
// ended, right behind the last match.
//
// With a clock it first lets all events run that are due now, and never advances. If an
// event is missing then, it fails at once.
func (w *Watcher) Expect(expected ...Matcher) {
	w.tb.Helper()
	w.pull()
	from := w.next
	for i, m := range expected {
		for {
			if w.next == len(w.seen) && !w.wait() {
				w.tb.Fatalf("leadertest: expected%s\nbut no %v came. What came:%s", list(expected), expected[i], list(w.seen[from:]))
				return
			}
			w.next++
			if m.matches(w.seen[w.next-1]) {
				break
			}
		}
	}
}

// ExpectExactly fails the test unless the expected events, in that order, are
// all that came since the last Expect, except for those that the watcher
// ignores. Without arguments it expects nothing.
func (w *Watcher) ExpectExactly(expected ...Matcher) {
	w.tb.Helper()
	w.pull()
	var came []leader.Event
	for {
		for ; w.next < len(w.seen); w.next++ {
			if e := w.seen[w.next]; !w.ignores(e) {
				came = append(came, e)
			}
		}
		if len(came) >= len(expected) || !w.wait() {
			break
		}
	}
	same := len(came) == len(expected)
	for i := 0; same && i < len(came); i++ {
		same = expected[i].matches(came[i])
	}
	if !same {
		w.tb.Fatalf("leadertest: expected exactly%s\nWhat came:%s", list(expected), list(came))
	}
}

// Events returns all events that have come so far, ignored ones included, and
// marks none as expected.
func (w *Watcher) Events() []leader.Event {
	w.pull()
	return append([]leader.Event(nil), w.seen...)
}

// Term returns the term of the last Elected that has come. It fails the test if
// there was none, and then returns nil.
func (w *Watcher) Term() *leader.Term {
	w.tb.Helper()
	w.pull()
	for i := len(w.seen) - 1; i >= 0; i-- {
		if e, ok := w.seen[i].(leader.Elected); ok {
			return e.Term
		}
	}
	w.tb.Fatalf("leadertest: no Elected has come. What came:%s", list(w.seen))
	return nil
}

func (w *Watcher) ignores(e leader.Event) bool {
	for _, m := range w.ignored {
		if m.matches(e) {
			return true
		}
	}
	return false
}

// pull reads all events that the candidate has emitted so far.
func (w *Watcher) pull() {
	if w.clock != nil {
		w.clock.Settle()
	}
	for e, ok := w.unread(); ok; e, ok = w.unread() {
		w.seen = append(w.seen, e.(leader.Event)) //nolint:forcetypeassert // it is nothing else
	}
}

// wait reads at least one more event, if one can still come without advancing the clock.
func (w *Watcher) wait() bool {
	if w.clock != nil {
		return false // pull has read them all
	}
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for came := len(w.seen); len(w.seen) == came; w.pull() {
		select {
		case _, open := <-w.bell:
			if !open {
				return false
			}
		case <-limit.C:
			return false
		}
	}
	return true
}

// list writes one per line.
func list[T fmt.Stringer](of []T) string {
	if len(of) == 0 {
		return "\n\tnothing"
	}
	var b strings.Builder
	for _, it := range of {
		b.WriteString("\n\t" + it.String())
	}
	return b.String()
}
