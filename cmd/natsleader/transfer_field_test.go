//go:build field

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/leader"
)

// longTurn is the TurnTimeout of candidates that must not overtake one another, also when one of
// them is slow.
const longTurn = 2 * time.Second

// transfer hands over to the candidate that is named.
func TestTransfer_ToNamed(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{Roster: true})
	token := tokenOf(t, campaigns(t, url, "elections", "billing", leader.Config{ID: "a", Roster: true, TurnTimeout: longTurn}))
	stands(t, url, "billing", leader.Config{ID: "b", Queue: true, TurnTimeout: longTurn})
	inLine(t, url, "billing", "b")
	stands(t, url, "billing", leader.Config{ID: "c", Queue: true, TurnTimeout: longTurn})
	inLine(t, url, "billing", "b", "c")
	leaderSees(t, url, "billing", 2)

	if out := succeeds(t, "transfer", "billing", "a", "-s", url); out != "a leads billing already, with "+token+"\n" {
		t.Errorf("%q", out)
	}
	fails(t, natsleader(t, "transfer", "billing", "x", "-s", url), exitFailed, "refuses the request: \"a\" leads with "+token+": not standing in the election: \"x\"")
	out := succeeds(t, "transfer", "billing", "c", "-s", url)
	if !strings.HasPrefix(out, "a has handed over billing ("+token+")\nc leads with token ") {
		t.Errorf("to the last in line: %q", out)
	}
	out = succeeds(t, "transfer", "billing", "-s", url)
	if !strings.HasPrefix(out, "c has handed over billing (token ") || !strings.Contains(out, "\nb leads with token ") {
		t.Errorf("to the next: %q", out)
	}
}

// transfer needs no roster for an ID.
func TestTransfer_ByID(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	campaigns(t, url, "elections", "billing", leader.Config{ID: "a"})
	b := stands(t, url, "billing", leader.Config{ID: "b"})
	eventually(t, "b knows who leads", func() bool { h, ok := b.Leader(); return ok && h.ID == "a" })
	fails(t, natsleader(t, "transfer", "billing", "-s", url), exitFailed,
		"a reads no roster, so it does not know the next candidate: name one (natsleader transfer billing ID), or start the candidates with --roster (natsleader run) or Config.Roster")
	if out := succeeds(t, "transfer", "billing", "b", "-s", url); !strings.Contains(out, "\nb leads with token ") {
		t.Errorf("%q", out)
	}
	// No candidate of that ID stands, which no candidate can know.
	fails(t, natsleader(t, "transfer", "billing", "ghost", "-s", url), exitFailed, "the named successor has not taken over: \"a\" leads with token ")
}

// transfer of an election without a leader fails.
func TestTransfer_WithoutLeader(t *testing.T) {
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	fails(t, natsleader(t, "transfer", "billing", "-s", url), exitFailed, "nobody leads billing")
	fails(t, natsleader(t, "transfer", "billing", "--bucket", "other", "-s", url), exitBucket, "natsleader bucket add other")
	fails(t, natsleader(t, "transfer", "b*", "-s", url), exitUsage, `"b*"`)
	fails(t, natsleader(t, "transfer", "-s", url), exitUsage, "election")
	campaigns(t, url, "elections", "billing", leader.Config{ID: "a"})
	fails(t, natsleader(t, "transfer", "billing", strings.Repeat("x", 10_000), "-s", url), exitUsage, "10000 bytes")
}

// transfer reports a leader that refuses, is silent or is slow.
func TestTransfer_RefusedOrSlow(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	token := tokenOf(t, campaigns(t, url, "elections", "refused", leader.Config{ID: "a", RefuseRequests: true}))
	fails(t, natsleader(t, "transfer", "refused", "b", "-s", url), exitFailed, "refuses the request: \"a\" leads with "+token+": it is set to refuse requests")

	_, js := connectTo(t, url)
	put(t, js, "silent", record(t, js, "refused", "b", time.Hour))
	fails(t, natsleader(t, "transfer", "silent", "c", "-s", url), exitUnreachable, "b has not handed over, and does not answer: it may be draining")

	c := campaigns(t, url, "elections", "slow", leader.Config{ID: "c", DrainTimeout: time.Hour})
	term, _ := c.Term()
	defer term.Release()
	fails(t, natsleader(t, "transfer", "slow", "d", "--wait", "1s", "-s", url), exitWaited, "c has not handed over within 1s")
}

// tokenOf returns the token of a leader as it is printed.
func tokenOf(t *testing.T, c *leader.Candidate) string {
	t.Helper()
	term, ok := c.Term()
	if !ok {
		t.Fatalf("%s does not lead", c.ID())
	}
	return fmt.Sprintf("token %d", term.Token())
}
