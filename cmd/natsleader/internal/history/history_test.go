package history

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	"github.com/natsleader/natsleader/internal/backend"
	expect "github.com/natsleader/natsleader/internal/check"
)

// second is so many seconds after the begin of the time lines of these tests.
func second(n float64) time.Time {
	return time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC).Add(time.Duration(n * float64(time.Second)))
}

// revisionAt is a revision of the key. Its text is the state of a record with its ID, token, and perhaps the second since
// which it leads, "DEL" for a marker, or anything else for a foreign value. The record may say that it was written at
// another time: "@3 leading a 7".
func revisionAt(seconds float64, what string) facts.ElectionStatus {
	e := backend.Entry{Revision: uint64(1000 + 100*seconds), Created: second(seconds)} //nolint:gosec // small
	if at, rest, _ := strings.Cut(what, " "); strings.HasPrefix(at, "@") {
		n, _ := strconv.ParseFloat(at[1:], 64)
		e.Created, what = second(n), rest
	}
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
	return facts.NewElectionStatus("billing", e)
}

// timelineOf returns the time line of revisions, each after its second, as it is known at a second.
func timelineOf(revisions string, now float64) Timeline {
	return timelineFor("billing", revisions, now)
}

func timelineFor(election, revisions string, now float64) Timeline {
	b := timelineBuilder{election: election, from: second(-3600)}
	for each := range strings.SplitSeq(revisions, ", ") {
		if text, what, some := strings.Cut(each, " "); some {
			at, _ := strconv.ParseFloat(text, 64)
			b.add(revisionAt(at, strings.TrimPrefix(what, "(hole) ")), strings.HasPrefix(what, "(hole) "))
		}
	}
	return b.finish(second(now))
}

// A time line is made of what the key held, one after the other. The table has the length of each span.
func TestTimeline_Spans(t *testing.T) {
	testworld.Alone(t, func(w *testworld.World) {
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
			{"a clock that went back before the last term", "10 leading a 7, 12 released a 7, 13 leading b 8 since 5", 14},
			{"free at first", "0 released z 3, 5 leading a 7", 6},
			{"a time that is too early", "0 leading a 7, 10 leading a 7, 15 @3 released a 7, 16 leading b 9", 17},
			{"a copy that is late", "0 leading a 7, 40 leading b 9 since 17, 45 leading b 9 since 17", 46},
			{"a release that was copied late", "0 leading a 7, 40 released a 7, 41 leading b 9 since 6", 42},
			{"a begin that was copied late", "0 leading a 7, 15 released a 7, 40 pending b 0, 41 leading b 5000 since 17", 42},
			{"a begin without the end of the term before it that was copied late", "0 leading a 7, 10 leading a 7, 20 pending b 0, 21 leading b 9 since 12", 22},
			{"a term within the lease of the one before it", "0 leading a 7, 20 pending b 0, 21 leading b 9 since 14", 22},
			{"a deletion that was copied late", "0 leading a 7, 2 leading a 7, 40 DEL, 41 leading b 9 since 20", 42},
			{"a deletion that was copied late, within the lease", "0 leading a 7, 2 leading a 7, 14 DEL, 15 leading b 9 since 10", 16},
			{"a deletion that was copied in time", "0 leading a 7, 10 DEL, 11 leading b 9 since 9", 12},
			{"a foreign value without a leader that was copied late", "40 hello, 41 leading b 9 since 20", 42},
			{"a first record without the begin", "0 leading a 7, 5 released a 7, 7 leading b 9, 9 leading b 9 since 8", 10},
			{"a hole before the release, within the lease", "0 leading a 7, 14 (hole) released a 7, 20 leading b 9", 21},
			{"a hole as long as the lease", "0 leading a 7, 15 (hole) released a 7", 21},
			{"a hole in a term", "0 leading a 7, 40 (hole) leading a 7", 41},
			{"a hole before another term", "0 leading a 7, 5 leading a 7, 40 (hole) leading b 9 since 37", 41},
			{"a hole before a term of which the begin is not known", "0 leading a 7, 40 (hole) leading b 9", 41},
			{"a hole before the release", "0 leading a 7, 40 (hole) released a 7", 41},
			{"a hole between two releases", "0 released a 7, 40 (hole) released b 9", 41},
			{"a bucket that was made anew", "100 @0 leading a 7, 110 @5 leading a 7, 50 leading b 3 since 48", 51},
			{"a hole behind a free key", "0 released a 7, 40 (hole) leading b 9 since 37", 41},
		} {
			line := timelineOf(x.revisions, x.now)
			w.Notef("# %s\n%s\n", x.name, strings.Join(front.Columns(line.Table(second(0))), "\n"))
		}
	})
}

// Each moment has one leader, or none, or is not known.
func TestTimeline_At(t *testing.T) {
	testworld.Alone(t, func(w *testworld.World) {
		line := timelineOf("0 leading a 7, 2 leading a 7, 20 leading b 8", 21)
		w.Notef("# known from %s\n", front.FormatTime(line.From))
		for _, at := range []float64{-1, 0, 16.99, 17, 19.99, 20, 21} {
			w.Notef("%g: %s\n", at, line.At(second(at)).sentence("billing", second(at), second(21)))
		}
	})
}

// Times are shown in the zone of the head, and those at which it had another offset with that.
func TestHistory_Zones(t *testing.T) {
	const berlin = "Europe/Berlin"
	if os.Getenv(testworld.ZoneVariable) != berlin {
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHistory_Zones$") //nolint:gosec,forbidigo // this binary, in another zone
		again.Env = append(os.Environ(), testworld.ZoneVariable+"="+berlin)
		out, err := again.CombinedOutput()
		expect.That(t, err == nil && strings.Contains(string(out), "PASS"), "%v\n%s", err, out)
		return
	}
	synctest.Test(t, func(t *testing.T) {
		now := time.Date(2000, 10, 29, 0, 30, 0, 0, time.UTC)
		time.Sleep(time.Until(now)) // summer: 02:30
		expect.Equal(t, front.FormatTime(now), "2000-10-29 02:30:00", "%s; want %s")
		expect.Equal(t, front.InZone(now), " (CEST)", "%s; want %s")
		time.Sleep(time.Hour)
		expect.Equal(t, front.FormatTime(now), "2000-10-29 02:30:00 +02:00", "%s; want %s")
		expect.Equal(t, front.FormatTime(time.Now()), "2000-10-29 02:30:00", "%s; want %s")
		expect.Equal(t, front.InZone(time.Now()), " (CET)", "%s; want %s")
		line := Timeline{Election: "billing", Spans: []Span{{State: facts.Leading, ID: "a", Token: 7, Since: now, Until: now.Add(time.Hour), Ended: EndedReleased}}}
		expect.Deep(t, front.Columns(line.Table(time.Now())), []string{
			"SINCE (CET)                 UNTIL                FOR   LEADER  TOKEN  ENDED",
			"2000-10-29 02:30:00 +02:00  2000-10-29 02:30:00  1h0m  a       7      handed over",
		})
		expect.Equal(t, line.At(now).sentence("billing", now, time.Now()),
			"a led billing at 2000-10-29 02:30:00 CEST with token 7, from 2000-10-29 02:30:00 +02:00 until 2000-10-29 02:30:00: handed over", "%s; want %s")
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

// A time that clocks showed twice is refused, with both moments, and so is one that they never showed. Of those of
// today, one that is to come does not count.
func TestHistory_MomentsOfChangedClocks(t *testing.T) {
	testworld.Alone(t, func(w *testworld.World) {
		for _, x := range []struct {
			zone, now string
			texts     []string
		}{
			{"Europe/Berlin", "2026-11-22T10:30:00Z", []string{
				"2026-10-25 01:59:59", "2026-10-25 02:00", "2026-10-25T02:59:59", "2026-10-25 03:00", "2026-10-25 02:30:00 +02:00",
				"2026-10-25T02:30:00+01:00", "2026-03-29 01:59:59", "2026-03-29 02:00", "2026-03-29 02:59:59", "2026-03-29 03:00",
			}},
			{"Europe/Berlin", "2026-10-25T00:10:00Z", []string{"02:05", "02:30"}},
			{"Europe/Berlin", "2026-10-25T01:10:00Z", []string{"02:05", "02:30"}},
			{"Europe/Berlin", "2026-03-29T00:10:00Z", []string{"02:30"}},
			{"Europe/Berlin", "2026-03-29T01:10:00Z", []string{"02:30"}},
			{"America/New_York", "2026-11-22T10:30:00Z", []string{"2026-11-01 01:30", "2026-03-08 02:30"}},
			{"Australia/Lord_Howe", "2026-11-22T10:30:00Z", []string{"2026-04-05 01:45", "2026-10-04 02:15", "2026-10-04 02:30"}}, // half an hour
			{"UTC", "2026-11-22T10:30:00Z", []string{"2026-10-25 02:30"}},
		} {
			now := expect.Got(time.Parse(time.RFC3339, x.now))(w).In(expect.Got(time.LoadLocation(x.zone))(w))
			w.Notef("# %s, %v\n", x.zone, now)
			for _, text := range x.texts {
				got, err := parseMoment(text, now)
				if err != nil {
					w.Notef("%s: %v\n", text, err)
					continue
				}
				w.Notef("%s: %s\n", text, got.Format(front.ShownWithOffset))
			}
		}
	})
}

// Changes of one kind that come within ten seconds of each other are one line, with the longest gap. A host stands for IDs
// that were made on it.
func TestHistory_Groups(t *testing.T) {
	testworld.Alone(t, func(w *testworld.World) {
		for _, x := range []struct{ name, lines string }{
			{"a deploy", "0 leading api-1 7, 5 released api-1 7, 5.05 leading api-2 8; 0 leading api-1 7, 14 released api-1 7, 14.3 leading api-2 8; " +
				"0 leading api-1 7, 14 leading api-1 7, 24.4 released api-1 7, 24.5 leading api-2 8"},
			{"hosts", "0 leading n1_4_aaa 7, 3 released n1_4_aaa 7, 6.5 leading n2_5_bbb 8; 0 leading n1_4_ccc 7, 8 released n1_4_ccc 7, 9 leading n2_5_ddd 8"},
			{"not of one kind", "0 leading a 7, 5 released a 7, 5.5 leading b 8; 0 leading a 7, 5 released a 7, 6 leading b 8; 0 leading a 7, 5 DEL, 5.5 leading b 8"},
			{"a hole", "0 leading a 7, 5 leading a 7, 7 (hole) leading b 8 since 7; 0 leading a 7, 5 leading a 7, 40 (hole) leading b 9 since 37"},
			{"a hole until now", "0 leading a 7, 5 leading a 7, 40 (hole) released c 9"},
			{"a hole behind a key that was given up", "0 leading a 7, 5 released a 7, 8 released a 7, 30 (hole) leading b 9 since 28"},
			{"a hole behind a key that was overwritten when it was free", "0 leading a 7, 5 released a 7, 8 hello, 20 again, 30 (hole) leading b 9 since 28"},
			{"a hole before anything is known", "0 hello, 30 (hole) world, 35 (hole) leading b 9 since 35"},
			{"again, and gone", "0 leading a 7, 5 leading a 8"},
			{"expired", "0 leading a 7, 20 leading b 8, 25 hello"},
			{"idle for ten leases, and not so long", "0 leading a 7, 5 released a 7, 155 leading b 8; 0 leading a 7, 5 released a 7, 154 leading b 8"},
			{"given up until now, and overwritten", "0 leading a 7, 5 released a 7, 30 hello"},
			{"a one-shot job that was idle, and two that were not", "0 leading a 7, 5 released a 7, 6 leading b 8; " +
				"0 leading a 7, 5 released a 7, 6 hello, 200 leading b 8; 0 leading a 7, 5 released a 7, 6 pending c 0, 200 leading b 8"},
		} {
			var all []Changed
			for i, revisions := range strings.Split(x.lines, "; ") {
				line := timelineOf(revisions, 41)
				line.Election = fmt.Sprint("e", i)
				all = append(all, line.Changes(strings.Contains(x.name, "one-shot"))...)
			}
			w.Notef("# %s\n%s\n", x.name, strings.Join(front.Columns(Changes{All: grouped(all)}.table(second(0))), "\n"))
		}
	})
}

// A key that was given up in order is trouble while none takes it, from a second to ten leases later. That of a one-shot job
// is not.
func TestHistory_GivenUpUntilNow(t *testing.T) {
	for now, want := range map[float64]string{
		5.9:   " a → nobody: billing, handed over",
		6:     "! a → nobody: billing, handed over, nobody has led for 1s",
		154.9: "! a → nobody: billing, handed over, nobody has led for 2m29s",
		155:   " a → nobody: billing, handed over",
	} {
		line := timelineOf("0 leading a 7, 5 released a 7", now)
		row := Changes{All: grouped(line.Changes(false))}.table(second(0))[1]
		expect.Equal(t, row[1]+" "+row[2], want, "%q; want %q")
		expect.That(t, !line.Changes(true)[1].Trouble, "a one-shot job is trouble %v s later", now)
	}
}

// A member of a group that takes the key of another one, to end its term, leads nothing with that key. One that has left is
// no trouble, and shards of one that died have other owners.
func TestHistory_Members(t *testing.T) {
	testworld.Alone(t, func(w *testworld.World) {
		for _, x := range []struct {
			name, revisions string
			now             float64
		}{
			{"died", "0 leading m2 7, 5 leading m2 7, 20 leading m1 8, 20.01 released m1 8, 20.02 leading m3 9, 20.03 released m3 9, 80 leading m2 10", 85},
			{"died, until now", "0 leading m2 7, 20 leading m1 8, 20.01 released m1 8", 300},
			{"left, until now", "0 leading m2 7, 12 released m2 7, 12.01 leading m1 8, 12.02 released m1 8", 25},
			{"known from when it was taken on", "20.01 leading m1 8, 20.02 released m1 8, 80 leading m2 9", 85},
			{"known from after that on", "20.02 released m1 8, 80 leading m2 9", 85},
		} {
			line := timelineFor("orders.shard.member.m2", x.revisions, x.now)
			w.Notef("# %s\n%s\n", x.name, strings.Join(front.Columns(line.Table(second(0))), "\n"))
			w.Notef("%s\n", strings.Join(front.Columns(Changes{All: grouped(line.Changes(false))}.table(second(0))), "\n"))
		}
	})
}

// After a lease ran out nobody worked for longer than nobody led: from the last renewal, or at the latest from the renew
// deadline. A group of changes has the longest times.
func TestChanged_Silence(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0).UTC() }
	of := func(until, next int) Changed {
		last := Span{State: facts.Leading, ID: "a", Until: at(until), Renewed: at(0), Ended: EndedExpired}
		c := Changed{At: at(next), Began: at(next), From: "a", To: "b", Ended: EndedExpired, Elections: []string{"e"}}
		c.silence(last, at(next))
		return c
	}
	expect.Equal(t, of(15, 15).Text(), "a → b: e, not renewed for 15s, so nobody worked for 3s to 15s", "%q; want %q")
	expect.Equal(t, of(15, 11).Text(), "a → b: e, not renewed for 11s, so nobody worked for 0 ms to 11s", "%q; want %q")
	groups := grouped([]Changed{of(15, 15), of(15, 18)})
	expect.Equal(t, len(groups), 1, "%d groups")
	expect.Equal(t, groups[0].Text(), "a → b: 2 elections, not renewed for up to 18s, so nobody worked for up to as long", "%q; want %q")
	c := Changed{Ended: EndedReleased}
	c.silence(Span{Until: at(15), Ended: EndedReleased}, at(16))
	expect.Equal(t, c.Silent, 0, "a handover is silent for %v s")
}

// While a group has no assigner, its members work on. Changes of assigners and those of elections are not one line.
func TestChanged_SilenceOfAssigner(t *testing.T) {
	changes := func(election string) []Changed {
		line := timelineOf("0 leading a 7, 15 leading b 8", 21)
		line.Election = election
		return line.Changes(false)[1:]
	}
	all := grouped(append(append(changes("billing"), changes("orders.shard.assigner")...), changes("mails.shard.assigner")...))
	var texts []string
	for _, c := range all {
		texts = append(texts, fmt.Sprintf("%s [%g]", c.Text(), c.Unworked))
	}
	expect.Deep(t, texts, []string{
		"a → b: billing, not renewed for 15s, so nobody worked for 3s to 15s [3]",
		"a → b: 2 groups, not renewed for up to 15s, so no shard could move for up to as long [0]",
	})
	expect.Equal(t, changes("orders.shard.assigner")[0].Text(), "a → b: orders, not renewed for 15s, so no shard could move for up to 15s", "%q; want %q")
}

// All about an election is known since the history has all changes, or since its first record says so. If its past was not
// read, that is since the oldest that was. What the history has not copied may have happened at any time before.
func TestReader_KnownSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		ago := func(n time.Duration) time.Time { return now.Add(-n) }
		const h, m = time.Hour, time.Minute
		r := Reader{S: &inspect.Inspector{Clock: inspect.NewServerClock(now, 0)}, info: &jetstream.StreamInfo{Created: ago(3 * h)}}
		record := func(age time.Duration, message uint64) copied {
			return copied{ElectionStatus: facts.ElectionStatus{Entry: backend.Entry{Revision: 7, Created: ago(age)}}, message: message}
		}
		from := func(age time.Duration) Timeline {
			return Timeline{Spans: []Span{{State: facts.Leading, Since: ago(age)}}}
		}
		newest := func(age time.Duration) facts.ElectionStatus { return record(age, 0).ElectionStatus }
		for what, c := range map[string]struct {
			past past
			line Timeline
			want time.Time
		}{
			"its past was not read": {past{read: []copied{record(m, 9), record(h, 8)}}, from(h), ago(h).Add(1)},
			"its state then was":    {past{complete: true, first: record(5*h, 3), read: []copied{record(m, 9)}}, from(5 * h), time.Time{}},
			"it was made later":     {past{complete: true, read: []copied{record(m, 9)}}, from(h), ago(3 * h)},
			"it led before":         {past{complete: true, read: []copied{record(m, 9)}}, from(9 * h), ago(9 * h)},
			"it was not copied":     {past{complete: true, Newest: newest(m)}, from(h), ago(h)},
			"it is just made":       {past{complete: true, Newest: newest(time.Second)}, from(time.Second), ago(3 * h)},
			"nothing is there":      {past{complete: true}, Timeline{}, time.Time{}},
		} {
			expect.Equal(t, r.known(&c.past, c.line), c.want, what+": %v")
		}
		for what, c := range map[string]struct {
			state jetstream.StreamState
			want  time.Time
		}{
			"nothing was written": {jetstream.StreamState{}, ago(3 * h)},
			"all is there":        {jetstream.StreamState{FirstSeq: 1, FirstTime: ago(h), Msgs: 1}, ago(3 * h)},
			"the first is gone":   {jetstream.StreamState{FirstSeq: 2, FirstTime: ago(h), Msgs: 1}, ago(h)},
			"all are gone":        {jetstream.StreamState{FirstSeq: 2, LastTime: ago(m)}, ago(m)},
		} {
			r.info.State = c.state
			expect.Equal(t, r.begins(), c.want, what+": %v")
		}
	})
}
