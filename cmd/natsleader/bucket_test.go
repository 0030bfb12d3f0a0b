package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// made ends a test if a part of it could not be made.
func (w *world) made(_ any, err error) {
	w.Helper()
	expect.OK(w, err)
}

// config returns the settings of a stream.
func (w *world) config(stream string) jetstream.StreamConfig {
	w.Helper()
	s := expect.Got(w.js.Stream(w.Context(), stream))(w)
	return s.CachedInfo().Config
}

// noteStreams adds the names of all streams to the transcript.
func (w *world) noteStreams() {
	w.Helper()
	var names []string
	all := w.js.StreamNames(w.Context())
	for name := range all.Name() {
		names = append(names, name)
	}
	expect.OK(w, all.Err())
	slices.Sort(names)
	w.notef("# streams: %s\n", strings.Join(names, ", "))
}

// A bucket is made with settings and keeps those that are not given. Its roster follows it.
func TestBucket_AddAndInfo(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.prompt("bucket info fast", "bucket info", "bucket add fast --max-lease 5s --storage memory --description tests",
			"bucket add fast", "bucket add short --ttl 1m", "bucket add queued --roster")
		w.notef("# the operator places queued\n")
		conf := w.config("KV_queued")
		conf.Placement = &jetstream.Placement{Tags: []string{"fast"}}
		w.made(w.js.UpdateStream(w.Context(), conf))
		w.prompt("bucket add queued --max-lease 5s --json")
		got := w.config("KV_queued_roster").Placement
		expect.That(w, reflect.DeepEqual(got, conf.Placement),
			"the roster does not follow its bucket: placement %+v", got)
		w.prompt("bucket info fast --json", "bucket info --bucket short --json")
		w.notef("# NATSLEADER_BUCKET=short\n")
		w.Setenv("NATSLEADER_BUCKET", "short")
		w.prompt("bucket info")
	})
}

// bucket info reports what is unfit, and bucket add refuses it.
func TestBucketInfo_ReportsUnfit(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		plain := &jetstream.StreamSource{Name: "KV_plain"}
		w.made(w.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "plain"}))
		w.made(w.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "mirror", Mirror: plain}))
		w.made(w.js.CreateStream(w.Context(), jetstream.StreamConfig{
			Name: "KV_evil", Subjects: []string{"$KV.evil.>"}, MaxMsgsPerSubject: 1, AllowDirect: true, DenyDelete: true,
			Discard: jetstream.DiscardNew, Description: "\x1b]0;title\a",
			RePublish: &jetstream.RePublish{Source: "$KV.evil.>", Destination: "\x1b]0;title\a.$KV.evil.>"},
		}))
		w.prompt("bucket info plain", "bucket info mirror", "bucket info evil", "bucket add mirror",
			"bucket add x --replicas 2", "bucket add x --max-lease 9000h", "bucket add x.y", "bucket add x --storage paper",
			"bucket")
		w.noteStreams()
	})
}

// With --adopt, bucket add takes a bucket although it holds something else. What package leader refuses is told
// in terms of the flags.
func TestBucketAdd_Adopt(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		kv := expect.Got(w.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "old", History: 5}))(w)
		for i := range 5 {
			w.made(kv.PutString(w.Context(), "config", fmt.Sprint(i)))
		}
		revisions := func() {
			w.notef("# config has %s\n", plural(len(expect.Got(kv.History(w.Context(), "config"))(w)), "revision"))
		}
		w.prompt("bucket add old")
		revisions()
		w.prompt("bucket add old --adopt")
		revisions()
		w.notef("# a key that is no election\n")
		odd := expect.Got(w.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "odd"}))(w)
		w.made(odd.PutString(w.Context(), "key", "\x1b]0;title\a"))
		w.prompt("bucket add odd")
		w.notef("# a longer lease that may be running\n")
		w.campaigns("billing", leader.Config{ID: "a"})
		w.prompt("bucket add --max-lease 5s")
	})
}

// bucket add keeps a history that it is not told about, and changes the one that it is.
func TestBucketAdd_History(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.prompt("bucket add --history 30s", "bucket add --history 0s", "bucket add --history-size 1GB",
			"bucket add --history 1d --history-size 1KB", "bucket add --history 30d", "bucket add --max-lease 20s",
			"bucket add --history 36h", "bucket add --history 1d --history-size 10MB", "bucket add --json")
		w.notef("# the stream of the history is deleted\n")
		expect.OK(w, w.js.DeleteStream(w.Context(), historyStream("elections")))
		w.prompt("bucket info", "bucket add")
		w.noteStreams()
	})
}

// A bucket whose roster is refused, or a roster whose bucket is refused, leaves nothing half
// done.
func TestBucketAdd_FailedRoster(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		add := func() {
			w.prompt("bucket add --roster")
			w.noteStreams()
		}
		remove := func(stream string) { w.made(nil, w.js.DeleteStream(w.Context(), stream)) }
		remove("KV_elections")
		create := func(stream string) {
			w.made(w.js.CreateStream(w.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{stream}}))
		}
		create("KV_elections_roster")
		add()
		remove("KV_elections_roster")
		w.notef("# there is room for one stream: the bucket, with the roster, is one too many\n")
		create("other")
		add()
		w.notef("# there is no room\n")
		create("another")
		add()
		remove("another")
		w.notef("# a bucket that exists does not refer to a roster that could not be created\n")
		w.prompt("bucket add")
		add()
		w.notef("# its roster is %q\n", w.config("KV_elections").Metadata["natsleader.roster"])
		remove("other")
		add()
	}, func(o *server.Options) {
		expect.OK(t, o.ProcessConfigString("no_auth_user: a, accounts { A { jetstream { max_streams: 2 }, users: [ { user: a } ] } }"))
	})
}
