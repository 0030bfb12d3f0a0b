//go:build field

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

const cliPage = "../../docs/cli.md"

// normal removes from a transcript the parts that differ from one run to the next.
var normal = []struct {
	varies *regexp.Regexp
	as     string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z?`), "TIME"},
	{regexp.MustCompile(`\b\d+(?:\.\d+)?s (ago|left)`), "DURATION $1"},
	{regexp.MustCompile(`\b((\d+h)?(\d+m)?\d+\.\d+s|\d+(\.\d+)?(ns|µs|ms))`), "DURATION"},
	{regexp.MustCompile(`(TIME\s+)\d+s\b`), "${1}DURATION"},
	{regexp.MustCompile(`(TIME\s+DURATION\s+)\d+\b`), "${1}N"},
	{regexp.MustCompile(`(?m)^TIME .* nobody led: the key was free\n`), ""}, // on a slow machine the second leader follows late
	{regexp.MustCompile(`\b1[78]\d{14}\b`), "N"},
	{regexp.MustCompile(`\b([Tt]oken:?\s+)\d+`), "${1}N"},
	{regexp.MustCompile(`("(token|revision|remaining_seconds)": ?)[\d.]+`), "${1}N"},
	{regexp.MustCompile(`\bPID \d+`), "PID N"},
	{regexp.MustCompile(`\d+\.\d+ times`), "N times"},
	{regexp.MustCompile(`nats-server \d+\.\d+\.\S+`), "nats-server VERSION"},
	{regexp.MustCompile(`\(\S+_\d+_\w{6}\)`), "(ID)"}, // of a candidate that was given none
	// doctor: the parts that depend on the host, and on how busy it is.
	{regexp.MustCompile(`(?m)^\w+ +(clock|round-trip) .*\n( +-> .*\n)*`), ""},
	{regexp.MustCompile(`(?m)^\d+ .*, \d+ ok$`), "SUMMARY"},
	{regexp.MustCompile(`\d+ elections are led now, and their renewals are about [0-9.]+ writes`), "LOAD"}, // some have expired on a slow machine
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:PORT"},
	{regexp.MustCompile(` +`), " "},
	{regexp.MustCompile(` \n`), "\n"},
}

func normalised(s string) string {
	for _, n := range normal {
		s = n.varies.ReplaceAllString(s, n.as)
	}
	return s
}

// The page shows what the command prints. The page's transcripts are run, from the first
// to the last, on one server.
func TestThePage_ShowsRealOutput(t *testing.T) {
	text := expect.Got(proof.ReadOutside(cliPage))(t)
	stage := &stage{t: t, url: startServer(t).ClientURL(), actors: map[string]*leader.Candidate{}}
	succeeds(t, "bucket", "add", "-s", stage.url)
	var now strings.Builder // the page as it should be
	var before, during string
	blocks := strings.Split(string(text), "```")
	for i, part := range blocks {
		if i > 0 {
			now.WriteString("```")
		}
		body, isTranscript := strings.CutPrefix(part, "console\n")
		if i%2 == 0 || !isTranscript {
			now.WriteString(part)
			before, during = scenesOf(part)
			continue
		}
		got := stage.perform(before, during, body)
		now.WriteString("console\n" + got)
		expect.That(t, *testworld.Update || normalised(got) == normalised(body),
			"the page says\n%s\nbut it is\n%s", body, got)
	}
	if *testworld.Update && !t.Failed() {
		expect.OK(t, os.WriteFile(cliPage, []byte(now.String()), 0o644)) //nolint:gosec // documentation
	}
}

var comments = regexp.MustCompile(`<!-- (?:scene: (\w+))?(?:, )?(?:during: (\w+))? -->\n$`)

// scenesOf returns the scenes that a comment right before a transcript asks for.
func scenesOf(text string) (before, during string) {
	if m := comments.FindStringSubmatch(text); m != nil {
		return m[1], m[2]
	}
	return "", ""
}

// stage is the place where the transcripts are run.
type stage struct {
	t       *testing.T
	url     string
	actors  map[string]*leader.Candidate
	printed func() string // by the command that runs
	dir     string        // of the command that runs
}

// perform runs the commands of a transcript, and returns the transcript. Scenes are
// played before it, and while a command runs that ends with ^C.
func (s *stage) perform(before, during, body string) string {
	s.t.Helper()
	s.play(before)
	var got strings.Builder
	for typed := range strings.SplitSeq("\n"+strings.TrimSuffix(body, "\n"), "\n$ ") {
		command, printed, _ := strings.Cut(typed, "\n")
		if command == "" {
			continue // the text before the first command
		}
		got.WriteString("$ " + command + "\n")
		if lines, _, endless := strings.Cut(printed, "^C"); endless {
			got.WriteString(s.interrupts(command, strings.Count(lines, "\n"), during))
		} else {
			got.WriteString(s.types(command))
		}
	}
	return got.String()
}

func (s *stage) play(scene string) {
	s.t.Helper()
	if scene != "" {
		play, ok := s.scenes()[scene]
		expect.Must(s.t, ok, "no scene %q", scene)
		play()
	}
}

func (s *stage) shell(command string) *exec.Cmd {
	s.t.Helper()
	cmd := withEnv(natsleader(s.t), "NATS_URL="+s.url)
	cmd.Path, cmd.Args = expect.Got(exec.LookPath("sh"))(s.t), []string{"sh", "-c", command}
	s.dir = cmd.Dir
	const worker = "#!/bin/sh\nuntil test -e begin; do sleep 0.02; done\necho \"worker: token $NATSLEADER_TOKEN\"\nexec sleep 600\n"
	expect.OK(s.t, os.WriteFile(filepath.Join(cmd.Dir, "worker"), []byte(worker), 0o700)) //nolint:gosec // it is run
	cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
	return cmd
}

// types runs a command to its end.
func (s *stage) types(command string) string {
	s.t.Helper()
	cmd := s.shell(command)
	out, err := cmd.CombinedOutput()
	expect.Must(s.t, cmd.ProcessState != nil, "%v", err)
	return string(out)
}

// interrupts runs a command, plays a scene after the command's first output, and types
// ^C when the command has printed so many lines.
func (s *stage) interrupts(command string, lines int, scene string) string {
	s.t.Helper()
	cmd := s.shell("exec " + command)
	out := started(s.t, cmd)
	s.printed = out.text
	testworld.Eventually(s.t, "it prints something", func() bool { return out.text() != "" })
	s.play(scene)
	testworld.Eventually(s.t, fmt.Sprintf("%s prints %d lines", command, lines), func() bool { return strings.Count(out.text()+"\n", "\n") >= lines })
	before := out.text()
	expect.OK(s.t, cmd.Process.Signal(os.Interrupt))
	endOf(s.t, cmd) // with whatever exit code
	<-out.ended
	after := strings.TrimPrefix(out.text(), before)
	return before + "\n^C" + after + "\n"
}

// shows waits until the command that runs has printed the text.
func (s *stage) shows(text string) {
	s.t.Helper()
	testworld.Eventually(s.t, "it prints "+text, func() bool { return strings.Contains(s.printed(), text) })
}

// scenes returns the events that happen before or during transcripts.
func (s *stage) scenes() map[string]func() {
	campaign := func(election, id, value string, lease time.Duration) {
		s.t.Helper()
		s.actors[election] = campaigns(s.t, s.url, "elections", election, leader.Config{ID: id, Value: []byte(value), LeaseDuration: lease})
	}
	stop := func(election string) {
		s.t.Helper()
		expect.OK(s.t, s.actors[election].Stop())
	}
	return map[string]func(){
		"leader": func() { campaign("billing", "web-1", "10.0.0.9:8080", 0) },
		"succeeded": func() {
			stop("billing")
			s.shows("command started")
			writeFile(s.t, filepath.Join(s.dir, "begin"), "") // its output comes after that line
		},
		"leaders": func() {
			campaign("billing", "worker-a", "10.0.0.7:8080", 0)
			campaign("reports", "worker-b", "10.0.0.8:8080", 0)
			campaign("cleanup", "worker-c", "", 0)
			stop("cleanup")
		},
		"past": func() {
			succeeds(s.t, "bucket", "add", "--history", "30d", "-s", s.url)
			campaign("ledger", "web-1", "", 0)
			recorded(s.t, s.url, "ledger", 1)
			stop("ledger")
			recorded(s.t, s.url, "ledger", 2)
			campaign("ledger", "web-2", "", 0)
		},
	}
}
