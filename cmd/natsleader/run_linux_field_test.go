//go:build field && linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/internal/proof"
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
	if len(lines) < 5 || !strings.HasPrefix(lines[0], "jobs elections a ") {
		t.Fatalf("%q", lines)
	}
	var note leaseNote
	if err := json.Unmarshal([]byte(lines[1]), &note); err != nil {
		t.Fatal(err)
	}
	if strconv.FormatUint(note.Token, 10) != strings.Fields(lines[0])[3] || note.Token == 0 || len(strings.Fields(lines[0])) != 4 {
		t.Errorf("token in the environment and in the file: %q", lines[:2])
	}
	// The lease of 15 s is valid for four fifths of that, counted from its request.
	left := time.Until(note.Until)
	byUptime := time.Duration((note.Boottime - clockNow().uptime()) * 1e9)
	if left > 12*time.Second || left < 12*time.Second-patience || (left-byUptime).Abs() > time.Second {
		t.Errorf("the lease is good for %v by the wall clock and %v by the uptime", left, byUptime)
	}
	if d, err := time.ParseDuration(lines[2]); err != nil || d <= 0 || d > 12*time.Second {
		t.Errorf("remaining: %q", lines[2])
	}
	if !strings.HasPrefix(lines[3], `{"token":`+strconv.FormatUint(note.Token, 10)+`,"until":`) {
		t.Errorf("remaining --json: %q", lines[3])
	}
	if !strings.HasPrefix(lines[4], "drwx------") {
		t.Errorf("directory of the file: %q", lines[4])
	}
	rest := strings.Join(lines[5:], "\n")
	if !strings.HasSuffix(rest, "\n-- -x  two words --\n") || strings.Contains(rest, "\n64\n") {
		t.Errorf("descriptors and arguments: %q", rest)
	}
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
		if strings.HasPrefix(v, "NATSLEADER_") && !strings.HasPrefix(v, leaseVariable+"=") && !strings.HasPrefix(v, cgroupVariable+"=") {
			told = append(told, v)
		}
	}
	if slices.Sort(told); !slices.Equal(told, []string{"NATSLEADER_BUCKET=elections", "NATSLEADER_ELECTION=other", "NATSLEADER_ID=inner"}) {
		t.Errorf("%q", told)
	}
}

// The lease file does without TMPDIR.
func TestLeaseFile_WithoutTMPDIR(t *testing.T) {
	s := newRunFixture(t, 0)
	cmd := natsleader(t, "run", "--server", s.url, "-q", "jobs", "--", "sh", "-c", `echo "$NATSLEADER_LEASE_FILE"`)
	cmd.Env = append(cmd.Env, "TMPDIR=/nonexistent")
	out, errs, code := outcome(t, cmd)
	path := strings.TrimSpace(out)
	if code != 0 || !strings.HasPrefix(path, "/dev/shm/natsleader-") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if _, err := os.Stat(filepath.Dir(path)); !os.IsNotExist(err) {
		t.Errorf("left behind: %v", err)
	}
}

// remaining says when the lease is over.
func TestRemaining_ReportsEndOfLease(t *testing.T) {
	path := filepath.Join(ownDir(t), "lease")
	for _, k := range []struct {
		name string
		note leaseNote
		code int
	}{
		{"good", newLeaseNote(7, clockNow().add(time.Hour)), 0},
		{"over", newLeaseNote(7, clockNow().add(-time.Second)), exitFailed},
		{"the wall clock was set", leaseNote{7, time.Now().Add(time.Hour), clockNow().add(-time.Second).uptime()}, exitFailed},
		{"never led", newLeaseNote(0, 0), exitFailed},
	} {
		if err := k.note.write(path); err != nil {
			t.Fatal(err)
		}
		cmd := natsleader(t, "remaining")
		cmd.Env = append(cmd.Env, leaseVariable+"="+path)
		if out, errs, code := outcome(t, cmd); code != k.code || errs != "" || (out == "0s\n") != (code != 0) {
			t.Errorf("%s: %q, %q, exit code %d", k.name, out, errs, code)
		}
	}
	for variable, code := range map[string]int{leaseVariable + "=/nonexistent": exitFailed, "X=": exitUsage} {
		cmd := natsleader(t, "remaining")
		cmd.Env = append(cmd.Env, variable)
		if _, _, got := outcome(t, cmd); got != code {
			t.Errorf("%s: exit code %d, want %d", variable, got, code)
		}
	}
}

// The exit code of run is that of the command.
func TestRun_ExitCode(t *testing.T) {
	s := newRunFixture(t, 0)
	notExecutable := filepath.Join(s.dir, "plain")
	noProgram := filepath.Join(s.dir, "noise")
	for path, mode := range map[string]os.FileMode{notExecutable: 0o600, noProgram: 0o700} {
		if err := os.WriteFile(path, []byte("\x00\x01"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for i, k := range []struct {
		code    int
		command []string
	}{
		{0, []string{"true"}},
		{7, []string{"sh", "-c", "exit 7"}},
		{128 + 9, []string{"sh", "-c", "kill -9 $$"}},
		{128 + 15, []string{"sh", "-c", "kill -15 $$"}},
		{exitNotFound, []string{"no-such-program"}},
		{exitNotFound, []string{"/no/such/program"}},
		{exitCannotRun, []string{notExecutable}},
		{exitCannotRun, []string{"/"}},
		{exitCannotRun, []string{noProgram}}, // discovered when it is started
	} {
		p := s.start(strconv.Itoa(i), append([]string{"--"}, k.command...)...)
		p.exits(k.code)
		if handed := strings.Contains(p.text(), "handed over"); handed != strings.Contains(p.text(), "elected") {
			t.Errorf("%q has said:\n%s", k.command, p.text())
		}
		if k.code > 1 && k.code < 128 && k.code != 7 && !strings.Contains(p.text(), ": cannot run "+k.command[0]+": ") {
			t.Errorf("%q has said:\n%s", k.command, p.text())
		}
	}
}

// Mistakes in the command line of run end it with 64.
func TestRun_UsageErrors(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"jobs"},
		{"jobs", "--"},
		{"jobs.*", "--", "true"},
		{"--nonsense", "jobs", "--", "true"},
		{"--lease", "soon", "jobs", "--", "true"},
		{"--lease", "-1s", "jobs", "--", "true"},
		{"--stop-signal", "NONE", "jobs", "--", "true"},
		{"--notify", "USR1", "jobs", "--", "true"},
		{"--notify", "USR1,0", "jobs", "--", "true"},
		{"--lease", "49ms", "jobs", "--", "true"},
		{"--lease", "1001h", "jobs", "--", "true"},
		{"--drain", "500us", "jobs", "--", "true"},
		{"--drain", "9000h", "jobs", "--", "true"},
		{"--delay", "1us", "jobs", "--", "true"},
		{"--wait", "2s", "--delay", "2s", "jobs", "--", "true"},
		{"--id", "a\xff", "jobs", "--", "true"},
		{"--http", "8080", "jobs", "--", "true"},
		{"jobs", "extra", "--", "true"},
	} {
		out, errs, code := outcome(t, natsleader(t, append([]string{"run"}, args...)...))
		if code != exitUsage || out != "" || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: exit code %d\n%s%s", args, code, out, errs)
		}
		if strings.Contains(errs, "Timeout") || strings.Contains(errs, "Duration ") {
			t.Errorf("%q names a field:\n%s", args, errs)
		}
	}
}

// run ends at once where it cannot begin.
func TestRun_CannotBegin(t *testing.T) {
	s := newRunFixture(t, runLease)
	for _, k := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"nobody listens", []string{"--server", "nats://127.0.0.1:1", "jobs"}, exitUnreachable, "cannot connect"},
		{"no bucket", []string{"--server", s.url, "--bucket", "other", "jobs"}, exitBucket, "natsleader bucket add"},
		{"a longer lease than the bucket allows", []string{"--server", s.url, "--lease", "1h", "jobs"}, exitBucket, "MaxLease"},
		{"an address that is taken", []string{"--server", s.url, "--http", strings.TrimPrefix(s.url, "nats://"), "jobs"}, exitFailed, "--http"},
	} {
		out, errs, code := outcome(t, natsleader(t, append(append([]string{"run"}, k.args...), "--", "echo", "begun")...))
		if code != k.code || out != "" || !strings.Contains(errs, k.says) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit code %d, want %d\n%s%s", k.name, code, k.code, out, errs)
		}
	}
}

// --wait is the longest time to wait.
func TestRunWait_IsTheLongestWait(t *testing.T) {
	s := newRunFixture(t, runLease)
	campaigns(t, s.url, "elections", "jobs", leader.Config{ID: "other"})
	p := s.start("a", "--wait", "6s", "--", s.obedient())
	p.exits(exitWaited)
	if !strings.Contains(p.text(), `waiting: "other" leads`) || s.count("begin") != 0 {
		t.Errorf("it has said:\n%s", p.text())
	}
}

// The second command begins when nothing of the first is left.
func TestRun_NextAfterTheEnd(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	a := s.start("a", "--", s.obedient())
	a.waitBegun(1)
	b := s.start("b", "--", s.obedient())
	b.says(`waiting: "a" leads`)
	a.signal(unix.SIGTERM)
	b.waitBegun(1)
	a.exits(128 + 15)
	b.signal(unix.SIGINT)
	b.exits(128 + 2)
	s.noOverlap()
	if got := s.journal(); len(got) != 4 || !strings.HasPrefix(got[1], "end a ") || !strings.HasPrefix(got[2], "begin b ") {
		t.Errorf("journal: %q", got)
	}
	said := a.text()
	if lines := strings.Count(said, "\n") - strings.Count(said, ": still leading"); lines != 5 || !strings.HasSuffix(said, "natsleader: jobs: handed over\n") {
		t.Errorf("a has said:\n%s", said)
	}
}

// Signals end a run that waits.
func TestRunSignals_EndWaiting(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	campaigns(t, s.url, "elections", "jobs", leader.Config{ID: "other"})
	for _, sig := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM} {
		p := s.start(sig.String(), "--", s.obedient())
		p.says(`waiting: "other" leads`)
		p.signal(sig)
		p.exits(128 + int(sig))
	}
	if s.count("begin") > 0 {
		t.Errorf("journal: %q", s.journal())
	}
}

// A second signal ends the run at once.
func TestRunSignals_Second(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	p := s.start("a", "--drain", "1h", "--", s.stubborn())
	p.waitComplete()
	p.signal(unix.SIGTERM)
	p.says("ending")
	second := time.Now()
	p.signal(unix.SIGTERM)
	p.exits(128 + 15)
	p.noneLeft()
	if strings.Contains(p.text(), "supervising process") && time.Since(second) < patienceWithSupervisor {
		t.Errorf("it has said:\n%s", p.text())
	}
}

// Signals end a run whose server is gone.
func TestRunSignals_WithoutServer(t *testing.T) {
	proof.Only(t)
	s := newRunFixture(t, 15*time.Second)
	campaigns(t, s.url, "elections", "other", leader.Config{}) // so that the server has work
	waiting := s.start("waits", "--", s.obedient())
	waiting.waitBegun(1)
	b := s.start("b", "--", s.obedient())
	b.says(`waiting: "waits" leads`)
	s.server.Shutdown()
	waiting.says("the lease is valid for another")
	for _, p := range []*runProcess{b, waiting} {
		began := time.Now()
		p.signal(unix.SIGTERM)
		p.exits(128 + 15)
		t.Logf("%s has ended after %v", p.id, time.Since(began).Round(time.Millisecond))
	}
	if !strings.Contains(waiting.text(), "not handed over") {
		t.Errorf("it has said:\n%s", waiting.text())
	}
}

// With --once, run ends when the leadership is lost.
func TestRunOnce_EndsWithTerm(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	p := s.start("a", "--once", "--", s.obedient())
	p.waitBegun(1)
	s.stepDown()
	p.exits(exitLost)
	if got := s.journal(); len(got) != 2 || !strings.HasPrefix(got[1], "end a ") {
		t.Errorf("journal: %q", got)
	}
	if !strings.Contains(p.text(), "lost: resigned") {
		t.Errorf("it has said:\n%s", p.text())
	}
}

// With --once, run ends a command that is notified by signals.
func TestRunOnce_EndsNotifiedCommand(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	p := s.start("a", "--once", "--notify", "URG,WINCH", "--drain", "100ms", "--", s.stubborn())
	p.says("elected")
	p.waitComplete()
	s.stepDown()
	p.exits(exitLost)
	p.noneLeft()
}

// stepDown asks the leader to hand over, as `natsleader step-down` does.
func (s *runFixture) stepDown() {
	s.Helper()
	_, js := connectTo(s.T, s.url)
	b, err := leader.OpenBucket(js, "elections")
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	holder, err := leader.StepDown(ctx, b, "jobs", "the test")
	if err != nil || holder.ID == "" {
		s.Fatalf("%v, %v", holder, err)
	}
}

// A leader that is asked to step down ends its command and hands over.
func TestRun_HandsOverOnRequest(t *testing.T) {
	s := newRunFixture(t, runLease)
	a := s.start("a", "--drain", "500ms", "--", s.stubborn())
	a.waitComplete()
	b := s.start("b", "--", s.stubborn())
	b.says(`waiting: "a" leads`)
	s.stepDown() // returns when the key is released
	a.noneLeft()
	b.waitBegun(1)
	a.says(`waiting: "b" leads`)
	if !strings.Contains(a.text(), "asked to hand over by the test: accepted") {
		t.Errorf("a has said:\n%s", a.text())
	}
	b.signal(unix.SIGTERM)
	b.exits(128 + 15)
	a.waitBegun(2)
	s.noOverlap()
}

// A grandchild does not outlive the command.
func TestRun_GrandchildIsEnded(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	p := s.start("a", "--drain", "300ms", "--", "sh", "-c", `trap "" TERM; (sleep 1000) & (setsid sleep 1000) & exit 5`)
	p.exits(5)
	p.noneLeft()
	polite := s.start("b", "--drain", "1h", "--", "sh", "-c", `(sleep 1000) & (setsid sleep 1000) & exit 6`)
	polite.exits(6)
	polite.noneLeft()
}

// The stop signal can be chosen.
func TestRun_StopSignal(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	p := s.start("a", "--stop-signal", "usr1", "--drain", "1h", "--", s.script("c", s.prologue()+`
trap 'echo "told" >>journal; exit 0' USR1
trap 'echo "wrong" >>journal' TERM
echo "begin $NATSLEADER_ID" >>journal
while :; do sleep 0.05; done
`))
	eventually(t, "it has begun", func() bool { return s.count("begin a") > 0 })
	p.signal(unix.SIGTERM)
	p.exits(128 + 15)
	if got := s.journal(); len(got) != 2 || got[1] != "told" {
		t.Errorf("journal: %q", got)
	}
}

// Signals for the command are handed on.
func TestRunSignals_AreHandedOn(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	p := s.start("a", "--", s.script("c", s.prologue()+`
trap 'echo usr1 >>journal' USR1
trap 'echo usr2 >>journal; exit 4' USR2
echo "begin $NATSLEADER_ID " >>journal
while :; do sleep 0.05; done
`))
	p.waitBegun(1)
	p.signal(unix.SIGUSR1)
	eventually(t, "it got the first", func() bool { return s.count("usr1") == 1 })
	p.signal(unix.SIGUSR2)
	p.exits(4)
}

// The HTTP server names the leader.
func TestRun_HTTPServer(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	p := s.start("a", "--http", "127.0.0.1:0", "--", s.obedient())
	p.waitBegun(1)
	p.says("serves ")
	_, rest, _ := strings.Cut(p.text(), "serves ")
	address, _, _ := strings.Cut(rest, "\n")
	for _, k := range []struct{ path, contains string }{
		{"/leader", `"is_leader":true`}, {"/live", `"live":true`}, {"/connected", `"connected":true`}, {"/metrics", "natsleader_"},
	} {
		response, err := http.Get(address + k.path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(strings.ReplaceAll(string(body), ": ", ":"), k.contains) {
			t.Errorf("%s: %v, %s\n%s", k.path, err, response.Status, body)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// A leader may refuse step-down requests.
func TestRun_RefuseRequests(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	p := s.start("a", "--refuse-requests", "--value", "http://a:8080", "--", s.obedient())
	p.waitBegun(1)
	_, js := connectTo(t, s.url)
	b, err := leader.OpenBucket(js, "elections")
	if err != nil {
		t.Fatal(err)
	}
	holder, err := leader.StepDown(t.Context(), b, "jobs", "the test")
	if !errors.Is(err, leader.ErrRequestRefused) || string(holder.Value) != "http://a:8080" {
		t.Errorf("%v, value %q", err, holder.Value)
	}
	if got := s.journal(); len(got) != 1 {
		t.Errorf("journal: %q", got)
	}
}

// --delay is the least time from winning to leading.
func TestRunDelay_IsTheLeastWait(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	began := time.Now()
	p := s.start("a", "--delay", "5s", "--", "true")
	p.exits(0)
	if took := time.Since(began); took < 5*time.Second || !strings.Contains(p.text(), "won; leads in ") {
		t.Errorf("after %v:\n%s", took, p.text())
	}
}

// A service manager signals every process of a group at once.
func TestRunSignals_ToAllProcesses(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	p := s.start("a", "--", s.stubborn())
	p.waitComplete()
	p.supervisor()
	b := s.start("b", "--", s.obedient())
	b.says(`waiting: "a" leads`)
	for range 3 {
		for _, pid := range p.processes("") {
			_ = unix.Kill(pid, unix.SIGTERM)
		}
	}
	b.waitBegun(1)
	p.exits(128 + 15)
	s.noOverlap()
}

// An upper bound of the time from Elected to the command: the lease counts from when
// the winning write was sent.
func TestRun_CommandBeginsSoon(t *testing.T) {
	s := newRunFixture(t, 0)
	var all []time.Duration
	for i := range 20 {
		p := s.start(strconv.Itoa(i), "-q", "--", "sh", "-c", `date +%s%N; cat $NATSLEADER_LEASE_FILE`)
		p.exits(0)
		at, line, _ := strings.Cut(p.text(), "\n")
		var note leaseNote
		nano, err := strconv.ParseInt(at, 10, 64)
		if err == nil {
			err = json.Unmarshal([]byte(line), &note)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, time.Unix(0, nano).Sub(note.Until.Add(-12*time.Second)))
	}
	slices.Sort(all)
	t.Logf("from the write that won to the first line of the command: median %v, most %v", all[len(all)/2], all[len(all)-1])
	if all[0] < 0 || all[0] > time.Second {
		t.Errorf("%v", all)
	}
}

// When the bucket is deleted, the leader and the waiting candidate name the holder and the end of its lease, and
// how to make the bucket again only when that is over.
func TestRun_DeletedBucket(t *testing.T) {
	s := newRunFixtureIn(t, leader.BucketConfig{MaxLease: 5 * time.Second})
	a := s.start("a", "--", s.obedient())
	a.waitBegun(1)
	b := s.start("b", "--", s.obedient())
	b.says("waiting: ")
	_, js := connectTo(t, s.url)
	if err := js.DeleteKeyValue(t.Context(), "elections"); err != nil {
		t.Fatal(err)
	}
	const wait, again = "bucket elections is gone; a may lead until ", "every lease in it is over: `natsleader bucket add elections --replicas 1 --storage file --max-lease 5s` makes it again"
	for _, p := range []*runProcess{a, b} {
		p.says(wait)
		p.says(again)
		if said := p.text(); strings.Count(said, "bucket add") != 1 || strings.Index(said, wait) > strings.Index(said, again) {
			t.Errorf("%s", said)
		}
	}
	newBucket(t, s.url, "elections", leader.BucketConfig{MaxLease: 5 * time.Second})
	eventually(t, "a command runs again", func() bool { return s.count("begin") == 2 })
	s.noOverlap()
}
