//go:build field && linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	expect "github.com/natsleader/natsleader/internal/check"
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
			a := s.leads("--drain", "100ms")
			supervisor := a.supervisor()
			k.send(a, supervisor, unix.SIGSTOP)
			time.Sleep(k.least) // the stop lasts for some time: there is no event to wait for
			k.send(a, supervisor, unix.SIGCONT)
			eventually(t, "it leads, and the command runs", func() bool {
				lines := s.journal()
				return strings.HasPrefix(lines[len(lines)-1], "begin a ") && len(a.commandProcesses()) > 0 &&
					strings.Count(a.text(), "elected") > strings.Count(a.text(), "lost: ")
			})
			expect.That(t, !k.kept || a.supervisor() == supervisor, "the supervisor was replaced")
			a.terminated()
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
	expect.OK(t, c.startSupervisor())
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
			all := reported(c.supervisor)
			expect.That(t, len(all) == 0, "it was told to begin: %v", all)
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
			expect.Must(t, !c.leaving && c.current != nil && c.current.term == term, "the run ends with %v", c.outcome)
			select {
			case b := <-c.supervisor.inbox:
				expect.That(t, b.What == reportStarted, "the next supervisor says %+v", b)
			case <-time.After(patience):
				t.Error("the command does not begin under the next supervisor")
			}
		})
	}
}

// If a command is late, the run loop first reads a report that is unread.
func TestRunLoop_ReadsReportsFirst(t *testing.T) {
	process := exec.Command("sleep", "1000")
	expect.OK(t, process.Start())
	defer func() { _, _ = process.Process.Kill(), process.Wait() }()
	o := &supervisorProcess{process: process.Process, inbox: make(chan supervisorReport, 1)}
	out, in := withPipe(t, &o.reports)
	c := &runLoop{run: &run{}, supervisor: o, current: &commandRun{leaseBy: 1}}
	late := func(where string, killed bool) {
		t.Helper()
		c.look(clockNow())
		expect.That(t, (o.killed != 0) == killed && c.current.hung == killed, "a report is %s: killed at %d", where, o.killed)
	}
	expect.OK(t, expect.Err(fmt.Fprintln(in, `{"What":"ended","Stopped":true}`)))
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
	expect.Deep(t, <-taken, supervisorReport{What: reportEnded, Stopped: true})
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
		c.look(now)
		expect.Must(t, c.supervisor.killed == 0, "killed before its time")
	}
	c.look(by)
	expect.Must(t, c.supervisor.killed != 0 && c.current.leaseBy > by,
		"killed at %d; the lease ends it at %d", c.supervisor.killed, c.current.leaseBy)
	all := reported(c.supervisor)
	expect.That(t, len(all) == 0, "it has reported %v", all)
	hung := c.supervisor
	hung.begun = clockNow().add(-time.Hour) // it has lived long, and is of no use all the same
	c.supervisorExited()
	if b := <-c.supervisor.inbox; b.What != reportStarted || c.supervisor == hung || c.useless != 1 {
		t.Fatalf("%+v; %d were of no use", b, c.useless)
	} else if c.handleReport(b); c.current.answerBy != 0 || c.useless != 0 {
		t.Errorf("started, but answer by %d; %d were of no use", c.current.answerBy, c.useless)
	}

	endSupervisor(c.supervisor)
	expect.OK(t, c.startSupervisor())
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
	err := unix.Kill(b.PID, 0)
	expect.Must(t, b.What == reportStarted && errors.Is(err, unix.ESRCH), "%+v: %v", b, err)
	if c.supervisorExited(); c.current != nil || c.leaving || c.resigned != c.term {
		t.Errorf("another command: %t; leaving: %t; resigned: %t", c.current != nil, c.leaving, c.resigned == c.term)
	}
}

// One line reports a supervisor that does not die.
func TestRunLoop_UnkillableSupervisor(t *testing.T) {
	process := exec.Command("sleep", "1000")
	expect.OK(t, process.Start())
	defer func() { _ = process.Wait() }() // until then it exists
	o := &supervisorProcess{process: process.Process}
	withPipe(t, &o.reports)
	var said strings.Builder
	c := &runLoop{run: &run{}, supervisor: o, log: newRunLog(&said, "jobs", logText, false), holds: true, current: &commandRun{answerBy: 1}}
	c.look(2)
	c.look(o.killed.add(patienceWithKilled - 1))
	expect.That(t, !c.current.stuck, "reported at once")
	c.look(o.killed.add(patienceWithKilled))
	c.look(o.killed.add(2 * patienceWithKilled))
	c.log.close()
	want := fmt.Sprintf("cannot kill %d: it is held up in the kernel; the lease is kept until it ends", process.Process.Pid)
	expect.That(t, strings.Count(said.String(), "cannot kill") == 1 && strings.Contains(said.String(), want),
		"%q", said.String())
}
