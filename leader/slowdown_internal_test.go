//go:build !race

package leader

const slowdown = 1
