//go:build race

package leader_test

// raceDetector: everything takes several times as long.
const raceDetector = true
