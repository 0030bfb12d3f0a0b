//go:build !race

package leader_test

const raceDetector = false
