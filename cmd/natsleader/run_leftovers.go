//go:build unix

package main

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

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
