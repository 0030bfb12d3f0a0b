package run

import (
	"bytes"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownBinary is the running program, even if its file was replaced.
const ownBinary = "/proc/self/exe"

// adoptOrphans makes this process the parent of descendants whose own parent has ended,
// including those that have left the group or the session.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// introduceSupervisor prepares the process, and names it for ps and top, because it was
// started as "exe".
func introduceSupervisor() {
	adoptOrphans()
	_ = os.WriteFile("/proc/self/comm", []byte(supervisorName), 0)
}

// commandAttr has the command started in a group of its own, and killed by the kernel
// when its parent dies.
func commandAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// scanDescendants finds the processes that come from this one: its children except
// some, those that it has adopted, and their descendants.
// (/proc/<pid>/task/<tid>/children would be faster, but many kernels do not have it.)
// It looks at the youngest first, because they may be gone in a moment. As a rule they
// have the highest numbers, and have been adopted.
func scanDescendants(but map[int]bool, found func(process)) {
	proc, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer func() { _ = proc.Close() }()
	names, _ := proc.Readdirnames(-1)
	own := os.Getpid()
	var ours []int
	children := make(map[int][]process)
	for _, name := range slices.Backward(names) {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		switch state, parent, ok := StatOf(name); {
		case !ok || parent == own && but[pid]:
		case parent == own:
			ours = append(ours, pid)
			found(process{pid, state == 'Z'})
		default:
			children[parent] = append(children[parent], process{pid, state == 'Z'})
		}
	}
	for i := 0; i < len(ours); i++ {
		for _, p := range children[ours[i]] {
			ours = append(ours, p.pid)
			found(p)
		}
	}
}

// left returns a process that the command has started and that lives, with its name.
func (p *managedProcess) left() (pid int, name string, lives bool) {
	scanDescendants(nil, func(d process) {
		if !d.dead {
			pid = d.pid
		}
	})
	comm, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm") // it may have ended meanwhile
	return pid, strings.TrimSpace(string(comm)), pid != 0 && len(comm) != 0
}

// StatOf reads the third and the fourth field of a process's stat. The second is a name
// in parentheses, which may itself contain parentheses.
func StatOf(pid string) (state byte, parent int, ok bool) {
	fd, err := unix.Open("/proc/"+pid+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, 0, false
	}
	var buf [256]byte // the name has 64 bytes at most
	n, err := unix.Read(fd, buf[:])
	_ = unix.Close(fd)
	if err != nil {
		return 0, 0, false
	}
	stat := buf[:n]
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return fields[0][0], parent, err == nil
}

// expects reports whether the command would not die of the signal, because it handles
// or ignores the signal. A command that blocks the signal waits for it in another way,
// unless it blocks the signal only for a moment, as a shell does that starts something.
// sigwait blocks nothing while it waits.
func (p *managedProcess) expects(sig unix.Signal) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/status")
	if err != nil {
		return true
	}
	masked := func(name string) bool {
		_, rest, _ := bytes.Cut(status, []byte("\n"+name+":\t"))
		mask, _, _ := bytes.Cut(rest, []byte("\n"))
		bits, _ := strconv.ParseUint(string(mask), 16, 64)
		return bits>>(sig-1)&1 != 0
	}
	const always = 10 // looks
	if p.blocks++; !masked("SigBlk") {
		p.blocks = 0
	}
	return masked("SigCgt") || masked("SigIgn") || p.blocks >= always || p.sigwaits()
}

// sigwaits reports whether the command is in sigwait, as far as that can be seen.
func (p *managedProcess) sigwaits() bool {
	call, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/syscall")
	number, _, _ := strings.Cut(string(call), " ")
	return err == nil && (number == strconv.Itoa(unix.SYS_RT_SIGTIMEDWAIT) || number == timedwait64)
}

// timedwait64 is rt_sigtimedwait_time64, of 32-bit machines.
const timedwait64 = "421"

// reapAdopted reaps the processes that this one has adopted (for instance as the first
// process of a container), whenever one has ended. It leaves the supervisor to the
// goroutine that waits for it.
func reapAdopted(supervisor *atomic.Int64) {
	ended := make(chan os.Signal, 1)
	ended <- unix.SIGCHLD // one may have ended already
	signal.Notify(ended, unix.SIGCHLD)
	go func() {
		for range ended {
			reaping.Lock()
			all, _ := filepath.Glob("/proc/[0-9]*")
			for _, path := range all {
				pid, _ := strconv.Atoi(filepath.Base(path))
				state, parent, ok := StatOf(filepath.Base(path))
				if ok && state == 'Z' && parent == os.Getpid() && int64(pid) != supervisor.Load() {
					reapChild(pid)
				}
			}
			reaping.Unlock()
		}
	}()
}
