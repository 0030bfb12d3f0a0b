//go:build field && linux

package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/leader"
)

// Every line of a run has a time, a level, and its election. From the lines of the command's
// start and end, an operator can see when and where it ran.
func TestRunLog_Text(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	p := s.start("a", "--", "sh", "-c", "exit 7")
	p.exits(7)
	line := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO |WARN |ERROR) natsleader: jobs: .`)
	for text := range strings.Lines(p.text()) {
		if !line.MatchString(text) {
			t.Errorf("%q", text)
		}
	}
	if !regexp.MustCompile(`(?s)command started: PID (\d+)\n.* WARN .*command ended: PID \d+, exit code 7, after \d`).MatchString(p.text()) {
		t.Errorf("%s", p.text())
	}
}

// With --log-format json every line is an object, the error in the end, too.
func TestRunLog_JSON(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	p := s.start("a", "--log-format", "json", "--once", "--", s.obedient())
	p.waitBegun(1)
	p.says("command started")
	s.stepDown()
	p.exits(exitLost)
	byMessage := map[string]map[string]any{}
	var last map[string]any
	for text := range strings.Lines(p.text()) {
		last = nil
		if err := json.Unmarshal([]byte(text), &last); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if at, err := time.Parse(time.RFC3339Nano, last["time"].(string)); err != nil || time.Since(at) > time.Hour || last["election"] != "jobs" || last["id"] != "a" {
			t.Errorf("%q: %v", text, err)
		}
		words := strings.Fields(last["msg"].(string))
		byMessage[strings.TrimRight(strings.Join(words[:2], " "), ":")] = last
	}
	for message, key := range map[string]string{"elected with": "token", "command started": "pid", "command ended": "exit_code", "asked to": "by", "lost: resigned": "cause"} {
		if byMessage[message][key] == nil {
			t.Errorf("%s: no %s in %v", message, key, byMessage[message])
		}
	}
	if answer := byMessage["asked to"]["answer"]; answer != "accepted" {
		t.Errorf("the answer is %v", answer)
	}
	if last["level"] != "ERROR" || last["exit_code"] != 75.0 || last["msg"] != "leadership of jobs lost: resigned" {
		t.Errorf("%v", last)
	}
}

// An error is printed with --quiet, and is one object with --log-format json.
func TestRunLog_Error(t *testing.T) {
	for _, flag := range []string{"--log-format=text", "--log-format=json"} {
		_, errs, code := outcome(t, natsleader(t, "run", "-q", flag, "--server", "nats://127.0.0.1:1", "jobs", "--", "true"))
		if code != exitUnreachable || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "ERROR") || json.Valid([]byte(errs)) != strings.HasSuffix(flag, "json") {
			t.Errorf("%s: exit code %d\n%s", flag, code, errs)
		}
	}
}

// A line about the roster does not look as if the lease were at stake, and one about a
// foreign record names no other candidate.
func TestRunLog_NamesTheCause(t *testing.T) {
	t.Parallel()
	s := &runFixture{T: t, server: startServer(t), dir: t.TempDir()}
	s.url = s.server.ClientURL()
	newBucket(t, s.url, "elections", leader.BucketConfig{MaxLease: 15 * time.Second, Roster: true})
	a := s.start("a", "--roster", "--", s.obedient())
	a.waitBegun(1)
	_, js := connectTo(t, s.url)
	put(t, js, "jobs", "not a record")
	a.says("lost: another client has overwritten the key with a foreign record")
	if said := a.text(); strings.Contains(said, "another candidate") || !strings.Contains(said, "the key holds a foreign record at revision") {
		t.Errorf("%s", said)
	}
	if err := js.DeleteStream(t.Context(), "KV_elections_roster"); err != nil {
		t.Fatal(err)
	}
	a.says("WARN  natsleader: jobs: roster: ")
	a.signal(unix.SIGTERM)
	a.exits(128 + 15)
}
