package main

import (
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// status shows the elections that a pattern matches, those in some states, in an order, of one bucket or of all. A bucket
// that may not be read does not hide the others.
func TestStatus_Lists(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		w.Prompt("status tenant-*")
		w.Campaigns("tenant-1.mail", leader.Config{ID: "b", Queue: &leader.Queue{AtOnce: true}})
		w.Campaigns("tenant-1.mail", leader.Config{ID: "c", Queue: &leader.Queue{AtOnce: true}})
		testworld.Put(w.T, w.Js, "tenant-2/mail", testworld.Record(w.T, w.Js, "tenant-1.mail", "dead", time.Minute))
		time.Sleep(time.Second)
		testworld.Put(w.T, w.Js, "tenant-3", testworld.Record(w.T, w.Js, "tenant-1.mail", "a", time.Hour))
		testworld.Put(w.T, w.Js, "other-tenant-3", "hello")
		testworld.Works(w, w.Bucket, "tenant-group", shard.Config{ID: "m", Shards: 4})
		time.Sleep(2 * time.Minute)
		w.Prompt("status tenant-*", "status *-3", "status tenant-*mail --roster", "status no*")
		w.Prompt("status --state expired --state foreign", "status --state pending", "status tenant-* --state leading --sort for --json")
		for _, order := range []string{"for", "leader", "state"} {
			w.Prompt("status --sort " + order)
		}
		w.Prompt("status a* --all-buckets", "status tenant-3 --sort for", "status tenant-3 --state leading", "status .*", "status --sort age")
		second := expect.Got(leader.CreateOrUpdateBucket(w.Context(), w.Js, leader.BucketConfig{Name: "second"}))(w)
		expect.Got(leader.CreateOrUpdateBucket(w.Context(), w.Js, leader.BucketConfig{Name: "broken"}))(w)
		w.CampaignsOn(second, "tenant-3", leader.Config{ID: "z"})
		time.Sleep(time.Second)
		w.Prompt("status tenant-* -A --sort leader", "status tenant-3 -A", "status *-3 -A --roster", "status tenant-3* -A --json")
		w.Prompt("status *-3 -A "+as("limited"), "status -A "+as("blind"))
	}, testworld.WithUser("limited", testworld.Denied("$JS.API.STREAM.INFO.KV_broken")), testworld.WithUser("blind", testworld.Denied("$JS.API.STREAM.LIST")))
}
