package natskv

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/wire"
)

// A bucket is purge-protected by default.
func TestCreateBucket_Defaults(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		js := dialJS(t, t.s)
		b := mustCreate(t, js, Config{Storage: jetstream.MemoryStorage, Description: "elections"})
		info := check.Got(b.Info(t.Context()))(t)
		largest := int(js.Conn().MaxPayload()) - wire.Headroom
		want := Info{
			Name: "E", Description: "elections", Replicas: 1, Storage: jetstream.MemoryStorage, PurgeProtected: true,
			MaxLease: 15 * time.Second, MaxValue: largest, FeedSubject: "natsleader.feed.E",
		}
		check.Must(t, info == want, "Info is %+v, want %+v", info, want)
		got, err := settingsOf(t.Context(), b)
		if err != nil || got != (backend.Settings{PurgeProtected: true, MaxLease: 15 * time.Second, MaxValue: largest, Limit: "the server's max_payload 1048576", LastRevision: jsapi.FirstRevision() - 1, Now: time.Now().UnixNano()}) {
			t.Fatalf("Settings is %+v, %v", got, err)
		}
		if _, err := update(t.Context(), b, "a", strings.Repeat("x", largest), 0); err != nil {
			t.Fatalf("a record of MaxValue: %v", err)
		}
	})
}

// The error of CreateOrUpdateBucket names each setting that cannot work.
func TestBucketConfig_InvalidSettings(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		js := dialJS(t, t.s)
		for text, cfg := range map[string]Config{
			`bucket "" must be letters`:              {},
			`bucket "a.b" must be letters`:           {Name: "a.b"},
			`bucket "a b" must be letters`:           {Name: "a b"},
			`Replicas 2 is not 1, 3 or 5`:            {Name: "E", Replicas: 2},
			`Storage 7 is neither`:                   {Name: "E", Storage: 7},
			`TTL -1s is negative`:                    {Name: "E", TTL: -time.Second},
			`TTL 99ms is less than 100ms`:            {Name: "E", TTL: 99 * time.Millisecond},
			`TTL 9000h0m0s is more than`:             {Name: "E", TTL: 9000 * time.Hour},
			`MaxLease -1s is negative`:               {Name: "E", MaxLease: -time.Second},
			`MaxLease 10s is not less than TTL 10s`:  {Name: "E", MaxLease: 10 * time.Second, TTL: 10 * time.Second},
			`MaxLease 9000h0m0s is more than`:        {Name: "E", MaxLease: 9000 * time.Hour},
			`Replicas is more than the server can`:   {Name: "E", Replicas: 3},
			`of 253 bytes is more than 252`:          {Name: strings.Repeat("x", 253)},
			`MaxLease 2s is not less than TTL 100ms`: {Name: "E", MaxLease: 2 * time.Second, TTL: 100 * time.Millisecond},
		} {
			wantErr(t, check.Err(Create(t.Context(), js, cfg)), backend.ErrInvalidConfig, text)
		}
		wantErr(t, check.Err(Open(nil, "E")), backend.ErrInvalidConfig, "js is nil")
		wantErr(t, check.Err(new(Bucket).WithFeed("feed")), backend.ErrInvalidConfig, "js is nil")
		open := mustOpen(t, js)
		for _, prefix := range []string{"", "a.", ".a", "a..b", "a.*", "a.>", "a b"} {
			wantErr(t, check.Err(open.WithFeed(prefix)), backend.ErrInvalidConfig, "the prefix of the feed")
		}
	})
}

// By default, MaxLease is two thirds of a short TTL.
func TestMaxLease_DefaultOfShortTTL(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		js := dialJS(t, t.s)
		for ttl, want := range map[time.Duration]time.Duration{9 * time.Second: 6 * time.Second, time.Hour: 15 * time.Second} {
			b := mustCreate(t, js, Config{Name: "T" + ttl.String(), TTL: ttl})
			got, err := settingsOf(t.Context(), b)
			check.Must(t, err == nil && !got.PurgeProtected && got.TTL == ttl && got.MaxLease == want,
				"TTL %v: %+v, %v", ttl, got, err)
		}
	})
}

// An existing bucket keeps its metadata, and the settings that the configuration leaves
// out.
func TestCreateBucket_KeepsSettings(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		js := dialJS(t, t.s)
		_, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{
			Bucket: "E", History: 5, Description: "old", MaxBytes: 1 << 20, MaxValueSize: 1000,
			Metadata: map[string]string{"team": "infra"},
		})
		t.ok(err)
		mustCreate(t, js, Config{MaxLease: time.Minute})
		b := mustCreate(t, js, Config{}) // keeps the minute
		info, err := b.Info(t.Context())
		if err != nil || !info.PurgeProtected || info.MaxLease != time.Minute || info.Description != "old" ||
			info.FeedSubject != "natsleader.feed.E" || info.MaxValue != 1000-wire.Headroom {
			t.Fatalf("Info is %+v, %v", info, err)
		}
		c := b.api.Known.Load()
		check.Must(t, c.Metadata["team"] == "infra" && c.MaxBytes == 1<<20 && c.MaxMsgsPerSubject == 1,
			"the stream is %+v", c)
	})
}

// A bucket that has the requested settings is not written again. Its markers live for the TTL,
// rounded up to seconds.
func TestCreateBucket_IsIdempotent(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		js := dialJS(t, t.s)
		for _, cfg := range []Config{{Name: "A"}, {Name: "B", TTL: 1500 * time.Millisecond, MaxLease: time.Second}, {Name: "C", TTL: 100 * time.Millisecond}, {Name: "D", TTL: 2 * time.Second}} {
			b := mustCreate(t, js, cfg)
			info := check.Got(b.api.Info(t.Context()))(t)
			live := info.Config.SubjectDeleteMarkerTTL
			check.That(t, live >= cfg.TTL && live < cfg.TTL+time.Second, "with TTL %v markers live for %v", cfg.TTL, live)
			if conf, changed, err := cfg.reshape(info.Config); changed || err != nil {
				t.Fatalf("%s would be changed from %+v to %+v, %v", cfg.Name, info.Config, conf, err)
			}
		}
	})
}

// A stream that cannot be given the settings is refused with ErrIncompatibleBucket.
func TestCreateBucket_Incompatible(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		js := dialJS(t, t.s)
		ctx := t.Context()
		stream := func(c jetstream.StreamConfig) {
			_, err := js.CreateStream(ctx, c)
			check.Must(t, err == nil, "%s: %v", c.Name, err)
		}
		own := func(name string) jetstream.StreamConfig {
			return jetstream.StreamConfig{Name: "KV_" + name, Subjects: []string{"$KV." + name + ".>"}}
		}
		change := func(c jetstream.StreamConfig, f func(*jetstream.StreamConfig)) jetstream.StreamConfig {
			f(&c)
			return c
		}
		stream(own("origin"))
		stream(jetstream.StreamConfig{Name: "KV_mirror", Mirror: &jetstream.StreamSource{Name: "KV_origin"}})
		stream(jetstream.StreamConfig{Name: "KV_other", Subjects: []string{"orders.>"}})
		stream(change(own("noack"), func(c *jetstream.StreamConfig) { c.NoAck = true }))
		stream(change(own("queue"), func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }))
		stream(change(own("msgttl"), func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true }))
		stream(change(own("sources"), func(c *jetstream.StreamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "KV_origin"}} }))
		stream(change(own("async"), func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode }))
		stream(change(own("republish"), func(c *jetstream.StreamConfig) {
			c.RePublish = &jetstream.RePublish{Source: "$KV.republish.>", Destination: "x.>", HeadersOnly: true}
		}))
		mustCreate(t, js, Config{Name: "sealed"})
		stream(jetstream.StreamConfig{Name: "taken", Subjects: []string{"$KV.overlap.a"}})

		for name, text := range map[string]string{
			"mirror": "is a mirror", "other": "stores no $KV.other.>", "noack": "acknowledges nothing", "queue": "drops what consumers have read",
			"msgttl": "cannot be purge-protected", "sources": "takes what comes from stream KV_origin", "async": "PersistMode async", "republish": "republishes", "overlap": "overlap",
		} {
			wantErr(t, check.Err(Create(ctx, js, Config{Name: name})), backend.ErrIncompatibleBucket, text, name)
		}
		_, err := Create(ctx, js, Config{Name: "sealed", TTL: time.Minute})
		wantErr(t, err, backend.ErrIncompatibleBucket, "denies purges")
		_, err = Create(ctx, js, Config{Name: "sealed", Storage: jetstream.MemoryStorage})
		wantErr(t, err, backend.ErrIncompatibleBucket, "cannot be changed")

		for _, name := range []string{"mirror", "other", "noack", "queue", "sources", "async"} {
			b := mustOpenAs(t, js, name)
			wantErr(t, check.Err(settingsOf(ctx, b)), backend.ErrIncompatibleBucket)
			info, err := b.Info(ctx)
			wantErr(t, err, backend.ErrIncompatibleBucket)
			check.Must(t, info.Name == name && info.Replicas == 1 && !info.PurgeProtected, "Info of an unfit bucket is %+v", info)
		}
	})
}

// A bucket whose MaxLease cannot be read is refused with ErrIncompatibleBucket.
func TestMaxLease_Unreadable(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		js := dialJS(t, t.s)
		_, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "E", Metadata: map[string]string{wire.MaxLeaseKey: "long"}})
		t.ok(err)
		_, err = settingsOf(t.Context(), mustOpen(t, js))
		wantErr(t, err, backend.ErrIncompatibleBucket, `"long" is not a duration`)
	})
}

// The largest record leaves room for the header of a write. The limit is named as it is set.
func TestSettings_LargestRecord(t *testing.T) {
	for _, k := range []struct {
		size    int32
		payload int64
		room    int
		limit   string
	}{
		{50, 1 << 20, 1, "the bucket's MaxMsgSize 50"},
		{-1, 200, 200 - wire.Headroom, "the server's max_payload 200"},
		{200, 150, 150 - wire.Headroom, "the server's max_payload 150"},
		{1 << 20, 0, 1<<20 - wire.Headroom, "the bucket's MaxMsgSize 1048576"},
		{-1, 0, 0, ""},
	} {
		c := Config{Name: "E"}.newStream()
		c.MaxMsgSize = k.size
		s, err := settings(c, "E", k.payload)
		check.That(t, err == nil && s.MaxValue == k.room && s.Limit == k.limit,
			"MaxMsgSize %d, payload %d: %+v, %v", k.size, k.payload, s, err)
	}
}
