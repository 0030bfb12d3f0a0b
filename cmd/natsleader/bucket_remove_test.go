package main

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// bucket ls lists the buckets for elections, and with --all every bucket.
func TestBucketList(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.prompt("bucket rm elections --yes", "bucket ls", "bucket ls --json")
		w.made(w.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "plain", Description: "\x1b]0;title\a"}))
		w.made(w.js.CreateStream(w.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders"}}))
		w.prompt("bucket add --roster --history 30d --description shop", "bucket add short --ttl 1m --storage memory")
		w.campaigns("billing", leader.Config{ID: "a"})
		w.prompt("bucket ls", "bucket ls --json", "bucket ls --all")
	})
}

// bucket rm deletes a bucket with its roster, and with its history if that is asked for, but no bucket that is in use.
func TestBucketRemove(t *testing.T) {
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		w.prompt("bucket add --history 30d")
		c := w.campaigns("billing", leader.Config{ID: "a"})
		w.prompt("bucket rm elections", "bucket rm --yes", "bucket rm elections --yes")
		crashed := record(w.T, w.js, "billing", "x", time.Nanosecond)
		expect.OK(w, c.Stop(w.Context()))
		put(w.T, w.js, "crashed", crashed)
		put(w.T, w.js, "foreign", "not ours")
		time.Sleep(time.Second) // by the server's clock the lease of x is over
		w.prompt("bucket rm elections --yes")
		put(w.T, w.js, "other", "not ours")
		w.prompt("bucket rm elections --yes")
		w.answers("bucket rm elections --force", "", nil)
		w.noteStreams()
		w.prompt("bucket rm elections --yes --force --history --json")
		w.noteStreams()
		w.prompt("bucket rm elections --yes")
	})
}

// bucket rm leaves alone what natsleader has not made, and deletes what is left of a bucket.
func TestBucketRemove_OnlyOwn(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		for _, name := range []string{"plain", "mine_roster"} {
			w.made(w.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: name}))
		}
		w.made(w.js.CreateStream(w.Context(), jetstream.StreamConfig{Name: historyStream("mine")}))
		w.prompt("bucket rm plain --yes", "bucket add mine", "bucket add mine --history 1d", "bucket rm mine --yes")
		w.noteStreams()
		w.prompt("bucket add left --roster --history 1d", "bucket rm left_roster --yes")
		w.notef("# the stream of left is deleted\n")
		expect.OK(w, w.js.DeleteStream(w.Context(), "KV_left"))
		w.prompt("bucket rm left --yes")
		w.noteStreams()
		w.prompt("bucket rm left --yes --history", "bucket rm plain --yes --force")
		w.noteStreams()
		w.answers("bucket rm elections", "yes", nil)
		w.noteStreams()
	})
}

// The history of a bucket with a long name has a name of its own.
func TestHistoryStream_Names(t *testing.T) {
	a, b := historyStream(strings.Repeat("a", 252)), historyStream(strings.Repeat("a", 251)+"b")
	expect.That(t, a != b && len(a) <= 255 && len(b) <= 255 && historyStream("e") == "natsleader_history_e",
		"%q, %q", a, b)
}
