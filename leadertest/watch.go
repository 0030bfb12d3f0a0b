package leadertest

import (
	"fmt"
	"reflect"

	kit "github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// TB is the part of testing.TB that this package needs.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(f func())
}

// Watcher checks the events of a candidate. It belongs to the goroutine of the test.
type Watcher struct {
	tb  TB
	kit *kit.Watcher
}

// Watch returns a watcher of a candidate. The clock is that of the candidate's store. At the end of the
// test the candidate ends, in the clean-up, without waiting for work.
func Watch(tb TB, clock *Clock, c *leader.Candidate) *Watcher {
	return &Watcher{tb, kit.Watch(tb, clock.of(), c)}
}

// Expect fails the test unless these events have come since the last Expect, in that order, with any others
// between. An event matches one of its type with a Cause or an Err that is the given one, by [errors.Is],
// and with the given ID of the Holder, as far as these are set. With a [Clock] all must have come;
// in a bubble Expect waits for up to a minute.
func (w *Watcher) Expect(events ...leader.Event) {
	w.tb.Helper()
	matchers := make([]kit.Matcher, len(events))
	for i, e := range events {
		matchers[i] = like(e)
	}
	w.kit.Expect(matchers...)
}

// like matches the events that an expected one stands for.
func like(expected leader.Event) kit.Matcher {
	switch e := expected.(type) {
	case leader.Fenced:
		return kit.Fenced(set(e.Cause)...)
	case leader.Deposed:
		return kit.Deposed(set(e.Cause)...)
	case leader.Faulted:
		return kit.Faulted(set(e.Err)...)
	case leader.Observed:
		return kit.Observed(set(e.Holder.ID)...)
	default: // without a field to compare
		kind := reflect.TypeOf(expected)
		return kit.Match(fmt.Sprint(kind), func(e leader.Event) bool { return reflect.TypeOf(e) == kind })
	}
}

// set returns v, unless it is its zero value.
func set[T comparable](v T) []T {
	var zero T
	if v == zero {
		return nil
	}
	return []T{v}
}

// Term returns the term of the last Elected that has come. It fails the test if there was none, and then
// returns nil.
func (w *Watcher) Term() *leader.Term {
	w.tb.Helper()
	return w.kit.Term()
}
