package leadertest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
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

// tape is a source that has emitted all of its events.
type tape chan leader.Event

func (s tape) Events() <-chan leader.Event { return s }

func taped(events ...leader.Event) tape {
	s := make(tape, 64)
	for _, e := range events {
		s <- e
	}
	return s
}

var (
	errOdd   = errors.New("odd")
	faulted  = leader.Faulted{Err: fmt.Errorf("wrapped: %w", errOdd)}
	pending  = leader.Pending{Token: 7}
	observed = leader.Observed{Holder: leader.Holder{ID: "b"}}
	nobody   = leader.Observed{}
)

func check(t *testing.T, f func(w *leadertest.Watcher), events ...leader.Event) string {
	t.Helper()
	var v verdict
	f(leadertest.Watch(&v, leadertest.NewClock(), taped(events...)))
	return string(v)
}

func TestExpect_FindsASubsequence(t *testing.T) {
	said := check(t, func(w *leadertest.Watcher) {
		w.Expect(leadertest.Pending(), leadertest.Observed(""))
		w.Expect(leadertest.Faulted(errOdd))
		w.ExpectExactly()
	}, observed, pending, faulted, nobody, faulted)
	if said != "" {
		t.Fatal(said)
	}
}

// Expect reports the event that is missing and the events that came.
func TestExpect_FailureMessage(t *testing.T) {
	said := check(t, func(w *leadertest.Watcher) {
		w.Expect(leadertest.Pending())
		w.Expect(leadertest.Observed("b", ""), leadertest.Fenced(leader.ErrResigned))
	}, pending, faulted, observed)
	const want = `leadertest: expected
	Observed("b", "")
	Fenced("leader: resigned")
but no Fenced("leader: resigned") came. What came:
	faulted: wrapped: odd
	observed: "b" leads with token 0`
	if said != want {
		t.Fatal(said)
	}
}

// ExpectExactly wants these events and no others.
func TestExpectExactly_NoOthers(t *testing.T) {
	exactly := func(expected ...leadertest.Matcher) func(*leadertest.Watcher) {
		return func(w *leadertest.Watcher) { w.ExpectExactly(expected...) }
	}
	if said := check(t, exactly(leadertest.Pending(), leadertest.Faulted()), pending, faulted); said != "" {
		t.Fatal(said)
	}
	for _, wrong := range [][]leader.Event{{}, {pending}, {faulted, pending}, {pending, faulted, nobody}} {
		said := check(t, exactly(leadertest.Pending(), leadertest.Faulted(errOdd)), wrong...)
		if !strings.HasPrefix(said, "leadertest: expected exactly\n\tPending\n\tFaulted(\"odd\")\nWhat came:\n") {
			t.Fatalf("%q", said)
		}
	}
	said := check(t, func(w *leadertest.Watcher) {
		w.Ignore(leadertest.Faulted(), leadertest.Observed("")).ExpectExactly(leadertest.Pending(), leadertest.Observed("b"))
		if len(w.Events()) != 4 {
			t.Error(w.Events())
		}
	}, pending, faulted, nobody, observed)
	if said != "" {
		t.Fatal(said)
	}
}

func TestTerm_FailsWithoutOne(t *testing.T) {
	said := check(t, func(w *leadertest.Watcher) { w.Term() }, pending)
	if !strings.HasPrefix(said, "leadertest: no Elected has come. What came:\n\tpending") {
		t.Fatal(said)
	}
}

// A watcher reads more events than the channel holds.
func TestWatcher_ReadsAhead(t *testing.T) {
	s := make(tape)
	go func() {
		defer close(s)
		for range 200 {
			s <- pending
		}
	}()
	w := leadertest.Watch(t, leadertest.NewClock(), s)
	w.Expect(make200(leadertest.Pending())...)
	w.ExpectExactly()
	w.ExpectExactly() // of a closed channel
}

func make200(m leadertest.Matcher) []leadertest.Matcher {
	ms := make([]leadertest.Matcher, 200)
	for i := range ms {
		ms[i] = m
	}
	return ms
}

func TestWatcher_WithoutAClockWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := taped()
		go func() { s <- pending }()
		w := leadertest.Watch(t, nil, s)
		w.ExpectExactly(leadertest.Pending())
		var v verdict
		leadertest.Watch(&v, nil, s).Expect(leadertest.Match("something odd", func(leader.Event) bool { return false }))
		if !strings.Contains(string(v), "no something odd came. What came:\n\tnothing") {
			t.Fatal(v)
		}
	})
}
