//go:build unix

package run

import (
	"errors"
	"sync"
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
	notSent    bool // it was reported that this is not possible
	blocks     int  // how often in a row the command was seen to block Won

	ended bool // the command itself
	code  int
	clear bool // the group is empty: its number may soon be another's
	// behind: more children have ended than were reaped.
	behind bool

	stopping bool
	asked    bool    // asked to stop before the command itself had ended
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
func (p *managedProcess) stop(now instant) {
	if p.stopping {
		return
	}
	p.reap() // it may have ended by itself just now
	p.stopping, p.asked = true, !p.ended
	p.killAt = now.Add(p.drain)
	p.signalAll(p.stopSignal, unix.SIGCONT) // a stopped process cannot handle the stop signal
}

// due kills the processes that must not live any more, and returns when to look again.
func (p *managedProcess) due(now instant) time.Duration {
	if !p.stopping {
		if p.lease.Warn == 0 {
			return -1
		}
		return max(0, min(p.lease.Warn.sub(now), p.lease.Beat))
	}
	killAt := p.killAt
	if p.lease.Kill != 0 { // later if the lease was extended
		killAt = min(killAt, p.lease.Kill)
	}
	if now >= killAt {
		if p.killed == 0 {
			p.killed, p.killer = now, newProcessKiller(nil)
		}
		return p.kill()
	}
	return min(killAt.sub(now), lookAgain)
}

// gone reaps the processes that have ended, and reports whether none is left.
func (p *managedProcess) gone() bool {
	alone := p.reap()
	return p.ended && alone && p.groupIsClear()
}

// reap reaps the ended children, and reports whether there are no others. Processes
// that replace themselves may end faster than they can be reaped.
func (p *managedProcess) reap() bool {
	p.behind = false
	for end := ClockNow().Add(longestReaping); ClockNow() < end; {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return true // ECHILD
		case pid <= 0:
			return false
		case pid == p.pid:
			p.ended, p.code = true, exitCodeOf(status)
		}
	}
	p.behind = true
	return false
}

// groupIsClear reports whether the group is empty. Its number stays in use as long as a
// process is in the group, or the command was not reaped.
func (p *managedProcess) groupIsClear() bool {
	p.clear = p.clear || errors.Is(unix.Kill(-p.pid, 0), unix.ESRCH)
	return p.clear
}

// kill kills the processes that are left, and returns when to try again.
func (p *managedProcess) kill() time.Duration {
	p.cgroup.kill()
	p.signalGroup(unix.SIGSTOP)
	_, pause := p.killer.round()
	p.signalGroup(unix.SIGKILL)
	return pause
}

// signal sends a signal to the command itself.
func (p *managedProcess) signal(sig unix.Signal) {
	if !p.ended {
		_ = unix.Kill(p.pid, sig)
	}
}

// signalGroup sends a signal to the command's group.
func (p *managedProcess) signalGroup(sig unix.Signal) {
	if !p.ended || !p.groupIsClear() {
		_ = unix.Kill(-p.pid, sig)
	}
}

// signalAll sends signals to every process of the command, also outside its group.
func (p *managedProcess) signalAll(signals ...unix.Signal) {
	for _, sig := range signals {
		p.signalGroup(sig)
	}
	for _, pid := range descendants(nil) {
		if group, err := unix.Getpgid(pid); err != nil || group != p.pid {
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
	begun, reported := ClockNow(), false
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
		if !reported && ClockNow() >= begun.Add(patienceWithKilled) {
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
