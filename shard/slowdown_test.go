//go:build !race

package shard_test

const slowdown = 1
