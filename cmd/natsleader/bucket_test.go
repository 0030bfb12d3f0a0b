package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/wire"
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

// Where JetStream has no cluster although the server has one, as behind a leaf node, a new bucket gets one replica.
func TestBucketAdd_NoPeers(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		out, errs, code := w.run("bucket add narrow --roster")
		expect.That(w, code == 0 && errs == "" && strings.Contains(out, "Replicas:       1\n"), "exit code %d\n%s%s", code, out, errs)
		w.fails("bucket add wide --replicas 3", exitUsage, "replicas > 1 not supported in non-clustered mode")
		nc := w.dial()
		defer nc.Close()
		w.made(nc.Subscribe(wire.VersionSubject, func(m *nats.Msg) {
			for _, is := range []string{`"n2", "cluster": "C", "jetstream": true`, `"n3", "cluster": "C"`, `"n4", "cluster": "D", "jetstream": true`} {
				_ = m.Respond([]byte(`{"server": {"name": ` + is + "}}"))
			}
		}))
		synctest.Wait() // for the subscription
		for user, servers := range map[string]string{"": "has 2 servers", as("limited"): "may have several servers"} {
			_, errs, code = w.run("bucket add narrow " + user)
			expect.That(w, code == 0 && strings.Contains(errs, "cluster C "+servers+", and the bucket is on one of them"), "exit code %d\n%s", code, errs)
		}
	}, withUser("limited", denied(wire.VersionSubject)), func(o *server.Options) { o.Cluster.Name, o.NoSystemAccount = "C", true })
}

// A history for which there is no room is refused, and the flag for a smaller one is named. The bucket is there.
func TestBucketAdd_NoRoomForHistory(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.fails("bucket add --history 1d", exitFailed, "has no room for a history of 1GiB: take less with --history-size")
		out, errs, code := w.run("bucket add --history 1d --history-size 10MB")
		expect.That(w, code == 0 && errs == "" && strings.Contains(out, "1 day, and "), "exit code %d\n%s%s", code, out, errs)
	}, func(o *server.Options) {
		expect.OK(t, o.ProcessConfigString("no_auth_user: a, accounts { A { jetstream { max_store: 100MB }, users: [ { user: a } ] } }"))
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

// With --adopt, bucket add takes a bucket although it holds something else. An error of package leader
// names the flags.
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
		time.Sleep(time.Second) // between two renewals
		w.prompt("bucket add --max-lease 5s")
	})
}

// bucket add keeps the history without flags for it, and changes it with them.
func TestBucketAdd_History(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.prompt("bucket add --history 30s", "bucket add --history 0s", "bucket add --history-size 1GB",
			"bucket add --history 1d --history-size 1KB", "bucket add --history 30d", "bucket add --max-lease 20s",
			"bucket add --history 36h", "bucket add --history 1d --history-size 10MB", "bucket add --json")
		w.notef("# an earlier version has made the history compressed\n")
		compressed := w.config(historyStream("elections"))
		compressed.Compression = jetstream.S2Compression
		w.made(w.js.UpdateStream(w.Context(), compressed))
		w.run("bucket add")
		w.notef("# now its compression is %v\n", w.config(historyStream("elections")).Compression)
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
		expect.OK(w, c.Stop())
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

// The advice repeats the settings that the bucket had, and the bound is the longest lease that they allow.
func TestSeenBucket_Settings(t *testing.T) {
	for _, x := range []struct {
		conf  jetstream.StreamConfig
		flags string
		lease time.Duration
	}{
		{jetstream.StreamConfig{Replicas: 1}, "--replicas 1 --storage file", wire.DefaultLease},
		{jetstream.StreamConfig{Replicas: 5, Storage: jetstream.MemoryStorage, MaxAge: time.Hour}, "--replicas 5 --storage memory --ttl 1h0m0s", time.Hour},
		{
			jetstream.StreamConfig{Replicas: 3, MaxAge: time.Hour, Metadata: map[string]string{wire.MaxLeaseKey: "1m", wire.RosterKey: "x"}},
			"--replicas 3 --storage file --max-lease 1m0s --ttl 1h0m0s --roster", time.Minute,
		},
		{jetstream.StreamConfig{Replicas: 1, Metadata: map[string]string{wire.MaxLeaseKey: "`reboot`"}}, "--replicas 1 --storage file", wire.DefaultLease},
	} {
		b := seenBucket{name: "e", conf: x.conf}
		expect.Equal(t, b.addLine(), "natsleader bucket add e "+x.flags, "%s")
		expect.Equal(t, b.longestLease(), x.lease, "%v")
		now := time.Unix(1000, 0)
		expect.Is(t, b.gone(now, nil, 2*time.Hour), leader.ErrNoBucket)
		expect.Equal(t, b.until.Sub(now), 2*time.Hour+time.Second, "%v")
	}
}
