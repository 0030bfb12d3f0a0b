//go:build go1.26

package schedule_test

import (
	"testing"
	"testing/cryptotest"
)

// seedSessions makes the sessions of candidates, and so their random waits, depend on the seed alone.
func seedSessions(t *testing.T, seed uint64) { cryptotest.SetGlobalRandom(t, seed) }
