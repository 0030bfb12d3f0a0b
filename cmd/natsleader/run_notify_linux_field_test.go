//go:build field && linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// --notify signals the start and the end of leadership to the command.
func TestRunNotify_Signals(t *testing.T) {
	s := newRunFixture(t, runLease)
	other := s.another()
	p := s.start("a", "--notify", "USR1,USR2", "--drain", "100ms", "--", s.script("c", s.prologue()+`
token() { sed 's/.*"token":\([0-9]*\).*/\1/' "$NATSLEADER_LEASE_FILE"; }
trap 'echo "won $(token)" >>journal' USR1
trap 'echo "lost $(token)" >>journal' USR2
echo "begin $NATSLEADER_ID ${NATSLEADER_TOKEN-none} $(token)" >>journal
while :; do sleep 0.05; done
`))
	testworld.Eventually(t, "it begins without leading", func() bool { return s.count("begin a none 0") == 1 })
	p.says(`waiting: "other" leads`)
	expect.That(t, s.count("won") == 0, "journal: %q", s.journal())
	expect.OK(t, other.Stop())
	testworld.Eventually(t, "it is told of the leadership", func() bool { return s.count("won") >= 1 })
	other = standsIn(t, s.url, "elections", "jobs", leader.Config{ID: "other"})
	s.stepDown()
	testworld.Eventually(t, "it is told of the loss", func() bool { return s.count("lost") >= 1 })
	expect.OK(t, other.Stop())
	testworld.Eventually(t, "it is told again", func() bool { return s.count("won") >= 2 })
	p.suspend() // only the supervisor is left to send the signal
	testworld.Eventually(t, "it is told when the lease is over", func() bool { return s.count("lost") >= 2 })
	p.resumeTooLate()
	p.says("lost: lease not confirmed")
	p.terminated()
	expect.That(t, s.count("begin") == 1, "journal: %q", s.journal())
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
	expect.OK(t, os.WriteFile(filepath.Join(s.dir, "elected"), nil, 0o600))
	p.exits(9)
}
