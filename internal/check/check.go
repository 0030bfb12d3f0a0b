// Package check has the assertions that tests repeat most.
package check

import (
	"errors"
	"testing"
)

// OK ends the test if there is an error.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Is fails the test unless errors.Is(err, want).
func Is(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got the error %v, want %v", err, want)
	}
}

// Err is the error of a call that returns a value, too.
func Err[T any](_ T, err error) error { return err }

// Equal fails the test unless got is want. The verb of the format that comes first is for got.
func Equal[T comparable](t testing.TB, got, want T, format string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf(format+"; want %v", append(append([]any{got}, args...), want)...)
	}
}

// That fails the test unless the condition holds.
func That(t testing.TB, holds bool, format string, args ...any) {
	t.Helper()
	if !holds {
		t.Errorf(format, args...)
	}
}

// Must ends the test unless the condition holds.
func Must(t testing.TB, holds bool, format string, args ...any) {
	t.Helper()
	if !holds {
		t.Fatalf(format, args...)
	}
}
