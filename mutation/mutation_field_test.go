//go:build field

package mutation_test

import "testing"

// The mutants that tests in real time catch.
func TestMutants_CaughtInTheField(t *testing.T) { tryMutants(t, true) }
