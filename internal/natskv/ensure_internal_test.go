package natskv

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/wire"
)

// A candidate that learns from a late answer that there is no bucket uses the one that another
// candidate of its Bucket has found meanwhile.
func TestEnsure_FoundMeanwhile(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		nc := dial(t, t.s)
		mustCreate(t, dialJS(t, t.s), Config{MaxLease: time.Minute})
		b, err := Ensure(dialJS(t, t.s), Config{Name: "E"})
		t.ok(err)
		api := b.api.Prefix
		b.api.Prefix = "late."
		if _, err = nc.Subscribe("late.>", func(m *nats.Msg) {
			resp := &nats.Msg{Data: []byte(`{"error":{"code":404,"err_code":10059,"description":"stream not found"}}`)}
			if b.api.Seen.Swap(true) {
				if resp, _ = nc.Request(api+strings.TrimPrefix(m.Subject, "late."), m.Data, time.Second); resp == nil {
					return
				}
			}
			_ = m.Respond(resp.Data)
		}); err != nil {
			t.Fatal(err)
		}
		t.ok(nc.Flush())
		s, err := await(func(r func(backend.Settings, error)) { b.SettingsEnsured(t.Context(), r) })
		check.That(t, err == nil && s.MaxLease == time.Minute, "the settings are %+v, %v", s, err)
	})
}

// If the roster cannot be created, the bucket is not created either. A later try creates both.
func TestEnsure_RosterFirst(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		js := dialJS(t, t.s)
		b, err := Ensure(dialJS(t, t.s), Config{Name: "E", Roster: true})
		t.ok(err)
		ask := func() error {
			return check.Err(await(func(r func(backend.Settings, error)) { b.SettingsEnsured(t.Context(), r) }))
		}
		check.OK(t, check.Err(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "X", Subjects: []string{"$KV." + wire.RosterName("E") + ".>"}})))
		check.Is(t, ask(), backend.ErrIncompatibleBucket)
		check.Is(t, check.Err(js.Stream(t.Context(), "KV_E")), jetstream.ErrStreamNotFound)
		t.ok(js.DeleteStream(t.Context(), "X"))
		t.ok(ask())
		for _, name := range []string{"KV_E", "KV_" + wire.RosterName("E")} {
			t.ok(check.Err(js.Stream(t.Context(), name)))
		}
	})
}

// The first setting that differs is named. A setting that is left to its default is not
// compared, except for TTL and Storage, whose zero values mean something.
func TestEnsure_NamesTheDifference(t *testing.T) {
	made := Config{Name: "E", MaxLease: time.Minute, Replicas: 3}.newStream()
	expires := Config{Name: "E", TTL: time.Minute}.newStream()
	ordinary := jetstream.StreamConfig{Name: "KV_E", Replicas: 1}
	placed := made
	placed.Placement = &jetstream.Placement{Cluster: "c", Tags: []string{"ssd"}}
	for _, k := range []struct {
		name  string
		cfg   Config
		there jetstream.StreamConfig
		want  string
	}{
		{"as it is", Config{MaxLease: time.Minute, Replicas: 3}, made, ""},
		{"defaults", Config{}, made, ""},
		{"MaxLease", Config{MaxLease: time.Second}, made, "MaxLease 1m0s, not 1s"},
		{"TTL before MaxLease", Config{MaxLease: time.Second, TTL: time.Hour}, made, "TTL none, not 1h0m0s"},
		{"no TTL", Config{}, expires, "TTL 1m0s, not none"},
		{"no MaxLease", Config{MaxLease: time.Second}, ordinary, "MaxLease none, not 1s"},
		{"not protected", Config{}, ordinary, "PurgeProtected false, not true"},
		{"Storage", Config{Storage: jetstream.MemoryStorage}, made, "Storage File, not Memory"},
		{"Replicas", Config{Replicas: 5}, made, "Replicas 3, not 5"},
		{"Placement", Config{Placement: &jetstream.Placement{Cluster: "d"}}, placed, "Placement &{Cluster:c Tags:[ssd]}, not &{Cluster:d Tags:[]}"},
		{"nowhere", Config{Placement: &jetstream.Placement{Cluster: "d"}}, made, "Placement <nil>, not &{Cluster:d Tags:[]}"},
		{"same Placement", Config{Placement: &jetstream.Placement{Cluster: "c", Tags: []string{"ssd"}}}, placed, ""},
		{"Roster", Config{Roster: true}, made, "Roster false, not true"},
	} {
		k.cfg.Name = "E"
		got := k.cfg.difference(k.there)
		check.That(t, got == k.want, "%s: %q, want %q", k.name, got, k.want)
	}
}
