//go:build go1.26

package leader_test

import (
	"testing"
	"testing/cryptotest"
)

// sessionsSeeded reports whether a seed determines the sessions of candidates.
const sessionsSeeded = true

// seedSessions makes the sessions of candidates depend on the seed alone.
func seedSessions(t *testing.T, seed uint64) { cryptotest.SetGlobalRandom(t, seed) }
