//go:build field

package mutation_test

import "testing"

// The mutants of the plumbing that tests in real time catch.
func TestPlumbing_CaughtInTheField(t *testing.T) { tryPlumbing(t, true) }
