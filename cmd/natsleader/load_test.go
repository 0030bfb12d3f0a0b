package main

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/doctor"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/history"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/view"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// history of many elections has few requests under way at once, and asks about no more at once than a server answers.
func TestHistory_FewReadsAtOnce(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		const elections = history.AtOnce + 10
		w.Run("bucket add --history 30d")
		time.Sleep(time.Second) // the history begins
		for i := range 1024 {
			testworld.Put(w.T, w.Js, fmt.Sprint("idle", i), "hello")
		}
		time.Sleep(time.Minute)
		for token := range 2 {
			for i := range elections {
				since := time.Now().UTC().Format(time.RFC3339Nano)
				testworld.Put(w.T, w.Js, fmt.Sprint("e", i), fmt.Sprintf(`{"v":1,"state":"leading","id":"a","session":"s","n":1,"lease":"1h0m0s","token":%d,"since":%q}`, token+7, since))
			}
			time.Sleep(time.Second)
		}
		n := w.SlowAPI()
		out, _, code := w.Run("history --since 30s --js-api-prefix SLOW --json")
		var got struct{ Changes []history.Changed }
		expect.OK(w, json.Unmarshal([]byte(out), &got))
		shown := 0
		for _, c := range got.Changes {
			if c.To != "" {
				shown += len(c.Elections)
			}
		}
		expect.That(w, code == 0 && shown == 2*elections && n.Most.Load() == history.AtOnce, "exit code %d, %d changes, %d requests at once", code, shown, n.Most.Load())
	})
}

// shards reads the records of past members, few at once. It reads none of them if they are too many.
func TestShards_FewReadsAtOnce(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Joins("a", shard.Config{})
		n := w.SlowAPI()
		key := 0
		for _, past := range []int{40, view.MostPast, view.MostPast + 1} {
			for ; key < past; key++ {
				testworld.Put(w.T, w.Js, group.MemberKey("orders", fmt.Sprint(key)), "left")
			}
			n.All.Store(0)
			out, _, _ := w.Run("status orders --js-api-prefix SLOW --json --timeout 1m")
			var got view.SharingSummary
			expect.OK(w, json.Unmarshal([]byte(out), &got))
			shown, most := past, past+10
			if past > view.MostPast {
				shown, most = 0, 10
			}
			expect.That(w, len(got.Past) == shown && int(n.All.Load()) <= most && n.Most.Load() <= 16,
				"of %d: %d shown, %d requests, %d at once", past, len(got.Past), n.All.Load(), n.Most.Load())
		}
	})
}

// doctor tries to write a few elections of many.
func TestDoctor_TriesFewElections(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		for i := range doctor.MostTried + 5 {
			testworld.Put(w.T, w.Js, fmt.Sprint("e", i), "hello")
		}
		out, _, _ := w.Run("doctor")
		printed(w.T, out, fmt.Sprintf("may write all elections that were tried, which are %d\n", doctor.MostTried))
	})
}
