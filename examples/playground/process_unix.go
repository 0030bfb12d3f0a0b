//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// canFreeze says that processes can be frozen here.
const canFreeze = true

// separate keeps signals of the terminal from the process.
func separate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// freeze stops the process until thaw.
func (p *process) freeze() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

func (p *process) thaw() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
