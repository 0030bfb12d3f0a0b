//go:build !race

package machine

const slowdown = 1
