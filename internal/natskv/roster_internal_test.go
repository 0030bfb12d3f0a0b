package natskv

import (
	"errors"
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

// configOf returns the settings of a stream.
func configOf(t *lab, js jetstream.JetStream, stream string) jetstream.StreamConfig {
	t.Helper()
	s := check.Got(js.Stream(t.Context(), stream))(t)
	return s.CachedInfo().Config
}

// hasRoster reports whether Info shows a roster.
func hasRoster(t *lab, b *Bucket) bool {
	t.Helper()
	info := check.Got(b.Info(t.Context()))(t)
	return info.Roster
}

// A bucket has a roster only if its configuration asks for one.
func TestCreateBucket_RosterOnRequest(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		js := dialJS(t, t.s)
		b := mustCreate(t, js, Config{Storage: jetstream.MemoryStorage})
		check.That(t, !hasRoster(t, b), "there is a roster")
		check.Is(t, check.Err(js.Stream(t.Context(), "KV_E_roster")), jetstream.ErrStreamNotFound)
		cfg := Config{Storage: jetstream.MemoryStorage, Roster: true, MaxLease: time.Minute}
		b = mustCreate(t, js, cfg)
		c := configOf(t, js, "KV_E_roster")
		if !hasRoster(t, b) || !c.AllowMsgTTL || c.SubjectDeleteMarkerTTL != time.Second || c.MaxMsgsPerSubject != 1 ||
			c.MaxAge != 0 || c.Storage != jetstream.MemoryStorage || c.Replicas != 1 || !c.AllowDirect ||
			!strings.Contains(c.Description, "E") {
			t.Errorf("the roster is %+v", c)
		}
		if info, err := b.Info(t.Context()); err != nil || !info.PurgeProtected || info.MaxLease != time.Minute {
			t.Errorf("the bucket is %+v, %v", info, err)
		}
		like := rosterConfig{bucket: "E", like: configOf(t, js, "KV_E")}
		if conf, changed, err := like.reshape(c); changed || err != nil {
			t.Errorf("the roster would be changed from %+v to %+v, %v", c, conf, err)
		}
		if conf, changed, err := (Config{Name: "E", Storage: jetstream.MemoryStorage}).reshape(configOf(t, js, "KV_E")); changed || err != nil {
			t.Errorf("the bucket would be changed to %+v, %v", conf, err)
		}

		// Settings that were changed are mended, but only by a call that asks for the
		// roster.
		c.MaxMsgsPerSubject = 5
		check.OK(t, check.Err(js.UpdateStream(t.Context(), c)))
		mustCreate(t, js, Config{Storage: jetstream.MemoryStorage})
		got := configOf(t, js, "KV_E_roster")
		check.That(t, got.MaxMsgsPerSubject == 5, "the roster was touched: %+v", got)
		mustCreate(t, js, cfg)
		if got := configOf(t, js, "KV_E_roster"); got.MaxMsgsPerSubject != 1 {
			t.Errorf("the roster was not mended: %+v", got)
		}

		t.ok(js.DeleteStream(t.Context(), "KV_E_roster"))
		check.That(t, !hasRoster(t, b), "the roster that was deleted is there")
		b = mustCreate(t, js, cfg)
		check.That(t, hasRoster(t, b), "the roster was not made anew")
	})
}

// Buckets with the longest names have rosters of their own.
func TestRosterName_Longest(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		js := dialJS(t, t.s)
		names := make(map[string]bool)
		for _, n := range []int{wire.MaxBucketName, wire.MaxBucketName - len(wire.RosterSuffix) + 1, wire.MaxBucketName - len(wire.RosterSuffix)} {
			for _, last := range []string{"x", "y"} {
				name := strings.Repeat("b", n-1) + last
				b := mustCreate(t, js, Config{Name: name, Roster: true, Storage: jetstream.MemoryStorage})
				check.That(t, hasRoster(t, b), "no roster for a name of %d", n)
				roster := wire.RosterName(name)
				check.That(t, jsapi.CheckBucketName(roster) == nil && !names[roster], "the roster of a name of %d is %q", n, roster)
				names[roster] = true
			}
		}
	})
}

// CreateOrUpdateBucket refuses to use an existing bucket as a roster, and does not change it.
func TestCreateBucket_RosterTaken(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		js := dialJS(t, t.s)
		mustCreate(t, js, Config{Name: "S_roster"})
		mustCreate(t, js, Config{Name: "T_roster", TTL: time.Minute})
		check.OK(t, check.Err(js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "O_roster"})))
		for _, name := range []string{"S", "T", "O"} {
			before := configOf(t, js, "KV_"+name+"_roster")
			_, err := Create(t.Context(), js, Config{Name: name, Roster: true})
			check.That(t, errors.Is(err, backend.ErrIncompatibleBucket) && strings.Contains(err.Error(), "KV_"+name+"_roster"),
				"%s: %v", name, err)
			after := configOf(t, js, "KV_"+name+"_roster")
			check.That(t, after.MaxMsgsPerSubject == before.MaxMsgsPerSubject && after.AllowMsgTTL == before.AllowMsgTTL,
				"%s was changed from %+v to %+v", name, before, after)
		}
		mustCreate(t, js, Config{Name: "E", Roster: true})
		for _, ttl := range []time.Duration{0, time.Minute} {
			_, err := Create(t.Context(), js, Config{Name: "E_roster", TTL: ttl})
			check.That(t, errors.Is(err, backend.ErrIncompatibleBucket) && strings.Contains(err.Error(), `roster of bucket "E"`),
				"a bucket in place of a roster: %v", err)
		}
	})
}
