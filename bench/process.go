package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// roleEnv makes this program run as a server or as a leader. Its value is a role in JSON.
const roleEnv = "NATSLEADER_BENCH_ROLE"

// role is what a process that this program starts is to do.
type role struct {
	Serve    string `json:",omitempty"` // the system whose server it runs
	Lead     string `json:",omitempty"` // the system in which it is a candidate
	Addr     string `json:",omitempty"`
	Election string `json:",omitempty"`
	ID       string `json:",omitempty"`
	Settings settings
}

// playRole runs the role of this process, if it has one. It ends when its standard input does,
// so that no process outlives its parent.
func playRole() (code int, played bool) {
	text := os.Getenv(roleEnv)
	if text == "" {
		return 0, false
	}
	var r role
	err := json.Unmarshal([]byte(text), &r)
	switch {
	case err != nil:
	case r.Serve != "":
		err = r.serve(os.Stdin, os.Stdout)
	default:
		err = r.lead(os.Stdin, os.Stdout)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "bench:", err)
		return 1, true
	}
	return 0, true
}

// counts are what a server process answers to a line on its standard input.
type counts struct {
	Addr     string `json:",omitempty"` // in the first answer, which needs no line
	Requests uint64
	CPU      time.Duration
}

func (r role) serve(in io.Reader, out io.Writer) error {
	sys, ok := systemNamed(r.Serve)
	if !ok {
		return fmt.Errorf("no system %q", r.Serve)
	}
	s, err := sys.serve()
	if err != nil {
		return err
	}
	defer s.close()
	enc := json.NewEncoder(out)
	if err := enc.Encode(counts{Addr: s.addr()}); err != nil {
		return err
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if err := enc.Encode(counts{Requests: s.requests(), CPU: processorTime()}); err != nil {
			return err
		}
	}
	return nil
}

// processorTime is that of this process so far.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// belief is what a leader process reports: each change of what its library says, and the first
// answer after the process was stopped and continued.
type belief struct {
	Leads bool
	// Paused is how long the process did not run before this answer, or 0.
	Paused time.Duration `json:",omitempty"`
	// After is the time from the first answer after the pause.
	After time.Duration `json:",omitempty"`
}

const askEvery = time.Millisecond

// lead asks its candidate every millisecond whether it leads.
func (r role) lead(in io.Reader, out io.Writer) error {
	sys, ok := systemNamed(r.Lead)
	if !ok {
		return fmt.Errorf("no system %q", r.Lead)
	}
	cl, err := sys.dial(r.Addr, r.Settings)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, in)
	}()
	c := cl.campaign(r.Election, r.ID)
	enc := json.NewEncoder(out)
	leads := false
	last, continued := time.Now(), time.Time{}
	for tick := time.NewTicker(askEvery); ; {
		select {
		case <-tick.C:
		case <-ended:
			return nil // as a crash
		}
		answer, now := c.leads(), time.Now()
		b := belief{Leads: answer}
		if gap := now.Sub(last); gap > r.Settings.Lease {
			b.Paused, continued = gap, now
		}
		if !continued.IsZero() {
			b.After = now.Sub(continued)
		}
		last = now
		if answer == leads && b.Paused == 0 {
			continue
		}
		leads = answer
		if err := enc.Encode(b); err != nil {
			return err
		}
	}
}

// process is a child that plays a role.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

func startProcess(r role) (*process, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &process{cmd: cmd, in: in, out: json.NewDecoder(out)}, nil
}

// kill ends the process as a crash does.
func (p *process) kill() error {
	err := p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	return err
}

// end lets the process end by itself.
func (p *process) end() error {
	err := p.in.Close()
	return errors.Join(err, p.cmd.Wait())
}

// next reads the next report of a leader process.
func (p *process) next() (belief, error) {
	var b belief
	err := p.out.Decode(&b)
	return b, err
}

// believes reports whether a leader process still believes that it leads. It waits for the
// report of the end, which a process that does not lead has sent or is about to send. It ends
// the process if none comes.
func (p *process) believes() bool {
	late := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	b, err := p.next()
	return err != nil || b.Leads
}

// serverProcess is the server of one system, in a process of its own: neither its memory nor
// its processor time is counted as that of the candidates.
type serverProcess struct {
	*process
	addr string
}

func startServer(sys system) (*serverProcess, error) {
	p, err := startProcess(role{Serve: sys.name})
	if err != nil {
		return nil, err
	}
	var first counts
	if err := p.out.Decode(&first); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: server: %w", sys.name, err), p.kill())
	}
	return &serverProcess{process: p, addr: first.Addr}, nil
}

// counts asks the server for its counters.
func (s *serverProcess) counts() (counts, error) {
	var c counts
	if _, err := io.WriteString(s.in, "\n"); err != nil {
		return c, err
	}
	err := s.out.Decode(&c)
	return c, err
}
