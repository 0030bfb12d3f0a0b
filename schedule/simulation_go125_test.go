//go:build !go1.26

package schedule_test

import "testing"

// seedSessions does nothing: before Go 1.26 no test can determine the sessions of candidates, and a seed may run otherwise when
// it is repeated.
func seedSessions(*testing.T, uint64) {}
