//go:build field && linux

package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// terminal returns a pseudo terminal of a size. Output to its far end can be read from
// the near one.
func terminal(t *testing.T, rows, columns uint16) (near, far *os.File) {
	t.Helper()
	near, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		proof.Skip(t, "no pseudo terminals here: ", err)
	}
	t.Cleanup(func() { _ = near.Close() })
	fd := int(near.Fd())
	if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
		t.Fatal(err)
	}
	far, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close() })
	return near, far
}

// onTerminal starts a command on a terminal. end interrupts it, and fails the test if a
// view did not fit.
func onTerminal(t *testing.T, rows, columns uint16, args ...string) (screen *output, end func()) {
	t.Helper()
	near, far := terminal(t, rows, columns)
	cmd := withEnv(natsleader(t, args...), "NO_COLOR=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = far, far, far
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	screen = &output{}
	read := make(chan struct{})
	go func() {
		defer close(read)
		screen.collect(near)
	}()
	return screen, func() {
		t.Helper()
		interrupted(t, cmd)
		_ = far.Close()
		<-read // the far end is closed
		fits(t, screen.text(), int(rows), int(columns))
	}
}

// fits fails the test if a frame of a view is larger than the terminal, or has colours.
func fits(t *testing.T, view string, rows, columns int) {
	t.Helper()
	for frame := range strings.SplitSeq(view, "\x1b[H") {
		lines := strings.Split(strings.TrimSuffix(frame, leaveScreen), "\n")
		if len(lines) > rows {
			t.Errorf("%d lines in a terminal of %d:\n%q", len(lines), rows, frame)
		}
		for _, line := range lines {
			line = strings.TrimPrefix(strings.ReplaceAll(strings.TrimRight(line, "\r"), "\x1b[K", ""), enterScreen)
			if n := len([]rune(line)); n > columns || strings.Contains(line, "\x1b") {
				t.Errorf("%d columns in a terminal of %d: %q", n, columns, line)
			}
		}
	}
}

// On a terminal, watch draws a view that fits.
func TestWatch_FitsTheTerminal(t *testing.T) {
	const rows, columns = 9, 60
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	a := campaigns(t, url, "elections", "billing", leader.Config{ID: "a", Value: []byte(strings.Repeat("x", 100))})
	for i := range 10 {
		campaigns(t, url, "elections", fmt.Sprint("z", i), leader.Config{ID: "z"})
	}
	screen, end := onTerminal(t, rows, columns, "watch", "-s", url)
	screen.says(t, "Elections in bucket elections ")
	screen.says(t, "billing   leading  a")
	screen.says(t, "and 8 more")
	if err := a.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	screen.says(t, "billing   RELEASED  NOBODY (was a)")
	end()
}

// On a terminal, a roster is drawn as a view that fits.
func TestRosterWatch_FitsTerminal(t *testing.T) {
	const rows, columns = 8, 60
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{Roster: true})
	campaigns(t, url, "elections", "billing", leader.Config{ID: "a", Roster: true, Value: []byte(strings.Repeat("x", 100))})
	ids := []string{"b", "c", "d", "e", "f", "g"}
	for i, id := range ids {
		stands(t, url, "billing", leader.Config{ID: id, Roster: true})
		inLine(t, url, "billing", ids[:i+1]...)
	}
	screen, end := onTerminal(t, rows, columns, "roster", "billing", "--watch", "-s", url)
	screen.says(t, "Roster of billing, 6 stand")
	screen.says(t, "leads  a   -")
	screen.says(t, "and 4 more")
	late := stands(t, url, "billing", leader.Config{ID: "z", Queue: true, Priority: 9})
	screen.says(t, "1      z   9")
	if err := late.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	end()
}
