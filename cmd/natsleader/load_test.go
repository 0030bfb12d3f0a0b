package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// gets counts requests for records.
type gets struct{ all, now, most atomic.Int32 }

// slowAPI answers with the prefix SLOW of the JetStream API, each request after a moment, and counts those for records.
func (w *world) slowAPI() *gets {
	n, nc := new(gets), w.js.Conn()
	w.made(nc.Subscribe("SLOW.>", func(m *nats.Msg) {
		get := strings.Contains(m.Subject, ".GET.")
		if get {
			n.all.Add(1)
			n.most.Store(max(n.most.Load(), n.now.Add(1)))
		}
		time.AfterFunc(10*time.Millisecond, func() {
			if get {
				n.now.Add(-1)
			}
			expect.OK(w, nc.PublishRequest("$JS.API"+strings.TrimPrefix(m.Subject, "SLOW"), m.Reply, m.Data))
		})
	}))
	expect.OK(w, nc.Flush())
	return n
}

// history of many elections has few requests under way at once, and asks about no more at once than a server answers.
func TestHistory_FewReadsAtOnce(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		const elections = atOnce + 10
		w.run("bucket add --history 30d")
		time.Sleep(time.Second) // the history begins
		for i := range 1024 {
			put(w.T, w.js, fmt.Sprint("idle", i), "hello")
		}
		time.Sleep(time.Minute)
		for token := range 2 {
			for i := range elections {
				since := time.Now().UTC().Format(time.RFC3339Nano)
				put(w.T, w.js, fmt.Sprint("e", i), fmt.Sprintf(`{"v":1,"state":"leading","id":"a","session":"s","n":1,"lease":"1h0m0s","token":%d,"since":%q}`, token+7, since))
			}
			time.Sleep(time.Second)
		}
		n := w.slowAPI()
		out, _, code := w.run("history --since 30s --js-api-prefix SLOW --json")
		var got struct{ Changes []changed }
		expect.OK(w, json.Unmarshal([]byte(out), &got))
		shown := 0
		for _, c := range got.Changes {
			shown += len(c.Elections)
		}
		expect.That(w, code == 0 && shown == 2*elections && n.most.Load() == atOnce, "exit code %d, %d changes, %d requests at once", code, shown, n.most.Load())
	})
}

// shards reads the records of past members, few at once. It reads none of them if they are too many.
func TestShards_FewReadsAtOnce(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.joins("a", shard.Config{})
		n := w.slowAPI()
		key := 0
		for _, past := range []int{40, mostPast, mostPast + 1} {
			for ; key < past; key++ {
				put(w.T, w.js, group.MemberKey("orders", fmt.Sprint(key)), "left")
			}
			n.all.Store(0)
			out, _, _ := w.run("status orders --js-api-prefix SLOW --json --timeout 1m")
			var got sharingSummary
			expect.OK(w, json.Unmarshal([]byte(out), &got))
			shown, most := past, past+10
			if past > mostPast {
				shown, most = 0, 10
			}
			expect.That(w, len(got.Past) == shown && int(n.all.Load()) <= most && n.most.Load() <= 16,
				"of %d: %d shown, %d requests, %d at once", past, len(got.Past), n.all.Load(), n.most.Load())
		}
	})
}

// doctor tries to write a few elections of many.
func TestDoctor_TriesFewElections(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		for i := range mostTried + 5 {
			put(w.T, w.js, fmt.Sprint("e", i), "hello")
		}
		out, _, _ := w.run("doctor")
		printed(w.T, out, fmt.Sprintf("may write all elections that were tried, which are %d\n", mostTried))
	})
}
