//go:build field && linux

package main

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/leader"
)

// The terminal is as it was after every end of watch, and watch draws for its new size.
func TestWatch_RestoresTerminal(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	campaigns(t, url, "elections", "billing", leader.Config{ID: "a"})
	for name, ends := range map[string]func(near *os.File, p *os.Process) error{
		"q":         func(near *os.File, _ *os.Process) error { _, err := near.WriteString("q"); return err },
		"Control-C": func(near *os.File, _ *os.Process) error { _, err := near.WriteString("\x03"); return err },
		"SIGTERM":   func(_ *os.File, p *os.Process) error { return p.Signal(syscall.SIGTERM) },
		"SIGHUP":    func(_ *os.File, p *os.Process) error { return p.Signal(syscall.SIGHUP) },
	} {
		t.Run(name, func(t *testing.T) {
			near, far := terminal(t, 12, 100)
			before, err := unix.IoctlGetTermios(int(far.Fd()), unix.TCGETS)
			if err != nil {
				t.Fatal(err)
			}
			cmd := natsleader(t, "watch", "-s", url)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = far, far, far
			if err = cmd.Start(); err != nil {
				t.Fatal(err)
			}
			screen := &output{}
			read := make(chan struct{})
			go func() {
				defer close(read)
				screen.collect(near)
			}()
			screen.says(t, enterScreen)
			screen.says(t, "\x1b[32mleading\x1b[0m")
			screen.says(t, "LEASE LEFT")
			if err = unix.IoctlSetWinsize(int(near.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 12, Col: 40}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it draws fewer columns", func() bool {
				frames := strings.Split(screen.text(), "\x1b[H")
				last := frames[len(frames)-1]
				return strings.Contains(last, "FOR") && !strings.Contains(last, "LEASE LEFT")
			})
			if err = ends(near, cmd.Process); err != nil {
				t.Fatal(err)
			}
			if code := endOf(t, cmd); code != 0 {
				t.Errorf("exit code %d", code)
			}
			after, err := unix.IoctlGetTermios(int(far.Fd()), unix.TCGETS)
			if err != nil || *after != *before {
				t.Errorf("%v: the settings are\n%+v\nnot\n%+v", err, after, before)
			}
			_ = far.Close()
			<-read
			if !strings.HasSuffix(screen.text(), leaveScreen) {
				t.Errorf("it ends with %q", screen.text()[max(0, len(screen.text())-80):])
			}
		})
	}
}

// watch ends when its terminal is lost.
func TestWatch_TerminalLost(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	near, far := terminal(t, 12, 100)
	cmd := natsleader(t, "watch", "-s", url)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = far, far, far
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = far.Close()
	b := make([]byte, len(enterScreen))
	if _, err := near.Read(b); err != nil || string(b) != enterScreen {
		t.Fatalf("%v: %q", err, b)
	}
	if err := near.Close(); err != nil {
		t.Fatal(err)
	}
	endOf(t, cmd)
}

// A terminal that takes no output does not keep watch from ending.
func TestWatch_TerminalStuck(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	near, far := terminal(t, 200, 400)
	cmd := natsleader(t, "watch", "-s", url)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = far, far, far
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, len(enterScreen)) // nothing after it is read
	if _, err := near.Read(b); err != nil || string(b) != enterScreen {
		t.Fatalf("%v: %q", err, b)
	}
	interrupted(t, cmd)
}
