//go:build field && linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/leader"
)

// --notify signals the start and the end of leadership to the command.
func TestRunNotify_Signals(t *testing.T) {
	s := newRunFixture(t, runLease)
	other := campaigns(t, s.url, "elections", "jobs", leader.Config{ID: "other"})
	p := s.start("a", "--notify", "USR1,USR2", "--drain", "100ms", "--", s.script("c", s.prologue()+`
token() { sed 's/.*"token":\([0-9]*\).*/\1/' "$NATSLEADER_LEASE_FILE"; }
trap 'echo "won $(token)" >>journal' USR1
trap 'echo "lost $(token)" >>journal' USR2
echo "begin $NATSLEADER_ID ${NATSLEADER_TOKEN-none} $(token)" >>journal
while :; do sleep 0.05; done
`))
	eventually(t, "it begins without leading", func() bool { return s.count("begin a none 0") == 1 })
	p.says(`waiting: "other" leads`)
	if s.count("won") > 0 {
		t.Errorf("journal: %q", s.journal())
	}
	if err := other.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is told of the leadership", func() bool { return s.count("won") >= 1 })
	other = standsIn(t, s.url, "elections", "jobs", leader.Config{ID: "other"})
	s.stepDown()
	eventually(t, "it is told of the loss", func() bool { return s.count("lost") >= 1 })
	if err := other.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is told again", func() bool { return s.count("won") >= 2 })
	p.suspend() // only the supervisor is left to send the signal
	eventually(t, "it is told when the lease is over", func() bool { return s.count("lost") >= 2 })
	p.resumeTooLate()
	p.says("lost: lease not confirmed")
	p.signal(unix.SIGTERM)
	p.exits(128 + 15)
	if s.count("begin") != 1 {
		t.Errorf("journal: %q", s.journal())
	}
	for i, line := range s.journal()[1:] {
		if strings.HasPrefix(line, "won ") != (i%2 == 0) {
			t.Errorf("journal: %q", s.journal())
			break
		}
	}
}

// A signal waits until the command handles it.
func TestRunNotify_AwaitsHandler(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	p := s.start("a", "--notify", "USR1,USR2", "--", s.script("c", s.prologue()+`
until [ -e elected ]; do sleep 0.05; done
sleep 0.2
trap 'echo won >>journal; exit 9' USR1
while :; do sleep 0.05; done
`))
	p.says("elected")
	if err := os.WriteFile(filepath.Join(s.dir, "elected"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.exits(9)
}

// The command of --notify ends with natsleader.
func TestRunNotify_CommandEndsWithRun(t *testing.T) {
	s := newRunFixture(t, runLease)
	p := s.start("a", "--notify", "USR1,USR2", "--drain", "100ms", "--", s.script("c", `trap "" USR1 USR2 TERM; sleep 1000`))
	p.says("elected")
	eventually(t, "the command runs", func() bool { return len(p.commandProcesses()) > 0 })
	p.signal(unix.SIGKILL)
	eventually(t, "nothing is left", func() bool { return len(p.processes("")) == 0 })
}
