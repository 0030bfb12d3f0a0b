//go:build prove

package proof

// Long reports whether the tests run in full: whether the build tag prove is set.
const Long = true
