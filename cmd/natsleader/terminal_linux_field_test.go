//go:build field && linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/view"
	expect "github.com/natsleader/natsleader/internal/check"
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
	expect.OK(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n := expect.Got(unix.IoctlGetInt(fd, unix.TIOCGPTN))(t)
	expect.OK(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}))
	far = expect.Got(os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0))(t)
	t.Cleanup(func() { _ = far.Close() })
	return near, far
}

// onTerminal starts a command on a terminal.
func onTerminal(t *testing.T, far *os.File, args ...string) *exec.Cmd {
	t.Helper()
	cmd := natsleader(t, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = far, far, far
	expect.OK(t, cmd.Start())
	return cmd
}

// A view fits the terminal, and is drawn again for its new size. After every end the terminal is as it was.
func TestWatch_RestoresTerminal(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{Roster: true})
	for i := range 9 {
		campaigns(t, url, "elections", fmt.Sprint("e", i), leader.Config{ID: "a", Queue: &leader.Queue{AtOnce: true}})
	}
	for i := range 9 {
		stands(t, url, "e0", leader.Config{ID: fmt.Sprint("b", i), Value: []byte(strings.Repeat("x", 90)), Queue: &leader.Queue{AtOnce: true}})
	}
	typed := func(keys string) func(*os.File, *os.Process) error {
		return func(near *os.File, _ *os.Process) error { _, err := near.WriteString(keys); return err }
	}
	sent := func(sig syscall.Signal) func(*os.File, *os.Process) error {
		return func(_ *os.File, p *os.Process) error { return p.Signal(sig) }
	}
	for name, x := range map[string]struct {
		line       string
		says, wide string // what it shows, and what it shows only if there is room
		ends       func(near *os.File, p *os.Process) error
	}{
		"q":         {"watch", "\x1b[32mleading\x1b[0m", "LEASE LEFT", typed("q")},
		"Control-C": {"watch e0 --roster", "more", strings.Repeat("x", 20), typed("\x03")},
		"SIGTERM":   {"watch", " more", "LEASE LEFT", sent(syscall.SIGTERM)},
		"SIGHUP":    {"watch", "Elections in bucket elections", "LEASE LEFT", sent(syscall.SIGHUP)},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := terminal(t, 12, 100)
			before := expect.Got(unix.IoctlGetTermios(int(far.Fd()), unix.TCGETS))(t)
			cmd, screen, read := onTerminal(t, far, append(strings.Fields(x.line), "-s", url)...), &output{}, make(chan struct{})
			go func() {
				defer close(read)
				screen.collect(near)
			}()
			screen.says(t, view.EnterScreen)
			screen.says(t, x.says)
			screen.says(t, x.wide)
			expect.OK(t, unix.IoctlSetWinsize(int(near.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 12, Col: 40}))
			testworld.Eventually(t, "it draws fewer columns", func() bool {
				frames := strings.Split(screen.text(), "\x1b[H")
				last := frames[len(frames)-1]
				return last != "" && !strings.Contains(last, x.wide)
			})
			expect.OK(t, x.ends(near, cmd.Process))
			expect.Equal(t, endOf(t, cmd), 0, "exit code %d")
			after, err := unix.IoctlGetTermios(int(far.Fd()), unix.TCGETS)
			expect.That(t, err == nil && *after == *before,
				"%v: the settings are\n%+v\nnot\n%+v", err, after, before)
			_ = far.Close()
			<-read
			expect.That(t, strings.HasSuffix(screen.text(), view.LeaveScreen), "it ends with %q", screen.text()[max(0, len(screen.text())-80):])
		})
	}
}

// watch ends when its terminal is lost, and when it is interrupted while its terminal takes no output.
func TestWatch_TerminalLostOrStuck(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	for name, end := range map[string]func(t *testing.T, near *os.File, cmd *exec.Cmd){
		"lost": func(t *testing.T, near *os.File, cmd *exec.Cmd) {
			expect.OK(t, near.Close())
			endOf(t, cmd)
		},
		"stuck": func(t *testing.T, _ *os.File, cmd *exec.Cmd) { interrupted(t, cmd) },
	} {
		t.Run(name, func(t *testing.T) {
			near, far := terminal(t, 200, 400)
			cmd := onTerminal(t, far, "watch", "-s", url)
			_ = far.Close()
			b := make([]byte, len(view.EnterScreen)) // nothing after it is read
			_, err := near.Read(b)
			expect.Must(t, err == nil && string(b) == view.EnterScreen, "%v: %q", err, b)
			end(t, near, cmd)
		})
	}
}

// A command asks a question on a terminal, and reads the answer there. Without a terminal, or without
// standard input, it does not ask.
func TestConfirm_OnTerminal(t *testing.T) {
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	c := campaigns(t, url, "elections", "billing", leader.Config{ID: "a"})
	args := []string{"step-down", "billing", "--force", "-s", url}
	fails(t, natsleader(t, args...), front.ExitUsage, "--force needs --yes where it cannot ask")
	closed := natsleader(t)
	closed.Path, closed.Args = "/bin/sh", append([]string{"sh", "-c", `exec "$@" <&-`, "sh", binary}, args...)
	fails(t, closed, front.ExitUsage, "--force needs --yes where it cannot ask")
	expect.Must(t, c.IsLeader(), "the key was deleted")
	for _, x := range []struct {
		answer string
		code   int
		says   string
	}{{"n", front.ExitFailed, "natsleader: error: nothing was deleted"}, {"y", 0, "deleted"}} {
		near, far := terminal(t, 24, 80)
		cmd := natsleader(t, args...)
		cmd.Stdin = far
		out := started(t, cmd)
		out.says(t, "- Until then nobody leads.") // the prompt follows, in a line without an end
		_, err := near.WriteString(x.answer + "\n")
		expect.Must(t, err == nil, "%v", err)
		code := endOf(t, cmd)
		<-out.ended
		if code != x.code || !strings.HasSuffix(out.text(), x.says) {
			t.Errorf("%q: exit code %d\n%s", x.answer, code, out.text())
		}
	}
}
