//go:build field && linux

package main

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
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
			testworld.Eventually(t, "it leads, and the command runs", func() bool {
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
