//go:build unix

package main

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// managedProcess is a command that was started, with all processes that it starts: its process
// group, and on Linux every descendant.
type managedProcess struct {
	pid        int // and the number of its group
	token      uint64
	lease      lease // zero: none
	stopSignal unix.Signal
	drain      time.Duration
	begun      instant
	won        bool // the signal Won was sent
	untold     bool // it was reported that this is not possible
	blocks     int  // how often in a row the command was seen to block Won

	ended bool // the command itself
	code  int
	clear bool // the group is empty: its number may soon be another's
	// behind: more children have ended than were reaped.
	behind bool

	stopping bool
	told     bool    // asked to stop before the command itself had ended
	killAt   instant // while stopping
	killed   instant // when it was killed first; 0: not yet
	stuck    bool    // it was reported that a process does not die
	cgroup   cgroup
	killer   *processKiller // while it is killed
}

const (
	// No signal reports that the last process of a group has ended if it is not a child
	// of this process, nor that a process has left its parent.
	lookAgain = 20 * time.Millisecond
	// longestStart is how long a command may take until it handles the signal Won.
	// After that it is looked at seldom.
	longestStart = 10 * time.Second
	lookSeldom   = 500 * time.Millisecond
	// patienceWithKilled is how long a killed process may take to die.
	patienceWithKilled = time.Second
	// longestReaping is how long reap goes on before this process does something else.
	longestReaping = 20 * time.Millisecond
)

// stop sends the stop signal to the command. The command is killed after the drain, or
// when the lease demands it.
func (w *managedProcess) stop(now instant) {
	if w.stopping {
		return
	}
	w.reap() // it may have ended by itself just now
	w.stopping, w.told = true, !w.ended
	w.killAt = now.add(w.drain)
	w.signalAll(w.stopSignal, unix.SIGCONT) // a stopped process cannot handle the stop signal
}

// due kills the processes that must not live any more, and returns when to look again.
func (w *managedProcess) due(now instant) time.Duration {
	if !w.stopping {
		if w.lease.Warn == 0 {
			return -1
		}
		return max(0, min(w.lease.Warn.sub(now), w.lease.Beat))
	}
	killAt := w.killAt
	if w.lease.Kill != 0 { // later if the lease was extended
		killAt = min(killAt, w.lease.Kill)
	}
	if now >= killAt {
		if w.killed == 0 {
			w.killed, w.killer = now, newProcessKiller(nil)
		}
		return w.kill()
	}
	return min(killAt.sub(now), lookAgain)
}

// gone reaps the processes that have ended, and reports whether none is left.
func (w *managedProcess) gone() bool {
	alone := w.reap()
	return w.ended && alone && w.groupIsClear()
}

// reap reaps the ended children, and reports whether there are no others. Processes
// that replace themselves may end faster than they can be reaped.
func (w *managedProcess) reap() bool {
	w.behind = false
	for end := clockNow().add(longestReaping); clockNow() < end; {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return true // ECHILD
		case pid <= 0:
			return false
		case pid == w.pid:
			w.ended, w.code = true, exitCodeOf(status)
		}
	}
	w.behind = true
	return false
}

// groupIsClear reports whether the group is empty. Its number stays in use as long as a
// process is in the group, or the command was not reaped.
func (w *managedProcess) groupIsClear() bool {
	w.clear = w.clear || errors.Is(unix.Kill(-w.pid, 0), unix.ESRCH)
	return w.clear
}

// kill kills the processes that are left, and returns when to try again.
func (w *managedProcess) kill() time.Duration {
	w.cgroup.kill()
	w.signalGroup(unix.SIGSTOP)
	_, pause := w.killer.round()
	w.signalGroup(unix.SIGKILL)
	return pause
}

// signal sends a signal to the command itself.
func (w *managedProcess) signal(sig unix.Signal) {
	if !w.ended {
		_ = unix.Kill(w.pid, sig)
	}
}

// signalGroup sends a signal to the command's group.
func (w *managedProcess) signalGroup(sig unix.Signal) {
	if !w.ended || !w.groupIsClear() {
		_ = unix.Kill(-w.pid, sig)
	}
}

// signalAll sends signals to every process of the command, also outside its group.
func (w *managedProcess) signalAll(signals ...unix.Signal) {
	for _, sig := range signals {
		w.signalGroup(sig)
	}
	for _, pid := range descendants(nil) {
		if group, err := unix.Getpgid(pid); err != nil || group != w.pid {
			for _, sig := range signals {
				_ = unix.Kill(pid, sig)
			}
		}
	}
}

// survivor returns one of the processes that do not die of SIGKILL, and the reason. 0:
// none is known.
func survivor(pids []int) (pid int, why string) {
	for _, p := range pids {
		switch err := unix.Kill(p, unix.SIGKILL); {
		case err == nil:
			pid, why = p, "it is held up in the kernel"
		case !errors.Is(err, unix.ESRCH):
			return p, err.Error()
		}
	}
	return pid, why
}

func exitCodeOf(status unix.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
