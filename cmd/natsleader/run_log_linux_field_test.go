//go:build field && linux

package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
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
		expect.That(t, line.MatchString(text), "%q", text)
	}
	if !regexp.MustCompile(`(?s)command started: PID (\d+)\n.* WARN .*command ended: PID \d+, exit code 7, after \d`).MatchString(p.text()) {
		t.Errorf("%s", p.text())
	}
}

// With --log-format json every line is an object, the error in the end, too.
func TestRunLog_JSON(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	p := s.leads("--log-format", "json", "--once")
	p.says("command started")
	s.stepDown()
	p.exits(exitLost)
	byMessage := map[string]map[string]any{}
	var last map[string]any
	for text := range strings.Lines(p.text()) {
		last = nil
		err := json.Unmarshal([]byte(text), &last)
		expect.Must(t, err == nil, "%q: %v", text, err)
		if at, err := time.Parse(time.RFC3339Nano, last["time"].(string)); err != nil || time.Since(at) > time.Hour || last["election"] != "jobs" || last["id"] != "a" {
			t.Errorf("%q: %v", text, err)
		}
		words := strings.Fields(last["msg"].(string))
		byMessage[strings.TrimRight(strings.Join(words[:2], " "), ":")] = last
	}
	for message, key := range map[string]string{"elected with": "token", "command started": "pid", "command ended": "exit_code", "asked to": "by", "lost: resigned": "cause"} {
		expect.That(t, byMessage[message][key] != nil, "%s: no %s in %v", message, key, byMessage[message])
	}
	answer := byMessage["asked to"]["answer"]
	expect.That(t, answer == "accepted", "the answer is %v", answer)
	if last["level"] != "ERROR" || last["exit_code"] != 75.0 || last["msg"] != "leadership of jobs lost: resigned" {
		t.Errorf("%v", last)
	}
}

// A line about the roster does not look as if the lease were at stake, and one about a
// foreign record names no other candidate.
func TestRunLog_NamesTheCause(t *testing.T) {
	t.Parallel()
	s := &runFixture{T: t, server: startServer(t), dir: t.TempDir()}
	s.url = s.server.ClientURL()
	newBucket(t, s.url, "elections", leader.BucketConfig{MaxLease: 15 * time.Second, Roster: true})
	a := s.leads("--roster")
	_, js := connectTo(t, s.url)
	put(t, js, "jobs", "not a record")
	a.says("lost: another client has overwritten the key with a foreign record")
	if said := a.text(); strings.Contains(said, "another candidate") || !strings.Contains(said, "the key holds a foreign record at revision") {
		t.Errorf("%s", said)
	}
	expect.OK(t, js.DeleteStream(t.Context(), "KV_elections_roster"))
	a.says("WARN  natsleader: jobs: roster: ")
	a.terminated()
}
