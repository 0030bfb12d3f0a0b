package main

import (
	"testing"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// status shows the elections that a pattern matches, those in some states, in an order, of one bucket or of all. A bucket
// that may not be read does not hide the others.
func TestStatus_Lists(t *testing.T) {
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		w.prompt("status tenant-*")
		w.campaigns("tenant-1.mail", leader.Config{ID: "b", Queue: &leader.Queue{AtOnce: true}})
		w.campaigns("tenant-1.mail", leader.Config{ID: "c", Queue: &leader.Queue{AtOnce: true}})
		put(w.T, w.js, "tenant-2/mail", record(w.T, w.js, "tenant-1.mail", "dead", time.Minute))
		time.Sleep(time.Second)
		put(w.T, w.js, "tenant-3", record(w.T, w.js, "tenant-1.mail", "a", time.Hour))
		put(w.T, w.js, "other-tenant-3", "hello")
		works(w, w.bucket, "tenant-group", shard.Config{ID: "m", Shards: 4})
		time.Sleep(2 * time.Minute)
		w.prompt("status tenant-*", "status *-3", "status tenant-*mail --roster", "status no*")
		w.prompt("status --state expired --state foreign", "status --state pending", "status tenant-* --state leading --sort for --json")
		for _, order := range []string{"for", "leader", "state"} {
			w.prompt("status --sort " + order)
		}
		w.prompt("status a* --all-buckets", "status tenant-3 --sort for", "status tenant-3 --state leading", "status .*", "status --sort age")
		second := expect.Got(leader.CreateOrUpdateBucket(w.Context(), w.js, leader.BucketConfig{Name: "second"}))(w)
		expect.Got(leader.CreateOrUpdateBucket(w.Context(), w.js, leader.BucketConfig{Name: "broken"}))(w)
		w.campaignsOn(second, "tenant-3", leader.Config{ID: "z"})
		time.Sleep(time.Second)
		w.prompt("status tenant-* -A --sort leader", "status tenant-3 -A", "status *-3 -A --roster", "status tenant-3* -A --json")
		w.prompt("status *-3 -A "+as("limited"), "status -A "+as("blind"))
	}, withUser("limited", denied("$JS.API.STREAM.INFO.KV_broken")), withUser("blind", denied("$JS.API.STREAM.LIST")))
}
