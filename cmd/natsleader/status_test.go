package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/leader"
)

// rawIn reports whether a text contains a byte that a terminal may obey.
func rawIn(text string) bool {
	return slices.ContainsFunc([]string{"\x1b", "\a", "\r", "\u202e", "\u009b", "\U000e0001", "\xff"},
		func(s string) bool { return strings.Contains(text, s) })
}

// The remaining lease follows from the server's clock.
func TestServerClock_RemainingLease(t *testing.T) {
	var x electionStatus
	x.entry.Revision = 7
	x.holder = leader.Holder{ID: "a", Lease: 15 * time.Second, Renewed: time.Now().Add(-2 * time.Hour)} // the clock of this host is ahead
	c := serverClock{server: x.holder.Renewed.Add(10 * time.Second), local: time.Now().Add(-time.Second)}
	if got := x.remaining(c.now()).Round(100 * time.Millisecond); x.at(c.now()) != stateLeading || got > 4*time.Second || got <= 0 {
		t.Errorf("%s, %v left", x.at(c.now()), got)
	}
}

// status shows who led last and why that ended, as far as the record says.
func TestStatus_LastTerm(t *testing.T) {
	now := time.Now()
	of := func(value string, created time.Time) electionStatus {
		return newElectionStatus("billing", backend.Entry{Revision: 7, Value: []byte(value), Created: created})
	}
	const fields = `"session":"s","n":1,"lease":"15s","token":9`
	overwritten := of("hello", now.Add(-time.Minute))
	deleted := of("", now.Add(-time.Minute))
	deleted.entry.Marker = true
	for name, x := range map[string]struct {
		of   electionStatus
		last string // the ID and the reason in JSON
		says string
	}{
		"released": {of(`{"v":1,"state":"released","id":"a\u001b","to":"b",`+fields+`}`, now.Add(-time.Minute)), "a\x1b released", `Last: a\x1b with token 9|handed over in order, to b`},
		"expired":  {of(`{"v":1,"state":"leading","id":"a","since":"2026-11-23T07:00:00Z",`+fields+`}`, now.Add(-time.Minute)), "a expired", "Last: a with token 9|(45s ago): it did not renew"},
		"pending":  {of(`{"v":1,"state":"pending","id":"a",`+fields+`}`, now.Add(-time.Minute)), "", "its lease ended before it led"},
		"foreign":  {overwritten, "", "another program has overwritten"},
		"deleted":  {deleted, "", "gone with the key"},
		"led":      {of(`{"v":1,"state":"leading","id":"a",`+fields+`}`, now), "", ""},
	} {
		last := ""
		if l := x.of.summary(now).Last; l != nil {
			last = l.ID + " " + l.Reason
		}
		var lines []string
		for _, row := range x.of.details(now) {
			lines = append(lines, strings.Join(row, " "))
		}
		said := strings.Join(lines, "\n")
		for want := range strings.SplitSeq(x.says, "|") {
			if !strings.Contains(said, want) || rawIn(said) {
				t.Errorf("%s: no %q in\n%s", name, want, said)
			}
		}
		if last != x.last || x.says == "" && strings.Contains(said, "Last:") {
			t.Errorf("%s: last %q, not %q\n%s", name, last, x.last, said)
		}
	}
}
