//go:build unix

package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// processKiller kills processes that may start others meanwhile. A process is stopped
// when it is first seen, and killed when it is seen again. By then the processes that
// would replace it are stopped, too.
type processKiller struct {
	scan  func(found func(process)) // calls found for each process, as soon as it is seen
	kill  func(pid int, sig unix.Signal) error
	known map[int]bool // seen in the round before
	pause time.Duration
}

// process is a process that a scan has found.
type process struct {
	pid  int
	dead bool // its main thread is dead: no scan waits for processes that it could still start
}

// newProcessKiller is for the descendants of this process, except some.
func newProcessKiller(but map[int]bool) *processKiller {
	return &processKiller{scan: func(found func(process)) { scanDescendants(but, found) }, kill: unix.Kill}
}

// descendants returns the processes that come from this one, except some.
func descendants(but map[int]bool) (all []int) {
	scanDescendants(but, func(p process) { all = append(all, p.pid) })
	return all
}

const (
	killAgain = 2 * time.Millisecond
	// Processes that cannot be killed at once (in the kernel, or another user's) are
	// tried again less and less often.
	killSeldom = 500 * time.Millisecond
	// A scan finds processes that replace themselves only if it is faster than they
	// are. So the next scan follows at once, but this process has other things to do,
	// too.
	scansInARow = 16
)

// round stops and kills. It returns the processes that are left, and the time until the
// next round is due, which is short as long as each round finds new processes.
func (k *processKiller) round() (left []int, pause time.Duration) {
	changed := false
	for range scansInARow {
		left = left[:0]
		fresh := false
		seen := make(map[int]bool)
		k.scan(func(p process) {
			left = append(left, p.pid)
			sig := unix.SIGSTOP
			if k.known[p.pid] {
				sig = unix.SIGKILL
			}
			killed := k.kill(p.pid, sig) == nil
			seen[p.pid] = true
			fresh = fresh || killed && !p.dead && sig == unix.SIGSTOP
		})
		k.known = seen
		changed = changed || fresh
		if !fresh {
			break
		}
	}
	if changed {
		k.pause = 0
	}
	k.pause = min(max(killAgain, k.pause*5/4), killSeldom)
	return left, k.pause
}
