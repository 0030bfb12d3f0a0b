package main

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	expect "github.com/natsleader/natsleader/internal/check"
)

// second is so many seconds after the begin of the time lines of these tests.
func second(n float64) time.Time {
	return time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC).Add(time.Duration(n * float64(time.Second)))
}

// revisionAt is a revision of the key. Its text is the state of a record with its ID, token, and perhaps the second since
// which it leads, "DEL" for a marker, or anything else for a foreign value.
func revisionAt(seconds float64, what string) electionStatus {
	e := backend.Entry{Revision: uint64(1000 + 100*seconds), Created: second(seconds)} //nolint:gosec // small
	state, id, isRecord := strings.Cut(what, " ")
	switch {
	case what == "DEL":
		e.Marker = true
	case !isRecord:
		e.Value = []byte(what)
	default:
		var token int
		var since float64
		var begin string
		if n, _ := fmt.Sscanf(id, "%s %d since %g", &id, &token, &since); n == 3 {
			begin = fmt.Sprintf(`,"since":%q`, second(since).Format(time.RFC3339))
		}
		e.Value = fmt.Appendf(nil, `{"v":1,"state":%q,"id":%q,"session":"s-%s","n":1,"lease":"15s","token":%d%s}`, state, id, id, token, begin)
	}
	return newElectionStatus("billing", e)
}

// timelineOf returns the time line of revisions, each after its second, as it is known at a second.
func timelineOf(revisions string, now float64) timeline {
	b := timelineBuilder{election: "billing", from: second(-3600)}
	for each := range strings.SplitSeq(revisions, ", ") {
		if text, what, some := strings.Cut(each, " "); some {
			at, _ := strconv.ParseFloat(text, 64)
			b.add(revisionAt(at, what))
		}
	}
	return b.finish(second(now))
}

// A time line is made of what the key held, one after the other. The table has the length of each span.
func TestTimeline_Spans(t *testing.T) {
	alone(t, func(w *world) {
		for _, x := range []struct {
			name, revisions string
			now             float64
		}{
			{"nothing", "", 10},
			{"renewals", "0 leading a 7, 2.5 leading a 7, 5 leading a 7", 6},
			{"handover", "0 leading a 7, 5 released a 7, 6 leading b 8", 7},
			{"handover in half a second", "0 leading a 7, 5 released a 7, 5.5 leading b 8", 7},
			{"handover without the release", "0 leading a 7, 5 leading b 8", 6},
			{"a term that was not seen", "0 leading a 7, 5 released b 8", 6},
			{"the same candidate again", "0 leading a 7, 5 leading a 8", 6},
			{"expiry", "0 leading a 7, 2 leading a 7, 20 leading b 8", 21},
			{"expiry at the very moment", "0 leading a 7, 15 leading b 8", 21},
			{"expiry until now", "0 leading a 7", 20},
			{"expiry before it led", "0 pending a 7, 20 leading b 8", 21},
			{"expiry before it led, until now", "0 pending a 7", 20},
			{"renewed late", "0 leading a 7, 40 leading a 7", 41},
			{"deleted", "0 leading a 7, 5 DEL, 6 pending b 0, 20 leading b 9", 21},
			{"deleted, without the marker", "0 leading a 7, 6 pending b 0, 20 leading b 9", 21},
			{"expired, then the marker", "0 leading a 7, 16 DEL", 21},
			{"overwritten", "0 leading a 7, 5 hello", 21},
			{"out of order", "0 leading a 7, 5 released a 7, 2.5 leading a 7", 21},
			{"a clock that went back", "0 leading a 7, 5 released a 7, 6 leading b 8 since 3", 7},
			{"free at first", "0 released z 3, 5 leading a 7", 6},
		} {
			line := timelineOf(x.revisions, x.now)
			w.notef("# %s\n%s\n", x.name, strings.Join(columns(line.table()), "\n"))
		}
	})
}

// Each moment has one leader, or none, or is not known.
func TestTimeline_At(t *testing.T) {
	alone(t, func(w *world) {
		line := timelineOf("0 leading a 7, 2 leading a 7, 20 leading b 8", 21)
		w.notef("# known from %s\n", formatTime(line.From))
		for _, at := range []float64{-1, 0, 16.99, 17, 19.99, 20, 21} {
			w.notef("%g: %s\n", at, line.at(second(at)).sentence("billing", second(at), second(21)))
		}
	})
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
