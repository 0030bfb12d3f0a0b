//go:build field && unix

package testcluster

import "syscall"

// Pause stops a process, which keeps its connections.
func (p *Process) Pause() { _ = p.Cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets a process go on.
func (p *Process) Resume() { _ = p.Cmd.Process.Signal(syscall.SIGCONT) }

// Pause stops a server until Up.
func (n *Node) Pause() {
	n.Process.Pause()
	n.resume = n.Process.Resume
}
