//go:build field && linux

package main

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A command that fails is started again under the same token, and then given up.
func TestRunRestart_Bounded(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	fails := s.script("fails", s.prologue()+`echo "begin $NATSLEADER_ID $NATSLEADER_TOKEN" >>journal; exit 3`+"\n")
	p := s.start("a", "--restart", "1", "--", fails)
	p.exits(3)
	journal := s.journal()
	if len(journal) != 2 || journal[0] != journal[1] {
		t.Errorf("%q", journal)
	}
	for _, text := range []string{"failure 1 of 2 in a row: starting the command again in 1s", "failure 2 of 2 in a row: giving up the leadership", "handed over"} {
		if strings.Count(p.text(), text) != 1 {
			t.Errorf("not once: %q\n%s", text, p.text())
		}
	}
}

// A command that ends well is not started again.
func TestRunRestart_Success(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	s.start("a", "--restart", "5", "--", "true").exits(0)
}

// Between two starts a step-down and a signal work.
func TestRunRestart_Pause(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	p := s.start("a", "--restart", "1000", "--notify", "USR1,USR2", "--", "false")
	p.says("starting the command again in 4s")
	p.signal(unix.SIGTERM)
	p.exits(128 + 15)
	q := s.start("b", "--restart", "1000", "--", "false")
	q.says("starting the command again in 4s")
	s.stepDown()
	q.says("lost: resigned")
	q.signal(unix.SIGTERM)
	q.exits(128 + 15)
}

// The command line of --shell is one of sh.
func TestRun_Shell(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	p := s.start("a", "-q", "--shell", "--", "echo", "$NATSLEADER_ID | tr a z;", "exit 5")
	if p.exits(5); p.text() != "z\n" {
		t.Errorf("%q", p.text())
	}
}

// --hold keeps the exit code of the command, also if it has failed.
func TestRunHold_ExitCode(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	p := s.start("a", "--hold", "100ms", "--", "sh", "-c", "exit 6")
	if p.exits(6); !strings.Contains(p.text(), "keeping the leadership for 100ms") {
		t.Errorf("%s", p.text())
	}
	q := s.start("b", "--hold", "1h", "--", "/no/such/program") // another host may have it
	q.exits(exitNotFound)
}
