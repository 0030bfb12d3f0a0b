//go:build unix

package child

import (
	"os/exec"
	"syscall"
)

// CanFreeze says that processes can be frozen here.
const CanFreeze = true

// Separate keeps signals of the terminal from a process.
func Separate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// Freeze stops the process until Thaw.
func (p *Process) Freeze() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Thaw lets the process go on.
func (p *Process) Thaw() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
