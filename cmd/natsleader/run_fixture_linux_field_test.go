//go:build field && linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/run"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// runLease is the lease of tests of run that wait for its end. It is the default, because a command is
// killed a fixed part of the lease before another candidate leads. Here that is 1.05 s, and a busy
// machine may need most of it to kill hundreds of processes.
const runLease = 15 * time.Second

// runFixture is for several `natsleader run` that stand in the election "jobs".
// Their commands share a journal, and a lock that every process of a command holds as
// long as it lives (it is the lock of an open file, which they inherit).
type runFixture struct {
	*testing.T
	server *server.Server
	url    string
	dir    string

	output, terminal *os.File // of those that start; nil: a log, and none
	tmp              string   // their TMPDIR; empty: one of their own
	cgroups          bool     // commands have a control group if one can be made
}

func newRunFixture(t *testing.T, lease time.Duration) *runFixture {
	t.Helper()
	return newRunFixtureIn(t, leader.BucketConfig{MaxLease: lease})
}

func newRunFixtureIn(t *testing.T, cfg leader.BucketConfig) *runFixture {
	t.Helper()
	t.Parallel()
	s := &runFixture{T: t, server: startServer(t), dir: t.TempDir()}
	s.url = s.server.ClientURL()
	newBucket(t, s.url, "elections", cfg)
	return s
}

// script writes a shell script for a command.
func (s *runFixture) script(name, text string) string {
	s.Helper()
	path := filepath.Join(s.dir, name)
	expect.OK(s.T, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700))
	return path
}

// stubborn is a command with grandchildren, all of which ignore SIGTERM, and one of
// which is in another session.
func (s *runFixture) stubborn() string {
	return s.script("stubborn", s.prologue()+`
trap "" TERM
(sleep 1000) &
setsid sh -c 'sh -c "sleep 1000 & sleep 1000"' &
echo "begin $NATSLEADER_ID $NATSLEADER_TOKEN" >>journal
wait
`)
}

// obedient is a command that ends a moment after it was asked to.
func (s *runFixture) obedient() string {
	return s.script("obedient", s.prologue()+`
trap 'kill $sleeper 2>/dev/null; echo "end $NATSLEADER_ID $NATSLEADER_TOKEN" >>journal; exit 0' TERM
sleep 1000 & sleeper=$!
echo "begin $NATSLEADER_ID $NATSLEADER_TOKEN" >>journal
wait
`)
}

// reacts is a command that does what its traps say.
func (s *runFixture) reacts(traps string) string {
	return s.script("c", s.prologue()+traps+`
echo "begin $NATSLEADER_ID $NATSLEADER_TOKEN" >>journal
while :; do sleep 0.05; done
`)
}

func (s *runFixture) prologue() string {
	return fmt.Sprintf(`cd %s
exec 9>>lock
flock -n 9 || echo "overlap $NATSLEADER_ID $NATSLEADER_TOKEN" >>journal
`, s.dir)
}

// journal returns the lines that the commands have written.
func (s *runFixture) journal() []string {
	s.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, "journal"))
	expect.Must(s.T, err == nil || os.IsNotExist(err), "%v", err)
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// noOverlap fails if a command has begun while any process of another lived.
func (s *runFixture) noOverlap() {
	s.Helper()
	for _, line := range s.journal() {
		if strings.HasPrefix(line, "overlap") {
			s.Errorf("two commands at once: %q", s.journal())
			return
		}
	}
}

// count returns how many lines of the journal have that beginning.
func (s *runFixture) count(beginning string) int {
	n := 0
	for _, line := range s.journal() {
		if strings.HasPrefix(line, beginning) {
			n++
		}
	}
	return n
}

// runProcess is a `natsleader run`.
type runProcess struct {
	*runFixture
	id    string
	cmd   *exec.Cmd
	log   string
	ended chan struct{}
}

// start starts a `natsleader run` with flags, and after a "--" its command.
func (s *runFixture) start(id string, args ...string) *runProcess {
	s.Helper()
	return s.startAt(s.url, id, args...)
}

// begins starts a run "a" with flags, whose command begins.
func (s *runFixture) begins(command string, flags ...string) *runProcess {
	s.Helper()
	a := s.start("a", append(flags, "--", command)...)
	a.waitBegun(1)
	return a
}

// leads is begins with an obedient command.
func (s *runFixture) leads(flags ...string) *runProcess {
	s.Helper()
	return s.begins(s.obedient(), flags...)
}

// complete is begins with a stubborn command, all processes of which live.
func (s *runFixture) complete(flags ...string) *runProcess {
	s.Helper()
	a := s.begins(s.stubborn(), flags...)
	a.waitComplete()
	return a
}

// waits starts a run "b", which waits because "a" leads.
func (s *runFixture) waits() *runProcess {
	s.Helper()
	b := s.start("b", "--", s.obedient())
	b.says(`waiting: "a" leads`)
	return b
}

// another returns a leader in the test's process.
func (s *runFixture) another() *leader.Candidate {
	s.Helper()
	return campaigns(s.T, s.url, "elections", "jobs", leader.Config{ID: "other"})
}

// startIn is start with a TMPDIR.
func (s *runFixture) startIn(dir, id string, args ...string) *runProcess {
	s.Helper()
	s.tmp = dir
	defer func() { s.tmp = "" }()
	return s.start(id, args...)
}

func (s *runFixture) startAt(url, id string, args ...string) *runProcess {
	s.Helper()
	p := &runProcess{runFixture: s, id: id, log: filepath.Join(s.dir, id+".log"), ended: make(chan struct{})}
	p.cmd = natsleader(s.T, append([]string{"run", "--server", url, "--id", id, "jobs"}, args...)...)
	p.cmd.Env = append(p.cmd.Env, "RUN_PROCESS="+s.dir+"/"+id)
	if s.tmp != "" {
		p.cmd.Env = append(p.cmd.Env, "TMPDIR="+s.tmp)
	}
	if !s.cgroups { // nothing depends on them
		p.cmd.Env = append(p.cmd.Env, run.CgroupVariable+"=no")
	}
	out := expect.Got(os.Create(p.log))(s.T)
	defer func() { _ = out.Close() }()
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if s.output != nil {
		p.cmd.Stdout, p.cmd.Stderr = s.output, s.output
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if s.terminal != nil {
		p.cmd.Stdin = s.terminal
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	}
	expect.OK(s.T, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	s.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		for _, pid := range p.processes("") {
			_ = unix.Kill(pid, unix.SIGCONT)
		}
		testworld.Eventually(s.T, "nothing of "+id+" is left", func() bool {
			for _, pid := range p.commandProcesses() {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
			return len(p.processes("")) == 0
		})
		said := p.text()
		expect.That(s.T, !strings.Contains(said, "DATA RACE") && !strings.Contains(said, "panic: "), "%s has gone wrong", id)
		if s.Failed() {
			s.Logf("%s has said:\n%s", id, p.text())
		}
	})
	return p
}

func (p *runProcess) text() string {
	p.Helper()
	data := expect.Got(os.ReadFile(p.log))(p.T)
	return string(data)
}

func (p *runProcess) says(text string) {
	p.Helper()
	testworld.Eventually(p.T, p.id+" says "+text, func() bool { return strings.Contains(p.text(), text) })
}

// waitBegun waits until its command has begun that many times.
func (p *runProcess) waitBegun(times int) {
	p.Helper()
	testworld.Eventually(p.T, p.id+"'s command has begun", func() bool { return p.count("begin "+p.id+" ") >= times })
}

// exits waits for its end and checks the exit code.
func (p *runProcess) exits(code int) {
	p.Helper()
	select {
	case <-p.ended:
	case <-time.After(testworld.Patience):
		p.Fatalf("%s has not ended", p.id)
	}
	got := p.cmd.ProcessState.ExitCode()
	expect.That(p.T, got == code, "%s: exit code %d, want %d", p.id, got, code)
}

// terminated asks it to end, and waits until it has.
func (p *runProcess) terminated() {
	p.Helper()
	p.signal(unix.SIGTERM)
	p.exits(128 + 15)
}

func (p *runProcess) signal(sig unix.Signal) {
	p.Helper()
	expect.OK(p.T, p.cmd.Process.Signal(sig))
}

// suspend stops natsleader while it and its supervisor agree on the end of the lease. The
// supervisor learns of a renewal up to a beat later.
func (p *runProcess) suspend() {
	p.Helper()
	renewed := p.renewals()
	testworld.Eventually(p.T, p.id+" is stopped with a lease that its supervisor knows", func() bool {
		p.signal(unix.SIGSTOP)
		testworld.Eventually(p.T, p.id+" is stopped", func() bool {
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
			return bytes.Contains(status, []byte("\nState:\tT"))
		})
		// The supervisor counts from when the renewal was sent, which is earlier than it was stored.
		late := renewed().Add(wire.RenewDeadline(runLease)).Sub(p.leaseNote().Until)
		if late < wire.RenewInterval(runLease)/2 {
			return true
		}
		p.signal(unix.SIGCONT)
		return false
	})
}

// resumeTooLate lets natsleader go on when its lease is certainly over.
func (p *runProcess) resumeTooLate() {
	p.Helper()
	renewed := p.renewals()
	testworld.Eventually(p.T, p.id+"'s lease is over", func() bool { return time.Since(renewed()) > wire.RenewDeadline(runLease) })
	p.signal(unix.SIGCONT)
}

// renewals returns a function that returns when the newest record of the election was stored.
func (s *runFixture) renewals() func() time.Time {
	s.Helper()
	_, js := connectTo(s.T, s.url)
	kv := expect.Got(js.KeyValue(s.Context(), "elections"))(s.T)
	return func() time.Time {
		s.Helper()
		record := expect.Got(kv.Get(s.Context(), "jobs"))(s.T)
		return record.Created()
	}
}

// leaseNote returns what the lease file of its command says.
func (p *runProcess) leaseNote() run.LeaseNote {
	p.Helper()
	var note run.LeaseNote
	testworld.Eventually(p.T, p.id+"'s lease file can be read", func() bool {
		for _, pid := range p.commandProcesses() {
			environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			for variable := range strings.SplitSeq(string(environ), "\x00") {
				if path, ok := strings.CutPrefix(variable, run.LeaseVariable+"="); ok {
					line, err := os.ReadFile(path)
					return err == nil && json.Unmarshal(line, &note) == nil
				}
			}
		}
		return false
	})
	return note
}

// processes returns its descendants that have the text in their environment:
// natsleader, the supervisor, and the command with the command's descendants.
func (p *runProcess) processes(text string) []int {
	var pids []int
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		environ, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(environ, []byte("RUN_PROCESS="+p.dir+"/"+p.id+"\x00")) || !bytes.Contains(environ, []byte(text)) {
			continue // also if it has ended and is not reaped
		}
		if pid, err := strconv.Atoi(strings.Split(path, "/")[2]); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// commandProcesses returns the processes of its command.
func (p *runProcess) commandProcesses() []int { return p.processes("NATSLEADER_ELECTION=") }

// waitComplete waits until all processes of the stubborn command live.
func (p *runProcess) waitComplete() {
	p.Helper()
	p.waitBegun(1)
	testworld.Eventually(p.T, p.id+"'s command is complete", func() bool { return len(p.commandProcesses()) >= 5 })
}

// supervisor returns the process ID of its supervisor.
func (p *runProcess) supervisor() int {
	p.Helper()
	var pid int
	testworld.Eventually(p.T, p.id+" has a supervisor", func() bool {
		i := slices.IndexFunc(p.processes(run.SupervisorVariable+"="), func(n int) bool { pid = n; return true })
		return i >= 0
	})
	return pid
}

// noneLeft fails if any process of its command lives.
func (p *runProcess) noneLeft() {
	p.Helper()
	left := p.commandProcesses()
	expect.That(p.T, len(left) == 0, "of %s's command live %d", p.id, left)
}
