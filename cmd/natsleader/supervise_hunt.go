//go:build unix

package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// hunt kills processes that may start others meanwhile. A process is stopped when it
// is seen first, and killed when it is seen again: by then those are stopped, too,
// that would replace it.
type hunt struct {
	scan  func(found func(process)) // calls found for each process, as soon as it is seen
	kill  func(pid int, sig unix.Signal) error
	known map[int]bool // seen in the round before
	pause time.Duration
}

// process is what a scan sees.
type process struct {
	pid  int
	dead bool // its main thread is: nothing that it could still start is waited for
}

// newHunt is for the descendants of this process, but for some.
func newHunt(but map[int]bool) *hunt {
	return &hunt{scan: func(found func(process)) { scanDescendants(but, found) }, kill: unix.Kill}
}

// descendants are the processes that come from this one, but for some.
func descendants(but map[int]bool) (all []int) {
	scanDescendants(but, func(p process) { all = append(all, p.pid) })
	return all
}

const (
	killAgain = 2 * time.Millisecond
	// What cannot be killed at once (it is in the kernel, or another user's) is tried
	// again less and less often.
	killSeldom = 500 * time.Millisecond
	// Processes that replace themselves are found only by a scan that is faster. So
	// the next follows at once, but this process has other things to do, too.
	scansInARow = 16
)

// round stops and kills, and returns the processes that are left, and when the next round
// is due: soon for as long as it finds new processes each time.
func (h *hunt) round() (left []int, pause time.Duration) {
	changed := false
	for range scansInARow {
		left = left[:0]
		fresh := false
		seen := make(map[int]bool)
		h.scan(func(p process) {
			left = append(left, p.pid)
			sig := unix.SIGSTOP
			if h.known[p.pid] {
				sig = unix.SIGKILL
			}
			killed := h.kill(p.pid, sig) == nil
			seen[p.pid] = true
			fresh = fresh || killed && !p.dead && sig == unix.SIGSTOP
		})
		h.known = seen
		changed = changed || fresh
		if !fresh {
			break
		}
	}
	if changed {
		h.pause = 0
	}
	h.pause = min(max(killAgain, h.pause*5/4), killSeldom)
	return left, h.pause
}
