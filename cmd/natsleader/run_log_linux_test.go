package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
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

// A fault of a leader is logged with the time that its lease has left, in seconds.
func TestRunLog_RemainingSeconds(t *testing.T) {
	var out bytes.Buffer
	c := &runLoop{run: &run{}, log: newRunLog(&out, "jobs", logJSON, false)}
	c.handleEvent(leader.Faulted{Err: leader.ErrUnreachable, Remaining: 1500 * time.Millisecond})
	c.log.close()
	if said := out.String(); !strings.Contains(said, `"remaining_seconds":1.5`) {
		t.Errorf("%s", said)
	}
}

// A reason why there is no connection is logged once in each outage.
func TestRunLog_Outages(t *testing.T) {
	var out bytes.Buffer
	l := newRunLog(&out, "jobs", logText, false)
	var o nats.Options
	for _, set := range l.followConnection() {
		if err := set(&o); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		o.DisconnectedErrCB(nil, io.EOF)
		o.ReconnectErrCB(nil, io.EOF)
		o.ReconnectedCB(nil)
	}
	l.close()
	for _, text := range []string{"no connection to NATS: EOF", "connected to NATS again"} {
		if strings.Count(out.String(), text) != 2 {
			t.Errorf("not twice: %q\n%s", text, &out)
		}
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

// Text from outside stays on its line, and cannot command a terminal.
func TestRunLog_Escapes(t *testing.T) {
	for _, format := range []string{logText, logJSON} {
		var out bytes.Buffer
		l := newRunLog(&out, "jobs", format, false)
		l.say("%s", "a\nb\x1b[31m")
		_ = l.outcome(errors.New("c\nd\x1b"))
		l.close()
		if text := out.String(); strings.Count(text, "\n") != 2 || strings.Contains(text, "\x1b") {
			t.Errorf("%s: %q", format, text)
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
