package main

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	expect "github.com/natsleader/natsleader/internal/check"
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
		expect.OK(w, a.Stop(w.Context()))
		b := tokens.ReplaceAllString(record(w.T, w.js, "billing.x", "b", time.Hour), "7")
		b = strings.Replace(b, "00:01:01", "00:03:02", 1) // since when it leads
		c := strings.NewReplacer(`"id":"b"`, `"id":"c"`, `"token":7`, `"token":8`, "00:03:02", "00:04:02").Replace(b)
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
		expect.OK(w, c.Stop(w.Context()))
		time.Sleep(time.Minute)
		w.prompt("bucket rm elections --yes", "history billing", "bucket add")
		time.Sleep(time.Second)
		w.campaigns("billing", leader.Config{ID: "b"})
		w.prompt("history billing")
	})
}

// history says what it cannot know: without a stream, without a permission, and behind.
func TestHistory_Troubles(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.prompt("history billing --bucket other", "history billing", "history b*", "history billing --since soon",
			"history billing --at all", "history billing --at 2999-01-01")
		w.run("bucket add --history 30d")
		time.Sleep(time.Second)
		w.campaigns("billing", leader.Config{ID: "a"})
		time.Sleep(time.Second)
		w.prompt("history billing -s nats://denied:denied@localhost",
			"history billing --timeout 3s -s nats://blind:blind@localhost")
		w.notef("# the history is lost\n")
		expect.OK(w, w.js.DeleteStream(w.Context(), historyStream("elections")))
		w.prompt("bucket info", "history billing")
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
