//go:build field && linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/run"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
)

// natsleader and its supervisor make their threads ahead. The Go runtime aborts when it
// cannot make a thread, as when a command uses up the limit of processes.
func TestRun_MakesThreadsAhead(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	a := s.leads()
	for name, pid := range map[string]int{"natsleader": a.cmd.Process.Pid, "the supervisor": a.supervisor()} {
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		expect.That(t, err == nil && len(threads) >= run.ThreadsAhead, "%s has %d threads, %v", name, len(threads), err)
	}
}

// leaseFile returns the path of its lease file.
func (p *runProcess) leaseFile() string {
	p.Helper()
	var found []string
	testworld.Eventually(p.T, p.id+" has a directory for the lease", func() bool {
		found, _ = filepath.Glob(filepath.Join(p.cmd.Dir, "natsleader-*"))
		return len(found) == 1
	})
	return filepath.Join(found[0], "lease")
}

// A leader that cannot write the lease file anywhere hands over.
func TestRun_LeaseFileCannotBeWritten(t *testing.T) {
	s := newRunFixture(t, 0)
	other := s.another()
	a := s.start("a", "--", s.obedient())
	a.says(`waiting: "other" leads`)
	none := &unix.Rlimit{Cur: 0, Max: 100} // it opens no more files
	expect.OK(t, unix.Prlimit(a.supervisor(), unix.RLIMIT_NOFILE, none, nil))
	expect.OK(t, other.Stop())
	a.exits(front.ExitCannotRun)
	said := a.text()
	expect.That(t, strings.Contains(said, "cannot write the lease") && strings.Contains(said, "handed over") && s.count("begin") == 0,
		"a has said:\n%s", said)
}

// The directory of the lease file may be cleaned away. systemd-tmpfiles removes files
// that are old and not used.
func TestLeaseDirectory_CleanedAway(t *testing.T) {
	s := newRunFixture(t, 0)
	other := s.another()
	a := s.start("a", "--", "sh", "-c", `ls -ld "${NATSLEADER_LEASE_FILE%/*}"; exec `+binary+" remaining")
	a.says(`waiting: "other" leads`)
	expect.OK(t, os.RemoveAll(filepath.Dir(a.leaseFile())))
	expect.OK(t, other.Stop())
	a.exits(0)
	expect.That(t, strings.Contains(a.text(), "drwx------"), "a has said:\n%s", a.text())
	left, _ := filepath.Glob(filepath.Join(a.cmd.Dir, "natsleader-*"))
	expect.That(t, len(left) == 0, "left behind: %v", left)
}

// As the first process of a container, natsleader adopts each process that loses its
// parent.
func TestAdoptedProcesses_AreReaped(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	s.another()
	// The shell becomes natsleader, which then is the parent of the shell's child.
	cmd := natsleader(t, "run", "--server", s.url, "jobs", "--", "true")
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `(until [ -e end ]; do sleep 0.05; done) & exec "$@"`, "sh", binary}, cmd.Args[1:]...)
	expect.OK(t, cmd.Start())
	children := func() (n int) {
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", cmd.Process.Pid))
		all, _ := filepath.Glob("/proc/[0-9]*")
		for _, path := range all {
			if _, parent, ok := run.StatOf(filepath.Base(path)); ok && parent == cmd.Process.Pid && string(comm) == "natsleader\n" {
				n++
			}
		}
		return n
	}
	testworld.Eventually(t, "there are the supervisor and the child", func() bool { return children() == 2 })
	expect.OK(t, os.WriteFile(filepath.Join(cmd.Dir, "end"), nil, 0o600))
	testworld.Eventually(t, "the child is reaped", func() bool { return children() == 1 })
	_ = cmd.Process.Signal(unix.SIGTERM)
	_ = cmd.Wait()
}

// A reader that hangs delays no end of a command. The messages are not read, and the pipe is full.
func TestRun_HangingReader(t *testing.T) {
	r, w, err := os.Pipe()
	expect.OK(t, err)
	defer func() { _, _ = r.Close(), w.Close() }()
	expect.OK(t, w.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	for _, size := range []int{4096, 1} {
		for err = nil; err == nil; {
			_, err = w.Write(make([]byte, size))
		}
		expect.Is(t, err, os.ErrDeadlineExceeded)
	}
	for _, args := range [][]string{{"run", "jobs", "--", "true"}, {"status"}} {
		cmd := natsleader(t, append([]string{"--server", "nats://127.0.0.1:1"}, args...)...)
		cmd.Stderr = w
		expect.OK(t, cmd.Start())
		expect.Equal(t, endOf(t, cmd), front.ExitUnreachable, args[0]+": exit code %d")
	}
}
