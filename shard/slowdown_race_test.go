//go:build race

package shard_test

// slowdown divides how many seeds are simulated. With the race detector each takes five times as long.
const slowdown = 3
