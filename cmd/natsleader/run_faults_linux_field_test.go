//go:build field && linux

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/run"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
)

// One fault after another, at any instant. At most one of natsleader and its supervisor
// suffers at a time, and the commands do not want to end. No process of a command is
// ever left when another command begins. STORM is the length of the test.
func TestRunStorm_LeavesNothing(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("STORM"))
	if err != nil {
		length = 5 * time.Second
	}
	s := newRunFixture(t, runLease)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	command := s.stubborn()
	number := 0
	enter := func() *runProcess {
		number++
		return s.start(fmt.Sprint("p", number), "--drain", "100ms", "--", command)
	}
	all := []*runProcess{enter(), enter(), enter()}
	for end := time.Now().Add(length); time.Now().Before(end); {
		time.Sleep(rand.N(500 * time.Millisecond)) // at any instant, which no seed repeats
		i := rng.IntN(len(all))
		if lead := s.leader(all); lead >= 0 && rng.IntN(3) > 0 {
			i = lead
		}
		p := all[i]
		victim := p.cmd.Process
		faults := []os.Signal{unix.SIGKILL, unix.SIGSTOP, unix.SIGTERM}
		if supervisors := p.processes(run.SupervisorVariable + "="); len(supervisors) == 1 && rng.IntN(2) == 0 {
			victim, _ = os.FindProcess(supervisors[0])
			faults = faults[:2]
		}
		sig := faults[rng.IntN(len(faults))]
		_ = victim.Signal(sig)
		if sig == unix.SIGSTOP {
			time.Sleep(rand.N(runLease * 3 / 2))
			_ = victim.Signal(unix.SIGCONT)
		}
		select {
		case <-p.ended:
			testworld.Eventually(t, "nothing of "+p.id+" is left", func() bool { return len(p.processes("")) == 0 })
			all[i] = enter()
		case <-time.After(time.Second): // a run that lives on has a supervisor again
		}
		if s.noOverlap(); t.Failed() {
			return
		}
	}
	t.Logf("%d commands", s.count("begin"))
}

// leader returns the index of the run with the newest command; -1: none of these.
func (s *runFixture) leader(all []*runProcess) int {
	lines := s.journal()
	words := strings.Fields(lines[len(lines)-1])
	for i, p := range all {
		if len(words) > 1 && words[1] == p.id {
			return i
		}
	}
	return -1
}
