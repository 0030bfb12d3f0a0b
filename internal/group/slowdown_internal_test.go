//go:build !race

package group

const slowdown = 1
