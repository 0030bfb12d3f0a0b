//go:build race

package machine

// slowdown divides the amount of exploration, simulation and random walks. The race
// detector is slow, and there is nothing here that could race.
const slowdown = 20
