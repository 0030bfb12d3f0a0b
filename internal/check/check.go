// Package check has the assertions that tests repeat most.
package check

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

// OK ends the test if there is an error.
func OK(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Is fails the test unless errors.Is(err, want).
func Is(tb testing.TB, err, want error) {
	tb.Helper()
	if !errors.Is(err, want) {
		tb.Errorf("got the error %v, want %v", err, want)
	}
}

// Err is the error of a call that returns a value, too.
func Err[T any](_ T, err error) error { return err }

// Equal fails the test unless got is want. The verb of the format that comes first is for got.
func Equal[T comparable](tb testing.TB, got, want T, format string, args ...any) {
	tb.Helper()
	if got != want {
		tb.Errorf(format+"; want %v", append(append([]any{got}, args...), want)...)
	}
}

// That fails the test unless the condition holds.
func That(tb testing.TB, holds bool, format string, args ...any) {
	tb.Helper()
	if !holds {
		tb.Errorf(format, args...)
	}
}

// Must ends the test unless the condition holds.
func Must(tb testing.TB, holds bool, format string, args ...any) {
	tb.Helper()
	if !holds {
		tb.Fatalf(format, args...)
	}
}

// Says is Is, and the error has to contain a text.
func Says(tb testing.TB, err, want error, text string) {
	tb.Helper()
	if !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
		tb.Errorf("got the error %v, want %v with the text %q", err, want, text)
	}
}

// Deep fails the test unless got is want, by reflect.DeepEqual.
func Deep(tb testing.TB, got, want any) {
	tb.Helper()
	if !reflect.DeepEqual(got, want) {
		tb.Errorf("got\n %+v\nwant\n %+v", got, want)
	}
}

// Got is the value of a call that must succeed: check.Got(f())(tb).
func Got[T any](value T, err error) func(tb testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		OK(tb, err)
		return value
	}
}

// Ended returns a context that has ended.
func Ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// Limit is longer than anything that a test waits for with Comes. In a bubble it is a time of
// the bubble. That time runs on without an end beside a test that waits, because the connections and
// the server have timers.
const Limit = 10 * time.Minute

// Comes returns the next value of a channel, and ends the test if none comes within Limit.
func Comes[T any](tb testing.TB, what string, channel <-chan T) T {
	tb.Helper()
	select {
	case v := <-channel:
		return v
	case <-time.After(Limit): //nolint:forbidigo // it bounds a test
		tb.Fatalf("not within %v: %s", Limit, what)
		return *new(T)
	}
}

// Soon waits until a condition holds that other goroutines bring about, and ends the test if it does not
// hold within a minute. Between two looks it calls step, which yields the processor, settles a fake
// clock, or pauses. In a bubble the minute is one of the bubble, so step has to pause there.
func Soon(tb testing.TB, what string, holds func() bool, step func()) {
	tb.Helper()
	for began := time.Now(); !holds(); step() { //nolint:forbidigo // it bounds a test
		if time.Since(began) > time.Minute { //nolint:forbidigo // as above
			tb.Fatalf("not within a minute: %s", what)
		}
	}
}

// Now reports whether a channel is closed, or has a value, which it takes.
func Now[T any](channel <-chan T) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}
