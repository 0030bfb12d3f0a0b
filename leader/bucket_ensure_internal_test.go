package leader

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
)

// A candidate that may not create the roster creates no bucket. It tries less and less often: each
// try is a violation that the application's error handler gets. It reports one fault.
func TestEnsure_DeniedTriesSlowDown(t *testing.T) {
	users := []*server.User{{Username: "u", Password: "x", Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.CREATE.KV_E_roster"}},
	}}}
	bubble(t, server.Options{Users: users}, func(t *lab) {
		var violations atomic.Int32
		js := dialJS(t, t.s, nats.UserInfo("u", "x"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) { violations.Add(1) }))
		b, err := EnsureBucket(js, BucketConfig{Name: "E", Roster: true})
		if err != nil {
			t.Fatal(err)
		}
		c, err := Campaign(t.Context(), b, "e", Config{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if n := violations.Load(); n < 200 || n > 260 { // a wait of 15 s for each, after the first few
			t.Errorf("%d violations in an hour", n)
		}
		if _, err := js.Stream(t.Context(), "KV_E"); !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Errorf("the bucket without its roster: %v", err)
		}
		if err := c.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		var told []Event
		for e := range c.Events(t.Context()) {
			told = append(told, e)
		}
		if len(told) != 1 {
			t.Errorf("told %v", told)
		}
		if n := c.Stats().Faults["permission"]; n != 1 {
			t.Errorf("%d faults", n)
		}
	})
}

// A candidate that learns from a late answer that there is no bucket uses the one that another
// candidate of its Bucket has found meanwhile.
func TestEnsure_FoundMeanwhile(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		nc := dial(t, t.s)
		mustCreate(t, dialJS(t, t.s), BucketConfig{MaxLease: time.Minute})
		b, err := EnsureBucket(dialJS(t, t.s), BucketConfig{Name: "E"})
		if err != nil {
			t.Fatal(err)
		}
		api := b.s.api.Prefix
		b.s.api.Prefix = "late."
		if _, err = nc.Subscribe("late.>", func(m *nats.Msg) {
			resp := &nats.Msg{Data: []byte(`{"error":{"code":404,"err_code":10059,"description":"stream not found"}}`)}
			if b.s.api.Seen.Swap(true) {
				if resp, _ = nc.Request(api+strings.TrimPrefix(m.Subject, "late."), m.Data, time.Second); resp == nil {
					return
				}
			}
			_ = m.Respond(resp.Data)
		}); err != nil {
			t.Fatal(err)
		}
		if err = nc.Flush(); err != nil {
			t.Fatal(err)
		}
		s, err := await(func(r func(backend.Settings, error)) { b.s.settingsEnsured(t.Context(), r) })
		if err != nil || s.MaxLease != time.Minute {
			t.Errorf("the settings are %+v, %v", s, err)
		}
	})
}

// A thousand candidates that find no bucket at the same time create it with a few requests: those
// that have a slot when the first is answered. No candidate's time runs out in line.
func TestEnsure_CrowdSharesCreation(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		var requests atomic.Int32
		nc := dial(t, t.s)
		if _, err := nc.Subscribe("$JS.API.STREAM.CREATE.KV_E", func(*nats.Msg) { requests.Add(1) }); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		b, err := EnsureBucket(dialJS(t, t.s), BucketConfig{Name: "E"})
		if err != nil {
			t.Fatal(err)
		}
		crowd := make([]*Candidate, 1000)
		for i := range crowd {
			if crowd[i], err = Campaign(t.Context(), b, fmt.Sprint("e.", i), Config{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if n := requests.Load(); n < 1 || n > 16 {
			t.Errorf("%d requests", n)
		}
		for _, c := range crowd {
			if !c.IsLeader() || len(c.Stats().Faults) > 0 {
				t.Errorf("%s is %v, with the faults %v", c.Election(), c.State(), c.Stats().Faults)
			}
			if err := c.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// The first setting that differs is named. A setting that is left to its default is not
// compared, except for TTL and Storage, whose zero values mean something.
func TestEnsure_NamesTheDifference(t *testing.T) {
	made := BucketConfig{Name: "E", MaxLease: time.Minute, Replicas: 3}.newStream()
	expires := BucketConfig{Name: "E", TTL: time.Minute}.newStream()
	ordinary := jetstream.StreamConfig{Name: "KV_E", Replicas: 1}
	placed := made
	placed.Placement = &jetstream.Placement{Cluster: "c", Tags: []string{"ssd"}}
	for _, k := range []struct {
		name  string
		cfg   BucketConfig
		there jetstream.StreamConfig
		want  string
	}{
		{"as it is", BucketConfig{MaxLease: time.Minute, Replicas: 3}, made, ""},
		{"defaults", BucketConfig{}, made, ""},
		{"MaxLease", BucketConfig{MaxLease: time.Second}, made, "MaxLease 1m0s, not 1s"},
		{"TTL before MaxLease", BucketConfig{MaxLease: time.Second, TTL: time.Hour}, made, "TTL none, not 1h0m0s"},
		{"no TTL", BucketConfig{}, expires, "TTL 1m0s, not none"},
		{"no MaxLease", BucketConfig{MaxLease: time.Second}, ordinary, "MaxLease none, not 1s"},
		{"not protected", BucketConfig{}, ordinary, "PurgeProtected false, not true"},
		{"Storage", BucketConfig{Storage: jetstream.MemoryStorage}, made, "Storage File, not Memory"},
		{"Replicas", BucketConfig{Replicas: 5}, made, "Replicas 3, not 5"},
		{"Placement", BucketConfig{Placement: &jetstream.Placement{Cluster: "d"}}, placed, "Placement &{Cluster:c Tags:[ssd]}, not &{Cluster:d Tags:[]}"},
		{"nowhere", BucketConfig{Placement: &jetstream.Placement{Cluster: "d"}}, made, "Placement <nil>, not &{Cluster:d Tags:[]}"},
		{"same Placement", BucketConfig{Placement: &jetstream.Placement{Cluster: "c", Tags: []string{"ssd"}}}, placed, ""},
		{"Roster", BucketConfig{Roster: true}, made, "Roster false, not true"},
	} {
		if got := k.cfg.difference(k.there); got != k.want {
			t.Errorf("%s: %q, want %q", k.name, got, k.want)
		}
	}
}
