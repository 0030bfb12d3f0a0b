//go:build field && linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/run"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// watchExec starts `natsleader watch --exec` with a script, which runs in the directory that is returned.
func watchExec(t *testing.T, url, pattern, script string) (p *runningWatch) {
	t.Helper()
	dir := t.TempDir()
	expect.OK(t, os.WriteFile(filepath.Join(dir, "hook"), []byte(script), 0o600))
	cmd := withEnv(natsleader(t, "watch", pattern, "-s", url, "--exec", "cd "+dir+"; . ./hook"), "NATS_PASSWORD=secret")
	p = &runningWatch{T: t, dir: dir, out: started(t, cmd), signal: func(sig unix.Signal) { expect.OK(t, cmd.Process.Signal(sig)) }}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	return p
}

type runningWatch struct {
	*testing.T
	dir    string
	out    *output
	signal func(unix.Signal)
}

// wrote returns what the script has written to a file.
func (p *runningWatch) wrote(name string) string {
	text, _ := os.ReadFile(filepath.Join(p.dir, name)) // or nothing yet
	return string(text)
}

// lives reports whether a process lives whose ID the script has written to the file "pids".
func (p *runningWatch) lives() (n int) {
	for _, pid := range strings.Fields(p.wrote("pids")) {
		var number int
		_, err := fmt.Sscan(pid, &number)
		expect.OK(p.T, err)
		if state, _, ok := run.StatOf(pid); ok && state != 'Z' {
			n++
		}
	}
	return n
}

// The command of --exec finds each change in its environment and on its standard input. It gets only the elections that the
// pattern matches, and no password. A failure is told.
func TestWatch_Exec(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	newBucket(t, s.ClientURL(), "elections", leader.BucketConfig{})
	a := campaigns(t, s.ClientURL(), "elections", "tenant-1", leader.Config{ID: "a"})
	campaigns(t, s.ClientURL(), "elections", "other", leader.Config{ID: "a"})
	p := watchExec(t, s.ClientURL(), "tenant-*", `{ echo "$NATSLEADER_ELECTION was '$NATSLEADER_WAS', is $NATSLEADER_STATE: $NATSLEADER_ID$NATS_PASSWORD"; cat; } >>out; exit 3`)
	testworld.Eventually(t, "the first state is told", func() bool { return strings.Contains(p.wrote("out"), "tenant-1 was '', is leading: a\n{") })
	expect.OK(t, a.Stop())
	testworld.Eventually(t, "the change is told", func() bool {
		return strings.Contains(p.wrote("out"), "tenant-1 was 'leading', is released: \n{")
	})
	testworld.Eventually(t, "the failure is told", func() bool {
		return strings.Contains(p.out.text(), "the command of --exec for tenant-1 (released): exit code 3")
	})
	expect.That(t, !strings.Contains(p.wrote("out"), "other"), "%s", p.wrote("out"))
	p.signal(unix.SIGTERM)
	testworld.Eventually(t, "watch ends", func() bool {
		select {
		case <-p.out.ended:
			return true
		default:
			return false
		}
	})
}

// Nothing is left of a command of --exec: when it has ended, when watch ends, and when watch is killed.
func TestWatch_ExecLeavesNothing(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	newBucket(t, s.ClientURL(), "elections", leader.BucketConfig{})
	const children = `sleep 1000 & echo $! >>pids; setsid sleep 1000 & echo $! >>pids`
	for name, k := range map[string]struct {
		script string
		do     func(p *runningWatch)
	}{
		"it has ended": {children, func(p *runningWatch) {
			testworld.Eventually(p.T, "it says what was left", func() bool {
				return strings.Contains(p.out.text(), "the command of --exec has ended, and ")
			})
		}},
		"watch ends":      {children + "; wait", func(p *runningWatch) { p.signal(unix.SIGTERM) }},
		"watch is killed": {children + "; wait", func(p *runningWatch) { p.signal(unix.SIGKILL) }},
		"its supervisor is killed": {children + "; echo $PPID >>supervisor; wait", func(p *runningWatch) {
			testworld.Eventually(p.T, "the supervisor is known", func() bool { return strings.HasSuffix(p.wrote("supervisor"), "\n") })
			pid := expect.Got(strconv.Atoi(strings.TrimSpace(p.wrote("supervisor"))))(p.T)
			expect.OK(p.T, unix.Kill(pid, unix.SIGKILL))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			campaigns(t, s.ClientURL(), "elections", strings.ReplaceAll(name, " ", "-"), leader.Config{ID: "a"})
			p := watchExec(t, s.ClientURL(), strings.ReplaceAll(name, " ", "-"), k.script)
			testworld.Eventually(t, "two processes have begun", func() bool { return len(strings.Fields(p.wrote("pids"))) == 2 })
			k.do(p)
			testworld.Eventually(t, "none lives", func() bool { return p.lives() == 0 })
		})
	}
}
