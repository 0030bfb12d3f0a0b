package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// history shows the leaders one after the other, why their terms ended, and who led at a moment.
func TestHistory_Terms(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.run("bucket add --history 30d")
		time.Sleep(time.Second) // the history begins
		a := w.campaigns("billing", leader.Config{ID: "a", Value: []byte("10.0.0.7")})
		w.campaigns("billing.x", leader.Config{ID: "another election"})
		time.Sleep(time.Second)
		w.prompt("history billing --since 0s", "history billing --since 0s --json")
		expect.OK(w, a.Stop())
		b := tokens.ReplaceAllString(record(w.T, w.js, "billing.x", "b", time.Hour), "7")
		b = strings.Replace(b, "00:01:02", "00:03:04", 1) // since when it leads
		c := strings.NewReplacer(`"id":"b"`, `"id":"c"`, `"token":7`, `"token":8`, "00:03:04", "00:04:04").Replace(b)
		pending := strings.NewReplacer("leading", "pending", "1h0m0s", "1m0s").Replace(b)
		for _, value := range []string{b, c, "", pending, "hello"} {
			time.Sleep(time.Minute)
			if value == "" {
				w.run("step-down billing --force --yes")
			} else {
				put(w.T, w.js, "billing", value)
			}
		}
		time.Sleep(time.Minute)
		w.prompt("history billing", "history billing --json", "history nothing", "history nothing --json")
		for _, at := range []string{"1999-12-31", "00:01", "00:02:30", "00:03:30", "00:05:30", "00:06:30", "00:07:30"} {
			w.prompt("history billing --at " + at)
		}
		w.prompt("history billing --at 00:01 --json", "history billing.x --at 2m")
	})
}

// history does not read each renewal.
func TestHistory_SkipsRenewals(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.run("bucket add --history 30d")
		time.Sleep(time.Second) // the history begins
		for _, id := range []string{"a", "b", "c"} {
			c := w.campaigns("billing", leader.Config{ID: id})
			time.Sleep(time.Hour)
			expect.OK(w, c.Stop())
			time.Sleep(time.Second) // the release is copied
		}
		asks := w.historyAsks("history billing --since all", "history billing --since 90m")
		expect.That(w, asks <= 21, "%d requests", asks)
	})
}

// Where a record says that its term is older than the copies before it, the begin of the term is searched.
func TestHistory_SearchesBegin(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.run("bucket add --history 30d")
		time.Sleep(time.Second) // the history begins
		for i, id := range []string{"a", "b", "c"} {
			since := time.Now().Add(-50 * time.Second).UTC().Format(time.RFC3339Nano)
			for range 100 {
				put(w.T, w.js, "billing", fmt.Sprintf(`{"v":1,"state":"leading","id":%q,"session":"s","n":1,"lease":"1h0m0s","token":%d,"since":%q}`, id, i+7, since))
				time.Sleep(time.Second)
			}
		}
		asks := w.historyAsks("history billing --since all")
		expect.That(w, asks < 50, "%d requests", asks)
	})
}

// historyAsks runs commands, and returns how many requests for records of the history they made.
func (w *world) historyAsks(commands ...string) int {
	w.Helper()
	nc := w.js.Conn()
	asked := expect.Got(nc.SubscribeSync("$JS.API.DIRECT.GET." + historyStream("elections")))(w)
	expect.OK(w, nc.Flush())
	w.prompt(commands...)
	time.Sleep(time.Second)
	n, _, err := asked.Pending()
	expect.OK(w, err)
	expect.OK(w, asked.Unsubscribe())
	return n
}

// A replica that lags has not stored the terms that it is asked for. Then it is not known what came before the one that
// another replica has shown.
func TestHistory_LaggingReplica(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.run("bucket add --history 30d")
		time.Sleep(time.Second) // the history begins
		var lags time.Time
		for _, id := range []string{"a", "b"} {
			expect.OK(w, w.campaigns("billing", leader.Config{ID: id}).Stop())
			time.Sleep(time.Second) // the release is copied
			if lags.IsZero() {
				lags = time.Now()
			}
		}
		w.campaigns("billing", leader.Config{ID: "c"})
		nc := w.js.Conn()
		replica := expect.Got(nc.Subscribe("LAGS.>", func(m *nats.Msg) {
			api := "$JS.API" + strings.TrimPrefix(m.Subject, "LAGS")
			switch {
			case strings.Contains(string(m.Data), "next_by_subj"):
				none := nats.NewMsg(m.Reply)
				none.Header.Set("Status", "404")
				expect.OK(w, nc.PublishMsg(none))
				return
			case strings.Contains(string(m.Data), "up_to_time"):
				m.Data = expect.Got(json.Marshal(lastRecords{[]string{"$KV.elections.billing"}, lags.UTC()}))(w)
			}
			expect.OK(w, nc.PublishRequest(api, m.Reply, m.Data))
		}))(w)
		w.prompt("history billing --since all", "history billing --since all --js-api-prefix LAGS")
		expect.OK(w, replica.Unsubscribe())
		w.notef("# a server that cannot read the history, and one whose history has other messages\n")
		for prefix, header := range map[string]nats.Header{
			"BROKEN": {"Status": {"503"}, "Description": {"no"}},
			"OTHER":  {jetstream.TimeStampHeaer: {"2000-01-01T00:00:00Z"}, jetstream.SequenceHeader: {"1"}, jetstream.SubjectHeader: {"$KV.elections.billing"}},
		} {
			w.made(nc.Subscribe(prefix+".>", func(m *nats.Msg) {
				if strings.Contains(m.Subject, ".DIRECT.GET."+historyStream("elections")) {
					expect.OK(w, nc.PublishMsg(&nats.Msg{Subject: m.Reply, Header: header, Data: []byte("x")}))
					return
				}
				expect.OK(w, nc.PublishRequest("$JS.API"+strings.TrimPrefix(m.Subject, prefix), m.Reply, m.Data))
			}))
		}
		synctest.Wait() // for the subscriptions
		w.prompt("history billing --js-api-prefix BROKEN", "history --js-api-prefix BROKEN", "history billing --js-api-prefix OTHER", "history --js-api-prefix OTHER")
	})
}

// A bucket with a TTL stores a marker with a roll-up for a record that expires, and takes
// roll-ups of clients. Neither wipes the history.
func TestHistory_TTLBucket(t *testing.T) {
	bubble(t, leader.BucketConfig{TTL: 40 * time.Second, Storage: jetstream.MemoryStorage}, func(w *world) {
		w.prompt("bucket add --ttl 40s --storage memory --history 1h")
		time.Sleep(time.Second)
		w.campaigns("model", leader.Config{ID: "m"})
		put(w.T, w.js, "billing", record(w.T, w.js, "model", "a", 10*time.Second))
		time.Sleep(time.Minute)
		m := nats.NewMsg("$KV.elections.other")
		m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupAll)
		_, err := w.js.PublishMsg(w.Context(), m)
		expect.Must(w, err == nil, "%v", err)
		time.Sleep(time.Second)
		w.prompt("status billing", "history billing")
	})
}

// The history outlives its bucket, and goes on with the next one of that name.
func TestHistory_DeletedBucket(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.prompt("bucket add --history 30d")
		time.Sleep(time.Second)
		c := w.campaigns("billing", leader.Config{ID: "a"})
		expect.OK(w, c.Stop())
		time.Sleep(time.Minute)
		w.prompt("bucket rm elections --yes", "history billing", "bucket add")
		time.Sleep(time.Second)
		w.campaigns("billing", leader.Config{ID: "b"})
		w.prompt("history billing")
		w.notef("# another tool makes the bucket anew\n")
		expect.OK(w, w.stands[1].Stop())
		synctest.Wait() // its release is copied
		made := expect.Got(w.js.Stream(w.Context(), "KV_elections"))(w).CachedInfo().Config
		made.FirstSeq = 0
		expect.OK(w, w.js.DeleteStream(w.Context(), made.Name))
		time.Sleep(time.Minute)
		expect.Got(w.js.CreateStream(w.Context(), made))(w)
		w.campaigns("billing", leader.Config{ID: "c"})
		w.prompt("history billing", "history billing --at 0s", "history")
	})
}

// A copy may be made long after its record was written. The history has the times of the records.
func TestHistory_LateCopies(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		b := w.campaigns("billing.b", leader.Config{ID: "b"})
		a := w.campaigns("billing.a", leader.Config{ID: "a"})
		time.Sleep(10 * time.Minute)
		expect.OK(w, a.Stop())
		time.Sleep(10 * time.Minute)
		w.run("bucket add --history 30d")
		time.Sleep(time.Second)
		w.prompt("history billing.a --since all", "history billing.b --since all")
		w.notef("# the marker of a deleted key keeps its record, and is later\n")
		w.run("step-down billing.b --force --yes")
		time.Sleep(time.Second)
		w.prompt("history billing.b --since all")
		expect.OK(w, b.Stop())
	})
}

// history prints what it cannot know: without a stream, without a permission, and behind.
func TestHistory_Troubles(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.prompt("history billing --bucket other", "history billing", "history b*", "history billing --since soon",
			"history billing --at all", "history billing --at 2999-01-01")
		w.run("bucket add --history 30d")
		time.Sleep(time.Second)
		w.campaigns("billing", leader.Config{ID: "a"})
		time.Sleep(time.Second)
		w.prompt("bucket info -s nats://denied:denied@localhost", "history billing -s nats://denied:denied@localhost",
			"history billing --timeout 3s -s nats://blind:blind@localhost")
		w.notef("# the history is lost\n")
		expect.OK(w, w.js.DeleteStream(w.Context(), historyStream("elections")))
		w.prompt("bucket info", "history billing")
		w.notef("# another stream has its name\n")
		w.made(w.js.CreateStream(w.Context(), jetstream.StreamConfig{Name: historyStream("elections")}))
		w.prompt("history billing", "history")
		w.remove(historyStream("elections"))
		w.notef("# the history does not get the key any more\n")
		if _, err := w.js.CreateStream(w.Context(), jetstream.StreamConfig{
			Name: historyStream("elections"), AllowDirect: true, Metadata: map[string]string{historyOfKey: "elections"},
			Sources: []*jetstream.StreamSource{{Name: "KV_elections", FilterSubject: "$KV.elections.other"}},
		}); err != nil {
			w.Fatal(err)
		}
		put(w.T, w.js, "behind", record(w.T, w.js, "billing", "b", time.Hour))
		time.Sleep(historyLag)
		w.prompt("history behind")
		time.Sleep(time.Second)
		w.prompt("history behind")
	}, withUser("denied", denied("$JS.API.STREAM.INFO.natsleader_history_elections")),
		withUser("blind", denied("$JS.API.DIRECT.GET.KV_elections.>")))
}

// second is so many seconds after the begin of the time lines of these tests.
func second(n float64) time.Time {
	return time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC).Add(time.Duration(n * float64(time.Second)))
}

// revisionAt is a revision of the key. Its text is the state of a record with its ID, token, and perhaps the second since
// which it leads, "DEL" for a marker, or anything else for a foreign value. The record may say that it was written at
// another time: "@3 leading a 7".
func revisionAt(seconds float64, what string) electionStatus {
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
	return newElectionStatus("billing", e)
}

// timelineOf returns the time line of revisions, each after its second, as it is known at a second.
func timelineOf(revisions string, now float64) timeline {
	b := timelineBuilder{election: "billing", from: second(-3600)}
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
			w.notef("# %s\n%s\n", x.name, strings.Join(columns(line.table(second(0))), "\n"))
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

// Without an election --at shows who led each election at a moment. What came later costs no more than one record of
// each, unless nobody led.
func TestHistory_AtOfAll(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.campaigns("early", leader.Config{ID: "before-the-history"})
		w.run("bucket add --history 30d")
		time.Sleep(time.Second) // the history begins
		a := w.campaigns("billing", leader.Config{ID: "a"})
		w.campaigns("mail", leader.Config{ID: "m"})
		w.campaigns("orders.shard.assigner", leader.Config{ID: "assigner"})
		once := w.campaigns("once", leader.Config{ID: "o"})
		time.Sleep(time.Minute)
		expect.OK(w, a.Stop())
		expect.OK(w, once.Stop())
		w.run("note once --one-shot")
		w.run("step-down mail --force --yes")
		put(w.T, w.js, "other", "hello")
		time.Sleep(time.Minute)
		put(w.T, w.js, "other", "hello again")
		w.campaigns("later", leader.Config{ID: "l"})
		b := w.campaigns("billing", leader.Config{ID: "b"})
		time.Sleep(time.Hour)
		expect.OK(w, b.Stop())
		for range 200 {
			put(w.T, w.js, "other", "hello")
			time.Sleep(time.Millisecond) // the history copies it before the next one takes its place
		}
		time.Sleep(time.Hour)
		for _, at := range []string{"1999-12-31", "00:00:30", "00:04", "00:05:30", "00:06:20", "01:00", "02:00"} {
			w.prompt("history --at " + at)
		}
		w.prompt("history o* --at 00:06:20", "history x* --at 00:06:20", "history billing* --at 00:04", "history b*", "history --at 00:06:20 --json")
		asks := w.historyAsks("history --at 00:04")
		expect.That(w, asks <= 2+7, "%d requests", asks)
	})
}

// Times are shown in the zone of the head, and those at which it had another offset with that.
func TestHistory_Zones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer func(was *time.Location) { time.Local = was }(time.Local)
		time.Local = expect.Got(time.LoadLocation("Europe/Berlin"))(t)
		now := time.Date(2000, 10, 29, 0, 30, 0, 0, time.UTC)
		time.Sleep(time.Until(now)) // summer: 02:30
		expect.Equal(t, formatTime(now), "2000-10-29 02:30:00", "%s; want %s")
		expect.Equal(t, inZone(now), " (CEST)", "%s; want %s")
		time.Sleep(time.Hour)
		expect.Equal(t, formatTime(now), "2000-10-29 02:30:00 +02:00", "%s; want %s")
		expect.Equal(t, formatTime(time.Now()), "2000-10-29 02:30:00", "%s; want %s")
		expect.Equal(t, inZone(time.Now()), " (CET)", "%s; want %s")
		line := timeline{Election: "billing", Spans: []span{{State: stateLeading, ID: "a", Token: 7, Since: now, Until: now.Add(time.Hour), Ended: endedReleased}}}
		expect.Deep(t, columns(line.table(time.Now())), []string{
			"SINCE (CET)                 UNTIL                FOR   LEADER  TOKEN  ENDED",
			"2000-10-29 02:30:00 +02:00  2000-10-29 02:30:00  1h0m  a       7      handed over",
		})
		expect.Equal(t, line.at(now).sentence("billing", now, time.Now()),
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
	alone(t, func(w *world) {
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
			w.notef("# %s, %v\n", x.zone, now)
			for _, text := range x.texts {
				got, err := parseMoment(text, now)
				if err != nil {
					w.notef("%s: %v\n", text, err)
					continue
				}
				w.notef("%s: %s\n", text, got.Format(shownWithOffset))
			}
		}
	})
}

// Without an election history shows the changes of all, the newest first. Those of one kind within some seconds are one
// line, those of trouble are marked.
func TestHistory_All(t *testing.T) {
	proof.NotRaced(t)
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.prompt("history")
		w.run("bucket add --history 30d")
		time.Sleep(time.Second) // the history begins
		w.prompt("history", "history --at 0s", "history --json")
		start := func(id string, elections ...string) (all []*leader.Candidate) {
			for _, e := range elections {
				all = append(all, w.campaigns(e, leader.Config{ID: id}))
			}
			return all
		}
		stop := func(all ...*leader.Candidate) {
			for _, c := range all {
				expect.OK(w, c.Stop())
			}
		}
		old := start("api-1", "billing", "mail", "maps", "orders.shard.assigner", "orders.shard.member.x")
		time.Sleep(time.Hour)
		w.notef("# a deploy\n")
		var deployed []*leader.Candidate
		for i, e := range []string{"billing", "mail", "maps"} {
			stop(old[i])
			time.Sleep(time.Duration(i+1) * 50 * time.Millisecond) // the release is copied
			deployed = append(deployed, start("api-2", e)...)
		}
		w.prompt("history --since 30m")
		time.Sleep(time.Hour)
		w.prompt("history --since 90m --json")
		w.notef("# one is free, one is taken late, one is deleted, one is foreign, one has expired\n")
		stop(deployed[0])
		stop(deployed[1])
		time.Sleep(5 * time.Second)
		start("node-1_41_x9z", "mail")
		w.run("step-down maps --force --yes")
		put(w.T, w.js, "other", "hello")
		put(w.T, w.js, "dead", strings.Replace(tokens.ReplaceAllString(record(w.T, w.js, "mail", "b", time.Minute), "7"), "02:00:14", "02:00:18", 1))
		time.Sleep(2 * time.Minute)
		w.prompt("history --since 10m", "history")
		w.notef("# a job has run again\n")
		w.prompt("note nightly --one-shot")
		stop(start("api-1", "nightly")...)
		time.Sleep(5 * time.Second)
		start("api-2", "nightly")
		w.prompt("history --since 3m")
	})
}

// Changes of one kind that come within ten seconds of each other are one line, with the longest gap. A host stands for IDs
// that were made on it.
func TestHistory_Groups(t *testing.T) {
	alone(t, func(w *world) {
		for _, x := range []struct{ name, lines string }{
			{"a deploy", "0 leading api-1 7, 5 released api-1 7, 5.05 leading api-2 8; 0 leading api-1 7, 14 released api-1 7, 14.3 leading api-2 8; " +
				"0 leading api-1 7, 14 leading api-1 7, 24.4 released api-1 7, 24.5 leading api-2 8"},
			{"hosts", "0 leading n1_4_aaa 7, 3 released n1_4_aaa 7, 6.5 leading n2_5_bbb 8; 0 leading n1_4_ccc 7, 8 released n1_4_ccc 7, 9 leading n2_5_ddd 8"},
			{"not of one kind", "0 leading a 7, 5 released a 7, 5.5 leading b 8; 0 leading a 7, 5 released a 7, 6 leading b 8; 0 leading a 7, 5 DEL, 5.5 leading b 8"},
			{"a hole", "0 leading a 7, 5 leading a 7, 7 (hole) leading b 8 since 7; 0 leading a 7, 5 leading a 7, 40 (hole) leading b 9 since 37"},
			{"a hole until now", "0 leading a 7, 5 leading a 7, 40 (hole) released c 9"},
			{"again, and gone", "0 leading a 7, 5 leading a 8"},
			{"expired", "0 leading a 7, 20 leading b 8, 25 hello"},
			{"idle for ten leases, and not so long", "0 leading a 7, 5 released a 7, 155 leading b 8; 0 leading a 7, 5 released a 7, 154 leading b 8"},
			{"a one-shot job that was idle, and two that were not", "0 leading a 7, 5 released a 7, 6 leading b 8; " +
				"0 leading a 7, 5 released a 7, 6 hello, 200 leading b 8; 0 leading a 7, 5 released a 7, 6 pending c 0, 200 leading b 8"},
		} {
			var all []changed
			for i, revisions := range strings.Split(x.lines, "; ") {
				line := timelineOf(revisions, 41)
				line.Election = fmt.Sprint("e", i)
				all = append(all, line.changes(strings.Contains(x.name, "one-shot"))...)
			}
			w.notef("# %s\n%s\n", x.name, strings.Join(columns(changes{All: grouped(all)}.table(second(0))), "\n"))
		}
	})
}

// After a lease ran out nobody worked for longer than nobody led: from the last renewal, or at the latest from the renew
// deadline. A group of changes has the longest times.
func TestChanged_Silence(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0).UTC() }
	of := func(until, next int) changed {
		last := span{State: stateLeading, ID: "a", Until: at(until), Renewed: at(0), Ended: endedExpired}
		c := changed{At: at(next), Began: at(next), From: "a", To: "b", Ended: endedExpired, Elections: []string{"e"}}
		c.silence(last, at(next))
		return c
	}
	expect.Equal(t, of(15, 15).text(), "a → b: e, not renewed for 15s, so nobody worked for 3s to 15s", "%q; want %q")
	expect.Equal(t, of(15, 11).text(), "a → b: e, not renewed for 11s, so nobody worked for 0 ms to 11s", "%q; want %q")
	groups := grouped([]changed{of(15, 15), of(15, 18)})
	expect.Equal(t, len(groups), 1, "%d groups")
	expect.Equal(t, groups[0].text(), "a → b: 2 elections, not renewed for up to 18s, so nobody worked for up to as long", "%q; want %q")
	c := changed{Ended: endedReleased}
	c.silence(span{Until: at(15), Ended: endedReleased}, at(16))
	expect.Equal(t, c.Silent, 0, "a handover is silent for %v s")
}
