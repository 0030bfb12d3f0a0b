//go:build field && linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/leader"
)

// A run that was stopped, with no other candidate, runs its command in the end. That
// holds for any length of the stop and for any of its processes.
func TestRun_ContinuesAfterStop(t *testing.T) {
	t.Parallel()
	const lease = runLease
	natsleaderOnly := func(a *runProcess, _ int, sig unix.Signal) { a.signal(sig) }
	// Ctrl-Z and fg signal the group. The supervisor has a session of its own.
	group := func(a *runProcess, _ int, sig unix.Signal) { _ = unix.Kill(-a.cmd.Process.Pid, sig) }
	supervisorOnly := func(_ *runProcess, supervisor int, sig unix.Signal) { _ = unix.Kill(supervisor, sig) }
	both := func(a *runProcess, supervisor int, sig unix.Signal) {
		a.signal(sig)
		_ = unix.Kill(supervisor, sig)
	}
	everything := func(a *runProcess, _ int, sig unix.Signal) {
		for _, pid := range a.processes("") {
			_ = unix.Kill(pid, sig)
		}
	}
	for _, k := range []struct {
		name  string
		send  func(a *runProcess, supervisor int, sig unix.Signal)
		least time.Duration
		kept  bool // the supervisor works all the time, so it is not replaced
	}{
		{"natsleader, long", natsleaderOnly, 3 * lease / 2, true},
		{"natsleader, for just a lease", natsleaderOnly, lease, true},
		{"natsleader, short", natsleaderOnly, lease / 4, true},
		{"its process group, long", group, 3 * lease / 2, true},
		{"the supervisor, long", supervisorOnly, 3 * lease / 2, false},
		{"the supervisor, short", supervisorOnly, lease / 4, false},
		{"both, long", both, 3 * lease / 2, false},
		{"both, short", both, lease / 4, false},
		{"everything, long", everything, 3 * lease / 2, false},
	} {
		t.Run(k.name, func(t *testing.T) {
			s := newRunFixture(t, lease)
			a := s.start("a", "--drain", "100ms", "--", s.obedient())
			a.waitBegun(1)
			supervisor := a.supervisor()
			k.send(a, supervisor, unix.SIGSTOP)
			time.Sleep(k.least) // the stop lasts for some time: there is no event to wait for
			k.send(a, supervisor, unix.SIGCONT)
			eventually(t, "it leads, and the command runs", func() bool {
				lines := s.journal()
				return strings.HasPrefix(lines[len(lines)-1], "begin a ") && len(a.commandProcesses()) > 0 &&
					strings.Count(a.text(), "elected") > strings.Count(a.text(), "lost: ")
			})
			if k.kept && a.supervisor() != supervisor {
				t.Error("the supervisor was replaced")
			}
			a.signal(unix.SIGTERM)
			a.exits(128 + 15)
			s.noOverlap()
		})
	}
}

// aConductor returns one in the test's process, with a supervisor but without its loop.
func aConductor(t *testing.T, argv ...string) *runLoop {
	t.Helper()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	c := &runLoop{
		run:       &run{globals: &globals{bucket: "elections"}, election: "jobs", argv: argv, drain: time.Second},
		conf:      supervision{Election: "jobs", Bucket: "elections", LeaseFile: []byte(filepath.Join(t.TempDir(), "lease", "lease")), StopSignal: int(unix.SIGTERM), Drain: time.Second},
		log:       newRunLog(io.Discard, "jobs", logText, false),
		candidate: campaigns(t, url, "elections", "jobs", leader.Config{ID: "a"}),
	}
	t.Cleanup(c.log.close)
	if err := c.startSupervisor(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endSupervisor(c.supervisor) })
	return c
}

// The run loop begins nothing under a killed supervisor.
func TestRunLoop_KilledSupervisor(t *testing.T) {
	for name, killed := range map[string]func(*runLoop, *leader.Term){
		"by natsleader, before the election": func(c *runLoop, term *leader.Term) {
			c.supervisor.killed = clockNow() // and SIGKILL is on its way
			c.elected(term)
			close(c.supervisor.orders)
			if all := reported(c.supervisor); len(all) > 0 {
				t.Errorf("it was told to begin: %v", all)
			}
		},
		"by others, just before": func(c *runLoop, term *leader.Term) {
			_ = c.supervisor.process.Kill()
			_ = reported(c.supervisor)
			c.elected(term)
			close(c.supervisor.orders)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := aConductor(t, "sleep", "1000")
			term, _ := c.candidate.Term()
			killed(c, term)
			c.supervisor = &supervisorProcess{begun: c.supervisor.begun, end: c.supervisor.end} // its orders are closed
			c.supervisorExited()
			if c.leaving || c.current == nil || c.current.term != term {
				t.Fatalf("the run ends with %v", c.outcome)
			}
			select {
			case b := <-c.supervisor.inbox:
				if b.What != reportStarted {
					t.Errorf("the next supervisor says %+v", b)
				}
			case <-time.After(patience):
				t.Error("the command does not begin under the next supervisor")
			}
		})
	}
}

// If a command is late, the run loop first reads a report that is unread.
func TestRunLoop_ReadsReportsFirst(t *testing.T) {
	process := exec.Command("sleep", "1000")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = process.Process.Kill(), process.Wait() }()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = out.Close(), in.Close() }()
	o := &supervisorProcess{process: process.Process, inbox: make(chan supervisorReport, 1)}
	if o.reports.pipe, err = out.SyscallConn(); err != nil {
		t.Fatal(err)
	}
	c := &runLoop{run: &run{}, supervisor: o, current: &commandRun{leaseBy: 1}}
	late := func(where string, killed bool) {
		t.Helper()
		if c.look(clockNow()); (o.killed != 0) != killed || c.current.hung != killed {
			t.Errorf("a report is %s: killed at %d", where, o.killed)
		}
	}
	if _, err = fmt.Fprintln(in, `{"What":"ended","Stopped":true}`); err != nil {
		t.Fatal(err)
	}
	late("in the pipe", false)
	taken, proceed, ended := make(chan supervisorReport), make(chan bool), make(chan bool)
	go func() {
		o.reports.each(out, func(b supervisorReport) {
			taken <- b
			<-proceed
			o.inbox <- b
		})
		close(ended)
	}()
	if b := <-taken; b.What != reportEnded || !b.Stopped {
		t.Errorf("%+v", b)
	}
	late("on its way", false)
	proceed <- true
	eventually(t, "it is delivered", func() bool { return len(o.inbox) == 1 })
	late("delivered", false)
	<-o.inbox
	eventually(t, "the pipe is waited for", func() bool { return !o.unread() })
	late("read", true)
	_ = in.Close()
	<-ended
}

// A supervisor that does not start the command in time is killed, however often the lease is
// renewed meanwhile, and another starts it. After the third the run ends.
func TestRunLoop_LateStart(t *testing.T) {
	c := aConductor(t, "sleep", "1000")
	term, _ := c.candidate.Term()
	hang := func() (by instant) {
		t.Helper()
		_ = c.supervisor.process.Signal(unix.SIGSTOP)
		before := clockNow()
		if c.begin(term); c.current.answerBy < before.add(7*time.Second) || c.current.answerBy > clockNow().add(7*time.Second) {
			t.Fatalf("answer by %d, begun at %d", c.current.answerBy, before)
		}
		return c.current.answerBy
	}
	c.term = term
	by := hang()
	for now := by.add(-7 * time.Second); now < by; now = now.add(time.Second / 2) {
		if c.look(now); c.supervisor.killed != 0 {
			t.Fatal("killed before its time")
		}
	}
	if c.look(by); c.supervisor.killed == 0 || c.current.leaseBy <= by {
		t.Fatalf("killed at %d; the lease ends it at %d", c.supervisor.killed, c.current.leaseBy)
	}
	if all := reported(c.supervisor); len(all) > 0 {
		t.Errorf("it has reported %v", all)
	}
	hung := c.supervisor
	hung.begun = clockNow().add(-time.Hour) // it has lived long, and is of no use all the same
	c.supervisorExited()
	if b := <-c.supervisor.inbox; b.What != reportStarted || c.supervisor == hung || c.useless != 1 {
		t.Fatalf("%+v; %d were of no use", b, c.useless)
	} else if c.handleReport(b); c.current.answerBy != 0 || c.useless != 0 {
		t.Errorf("started, but answer by %d; %d were of no use", c.current.answerBy, c.useless)
	}

	endSupervisor(c.supervisor)
	if err := c.startSupervisor(); err != nil {
		t.Fatal(err)
	}
	c.useless = 2
	c.look(hang())
	_ = reported(c.supervisor)
	if c.supervisorExited(); !c.leaving || c.current != nil || c.outcome.Error() != "the supervising process did not start the command in time" {
		t.Errorf("leaving: %t, %v", c.leaving, c.outcome)
	}
}

// A supervisor that starts the command just as it is killed takes the command with it, and
// the leadership is handed over.
func TestRunLoop_StartOfKilledSupervisor(t *testing.T) {
	c := aConductor(t, "sleep", "1000")
	c.term, _ = c.candidate.Term()
	c.begin(c.term)
	eventually(t, "the start is reported", func() bool { return len(c.supervisor.inbox) > 0 })
	c.current.hung = true
	c.supervisor.kill()
	b := <-c.supervisor.inbox
	c.handleReport(b)
	_ = reported(c.supervisor)
	if err := unix.Kill(b.PID, 0); b.What != reportStarted || !errors.Is(err, unix.ESRCH) {
		t.Fatalf("%+v: %v", b, err)
	}
	if c.supervisorExited(); c.current != nil || c.leaving || c.resigned != c.term {
		t.Errorf("another command: %t; leaving: %t; resigned: %t", c.current != nil, c.leaving, c.resigned == c.term)
	}
}

// One line reports a supervisor that does not die.
func TestRunLoop_UnkillableSupervisor(t *testing.T) {
	process := exec.Command("sleep", "1000")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.Wait() }() // until then it exists
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = out.Close(), in.Close() }()
	o := &supervisorProcess{process: process.Process}
	if o.reports.pipe, err = out.SyscallConn(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	c := &runLoop{run: &run{}, supervisor: o, log: newRunLog(&said, "jobs", logText, false), holds: true, current: &commandRun{answerBy: 1}}
	c.look(2)
	c.look(o.killed.add(patienceWithKilled - 1))
	if c.current.stuck {
		t.Error("reported at once")
	}
	c.look(o.killed.add(patienceWithKilled))
	c.look(o.killed.add(2 * patienceWithKilled))
	c.log.close()
	want := fmt.Sprintf("cannot kill %d: it is held up in the kernel; the lease is kept until it ends", process.Process.Pid)
	if strings.Count(said.String(), "cannot kill") != 1 || !strings.Contains(said.String(), want) {
		t.Errorf("%q", said.String())
	}
}
