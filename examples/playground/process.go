package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// process is a candidate's process, as the playground has it.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	ended chan struct{} // closed when it has ended and its last report was handled

	mu     sync.Mutex
	errors string // what it printed as errors
}

// startProcess starts the candidate of an ID. heard gets its reports, one at a time.
func startProcess(id, url string, lease time.Duration, heard func(report)) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self, "candidate", id, url, lease.String()), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), roleVariable+"=1")
	separate(p.cmd)
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stderr = p
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start candidate %s: %w", id, err)
	}
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var r report
			if json.Unmarshal(lines.Bytes(), &r) == nil { // the last line of a killed process may be cut
				heard(r)
			}
		}
		_ = p.cmd.Wait() // it was killed, or says why on its standard error
	}()
	return p, nil
}

// Write takes what the process prints as errors, of which the beginning is shown.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	const most = 1 << 10
	p.errors += string(b[:min(len(b), most-len(p.errors))])
	return len(b), nil
}

// said returns what the process printed as errors.
func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.TrimSpace(p.errors)
}

// failed reports whether a process that has ended did so by itself, with an error. A panic is one.
func (p *process) failed() bool { return p.cmd.ProcessState.ExitCode() > 0 }

// tell asks the process for something. A process that has ended hears nothing.
func (p *process) tell(what string) { _, _ = io.WriteString(p.in, what+"\n") }

// kill ends the process at once, frozen or not.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// stop asks the process to stop, and kills it if it does not in time.
func (p *process) stop(limit time.Duration) {
	_ = p.in.Close()
	select {
	case <-p.ended:
	case <-time.After(limit):
		p.kill()
	}
}
