//go:build field && linux

package main

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/leader"
)

// hold prints the token and holds the leadership until a signal.
func TestHold_UntilSignal(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	cmd := natsleader(t, "hold", "--server", s.url, "--id", "a", "-q", "jobs")
	out := started(t, cmd)
	eventually(t, "it prints a line", func() bool { return out.text() != "" })
	token, err := strconv.ParseUint(strings.TrimSpace(out.text()), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	b := stands(t, s.url, "jobs", leader.Config{ID: "b"})
	eventually(t, "b knows a", func() bool { h, ok := b.Leader(); return ok && h.ID == "a" && h.Token == token })
	if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := endOf(t, cmd); code != 128+15 {
		t.Errorf("exit code %d", code)
	}
	eventually(t, "b leads", b.IsLeader)
}

// hold ends when the leadership is lost, and when --try or --wait finds another leader.
func TestHold_ExitCodes(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	cmd := natsleader(t, "hold", "--server", s.url, "jobs")
	out := started(t, cmd)
	eventually(t, "it leads", func() bool { return strings.Contains(out.text(), "elected") })
	for flag, code := range map[string]int{"--try": exitLost, "--wait=1s": exitWaited} {
		if _, errs, got := outcome(t, natsleader(t, "hold", "--server", s.url, flag, "jobs")); got != code {
			t.Errorf("%s: exit code %d\n%s", flag, got, errs)
		}
	}
	s.stepDown()
	if code := endOf(t, cmd); code != exitLost {
		t.Errorf("exit code %d", code)
	}
	fails(t, natsleader(t, "hold", "--server", s.url, "jobs", "true"), exitUsage, "unexpected")
}
