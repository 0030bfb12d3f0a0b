//go:build race

package group

// slowdown divides the amount of exploration and of random walks. The race detector is slow, and there is nothing
// here that could race.
const slowdown = 20
