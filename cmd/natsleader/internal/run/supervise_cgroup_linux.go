package run

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cgroup is the path of a control group (version 2) for one command and its
// descendants, below the group of this process. Empty means none. The kernel kills the
// whole group at once, including processes that are being forked. A group helps where
// it is available, and nothing depends on it.
//
// No group is used for a second command: Linux 6.14 and later kill a process that is
// started in a group after a cgroup.kill, if its parent is in another group.
type cgroup string

// CgroupVariable is "no" if the operator wants no control groups.
const CgroupVariable = "NATSLEADER_CGROUP"

// MakeCgroup makes a control group. It makes none if there is no version 2, if that is
// read-only or belongs to another user, or if the kernel is older than 5.14.
func MakeCgroup() cgroup {
	own := ownCgroup()
	if own == "" || os.Getenv(CgroupVariable) == "no" {
		return ""
	}
	path, err := os.MkdirTemp(own, "natsleader-")
	if err != nil {
		return ""
	}
	if unix.Access(filepath.Join(path, "cgroup.kill"), unix.W_OK) != nil {
		_ = unix.Rmdir(path)
		return ""
	}
	return cgroup(path)
}

// ownCgroup returns the directory of the control group of this process.
func ownCgroup() string {
	groups, _ := os.ReadFile("/proc/self/cgroup")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	return cgroupDir(string(groups), string(mounts))
}

// cgroupDir finds the directory in the contents of the two files; see cgroups(7) and
// proc_pid_mountinfo(5).
func cgroupDir(groups, mounts string) string {
	const version2 = "0::"
	own := ""
	for line := range strings.Lines(groups) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), version2); ok {
			own = path
		}
	}
	if !strings.HasPrefix(own, "/") || strings.Contains(own+"/", "/../") { // outside the root of the namespace
		return ""
	}
	for line := range strings.Lines(mounts) {
		mount, kind, _ := strings.Cut(line, " - ")
		fields := strings.Fields(mount)
		if !strings.HasPrefix(kind, "cgroup2 ") || len(fields) < 5 || strings.Contains(fields[4], `\`) {
			continue
		}
		if below, err := filepath.Rel(fields[3], own); err == nil && filepath.IsLocal(below) {
			return filepath.Join(fields[4], below)
		}
	}
	return ""
}

// startIn makes a process begin in the group. The caller calls started when the process
// has been started.
func (g cgroup) startIn(attr *syscall.SysProcAttr) (started func(), ok bool) {
	if g == "" {
		return nil, false
	}
	fd, err := unix.Open(string(g), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	attr.UseCgroupFD, attr.CgroupFD = true, fd
	return func() { _ = unix.Close(fd) }, true
}

// kill kills all processes of the group.
func (g cgroup) kill() {
	if g != "" {
		_ = os.WriteFile(filepath.Join(string(g), "cgroup.kill"), []byte("1"), 0)
	}
}

// Remove removes the empty group. The kernel may take a moment until it is empty.
func (g cgroup) Remove() {
	if g == "" {
		return
	}
	const tries, soon = 20, 5 * time.Millisecond
	for range tries {
		if removeCgroups(string(g)) {
			return
		}
		time.Sleep(soon)
	}
}

// removeCgroups also removes the groups that the command has made below.
func removeCgroups(path string) bool {
	below, _ := os.ReadDir(path)
	for _, d := range below {
		if d.IsDir() {
			removeCgroups(filepath.Join(path, d.Name()))
		}
	}
	err := unix.Rmdir(path)
	return err == nil || err == unix.ENOENT
}
