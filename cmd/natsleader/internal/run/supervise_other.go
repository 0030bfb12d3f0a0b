//go:build unix && !linux

package run

import (
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownBinary is empty, so os.Executable is used.
const ownBinary = ""

// On these systems only process 1 adopts orphans, and no signal comes when a parent
// dies. So the group of the command is all that is known of its descendants.

func adoptOrphans() {}

func reapAdopted(*atomic.Int64) {}

func introduceSupervisor() {}

func commandAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func scanDescendants(map[int]bool, func(process)) {}

// cgroup is used on Linux only.
type cgroup string

func MakeCgroup() cgroup { return "" }

func (cgroup) startIn(*syscall.SysProcAttr) (started func(), ok bool) { return nil, false }

func (cgroup) kill() {}

func (cgroup) Remove() {}

// left reports whether a process of the group lives, of which no more is known.
func (p *managedProcess) left() (pid int, name string, lives bool) { return 0, "", !p.groupIsClear() }

func (*managedProcess) expects(unix.Signal) bool { return true }
