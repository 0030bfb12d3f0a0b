//go:build race

package leader

// slowdown is by how much less is explored, simulated and walked at random: the
// race detector is slow, and there is nothing here that could race.
const slowdown = 20
