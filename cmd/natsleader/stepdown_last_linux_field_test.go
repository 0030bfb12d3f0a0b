//go:build field && linux

package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/natsleader/natsleader/leader"
)

// On a terminal step-down asks if no other candidate is in the roster.
func TestStepDown_AsksAboutLast(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{Roster: true})
	campaigns(t, url, "elections", "billing", leader.Config{ID: "a", Roster: true})
	for _, x := range []struct {
		answer string
		code   int
		ends   string
	}{
		{"", exitFailed, "natsleader: error: nothing was done$"},
		{"no", exitFailed, "natsleader: error: nothing was done$"},
		{"y", 0, `\nno other candidate has taken it: a leads again with token \d+$`},
	} {
		near, far := terminal(t, 24, 80)
		cmd := natsleader(t, "step-down", "billing", "-s", url)
		cmd.Stdin = far
		out := started(t, cmd)
		out.says(t, "nobody leads until a takes it again, after its lease of 15s at the latest.")
		if _, err := near.WriteString(x.answer + "\n"); err != nil {
			t.Fatal(err)
		}
		code := endOf(t, cmd)
		<-out.ended
		if text := out.text(); code != x.code || !regexp.MustCompile(x.ends).MatchString(text) ||
			!strings.HasPrefix(text, "No candidate of billing but its leader a has announced itself in the roster.\n") {
			t.Errorf("%q: exit code %d\n%s", x.answer, code, text)
		}
	}
}

// Where it cannot ask, step-down does nothing without --yes. It does not ask if another
// candidate stands, or if the bucket keeps no roster.
func TestStepDown_LastNeedsYes(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{Roster: true})
	newBucket(t, url, "bare", leader.BucketConfig{})
	a := campaigns(t, url, "elections", "billing", leader.Config{ID: "a", Roster: true})
	fails(t, natsleader(t, "step-down", "billing", "-s", url), exitUsage,
		"no candidate of billing but its leader a has announced itself in the roster, and standard input is no terminal: --yes asks the leader all the same; nothing was done")
	if !a.IsLeader() {
		t.Fatal("a has handed over")
	}
	stands(t, url, "billing", leader.Config{ID: "b", Roster: true})
	inLine(t, url, "billing", "b")
	var got handover
	if err := json.Unmarshal([]byte(succeeds(t, "step-down", "billing", "--json", "-s", url)), &got); err != nil ||
		got.Election != "billing" || got.From.ID != "a" || got.Leader == nil || got.Leader.ID != "b" || got.Leader.Token <= got.From.Token {
		t.Errorf("%v: %+v", err, got)
	}
	campaigns(t, url, "elections", "alone", leader.Config{ID: "c"})
	if out := succeeds(t, "step-down", "alone", "--yes", "-s", url); !strings.HasPrefix(out, "c has handed over alone ") {
		t.Errorf("%q", out)
	}
	campaigns(t, url, "bare", "billing", leader.Config{ID: "d"})
	if out := succeeds(t, "step-down", "billing", "--bucket", "bare", "-s", url); !strings.HasPrefix(out, "d has handed over billing ") {
		t.Errorf("%q", out)
	}
}

// A roster that may not be read does not keep step-down from asking the leader.
func TestStepDown_RosterDenied(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "admin"}, {Username: "limited", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{"$JS.API.CONSUMER.>"}},
		}}}
		o.NoAuthUser = "admin"
	})
	newBucket(t, s.ClientURL(), "elections", leader.BucketConfig{Roster: true})
	c := campaigns(t, s.ClientURL(), "elections", "billing", leader.Config{ID: "a", Roster: true})
	defer func() { _ = c.Stop(t.Context()) }()
	out, errs, code := outcome(t, natsleader(t, "step-down", "billing", "-s", "nats://limited:@"+s.Addr().String()))
	if code != 0 || !strings.HasPrefix(out, "a has handed over billing ") || strings.Count(errs, "\n") != 1 ||
		!strings.HasPrefix(errs, "natsleader: the roster was not read, so it is not known whether another candidate stands: ") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

// With --json step-down --force prints its words beside the outcome.
func TestStepDownForce_JSON(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	campaigns(t, url, "elections", "billing", leader.Config{ID: "a"})
	out, errs, code := outcome(t, natsleader(t, "step-down", "billing", "--force", "--yes", "--json", "-s", url))
	var got deletion
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || !got.Deleted || got.From == nil || got.From.ID != "a" || got.Lease != 15 {
		t.Errorf("%v, exit code %d: %s", err, code, out)
	}
	if !strings.HasSuffix(errs, "\ndeleted\n") {
		t.Errorf("%q", errs)
	}
}
