package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// A bucket is made with settings and keeps those that are not given. Its roster follows it.
func TestBucket_AddAndInfo(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Prompt("bucket info fast", "bucket info", "bucket add fast --max-lease 5s --storage memory --description tests",
			"bucket add fast", "bucket add short --ttl 1m", "bucket add queued --roster")
		w.Notef("# the operator places queued\n")
		conf := w.Config("KV_queued")
		conf.Placement = &jetstream.Placement{Tags: []string{"fast"}}
		w.Made(w.Js.UpdateStream(w.Context(), conf))
		w.Prompt("bucket add queued --max-lease 5s --json")
		got := w.Config("KV_queued_roster").Placement
		expect.That(w, reflect.DeepEqual(got, conf.Placement),
			"the roster does not follow its bucket: placement %+v", got)
		w.Prompt("bucket info fast --json", "bucket info --bucket short --json")
		w.Notef("# NATSLEADER_BUCKET=short\n")
		w.Setenv("NATSLEADER_BUCKET", "short")
		w.Prompt("bucket info")
	})
}

// Where JetStream has no cluster although the server has one, as behind a leaf node, a new bucket gets one replica.
func TestBucketAdd_NoPeers(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		out, errs, code := w.Run("bucket add narrow --roster")
		expect.That(w, code == 0 && errs == "" && strings.Contains(out, "Replicas:       1\n"), "exit code %d\n%s%s", code, out, errs)
		w.Fails("bucket add wide --replicas 3", front.ExitUsage, "replicas > 1 not supported in non-clustered mode")
		nc := w.Connect()
		defer nc.Close()
		w.Made(nc.Subscribe(wire.VersionSubject, func(m *nats.Msg) {
			for _, is := range []string{`"n2", "cluster": "C", "jetstream": true`, `"n3", "cluster": "C"`, `"n4", "cluster": "D", "jetstream": true`} {
				_ = m.Respond([]byte(`{"server": {"name": ` + is + "}}"))
			}
		}))
		synctest.Wait() // for the subscription
		for user, servers := range map[string]string{"": "has 2 servers", as("limited"): "may have several servers"} {
			_, errs, code = w.Run("bucket add narrow " + user)
			expect.That(w, code == 0 && strings.Contains(errs, "cluster C "+servers+", and the bucket is on one of them"), "exit code %d\n%s", code, errs)
		}
	}, testworld.WithUser("limited", testworld.Denied(wire.VersionSubject)), func(o *server.Options) { o.Cluster.Name, o.NoSystemAccount = "C", true })
}

// A history for which there is no room is refused, and the flag for a smaller one is named. The bucket is there.
func TestBucketAdd_NoRoomForHistory(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Fails("bucket add --history 1d", front.ExitFailed, "has no room for a history of 1GiB: take less with --history-size")
		out, errs, code := w.Run("bucket add --history 1d --history-size 10MB")
		expect.That(w, code == 0 && errs == "" && strings.Contains(out, "1 day, and "), "exit code %d\n%s%s", code, out, errs)
	}, func(o *server.Options) {
		expect.OK(t, o.ProcessConfigString("no_auth_user: a, accounts { A { jetstream { max_store: 100MB }, users: [ { user: a } ] } }"))
	})
}

// bucket info reports what is unfit, and bucket add refuses it.
func TestBucketInfo_ReportsUnfit(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		plain := &jetstream.StreamSource{Name: "KV_plain"}
		w.Made(w.Js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "plain"}))
		w.Made(w.Js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "mirror", Mirror: plain}))
		w.Made(w.Js.CreateStream(w.Context(), jetstream.StreamConfig{
			Name: "KV_evil", Subjects: []string{"$KV.evil.>"}, MaxMsgsPerSubject: 1, AllowDirect: true, DenyDelete: true,
			Discard: jetstream.DiscardNew, Description: "\x1b]0;title\a",
			RePublish: &jetstream.RePublish{Source: "$KV.evil.>", Destination: "\x1b]0;title\a.$KV.evil.>"},
		}))
		w.Prompt("bucket info plain", "bucket info mirror", "bucket info evil", "bucket add mirror",
			"bucket add x --replicas 2", "bucket add x --max-lease 9000h", "bucket add x.y", "bucket add x --storage paper",
			"bucket")
		w.NoteStreams()
	})
}

// With --adopt, bucket add takes a bucket although it holds something else. An error of package leader
// names the flags.
func TestBucketAdd_Adopt(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		kv := expect.Got(w.Js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "old", History: 5}))(w)
		for i := range 5 {
			w.Made(kv.PutString(w.Context(), "config", fmt.Sprint(i)))
		}
		revisions := func() {
			w.Notef("# config has %s\n", front.Plural(len(expect.Got(kv.History(w.Context(), "config"))(w)), "revision"))
		}
		w.Prompt("bucket add old")
		revisions()
		w.Prompt("bucket add old --adopt")
		revisions()
		w.Notef("# a key that is no election\n")
		odd := expect.Got(w.Js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "odd"}))(w)
		w.Made(odd.PutString(w.Context(), "key", "\x1b]0;title\a"))
		w.Prompt("bucket add odd")
		w.Notef("# a longer lease that may be running\n")
		w.Campaigns("billing", leader.Config{ID: "a"})
		time.Sleep(time.Second) // between two renewals
		w.Prompt("bucket add --max-lease 5s")
	})
}

// bucket add keeps the history without flags for it, and changes it with them.
func TestBucketAdd_History(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Prompt("bucket add --history 30s", "bucket add --history 0s", "bucket add --history-size 1GB",
			"bucket add --history 1d --history-size 1KB", "bucket add --history 30d", "bucket add --max-lease 20s",
			"bucket add --history 36h", "bucket add --history 1d --history-size 10MB", "bucket add --json")
		w.Notef("# an earlier version has made the history compressed\n")
		compressed := w.Config(facts.HistoryStream("elections"))
		compressed.Compression = jetstream.S2Compression
		w.Made(w.Js.UpdateStream(w.Context(), compressed))
		w.Run("bucket add")
		w.Notef("# now its compression is %v\n", w.Config(facts.HistoryStream("elections")).Compression)
		w.Notef("# the stream of the history is deleted\n")
		expect.OK(w, w.Js.DeleteStream(w.Context(), facts.HistoryStream("elections")))
		w.Prompt("bucket info", "bucket add")
		w.NoteStreams()
	})
}

// A bucket whose roster is refused, or a roster whose bucket is refused, leaves nothing half
// done.
func TestBucketAdd_FailedRoster(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		add := func() {
			w.Prompt("bucket add --roster")
			w.NoteStreams()
		}
		remove := func(stream string) { w.Made(nil, w.Js.DeleteStream(w.Context(), stream)) }
		remove("KV_elections")
		create := func(stream string) {
			w.Made(w.Js.CreateStream(w.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{stream}}))
		}
		create("KV_elections_roster")
		add()
		remove("KV_elections_roster")
		w.Notef("# there is room for one stream: the bucket, with the roster, is one too many\n")
		create("other")
		add()
		w.Notef("# there is no room\n")
		create("another")
		add()
		remove("another")
		w.Notef("# a bucket that exists does not refer to a roster that could not be created\n")
		w.Prompt("bucket add")
		add()
		w.Notef("# its roster is %q\n", w.Config("KV_elections").Metadata["natsleader.roster"])
		remove("other")
		add()
		remove("KV_elections")
		remove("KV_elections_roster")
		synctest.Wait()
		w.Made(w.Js.CreateStream(w.Context(), jetstream.StreamConfig{Name: "last", Storage: jetstream.MemoryStorage}))
		remove("last")
		synctest.Wait()
		expect.OK(w, expect.Err(os.Stat(filepath.Join(w.O.StoreDir, "jetstream", "A", "streams")))) // no stream is made while it is removed
	}, func(o *server.Options) {
		expect.OK(t, o.ProcessConfigString("no_auth_user: a, accounts { A { jetstream { max_streams: 2 }, users: [ { user: a } ] } }"))
	})
}

// bucket ls lists the buckets for elections, and with --all every bucket.
func TestBucketList(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Prompt("bucket rm elections --yes", "bucket ls", "bucket ls --json")
		w.Made(w.Js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "plain", Description: "\x1b]0;title\a"}))
		w.Made(w.Js.CreateStream(w.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders"}}))
		w.Prompt("bucket add --roster --history 30d --description shop", "bucket add short --ttl 1m --storage memory")
		w.Campaigns("billing", leader.Config{ID: "a"})
		w.Prompt("bucket ls", "bucket ls --json", "bucket ls --all")
	})
}

// bucket rm deletes a bucket with its roster, and with its history if that is asked for, but no bucket that is in use.
func TestBucketRemove(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		w.Prompt("bucket add --history 30d")
		c := w.Campaigns("billing", leader.Config{ID: "a"})
		w.Prompt("bucket rm elections", "bucket rm --yes", "bucket rm elections --yes")
		crashed := testworld.Record(w.T, w.Js, "billing", "x", time.Nanosecond)
		expect.OK(w, c.Stop())
		testworld.Put(w.T, w.Js, "crashed", crashed)
		testworld.Put(w.T, w.Js, "foreign", "not ours")
		time.Sleep(time.Second) // by the server's clock the lease of x is over
		w.Prompt("bucket rm elections --yes")
		testworld.Put(w.T, w.Js, "other", "not ours")
		w.Prompt("bucket rm elections --yes")
		w.Answers("bucket rm elections --force", "", nil)
		w.NoteStreams()
		w.Prompt("bucket rm elections --yes --force --history --json")
		w.NoteStreams()
		w.Prompt("bucket rm elections --yes")
	})
}

// bucket rm leaves alone what natsleader has not made, and deletes what is left of a bucket.
func TestBucketRemove_OnlyOwn(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		for _, name := range []string{"plain", "mine_roster"} {
			w.Made(w.Js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: name}))
		}
		w.Made(w.Js.CreateStream(w.Context(), jetstream.StreamConfig{Name: facts.HistoryStream("mine")}))
		w.Prompt("bucket rm plain --yes", "bucket add mine", "bucket add mine --history 1d", "bucket rm mine --yes")
		w.NoteStreams()
		w.Prompt("bucket add left --roster --history 1d", "bucket rm left_roster --yes")
		w.Notef("# the stream of left is deleted\n")
		expect.OK(w, w.Js.DeleteStream(w.Context(), "KV_left"))
		w.Prompt("bucket rm left --yes")
		w.NoteStreams()
		w.Prompt("bucket rm left --yes --history", "bucket rm plain --yes --force")
		w.NoteStreams()
		w.Answers("bucket rm elections", "yes", nil)
		w.NoteStreams()
	})
}
