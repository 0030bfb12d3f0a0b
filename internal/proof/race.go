//go:build race

package proof

// Race reports whether the tests run with the race detector.
const Race = true
