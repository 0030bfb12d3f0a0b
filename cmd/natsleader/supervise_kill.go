//go:build unix

package main

import (
	"errors"
	"sync"
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

// reaping is held while children of natsleader are reaped, and for as long as leftovers
// are killed. A scan reads the list of processes and then looks at each. If another
// goroutine reaped a process in between, the scan would find neither that process nor the
// one that it has started meanwhile, and would take the command for dead.
var reaping sync.Mutex

// killLeftovers kills the processes that a killed supervisor has left behind, and returns
// when none is left. On Linux, the command itself, as a child of the supervisor, has
// died with it. This process has become the parent of the others.
func (o *supervisorProcess) killLeftovers(group int) {
	reaping.Lock()
	defer reaping.Unlock()
	begun, reported := clockNow(), false
	for h := newProcessKiller(o.strangers); ; {
		o.cgroup.kill()
		if group != 0 {
			_ = unix.Kill(-group, unix.SIGSTOP)
		}
		left, pause := h.round()
		for _, pid := range left {
			reapChild(pid)
		}
		if group != 0 {
			_ = unix.Kill(-group, unix.SIGKILL)
			reapChild(-group)
			if errors.Is(unix.Kill(-group, 0), unix.ESRCH) {
				group = 0
			}
		}
		if len(left) == 0 && group == 0 {
			return
		}
		if !reported && clockNow() >= begun.add(patienceWithKilled) {
			reported = true
			if pid, why := survivor(left); pid != 0 {
				o.inbox <- supervisorReport{What: reportStuck, PID: pid, Error: why}
			}
		}
		time.Sleep(pause)
	}
}

// reapChild reaps a child, or the children of a group, that have ended.
func reapChild(pid int) {
	for {
		n, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
		if !errors.Is(err, unix.EINTR) && (err != nil || n <= 0) {
			return
		}
	}
}
