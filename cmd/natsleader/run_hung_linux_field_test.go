//go:build field && linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/leader"
)

// natsleader and its supervisor make their threads ahead. The Go runtime aborts when it
// cannot make a thread, as when a command uses up the limit of processes.
func TestRun_MakesThreadsAhead(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	a := s.start("a", "--", s.obedient())
	a.waitBegun(1)
	for name, pid := range map[string]int{"natsleader": a.cmd.Process.Pid, "the supervisor": a.supervisor()} {
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil || len(threads) < threadsAhead {
			t.Errorf("%s has %d threads, %v", name, len(threads), err)
		}
	}
}

// A command does not begin if its lease ended while the lease file was written.
func TestSupervisor_EndedLease(t *testing.T) {
	s := onHungDisk("touch", filepath.Join(t.TempDir(), "begun"))
	go func() {
		w := <-s.notes.next
		time.Sleep(time.Until(w.Until))
		w.written <- leaseWritten{path: "lease"}
	}()
	end := clockNow().add(time.Second)
	s.start(order{Do: orderStart, Token: 1, Lease: lease{Warn: end, Kill: end}})
	if s.command != nil {
		_, _ = unix.Wait4(s.command.pid, nil, 0, nil)
		t.Error("it has begun")
	}
	if b := <-s.reports; b.What != reportEnded || !b.Stopped {
		t.Errorf("%+v", b)
	}
}

// leaseFile returns the path of its lease file.
func (p *runProcess) leaseFile() string {
	p.Helper()
	var found []string
	eventually(p.T, p.id+" has a directory for the lease", func() bool {
		found, _ = filepath.Glob(filepath.Join(p.cmd.Dir, "natsleader-*"))
		return len(found) == 1
	})
	return filepath.Join(found[0], "lease")
}

// A leader whose supervisor hangs before the command has begun keeps its term, and another
// supervisor starts the command.
func TestRun_SupervisorHangsBeforeStart(t *testing.T) {
	s := newRunFixture(t, 0)
	other := campaigns(t, s.url, "elections", "jobs", leader.Config{ID: "other"})
	a := s.start("a", "--", s.obedient())
	a.says(`waiting: "other" leads`)
	hung := a.supervisor()
	_ = unix.Kill(hung, unix.SIGSTOP)
	if err := other.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.waitBegun(1)
	a.says("the supervising process did not start the command in time: it was killed")
	if a.supervisor() == hung || strings.Count(a.text(), "elected") != 1 {
		t.Error("it is the same supervisor, or another term")
	}
	a.signal(unix.SIGTERM)
	a.exits(128 + 15)
	if s.noOverlap(); s.count("begin") != 1 {
		t.Errorf("%q", s.journal())
	}
}

// A leader that cannot write the lease file anywhere hands over.
func TestRun_LeaseFileCannotBeWritten(t *testing.T) {
	s := newRunFixture(t, 0)
	other := campaigns(t, s.url, "elections", "jobs", leader.Config{ID: "other"})
	a := s.start("a", "--", s.obedient())
	a.says(`waiting: "other" leads`)
	if err := unix.Prlimit(a.supervisor(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: 100}, nil); err != nil { // it opens no more files
		t.Fatal(err)
	}
	if err := other.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.exits(exitCannotRun)
	if said := a.text(); !strings.Contains(said, "cannot write the lease") || !strings.Contains(said, "handed over") || s.count("begin") > 0 {
		t.Errorf("a has said:\n%s", said)
	}
}

// The directory of the lease file may be cleaned away. systemd-tmpfiles removes files
// that are old and not used.
func TestLeaseDirectory_CleanedAway(t *testing.T) {
	s := newRunFixture(t, 0)
	other := campaigns(t, s.url, "elections", "jobs", leader.Config{ID: "other"})
	a := s.start("a", "--", "sh", "-c", `ls -ld "${NATSLEADER_LEASE_FILE%/*}"; exec `+binary+" remaining")
	a.says(`waiting: "other" leads`)
	if err := os.RemoveAll(filepath.Dir(a.leaseFile())); err != nil {
		t.Fatal(err)
	}
	if err := other.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.exits(0)
	if !strings.Contains(a.text(), "drwx------") {
		t.Errorf("a has said:\n%s", a.text())
	}
	if left, _ := filepath.Glob(filepath.Join(a.cmd.Dir, "natsleader-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A reader that hangs delays no end of a run. The messages are not read, and the pipe is
// full.
func TestRun_HangingReader(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = r.Close(), w.Close() }()
	if err = w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{4096, 1} {
		for err = nil; err == nil; {
			_, err = w.Write(make([]byte, size))
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
	s := newRunFixture(t, 15*time.Second)
	s.output = w
	for name, k := range map[string]struct {
		url   string
		args  []string
		ended func(*runProcess)
		code  int
	}{
		"unreachable": {"nats://127.0.0.1:1", nil, nil, exitUnreachable},
		"once":        {s.url, []string{"--once"}, func(a *runProcess) { a.waitBegun(1); s.stepDown() }, exitLost},
	} {
		a := s.startAt(k.url, "a", append(k.args, "--", s.obedient())...)
		if k.ended != nil {
			k.ended(a)
		}
		if a.exits(k.code); t.Failed() {
			t.Fatal(name)
		}
	}
	status := natsleader(t, "status", "--server", "nats://127.0.0.1:1")
	status.Stderr = w
	if err := status.Run(); status.ProcessState.ExitCode() != exitUnreachable {
		t.Error(err)
	}
}

// A supervisor that ends at once is not replaced for ever.
func TestSupervisor_EndsAtOnce(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	campaigns(t, s.url, "elections", "jobs", leader.Config{ID: "other"})
	a := s.start("a", "--", "true")
	eventually(t, "it has ended", func() bool {
		for _, pid := range a.processes(supervisorVariable + "=") {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		select {
		case <-a.ended:
			return true
		default:
			return false
		}
	})
	a.exits(exitFailed)
	if !strings.Contains(a.text(), "the supervising process ends as soon as it begins") {
		t.Errorf("a has said:\n%s", a.text())
	}
}

// An inherited variable does not mislead the supervisor.
func TestSupervisor_InheritedVariable(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	cmd := natsleader(t, "run", "--server", s.url, "jobs", "--", "printenv", supervisorVariable)
	cmd.Env = append(cmd.Env, supervisorVariable+"={}")
	if out, errs, code := outcome(t, cmd); code != 1 || out != "" || !strings.Contains(errs, "handed over") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

// The directory of the lease file may have any name.
func TestLeaseDirectory_AnyName(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	odd := filepath.Join(s.dir, "t\xff")
	if err := os.Mkdir(odd, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := natsleader(t, "run", "--server", s.url, "jobs", "--", binary, "remaining")
	cmd.Env = append(cmd.Env, "TMPDIR="+odd)
	if out, errs, code := outcome(t, cmd); code != 0 {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if left, err := os.ReadDir(odd); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// As the first process of a container, natsleader adopts each process that loses its
// parent.
func TestAdoptedProcesses_AreReaped(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	campaigns(t, s.url, "elections", "jobs", leader.Config{ID: "other"})
	// The shell becomes natsleader, which then is the parent of the shell's child.
	cmd := natsleader(t, "run", "--server", s.url, "jobs", "--", "true")
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `(until [ -e end ]; do sleep 0.05; done) & exec "$@"`, "sh", binary}, cmd.Args[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	children := func() (n int) {
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", cmd.Process.Pid))
		all, _ := filepath.Glob("/proc/[0-9]*")
		for _, path := range all {
			if _, parent, ok := statOf(filepath.Base(path)); ok && parent == cmd.Process.Pid && string(comm) == "natsleader\n" {
				n++
			}
		}
		return n
	}
	eventually(t, "there are the supervisor and the child", func() bool { return children() == 2 })
	if err := os.WriteFile(filepath.Join(cmd.Dir, "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the child is reaped", func() bool { return children() == 1 })
	_ = cmd.Process.Signal(unix.SIGTERM)
	_ = cmd.Wait()
}
