package leadertest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// verdict is a TB that keeps the first failure.
type verdict string

func (*verdict) Helper() {}

func (*verdict) Cleanup(func()) {}

func (v *verdict) Fatalf(format string, args ...any) {
	if *v == "" {
		*v = verdict(fmt.Sprintf(format, args...))
	}
}

// taped returns events that have all been emitted.
func taped(events ...leader.Event) chan leader.Event {
	s := make(chan leader.Event, 64)
	for _, e := range events {
		s <- e
	}
	return s
}

var (
	errOdd   = errors.New("odd")
	faulted  = leader.Faulted{Err: fmt.Errorf("wrapped: %w", errOdd)}
	pending  = leader.Pending{Token: 7}
	observed = leader.Observed{Holder: leader.Holder{State: leader.HolderLeading, ID: "b"}}
	nobody   = leader.Observed{}
)

func verdictOf(t *testing.T, f func(w *leadertest.Watcher), events ...leader.Event) string {
	t.Helper()
	var v verdict
	f(leadertest.WatchEvents(&v, leadertest.NewClock(), taped(events...), nil))
	return string(v)
}

func TestExpect_FindsASubsequence(t *testing.T) {
	said := verdictOf(t, func(w *leadertest.Watcher) {
		w.Expect(leadertest.Pending(), leadertest.Observed(""))
		w.Expect(leadertest.Faulted(errOdd))
		w.ExpectExactly()
	}, observed, pending, faulted, nobody, faulted)
	check.Must(t, said == "", "%v", said)
}

// Expect reports the event that is missing and the events that came.
func TestExpect_FailureMessage(t *testing.T) {
	said := verdictOf(t, func(w *leadertest.Watcher) {
		w.Expect(leadertest.Pending())
		w.Expect(leadertest.Observed("b", ""), leadertest.Fenced(leader.ErrResigned))
	}, pending, faulted, observed)
	const want = `leadertest: expected
	Observed("b", "")
	Fenced("leader: resigned")
but no Fenced("leader: resigned") came. What came:
	faulted: wrapped: odd
	observed: "b" leads with token 0`
	check.Must(t, said == want, "%v", said)
}

// ExpectExactly wants these events and no others.
func TestExpectExactly_NoOthers(t *testing.T) {
	exactly := func(expected ...leadertest.Matcher) func(*leadertest.Watcher) {
		return func(w *leadertest.Watcher) { w.ExpectExactly(expected...) }
	}
	if said := verdictOf(t, exactly(leadertest.Pending(), leadertest.Faulted()), pending, faulted); said != "" {
		t.Fatal(said)
	}
	for _, wrong := range [][]leader.Event{{}, {pending}, {faulted, pending}, {pending, faulted, nobody}} {
		said := verdictOf(t, exactly(leadertest.Pending(), leadertest.Faulted(errOdd)), wrong...)
		if !strings.HasPrefix(said, "leadertest: expected exactly\n\tPending\n\tFaulted(\"odd\")\nWhat came:\n") {
			t.Fatalf("%q", said)
		}
	}
	said := verdictOf(t, func(w *leadertest.Watcher) {
		w.Ignore(leadertest.Faulted(), leadertest.Observed("")).ExpectExactly(leadertest.Pending(), leadertest.Observed("b"))
		if len(w.Events()) != 4 {
			t.Error(w.Events())
		}
	}, pending, faulted, nobody, observed)
	check.Must(t, said == "", "%v", said)
}

func TestTerm_FailsWithoutOne(t *testing.T) {
	said := verdictOf(t, func(w *leadertest.Watcher) { w.Term() }, pending)
	check.Must(t, strings.HasPrefix(said, "leadertest: no Elected has come. What came:\n\tpending"), "%v", said)
}

// Two watchers of one candidate both get all events, also after its end.
func TestWatcher_NotTheOnlyReader(t *testing.T) {
	clock := leadertest.NewClock()
	c := check.Got(leader.Campaign(t.Context(), leadertest.NewStore(clock).Link("a"), "e", leader.Config{ID: "a"}))(t)
	first, second := leadertest.Watch(t, clock, c), leadertest.Watch(t, clock, c)
	first.ExpectExactly(leadertest.Pending(), leadertest.Elected())
	check.OK(t, c.Stop())
	first.ExpectExactly(leadertest.Deposed(leader.ErrStopped))
	for _, w := range []*leadertest.Watcher{second, leadertest.Watch(t, clock, c)} {
		w.ExpectExactly(leadertest.Pending(), leadertest.Elected(), leadertest.Deposed(leader.ErrStopped))
		w.ExpectExactly()
	}
}

func TestWatcher_WithoutAClockWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, bell := taped(), make(chan struct{})
		go func() {
			bell <- struct{}{} // for nothing
			s <- pending
			bell <- struct{}{}
		}()
		w := leadertest.WatchEvents(t, nil, s, bell)
		w.ExpectExactly(leadertest.Pending())
		var v verdict
		leadertest.WatchEvents(&v, nil, s, bell).Expect(leadertest.Match("something odd", func(leader.Event) bool { return false }))
		check.Must(t, strings.Contains(string(v), "no something odd came. What came:\n\tnothing"), "%v", v)
	})
}
