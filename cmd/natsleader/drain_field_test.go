//go:build field

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/leader"
)

// handsOverTo starts a candidate that leads and another one that follows.
func handsOverTo(t *testing.T, url, election, leads, follows string) {
	t.Helper()
	campaigns(t, url, "elections", election, leader.Config{ID: leads})
	c := stands(t, url, election, leader.Config{ID: follows})
	eventually(t, follows+" knows the leader", func() bool { h, ok := c.Leader(); return ok && h.ID == leads })
}

// drain --id hands over each election that the ID leads, and no other.
func TestDrain_ByID(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	for _, election := range []string{"billing", "mail", "reports"} {
		handsOverTo(t, url, election, "web-1", "web-2")
	}
	campaigns(t, url, "elections", "other", leader.Config{ID: "web-10"})

	if out := succeeds(t, "drain", "--id", "web-1", "--dry-run", "-s", url); strings.Count(out, "web-1 ") != 3 || strings.Contains(out, "other") {
		t.Errorf("--dry-run:\n%s", out)
	}
	out := succeeds(t, "drain", "--id", "web-1", "-s", url)
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	last := lines[len(lines)-1]
	slices.Sort(lines[:len(lines)-1])
	for i, election := range []string{"billing", "mail", "reports"} {
		begin := "web-1 has handed over " + election + " (token "
		if len(lines) != 4 || !strings.HasPrefix(lines[i], begin) || !strings.Contains(lines[i], "; web-2 leads with token ") {
			t.Fatalf("no %q:\n%s", begin, out)
		}
		if got, _ := statusJSON(t, url, election); got.ID != "web-2" {
			t.Errorf("%+v", got)
		}
	}
	if last != "web-1 leads nothing in bucket elections any more, and stays a candidate" {
		t.Errorf("%q", last)
	}
	if got, _ := statusJSON(t, url, "other"); got.ID != "web-10" {
		t.Errorf("%+v", got)
	}
	if out := succeeds(t, "drain", "--id", "web-1", "-s", url); out != "web-1 leads nothing in bucket elections\n" {
		t.Errorf("%q", out)
	}
}

// drain --host asks again if another candidate on the host has followed.
func TestDrain_WholeHost(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{Roster: true})
	ids := []string{"h_1_aaaaaa", "h_2_bbbbbb", "elsewhere"}
	campaigns(t, url, "elections", "billing", leader.Config{ID: ids[0], Queue: true, TurnTimeout: longTurn})
	for i := 1; i < len(ids); i++ {
		stands(t, url, "billing", leader.Config{ID: ids[i], Queue: true, TurnTimeout: longTurn})
		inLine(t, url, "billing", ids[1:i+1]...)
		leaderSees(t, url, "billing", i)
	}
	var got []string
	for line := range strings.Lines(succeeds(t, "drain", "--host", "h", "--json", "-s", url)) {
		var h handover
		if err := json.Unmarshal([]byte(line), &h); err != nil || h.Election != "billing" || h.Leader == nil {
			t.Fatalf("%v: %s", err, line)
		}
		got = append(got, h.From.ID+" "+h.Leader.ID)
	}
	if want := []string{ids[0] + " " + ids[1], ids[1] + " " + ids[2]}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// drain goes on after a leader that refuses, and fails.
func TestDrain_Refused(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	campaigns(t, url, "elections", "billing", leader.Config{ID: "a", RefuseRequests: true})
	handsOverTo(t, url, "mail", "a", "b")
	out, errs, code := outcome(t, natsleader(t, "drain", "--id", "a", "-s", url))
	if code != exitFailed || !strings.HasPrefix(out, "a has handed over mail ") || strings.Count(out, "\n") != 1 {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if want := "natsleader: billing: a refuses requests to step down; natsleader step-down billing --force deletes the key instead\n" +
		"natsleader: error: 1 of 2 leaders have not handed over\n"; errs != want {
		t.Errorf("%q", errs)
	}
	fails(t, natsleader(t, "drain", "-s", url), exitUsage, "either --id or --host")
	fails(t, natsleader(t, "drain", "--id", "a", "--host", "b", "-s", url), exitUsage, "either --id or --host")
	fails(t, natsleader(t, "drain", "--id", "a", "--bucket", "none", "-s", url), exitBucket, "none does not exist")
}

// drain reports a leader that does not answer, and bounds the requests under way.
func TestDrain_Silent(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	_, js := connectTo(t, url)
	campaigns(t, url, "elections", "model", leader.Config{ID: "m"})
	for i := range mostAtOnce + 1 {
		put(t, js, fmt.Sprint("silent-", i), renewal(t, js, "dead", time.Hour))
	}
	_, errs, code := outcome(t, natsleader(t, "drain", "--id", "dead", "-s", url))
	if code != exitUnreachable || strings.Count(errs, "dead has not handed over, and does not answer") != mostAtOnce+1 ||
		!strings.HasSuffix(errs, fmt.Sprintf("error: %d of %[1]d leaders have not handed over\n", mostAtOnce+1)) {
		t.Errorf("exit code %d\n%s", code, errs)
	}
}
