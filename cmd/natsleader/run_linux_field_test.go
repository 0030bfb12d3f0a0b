//go:build field && linux

package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/run"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// The environment and the lease file give the command its election, its term and its
// lease.
func TestRun_CommandEnvironment(t *testing.T) {
	s := newRunFixture(t, 0)
	told := s.script("told", `
echo "$NATSLEADER_ELECTION $NATSLEADER_BUCKET $NATSLEADER_ID $NATSLEADER_TOKEN $NATSLEADER_SUPERVISOR"
cat "$NATSLEADER_LEASE_FILE"
`+binary+` remaining && `+binary+` remaining --json
ls -ld "${NATSLEADER_LEASE_FILE%/*}"
ls /proc/$$/fd
echo "$@"
`)
	p := s.start("a", "-q", "--", told, "--", "-x", "", "two words", "--")
	p.exits(0)
	lines := strings.Split(p.text(), "\n")
	expect.Must(t, len(lines) >= 5 && strings.HasPrefix(lines[0], "jobs elections a "), "%q", lines)
	var note run.LeaseNote
	expect.OK(t, json.Unmarshal([]byte(lines[1]), &note))
	if strconv.FormatUint(note.Token, 10) != strings.Fields(lines[0])[3] || note.Token == 0 || len(strings.Fields(lines[0])) != 4 {
		t.Errorf("token in the environment and in the file: %q", lines[:2])
	}
	// The lease of 15 s is valid for four fifths of that, counted from its request.
	left := time.Until(note.Until)
	byUptime := time.Duration((note.Boottime - run.ClockNow().Uptime()) * 1e9)
	expect.That(t, left <= 12*time.Second && left >= 12*time.Second-testworld.Patience && (left-byUptime).Abs() <= time.Second,
		"the lease is good for %v by the wall clock and %v by the uptime", left, byUptime)
	if d, err := time.ParseDuration(lines[2]); err != nil || d <= 0 || d > 12*time.Second {
		t.Errorf("remaining: %q", lines[2])
	}
	expect.That(t, strings.HasPrefix(lines[3], `{"token":`+strconv.FormatUint(note.Token, 10)+`,"until":`),
		"remaining --json: %q", lines[3])
	expect.That(t, strings.HasPrefix(lines[4], "drwx------"), "directory of the file: %q", lines[4])
	rest := strings.Join(lines[5:], "\n")
	expect.That(t, strings.HasSuffix(rest, "\n-- -x  two words --\n") && !strings.Contains(rest, "\n64\n"),
		"descriptors and arguments: %q", rest)
	if left, err := filepath.Glob(filepath.Join(p.cmd.Dir, "natsleader-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// The environment of a run inside a run is that of its own election.
func TestRun_InsideARun(t *testing.T) {
	s := newRunFixture(t, 0)
	p := s.start("outer", "-q", "--", binary, "run", "-q", "--server", s.url, "--id", "inner", "--notify", "USR1,USR2", "other", "--",
		"cat", "/proc/self/environ")
	p.exits(0)
	var told []string
	for _, v := range strings.Split(p.text(), "\x00") {
		if strings.HasPrefix(v, "NATSLEADER_") && !strings.HasPrefix(v, run.LeaseVariable+"=") && !strings.HasPrefix(v, run.CgroupVariable+"=") {
			told = append(told, v)
		}
	}
	if slices.Sort(told); !slices.Equal(told, []string{"NATSLEADER_BUCKET=elections", "NATSLEADER_ELECTION=other", "NATSLEADER_ID=inner"}) {
		t.Errorf("%q", told)
	}
}

// Variables that natsleader inherits do not mislead it, and it leaves no lease file behind.
func TestRun_InheritedEnvironment(t *testing.T) {
	s := newRunFixture(t, 0)
	odd := filepath.Join(s.dir, "t\xff")
	expect.OK(t, os.Mkdir(odd, 0o700))
	const file = `echo "$NATSLEADER_LEASE_FILE"; `
	for name, k := range map[string]struct {
		variable, command, prints string
		code                      int
	}{
		"no TMPDIR":                 {"TMPDIR=/nonexistent", file, "/dev/shm/natsleader-", 0},
		"a TMPDIR of any name":      {"TMPDIR=" + odd, file + binary + " remaining >/dev/null", odd + "/natsleader-", 0},
		"a supervisor's variable":   {run.SupervisorVariable + "={}", "printenv " + run.SupervisorVariable, "", 1},
		"a password":                {"NATS_PASSWORD=secret", "printenv NATS_PASSWORD", "", 1},
		"a command line of --shell": {"A=b", "echo $NATSLEADER_ID$A | tr a z; exit 5", "zb\n", 5},
	} {
		cmd := natsleader(t, "run", "-q", "--server", s.url, "--id", "a", "--shell", "jobs", "--", k.command)
		cmd.Env = append(cmd.Env, k.variable)
		out, errs, code := outcome(t, cmd)
		_, left := os.Stat(filepath.Dir(strings.TrimSpace(out)))
		expect.That(t, code == k.code && strings.HasPrefix(out, k.prints) && (k.prints != "" || out == ""), "%s: exit code %d\n%s%s", name, code, out, errs)
		expect.That(t, !strings.HasPrefix(out, "/") || os.IsNotExist(left), "%s: left behind: %s", name, out)
	}
}

// The exit code of run is that of the command.
func TestRun_ExitCode(t *testing.T) {
	s := newRunFixture(t, 0)
	notExecutable := filepath.Join(s.dir, "plain")
	noProgram := filepath.Join(s.dir, "noise")
	for path, mode := range map[string]os.FileMode{notExecutable: 0o600, noProgram: 0o700} {
		expect.OK(t, os.WriteFile(path, []byte("\x00\x01"), mode))
	}
	for i, k := range []struct {
		code    int
		command []string
	}{
		{0, []string{"true"}},
		{7, []string{"sh", "-c", "exit 7"}},
		{128 + 9, []string{"sh", "-c", "kill -9 $$"}},
		{128 + 15, []string{"sh", "-c", "kill -15 $$"}},
		{front.ExitNotFound, []string{"no-such-program"}},
		{front.ExitNotFound, []string{"/no/such/program"}},
		{front.ExitCannotRun, []string{notExecutable}},
		{front.ExitCannotRun, []string{"/"}},
		{front.ExitCannotRun, []string{noProgram}}, // discovered when it is started
	} {
		p := s.start(strconv.Itoa(i), append([]string{"--"}, k.command...)...)
		p.exits(k.code)
		handed := strings.Contains(p.text(), "handed over")
		expect.That(t, handed == strings.Contains(p.text(), "elected"), "%q has said:\n%s", k.command, p.text())
		if k.code > 1 && k.code < 128 && k.code != 7 && !strings.Contains(p.text(), ": cannot run "+k.command[0]+": ") {
			t.Errorf("%q has said:\n%s", k.command, p.text())
		}
	}
}

// The second command begins when nothing of the first is left.
func TestRun_NextAfterTheEnd(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	a := s.leads()
	b := s.waits()
	a.signal(unix.SIGTERM)
	b.waitBegun(1)
	a.exits(128 + 15)
	b.signal(unix.SIGINT)
	b.exits(128 + 2)
	s.noOverlap()
	got := s.journal()
	expect.That(t, len(got) == 4 && strings.HasPrefix(got[1], "end a ") && strings.HasPrefix(got[2], "begin b "),
		"journal: %q", got)
	said := a.text()
	if lines := strings.Count(said, "\n") - strings.Count(said, ": still leading"); lines != 5 || !strings.HasSuffix(said, "natsleader: jobs: handed over\n") {
		t.Errorf("a has said:\n%s", said)
	}
}

// stepDown asks the leader to hand over, as `natsleader step-down` does.
func (s *runFixture) stepDown() {
	s.Helper()
	_, js := connectTo(s.T, s.url)
	b := expect.Got(leader.OpenBucket(js, "elections"))(s.T)
	ctx, cancel := context.WithTimeout(s.Context(), testworld.Patience)
	defer cancel()
	holder, err := leader.StepDown(ctx, b, "jobs", leader.StepDownOptions{By: "the test"})
	expect.Must(s.T, err == nil && holder.ID != "", "%v, %v", holder, err)
}

// A grandchild does not outlive the command.
func TestRun_GrandchildIsEnded(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	p := s.start("a", "--drain", "300ms", "--", "sh", "-c", `trap "" TERM; (sleep 1000) & (setsid sleep 1000) & exit 5`)
	p.says("the command has ended, and ") // the shell, or the program that it becomes
	p.exits(5)
	p.noneLeft()
	polite := s.start("b", "--drain", "1h", "--", "sh", "-c", `(sleep 1000) & (setsid sleep 1000) & exit 6`)
	polite.exits(6)
	polite.noneLeft()
}

// The stop signal can be chosen.
func TestRun_StopSignal(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	p := s.start("a", "--stop-signal", "usr1", "--drain", "1h", "--", s.reacts(`trap 'echo "told" >>journal; exit 0' USR1
trap 'echo "wrong" >>journal' TERM`))
	testworld.Eventually(t, "it has begun", func() bool { return s.count("begin a") > 0 })
	p.terminated()
	got := s.journal()
	expect.That(t, len(got) == 2 && got[1] == "told", "journal: %q", got)
}

// Signals for the command are handed on.
func TestRunSignals_AreHandedOn(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	p := s.begins(s.reacts(`trap 'echo usr1 >>journal' USR1
trap 'echo usr2 >>journal; exit 4' USR2`))
	p.signal(unix.SIGUSR1)
	testworld.Eventually(t, "it got the first", func() bool { return s.count("usr1") == 1 })
	p.signal(unix.SIGUSR2)
	p.exits(4)
}

// A service manager signals every process of a group at once.
func TestRunSignals_ToAllProcesses(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	p := s.complete()
	p.supervisor()
	b := s.waits()
	for range 3 {
		for _, pid := range p.processes("") {
			_ = unix.Kill(pid, unix.SIGTERM)
		}
	}
	b.waitBegun(1)
	p.exits(128 + 15)
	s.noOverlap()
}
