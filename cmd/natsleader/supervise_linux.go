package main

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownBinary is the program that runs, also when its file was replaced.
const ownBinary = "/proc/self/exe"

// adoptOrphans makes this process the parent of descendants whose own has ended,
// also of those that have left the group or the session.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// introduceSupervisor prepares the process, and names it for ps and top: it was
// started as "exe".
func introduceSupervisor() {
	adoptOrphans()
	_ = os.WriteFile("/proc/self/comm", []byte(supervisorName), 0)
}

// commandAttr is how the command is started: in a group of its own, and killed by
// the kernel with its parent.
func commandAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// descendants are the processes that come from this one: its children but for some,
// those that it has adopted, and theirs. (/proc/<pid>/task/<tid>/children would be faster and
// is missing in many kernels.)
func descendants(but map[int]bool) []int {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = proc.Close() }()
	names, _ := proc.Readdirnames(-1)
	children := make(map[int][]int)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if _, parent, ok := statOf(name); ok {
			children[parent] = append(children[parent], pid)
		}
	}
	all := slices.DeleteFunc(children[os.Getpid()], func(pid int) bool { return but[pid] })
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// statOf reads the third and the fourth field of a process's stat. The second is a
// name in parentheses, which may contain some.
func statOf(pid string) (state byte, parent int, ok bool) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, 0, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return fields[0][0], parent, err == nil
}

// expects reports whether the command would not die of the signal: it handles or
// ignores it. Who blocks it waits for it in another way, unless that is for a moment
// only, as in a shell that starts something; sigwait blocks nothing as long as it
// waits.
func (w *ward) expects(sig unix.Signal) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(w.pid) + "/status")
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
	if w.blocks++; !masked("SigBlk") {
		w.blocks = 0
	}
	return masked("SigCgt") || masked("SigIgn") || w.blocks >= always || w.sigwaits()
}

// sigwaits reports whether the command is in sigwait, as far as that can be seen.
func (w *ward) sigwaits() bool {
	call, err := os.ReadFile("/proc/" + strconv.Itoa(w.pid) + "/syscall")
	number, _, _ := strings.Cut(string(call), " ")
	return err == nil && (number == strconv.Itoa(unix.SYS_RT_SIGTIMEDWAIT) || number == timedwait64)
}

// timedwait64 is rt_sigtimedwait_time64, of 32-bit machines.
const timedwait64 = "421"
