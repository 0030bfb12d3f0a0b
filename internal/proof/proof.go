// Package proof gives the tests of this repository two sizes. Without a build tag they
// run a sample that a newcomer can wait for; with the build tag prove
// (go test -tags prove work, make prove) they run in full.
//
// A test that takes long in full has a sample by default:
//
//	for seed := range proof.Size(200, 4000) { // a sample, in full
//
// A test without a quick part runs in full only:
//
//	func TestEveryPair(t *testing.T) {
//		proof.Only(t)
//
// The race detector makes a test several times as slow, and it needs no long run to find a race. CI runs each test
// without it, too, so a long test has a smaller size with it, or none:
//
//	for seed := range proof.Raced(proof.Size(200, 4000), 5) { // a fifth with the race detector
//
//	func TestManyHours(t *testing.T) {
//		proof.NotRaced(t)
//
// A test that cannot run here skips itself with [Skip], and CI fails if it does.
//
// The tests report their numbers with [Ran], and `make prove` prints the totals. The tag
// needs no flag, so it can be given to all packages at once.
//
// Its files:
//
//	proof.go    the two sizes of long tests
//	sample.go   the size without a build tag
//	full.go     the size with the build tag prove
//	norace.go   whether the race detector is on: no
//	race.go     whether the race detector is on: yes
//	totals.go   how many situations, seeds and mutants a run tried
//	skip.go     the one way to skip a test, and a record of it for CI
//	outside.go  what go test does not watch, for its cache
package proof

// TB is the part of testing.TB that this package uses.
type TB interface {
	Helper()
	Name() string
	Skip(args ...any)
	Fatal(args ...any)
}

// Size returns sample, or full if [Long] is set.
func Size(sample, full int) int {
	if Long {
		return full
	}
	return sample
}

// Raced returns n, or with the race detector the given part of it, at least 1.
func Raced(n, part int) int {
	if Race {
		return max(1, n/part)
	}
	return n
}

// NotRaced skips the test with the race detector. It is for tests that repeat for long what shorter tests do once, for
// tests of which no part runs beside another, and for one that the detector cannot run.
func NotRaced(tb TB) {
	tb.Helper()
	if Race {
		tb.Skip("only without the race detector")
	}
}

// Only skips the test unless [Long] is set.
func Only(tb TB) {
	tb.Helper()
	if !Long {
		tb.Skip("only with the build tag prove (make prove)")
	}
}
