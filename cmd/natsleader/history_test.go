package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/history"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// history shows the leaders one after the other, why their terms ended, and who led at a moment.
func TestHistory_Terms(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Run("bucket add --history 30d")
		time.Sleep(time.Second) // the history begins
		a := w.Campaigns("billing", leader.Config{ID: "a", Value: []byte("10.0.0.7")})
		w.Campaigns("billing.x", leader.Config{ID: "another election"})
		time.Sleep(time.Second)
		w.Prompt("history billing --since 0s", "history billing --since 0s --json")
		expect.OK(w, a.Stop())
		b := testworld.Tokens.ReplaceAllString(testworld.Record(w.T, w.Js, "billing.x", "b", time.Hour), "7")
		b = strings.Replace(b, "00:01:02", "00:03:04", 1) // since when it leads
		c := strings.NewReplacer(`"id":"b"`, `"id":"c"`, `"token":7`, `"token":8`, "00:03:04", "00:04:04").Replace(b)
		pending := strings.NewReplacer("leading", "pending", "1h0m0s", "1m0s").Replace(b)
		for _, value := range []string{b, c, "", pending, "hello"} {
			time.Sleep(time.Minute)
			if value == "" {
				w.Run("step-down billing --force --yes")
			} else {
				testworld.Put(w.T, w.Js, "billing", value)
			}
		}
		time.Sleep(time.Minute)
		w.Prompt("history billing", "history billing --json", "history nothing", "history nothing --json")
		for _, at := range []string{"1999-12-31", "00:01", "00:02:30", "00:03:30", "00:05:30", "00:06:30", "00:07:30"} {
			w.Prompt("history billing --at " + at)
		}
		w.Prompt("history billing --at 00:01 --json", "history billing.x --at 2m")
	})
}

// history does not read each renewal.
func TestHistory_SkipsRenewals(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Run("bucket add --history 30d")
		time.Sleep(time.Second) // the history begins
		for _, id := range []string{"a", "b", "c"} {
			c := w.Campaigns("billing", leader.Config{ID: id})
			time.Sleep(time.Hour)
			expect.OK(w, c.Stop())
			time.Sleep(time.Second) // the release is copied
		}
		asks := historyAsks(w, "history billing --since all", "history billing --since 90m")
		expect.That(w, asks <= 21, "%d requests", asks)
	})
}

// Where a record says that its term is older than the copies before it, the begin of the term is searched.
func TestHistory_SearchesBegin(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Run("bucket add --history 30d")
		time.Sleep(time.Second) // the history begins
		for i, id := range []string{"a", "b", "c"} {
			since := time.Now().Add(-50 * time.Second).UTC().Format(time.RFC3339Nano)
			for range 100 {
				testworld.Put(w.T, w.Js, "billing", fmt.Sprintf(`{"v":1,"state":"leading","id":%q,"session":"s","n":1,"lease":"1h0m0s","token":%d,"since":%q}`, id, i+7, since))
				time.Sleep(time.Second)
			}
		}
		asks := historyAsks(w, "history billing --since all")
		expect.That(w, asks < 50, "%d requests", asks)
	})
}

// historyAsks runs commands, and returns how many requests for records of the history they made.
func historyAsks(w *testworld.World, commands ...string) int {
	w.Helper()
	nc := w.Js.Conn()
	asked := expect.Got(nc.SubscribeSync("$JS.API.DIRECT.GET." + facts.HistoryStream("elections")))(w)
	expect.OK(w, nc.Flush())
	w.Prompt(commands...)
	time.Sleep(time.Second)
	n, _, err := asked.Pending()
	expect.OK(w, err)
	expect.OK(w, asked.Unsubscribe())
	return n
}

// A replica that lags has not stored the terms that it is asked for. Then it is not known what came before the one that
// another replica has shown.
func TestHistory_LaggingReplica(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Run("bucket add --history 30d")
		time.Sleep(time.Second) // the history begins
		var lags time.Time
		for _, id := range []string{"a", "b"} {
			expect.OK(w, w.Campaigns("billing", leader.Config{ID: id}).Stop())
			time.Sleep(time.Second) // the release is copied
			if lags.IsZero() {
				lags = time.Now()
			}
		}
		w.Campaigns("billing", leader.Config{ID: "c"})
		nc := w.Js.Conn()
		replica := expect.Got(nc.Subscribe("LAGS.>", func(m *nats.Msg) {
			api := "$JS.API" + strings.TrimPrefix(m.Subject, "LAGS")
			switch {
			case strings.Contains(string(m.Data), "next_by_subj"):
				none := nats.NewMsg(m.Reply)
				none.Header.Set("Status", "404")
				expect.OK(w, nc.PublishMsg(none))
				return
			case strings.Contains(string(m.Data), "up_to_time"):
				m.Data = expect.Got(json.Marshal(history.LastRecords{Subjects: []string{"$KV.elections.billing"}, UpToTime: lags.UTC()}))(w)
			}
			expect.OK(w, nc.PublishRequest(api, m.Reply, m.Data))
		}))(w)
		w.Prompt("history billing --since all", "history billing --since all --js-api-prefix LAGS")
		expect.OK(w, replica.Unsubscribe())
		w.Notef("# a server that cannot read the history, and one whose history has other messages\n")
		for prefix, header := range map[string]nats.Header{
			"BROKEN": {"Status": {"503"}, "Description": {"no"}},
			"OTHER":  {jetstream.TimeStampHeaer: {"2000-01-01T00:00:00Z"}, jetstream.SequenceHeader: {"1"}, jetstream.SubjectHeader: {"$KV.elections.billing"}},
		} {
			w.Made(nc.Subscribe(prefix+".>", func(m *nats.Msg) {
				if strings.Contains(m.Subject, ".DIRECT.GET."+facts.HistoryStream("elections")) {
					expect.OK(w, nc.PublishMsg(&nats.Msg{Subject: m.Reply, Header: header, Data: []byte("x")}))
					return
				}
				expect.OK(w, nc.PublishRequest("$JS.API"+strings.TrimPrefix(m.Subject, prefix), m.Reply, m.Data))
			}))
		}
		synctest.Wait() // for the subscriptions
		w.Prompt("history billing --js-api-prefix BROKEN", "history --js-api-prefix BROKEN", "history billing --js-api-prefix OTHER", "history --js-api-prefix OTHER")
	})
}

// A bucket with a TTL stores a marker with a roll-up for a record that expires, and takes
// roll-ups of clients. Neither wipes the history.
func TestHistory_TTLBucket(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{TTL: 40 * time.Second, Storage: jetstream.MemoryStorage}, func(w *testworld.World) {
		w.Prompt("bucket add --ttl 40s --storage memory --history 1h")
		time.Sleep(time.Second)
		w.Campaigns("model", leader.Config{ID: "m"})
		testworld.Put(w.T, w.Js, "billing", testworld.Record(w.T, w.Js, "model", "a", 10*time.Second))
		time.Sleep(time.Minute)
		m := nats.NewMsg("$KV.elections.other")
		m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupAll)
		_, err := w.Js.PublishMsg(w.Context(), m)
		expect.Must(w, err == nil, "%v", err)
		time.Sleep(time.Second)
		w.Prompt("status billing", "history billing", "history", "history --since 5s")
	})
}

// The history outlives its bucket, and goes on with the next one of that name.
func TestHistory_DeletedBucket(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Prompt("bucket add --history 30d")
		time.Sleep(time.Second)
		c := w.Campaigns("billing", leader.Config{ID: "a"})
		expect.OK(w, c.Stop())
		time.Sleep(time.Minute)
		w.Prompt("bucket rm elections --yes", "history billing", "bucket add")
		time.Sleep(time.Second)
		w.Campaigns("billing", leader.Config{ID: "b"})
		w.Prompt("history billing")
		w.Notef("# another tool makes the bucket anew\n")
		expect.OK(w, w.Stands[1].Stop())
		synctest.Wait() // its release is copied
		made := expect.Got(w.Js.Stream(w.Context(), "KV_elections"))(w).CachedInfo().Config
		made.FirstSeq = 0
		expect.OK(w, w.Js.DeleteStream(w.Context(), made.Name))
		time.Sleep(time.Minute)
		expect.Got(w.Js.CreateStream(w.Context(), made))(w)
		w.Campaigns("billing", leader.Config{ID: "c"})
		w.Prompt("history billing", "history billing --at 0s", "history")
	})
}

// Of a deleted bucket only the history has the newest records. A replica that lags does not show that a lease ran out.
func TestHistory_LaggingReplicaOfDeletedBucket(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Run("bucket add --history 30d")
		time.Sleep(time.Second)
		a := w.Campaigns("billing", leader.Config{ID: "a"})
		time.Sleep(time.Second)
		lags := time.Now()
		time.Sleep(time.Hour)
		expect.OK(w, a.Stop())
		time.Sleep(time.Second) // the release is copied
		w.Run("bucket rm elections --yes")
		nc := w.Js.Conn()
		w.Made(nc.Subscribe("LAGS.>", func(m *nats.Msg) {
			if strings.Contains(string(m.Data), "multi_last") && !strings.Contains(string(m.Data), "up_to_time") {
				m.Data = expect.Got(json.Marshal(history.LastRecords{Subjects: []string{"$KV.elections.billing"}, UpToTime: lags.UTC()}))(w)
			}
			expect.OK(w, nc.PublishRequest("$JS.API"+strings.TrimPrefix(m.Subject, "LAGS"), m.Reply, m.Data))
		}))
		synctest.Wait() // for the subscription
		w.Prompt("history nothing")
		for _, more := range []string{"", " --js-api-prefix LAGS"} {
			w.Prompt("history billing --since all"+more, "history billing --at 0s"+more, "history --at 0s"+more, "history --since all"+more)
		}
	})
}

// A copy may be made long after its record was written. The history has the times of the records.
func TestHistory_LateCopies(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		b := w.Campaigns("billing.b", leader.Config{ID: "b"})
		a := w.Campaigns("billing.a", leader.Config{ID: "a"})
		time.Sleep(10 * time.Minute)
		expect.OK(w, a.Stop())
		time.Sleep(10 * time.Minute)
		w.Run("bucket add --history 30d")
		time.Sleep(time.Second)
		w.Prompt("history billing.a --since all", "history billing.b --since all")
		w.Notef("# the marker of a deleted key keeps its record, and is later\n")
		w.Run("step-down billing.b --force --yes")
		time.Sleep(time.Second)
		w.Prompt("history billing.b --since all")
		expect.OK(w, b.Stop())
	})
}

// history prints what it cannot know: without a stream, without a permission, and behind.
func TestHistory_Troubles(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Prompt("history billing --bucket other", "history billing", "history b*", "history billing --since soon",
			"history billing --at all", "history billing --at 2999-01-01")
		w.Run("bucket add --history 30d")
		time.Sleep(time.Second)
		w.Campaigns("billing", leader.Config{ID: "a"})
		time.Sleep(time.Second)
		w.Prompt("bucket info -s nats://denied:denied@localhost", "history billing -s nats://denied:denied@localhost",
			"history billing --timeout 3s -s nats://blind:blind@localhost")
		w.Notef("# the history is lost\n")
		expect.OK(w, w.Js.DeleteStream(w.Context(), facts.HistoryStream("elections")))
		w.Prompt("bucket info", "history billing")
		w.Notef("# another stream has its name\n")
		w.Made(w.Js.CreateStream(w.Context(), jetstream.StreamConfig{Name: facts.HistoryStream("elections")}))
		w.Prompt("history billing", "history")
		w.Remove(facts.HistoryStream("elections"))
		w.Notef("# the history does not get the key any more\n")
		if _, err := w.Js.CreateStream(w.Context(), jetstream.StreamConfig{
			Name: facts.HistoryStream("elections"), AllowDirect: true, Metadata: map[string]string{inspect.HistoryOfKey: "elections"},
			Sources: []*jetstream.StreamSource{{Name: "KV_elections", FilterSubject: "$KV.elections.other"}},
		}); err != nil {
			w.Fatal(err)
		}
		testworld.Put(w.T, w.Js, "behind", testworld.Record(w.T, w.Js, "billing", "b", time.Hour))
		time.Sleep(history.Lag)
		w.Prompt("history behind")
		time.Sleep(time.Second)
		w.Prompt("history behind")
	}, testworld.WithUser("denied", testworld.Denied("$JS.API.STREAM.INFO.natsleader_history_elections")),
		testworld.WithUser("blind", testworld.Denied("$JS.API.DIRECT.GET.KV_elections.>")))
}

// Without an election --at shows who led each election at a moment. What came later costs no more than one record of
// each, unless nobody led.
func TestHistory_AtOfAll(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Campaigns("early", leader.Config{ID: "before-the-history"})
		w.Run("bucket add --history 30d")
		time.Sleep(time.Second) // the history begins
		a := w.Campaigns("billing", leader.Config{ID: "a"})
		w.Campaigns("mail", leader.Config{ID: "m"})
		w.Campaigns("orders.shard.assigner", leader.Config{ID: "assigner"})
		once := w.Campaigns("once", leader.Config{ID: "o"})
		time.Sleep(time.Minute)
		expect.OK(w, a.Stop())
		expect.OK(w, once.Stop())
		w.Run("note once --one-shot")
		w.Run("step-down mail --force --yes")
		testworld.Put(w.T, w.Js, "other", "hello")
		time.Sleep(time.Minute)
		testworld.Put(w.T, w.Js, "other", "hello again")
		w.Campaigns("later", leader.Config{ID: "l"})
		b := w.Campaigns("billing", leader.Config{ID: "b"})
		time.Sleep(time.Hour)
		expect.OK(w, b.Stop())
		for range 200 {
			testworld.Put(w.T, w.Js, "other", "hello")
			time.Sleep(time.Millisecond) // the history copies it before the next one takes its place
		}
		time.Sleep(time.Hour)
		for _, at := range []string{"1999-12-31", "00:00:30", "00:04", "00:05:30", "00:06:20", "01:00", "01:09:30", "02:00"} {
			w.Prompt("history --at " + at)
		}
		w.Prompt("history o* --at 00:06:20", "history x* --at 00:06:20", "history billing* --at 00:04", "history b*", "history --at 00:06:20 --json", "history once* --at 01:00")
		asks := historyAsks(w, "history --at 00:04")
		expect.That(w, asks <= 2+7, "%d requests", asks)
		w.Notef("# a one-shot job has ended a minute ago\n")
		expect.OK(w, w.Campaigns("soon", leader.Config{ID: "s"}).Stop())
		w.Run("note soon --one-shot")
		time.Sleep(time.Minute)
		w.Prompt("history s* --at 30s")
	})
}

// Without an election history shows the changes of all, the newest first. Those of one kind within some seconds are one
// line, those of trouble are marked.
func TestHistory_All(t *testing.T) {
	proof.NotRaced(t)
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Prompt("history")
		w.Run("bucket add --history 30d")
		time.Sleep(time.Second) // the history begins
		w.Prompt("history", "history --at 0s", "history --json")
		start := func(id string, elections ...string) (all []*leader.Candidate) {
			for _, e := range elections {
				all = append(all, w.Campaigns(e, leader.Config{ID: id}))
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
		w.Notef("# a deploy\n")
		var deployed []*leader.Candidate
		for i, e := range []string{"billing", "mail", "maps"} {
			stop(old[i])
			time.Sleep(time.Duration(i+1) * 50 * time.Millisecond) // the release is copied
			deployed = append(deployed, start("api-2", e)...)
		}
		w.Prompt("history --since 30m")
		time.Sleep(time.Hour)
		w.Prompt("history --since 90m --json")
		w.Notef("# one is free, one is taken late, one is deleted, one is foreign, one has expired\n")
		stop(deployed[0])
		stop(deployed[1])
		time.Sleep(5 * time.Second)
		start("node-1_41_x9z", "mail")
		w.Run("step-down maps --force --yes")
		testworld.Put(w.T, w.Js, "other", "hello")
		testworld.Put(w.T, w.Js, "dead", strings.Replace(testworld.Tokens.ReplaceAllString(testworld.Record(w.T, w.Js, "mail", "b", time.Minute), "7"), "02:00:14", "02:00:18", 1))
		time.Sleep(2 * time.Minute)
		w.Prompt("history --since 10m", "history")
		w.Notef("# a job has run again\n")
		w.Prompt("note nightly --one-shot")
		stop(start("api-1", "nightly")...)
		time.Sleep(5 * time.Second)
		start("api-2", "nightly")
		w.Prompt("history --since 3m")
	})
}

// Of the keys of a group history shows that of the assigner, by the name of the group, and those of members only for a pattern
// that the name does not match. A pattern that matches nothing is not told that no leader has changed.
func TestHistory_MembersByPattern(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Run("bucket add --history 30d")
		time.Sleep(time.Second) // the history begins
		w.Campaigns("orders.shard.assigner", leader.Config{ID: "m1"})
		testworld.Put(w.T, w.Js, "orders.shard.map", "{}")
		testworld.Put(w.T, w.Js, "orders.shard.member.m2", testworld.Record(w.T, w.Js, "orders.shard.assigner", "m2", 15*time.Second))
		time.Sleep(15 * time.Second)
		expect.OK(w, w.Campaigns("orders.shard.member.m2", leader.Config{ID: "m1"}).Stop())
		time.Sleep(time.Second)
		w.Prompt("history", "history orders*", "history orders.shard.*", "history *.m2", "history orders.shard.member.m2", "history mails.shard.*", "history mails* --json")
	})
}

// What history says of one election it says of all, too: each value that is no record, each deletion, and each candidate that
// held the key and did not lead.
func TestHistory_AllTellsEachEntry(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Run("bucket add --history 30d")
		time.Sleep(time.Second) // the history begins
		w.Campaigns("first", leader.Config{ID: "f"})
		time.Sleep(5 * time.Minute)
		const deleted = ""
		led, free, other := recordOf("leading", "a", 7), recordOf("released", "a", 7), recordOf("leading", "b", 8)
		shortly := strings.NewReplacer("1h0m0s", "15s")
		elections := []struct {
			name   string
			values []string
		}{
			{"garbage", []string{"hello"}},
			{"garbage-when-free", []string{led, free, "hello"}},
			{"garbage-when-free-then-led", []string{led, free, "hello", other, recordOf("released", "b", 8)}},
			{"garbage-before-it-was-led", []string{"hello", other, recordOf("released", "b", 8)}},
			{"garbage-when-led", []string{led, "hello"}},
			{"garbage-deleted", []string{led, "hello", deleted}},
			{"damaged", []string{led, free, led[:len(led)-5]}},
			{"newer-version", []string{led, free, strings.Replace(led, `"v":1`, `"v":9`, 1)}},
			{"deleted-when-free", []string{led, free, deleted}},
			{"deleted-when-led", []string{led, deleted}},
			{"pending", []string{led, free, recordOf("pending", "b", 0)}},
			{"pending-garbage", []string{led, free, recordOf("pending", "b", 0), "hello"}},
			{"pending-died", []string{led, free, shortly.Replace(recordOf("pending", "b", 0))}},
			{"died", []string{shortly.Replace(led)}},
		}
		for i := range 5 {
			for _, e := range elections {
				switch {
				case i >= len(e.values):
				case e.values[i] == deleted:
					kv := expect.Got(w.Js.KeyValue(w.Context(), "elections"))(w)
					expect.OK(w, kv.Delete(w.Context(), e.name))
				default:
					testworld.Put(w.T, w.Js, e.name, e.values[i])
				}
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(10 * time.Second)
		}
		w.Prompt("history")
		var all history.Changes
		out, _, _ := w.Run("history --json")
		expect.OK(w, json.Unmarshal([]byte(out), &all))
		for _, e := range elections {
			var line history.Timeline
			out, _, _ := w.Run("history " + e.name + " --json")
			expect.OK(w, json.Unmarshal([]byte(out), &line))
			for _, x := range line.Spans {
				told := slices.ContainsFunc(all.All, func(c history.Changed) bool {
					return slices.Contains(c.Elections, e.name) && (c.State == x.State || c.Ended == toldBy[x.State] && c.To == "")
				})
				expect.That(w, told || toldBy[x.State] == "", "of all elections nothing is said of %s: %+v", e.name, x)
			}
		}
		w.Prompt("history garbage-when-free-then-led", "history pending-garbage", "history garb* --json")
	})
}

// recordOf returns a record with a lease of an hour.
func recordOf(state, id string, token int) string {
	return fmt.Sprintf(`{"v":1,"state":%q,"id":%q,"session":"s-%s","n":1,"lease":"1h0m0s","token":%d}`, state, id, id, token)
}

// toldBy are the ends of terms that say the same as the state that follows them.
var toldBy = map[facts.State]history.TermEnd{
	facts.Foreign: "overwritten", facts.Deleted: history.EndedDeleted, facts.Expired: history.EndedExpired, facts.Pending: "none",
}

// Trouble that began before the time that is asked for, and went on in it, is shown with its begin. If the history does not
// have that, it says so.
func TestHistory_WindowEdge(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		testworld.Put(w.T, w.Js, "old", "hello")
		time.Sleep(time.Hour)
		w.Run("bucket add --history 30d")
		time.Sleep(5 * time.Minute) // the history begins
		for _, election := range []string{"dead", "deleted", "foreign", "late", "again", "free", "over"} {
			testworld.Put(w.T, w.Js, election, recordOf("leading", "a", 7))
			time.Sleep(time.Second)
		}
		testworld.Put(w.T, w.Js, "dead", strings.Replace(recordOf("leading", "a", 7), "1h0m0s", "15s", 1))
		for range 3 { // foreign, deleted and free stay so
			testworld.Put(w.T, w.Js, "foreign", "hello")
			testworld.Put(w.T, w.Js, "over", "hello")
			expect.OK(w, expect.Got(w.Js.KeyValue(w.Context(), "elections"))(w).Delete(w.Context(), "deleted"))
			time.Sleep(time.Minute)
		}
		for range 100 {
			testworld.Put(w.T, w.Js, "again", "hello")
			time.Sleep(time.Second)
		}
		testworld.Put(w.T, w.Js, "late", recordOf("released", "a", 7))
		testworld.Put(w.T, w.Js, "free", recordOf("released", "a", 7))
		testworld.Put(w.T, w.Js, "over", recordOf("leading", "b", 9))
		time.Sleep(time.Second)
		testworld.Put(w.T, w.Js, "over", recordOf("released", "b", 9))
		time.Sleep(time.Minute)
		window := time.Now()
		time.Sleep(50 * time.Second)
		testworld.Put(w.T, w.Js, "late", recordOf("leading", "b", 9))
		time.Sleep(10 * time.Second)
		since := window.Format(time.RFC3339Nano)
		w.Prompt("history --since all", "history --since "+since, "history --since "+since+" --json")
		for _, election := range []string{"foreign", "deleted", "again", "late", "old"} {
			w.Prompt("history " + election + " --since " + since)
		}
		w.Prompt("history --at "+since, "history again --at "+since, "history foreign --at "+since+" --json")
		var known, edge history.Changes
		out, _, _ := w.Run("history --since all --json")
		expect.OK(w, json.Unmarshal([]byte(out), &known))
		out, _, _ = w.Run("history --json --since " + since)
		expect.OK(w, json.Unmarshal([]byte(out), &edge))
		known.All = slices.DeleteFunc(known.All, func(c history.Changed) bool { return !c.In(window) || slices.Contains(c.Elections, "again") })
		edge.All = slices.DeleteFunc(edge.All, func(c history.Changed) bool { return slices.Contains(c.Elections, "again") })
		expect.Deep(w, edge.All, known.All)
	})
}

// A history knows nothing of the time before it began, and of what its limits have taken away.
func TestHistory_Begins(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		time.Sleep(time.Hour)
		w.Run("bucket add --history 30d")
		time.Sleep(5 * time.Minute)
		w.Prompt("history", "history --since 2h")
		a := w.Campaigns("billing", leader.Config{ID: "a"})
		time.Sleep(5 * time.Minute)
		for range 3 {
			testworld.Put(w.T, w.Js, "other", "hello")
			time.Sleep(time.Minute)
		}
		expect.OK(w, a.Stop())
		time.Sleep(time.Minute)
		w.Prompt("history --since 2h", "history billing --since 2h", "history billing --since 1m", "history billing --at 00:58", "history billing --at 01:02", "history --at 01:02")
		w.Notef("# its limits have taken away what is older\n")
		kept := expect.Got(w.Js.Stream(w.Context(), facts.HistoryStream("elections")))(w)
		testworld.Put(w.T, w.Js, "slow", recordOf("leading", "s", 7))
		time.Sleep(time.Second)
		testworld.Put(w.T, w.Js, "other", "hello")
		time.Sleep(time.Second)
		expect.OK(w, kept.Purge(w.Context(), jetstream.WithPurgeSequence(expect.Got(kept.Info(w.Context()))(w).State.LastSeq)))
		time.Sleep(time.Minute)
		testworld.Put(w.T, w.Js, "slow", recordOf("released", "s", 7))
		testworld.Put(w.T, w.Js, "odd", "hello")
		testworld.Put(w.T, w.Js, "new", strings.Replace(recordOf("leading", "n", 7), "1h0m0s", "15s", 1))
		time.Sleep(2 * time.Second)
		w.Prompt("history --since 2h", "history other --since all")
		for _, at := range []string{"01:14", "01:15:05", "01:15:30"} {
			for _, election := range []string{"", "other ", "slow ", "new ", "odd "} {
				w.Prompt("history " + election + "--at " + at)
			}
		}
		w.Notef("# and all\n")
		expect.OK(w, kept.Purge(w.Context()))
		time.Sleep(2 * time.Minute)
		w.Prompt("history new --since 1h", "history new --at 01:17")
	})
}
