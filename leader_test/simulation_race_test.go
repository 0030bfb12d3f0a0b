//go:build race

package leader_test

// raceDetector makes everything take several times as long.
const raceDetector = true
