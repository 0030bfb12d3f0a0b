package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	expect "github.com/natsleader/natsleader/internal/check"
)

// began is when the time lines of these tests begin.
var began = time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)

// revisionAt is a revision of the key, so many seconds after began. Its text is the state of
// a record with its ID, token, and perhaps the second since which it leads, "DEL" for a marker, or anything else for a foreign value.
func revisionAt(seconds float64, what string) electionStatus {
	at := began.Add(time.Duration(seconds * float64(time.Second)))
	e := backend.Entry{Revision: uint64(1000 + 100*seconds), Created: at} //nolint:gosec // small
	state, id, isRecord := strings.Cut(what, " ")
	switch {
	case what == "DEL":
		e.Marker = true
	case !isRecord:
		e.Value = []byte(what)
	default:
		var token, since int
		var begin string
		if n, _ := fmt.Sscanf(id, "%s %d since %d", &id, &token, &since); n == 3 {
			begin = fmt.Sprintf(`,"since":%q`, began.Add(time.Duration(since)*time.Second).Format(time.RFC3339))
		}
		e.Value = fmt.Appendf(nil, `{"v":1,"state":%q,"id":%q,"session":"s-%s","n":1,"lease":"15s","token":%d%s}`, state, id, id, token, begin)
	}
	return newElectionStatus("billing", e)
}

// drawn is a time line as text: for each span its state or ID, token, begin, end and reason.
func drawn(t timeline) string {
	var all []string
	seconds := func(at time.Time) string { return fmt.Sprintf("%g", at.Sub(began).Seconds()) }
	for _, x := range t.Spans {
		what, until := string(x.State), ""
		if x.State == stateLeading {
			what = fmt.Sprintf("%s/%d", x.ID, x.Token)
		}
		if !x.Until.IsZero() {
			until = seconds(x.Until)
		}
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s-%s %s", what, seconds(x.Since), until, x.Ended)))
	}
	return strings.Join(all, ", ")
}

// A time line is made of what the key held, one after the other.
func TestTimeline_Spans(t *testing.T) {
	type revision struct {
		at   float64
		what string
	}
	for _, x := range []struct {
		name      string
		revisions []revision
		now       float64
		want      string
	}{
		{"nothing", nil, 10, ""},
		{"renewals", []revision{{0, "leading a 7"}, {2.5, "leading a 7"}, {5, "leading a 7"}}, 6, "a/7 0-"},
		{"handover", []revision{{0, "leading a 7"}, {5, "released a 7"}, {5.5, "leading b 8"}}, 6, "a/7 0-5 released, released 5-5.5, b/8 5.5-"},
		{"handover without the release", []revision{{0, "leading a 7"}, {5, "leading b 8"}}, 6, "a/7 0-5 replaced, b/8 5-"},
		{"a term that was not seen", []revision{{0, "leading a 7"}, {5, "released b 8"}}, 6, "a/7 0-5 replaced, released 5-"},
		{"the same candidate again", []revision{{0, "leading a 7"}, {5, "leading a 8"}}, 6, "a/7 0-5 replaced, a/8 5-"},
		{"expiry", []revision{{0, "leading a 7"}, {2, "leading a 7"}, {20, "leading b 8"}}, 21, "a/7 0-17 expired, expired 17-20, b/8 20-"},
		{"expiry at the very moment", []revision{{0, "leading a 7"}, {15, "leading b 8"}}, 21, "a/7 0-15 expired, b/8 15-"},
		{"expiry until now", []revision{{0, "leading a 7"}}, 20, "a/7 0-15 expired, expired 15-"},
		{
			"expiry before it led",
			[]revision{{0, "pending a 7"}, {20, "leading b 8"}},
			21,
			"pending 0-15, expired 15-20, b/8 20-",
		},
		{"expiry before it led, until now", []revision{{0, "pending a 7"}}, 20, "pending 0-15, expired 15-"},
		{"renewed late", []revision{{0, "leading a 7"}, {40, "leading a 7"}}, 41, "a/7 0-"},
		{
			"deleted",
			[]revision{{0, "leading a 7"}, {5, "DEL"}, {6, "pending b 0"}, {20, "leading b 9"}},
			21,
			"a/7 0-5 deleted, deleted 5-6, pending 6-20, b/9 20-",
		},
		{"deleted, without the marker", []revision{{0, "leading a 7"}, {6, "pending b 0"}, {20, "leading b 9"}}, 21, "a/7 0-6 replaced, pending 6-20, b/9 20-"},
		{"expired, then the marker", []revision{{0, "leading a 7"}, {16, "DEL"}}, 21, "a/7 0-15 expired, expired 15-16, deleted 16-"},
		{"overwritten", []revision{{0, "leading a 7"}, {5, "hello"}}, 21, "a/7 0-5 overwritten, foreign 5-"},
		{"out of order", []revision{{0, "leading a 7"}, {5, "released a 7"}, {2.5, "leading a 7"}}, 21, "a/7 0-5 released, released 5-"},
		{"a clock that went back", []revision{{0, "leading a 7"}, {5, "released a 7"}, {6, "leading b 8 since 3"}}, 7, "a/7 0-5 released, released 5-6, b/8 6-"},
		{"free at first", []revision{{0, "released z 3"}, {5, "leading a 7"}}, 6, "released 0-5, a/7 5-"},
	} {
		b := timelineBuilder{election: "billing", from: began}
		for _, r := range x.revisions {
			b.add(revisionAt(r.at, r.what))
		}
		got := drawn(b.finish(revisionAt(x.now, "DEL").entry.Created))
		expect.That(t, got == x.want, "%s: %s, not %s", x.name, got, x.want)
	}
}

// Each moment has one leader, or none, or is not known. The table has the length of each span.
func TestTimeline_At(t *testing.T) {
	b := timelineBuilder{election: "billing", from: began.Add(-time.Hour)}
	for _, x := range []electionStatus{revisionAt(0, "leading a 7"), revisionAt(2, "leading a 7"), revisionAt(20, "leading b 8")} {
		b.add(x)
	}
	line := b.finish(began.Add(21 * time.Second))
	for at, want := range map[float64]string{
		-1:    " ",
		0:     "leading a",
		16.99: "leading a",
		17:    "expired ",
		19.99: "expired ",
		20:    "leading b",
		21:    "leading b",
	} {
		x := line.at(began.Add(time.Duration(at * float64(time.Second))))
		got := string(x.State) + " " + x.ID
		expect.That(t, got == want, "at %v: %q, not %q", at, got, want)
	}
	var took []string
	for _, row := range line.table() {
		took = append(took, row[2])
	}
	want := []string{"FOR", "17s", "3s", "1s"}
	expect.That(t, slices.Equal(took, want), "%q, not %q", took, want)
	expect.That(t, line.From.Equal(began), "known from %v on", line.From)
}

// A moment is a duration before now, or a time that may leave out its day and its zone.
func TestHistory_Moments(t *testing.T) {
	zone := time.FixedZone("here", 3600)
	now := time.Date(2026, 11, 22, 10, 30, 0, 0, zone)
	for text, want := range map[string]string{
		"6h":                   "2026-11-22T04:30:00+01:00",
		"7d":                   "2026-11-15T10:30:00+01:00",
		"03:12":                "2026-11-22T03:12:00+01:00",
		"03:12:07":             "2026-11-22T03:12:07+01:00",
		"23:12":                "2026-11-21T23:12:00+01:00",
		"2026-11-20":           "2026-11-20T00:00:00+01:00",
		"2026-11-20 03:12":     "2026-11-20T03:12:00+01:00",
		"2026-11-20T03:12:00Z": "2026-11-20T03:12:00Z",
		"all":                  "0001-01-01T00:00:00Z",
		"soon":                 "",
		"-1h":                  "",
		"25:00":                "",
	} {
		got, err := parseMoment(text, now)
		expect.That(t, (err != nil) == (want == "") && (err != nil || got.Format(time.RFC3339) == want),
			"%q: %v, %v", text, got.Format(time.RFC3339), err)
	}
}
