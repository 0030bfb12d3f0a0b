//go:build field && linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/run"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

// Each process of a chain lives for as long as a shell needs to start the next, in a
// session of its own.
func (s *runFixture) chains() string {
	chain := s.script("chain", `[ -e `+s.dir+`/enough ] || setsid "$0" & exit`)
	return s.script("chains", s.prologue()+`
trap "" TERM
for i in 1 2 3 4; do `+chain+` & done
echo "begin $NATSLEADER_ID $NATSLEADER_TOKEN" >>journal
while :; do sleep 0.1; done
`)
}

// Daemons that replace themselves are killed.
func TestRun_KillsRespawningDaemons(t *testing.T) {
	t.Parallel()
	bySupervisor := func(a *runProcess) { a.signal(unix.SIGSTOP) }
	byNatsleader := func(a *runProcess) { _ = unix.Kill(a.supervisor(), unix.SIGKILL) }
	for name, k := range map[string]struct {
		do      func(a *runProcess)
		cgroups bool
	}{
		"by the supervisor":                      {bySupervisor, false},
		"by natsleader":                          {byNatsleader, false},
		"by the supervisor, with control groups": {bySupervisor, true},
		"by natsleader, with control groups":     {byNatsleader, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRunFixture(t, runLease)
			s.cgroups = k.cgroups
			t.Cleanup(func() { _ = os.WriteFile(filepath.Join(s.dir, "enough"), nil, 0o600) })
			a := s.begins(s.chains(), "--drain", "100ms")
			b := s.waits()
			k.do(a)
			b.waitBegun(1)
			if s.count("begin a") == 1 {
				a.noneLeft()
			}
			s.noOverlap()
		})
	}
}

// The command runs in a control group of its own if one can be made. Nothing of the
// group is left behind, whichever of the two processes dies.
func TestRun_CommandControlGroup(t *testing.T) {
	t.Parallel()
	group := run.MakeCgroup()
	if group == "" {
		proof.Skip(t, "no control group can be made here")
	}
	group.Remove()
	above := filepath.Dir(string(group))
	for name, do := range map[string]func(a *runProcess){
		"it is told to end":        func(a *runProcess) { a.signal(unix.SIGTERM) },
		"natsleader is killed":     func(a *runProcess) { a.signal(unix.SIGKILL) },
		"the supervisor is killed": func(a *runProcess) { _ = unix.Kill(a.supervisor(), unix.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newRunFixture(t, 15*time.Second)
			s.cgroups = true
			a := s.start("a", "--drain", "100ms", "--", s.script("c", `
mkdir "`+above+`/$(basename "$(sed -n s/^0:://p /proc/self/cgroup)")/nested"
sed -n s/^0:://p /proc/self/cgroup >`+s.dir+`/group.next; mv `+s.dir+`/group.next `+s.dir+`/group
trap "" TERM
while :; do sleep 0.1; done
`))
			var path string
			testworld.Eventually(t, "the command tells its group", func() bool {
				line, err := os.ReadFile(filepath.Join(s.dir, "group"))
				path = filepath.Join(above, filepath.Base(strings.TrimSpace(string(line))))
				return err == nil
			})
			_, err := os.Stat(filepath.Join(path, "nested"))
			expect.Must(t, err == nil && strings.HasPrefix(filepath.Base(path), "natsleader-"), "%s: %v", path, err)
			do(a)
			testworld.Eventually(t, "the group is removed", func() bool {
				_, err := os.Stat(path)
				return os.IsNotExist(err)
			})
			a.noneLeft()
		})
	}
}

// A second command under the same supervisor lives, although the one before it was
// killed with its control group.
func TestRun_AfterKilledControlGroup(t *testing.T) {
	s := newRunFixture(t, runLease)
	s.cgroups = true
	a := s.complete("--drain", "50ms")
	supervisor := a.supervisor()
	a.signal(unix.SIGSTOP)
	testworld.Eventually(t, "the command is killed", func() bool { return len(a.commandProcesses()) == 0 })
	a.signal(unix.SIGCONT)
	a.waitBegun(2)
	testworld.Eventually(t, "it is complete", func() bool { return len(a.commandProcesses()) >= 5 })
	expect.That(t, a.supervisor() == supervisor, "the supervisor was replaced")
	s.noOverlap()
}
