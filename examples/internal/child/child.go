// Package child runs the processes of an example, each of which is its program in another role.
package child

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Process is a process that an example has started.
type Process struct {
	Ended chan struct{} // closed when it has ended and its last line was handled

	cmd *exec.Cmd
	in  io.WriteCloser

	mu     sync.Mutex
	errors string // what it printed as errors
}

// Start starts this program with other arguments, and with a variable that is set in its environment. line gets the lines
// that it prints, one at a time. The process is to stop when its standard input ends.
func Start(variable string, args []string, line func([]byte)) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(self, args...), Ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), variable+"=1")
	Separate(p.cmd)
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stderr = p
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.Ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			line(lines.Bytes())
		}
		_ = p.cmd.Wait() // it was killed, or says why on its standard error
	}()
	return p, nil
}

// Write takes what the process prints as errors, of which the beginning is kept.
func (p *Process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	const most = 1 << 10
	p.errors += string(b[:min(len(b), most-len(p.errors))])
	return len(b), nil
}

// Errors returns what the process printed as errors.
func (p *Process) Errors() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.TrimSpace(p.errors)
}

// Failed reports whether a process that has ended did so by itself, with an error. A panic is one.
func (p *Process) Failed() bool { return p.cmd.ProcessState.ExitCode() > 0 }

// Tell asks the process for something. A process that has ended does not read it.
func (p *Process) Tell(what string) { _, _ = io.WriteString(p.in, what+"\n") }

// Kill ends the process at once, frozen or not.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.Ended
}

// Quit asks the process to stop, and does not wait.
func (p *Process) Quit() { _ = p.in.Close() }

// Stop asks the process to stop, and kills it if it does not in time.
func (p *Process) Stop(limit time.Duration) {
	p.Quit()
	select {
	case <-p.Ended:
	case <-time.After(limit):
		p.Kill()
	}
}
