package leader_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// Settings that cannot work are refused by name and relation.
func TestConfig_RefusalNamesRelation(t *testing.T) {
	type config = leader.Config
	bubble(t, func(w *world) {
		store := w.ops.bucket(t) // of a bucket with unknown settings
		for _, k := range []struct {
			cfg  config
			is   error
			text string
		}{
			{config{LeaseDuration: -1}, leader.ErrInvalidConfig, "LeaseDuration -1ns is negative"},
			{config{RenewDeadline: -1}, leader.ErrInvalidConfig, "RenewDeadline -1ns is negative"},
			{config{RenewInterval: -1}, leader.ErrInvalidConfig, "RenewInterval -1ns is negative"},
			{config{PendingPeriod: -1}, leader.ErrInvalidConfig, "PendingPeriod -1ns is negative"},
			{config{DrainTimeout: -1}, leader.ErrInvalidConfig, "DrainTimeout -1ns is negative"},
			{
				config{LeaseDuration: 10 * time.Second, RenewDeadline: 12 * time.Second},
				leader.ErrInvalidConfig,
				"RenewDeadline 12s is not less than LeaseDuration 10s",
			},
			{
				config{LeaseDuration: 10 * time.Second, RenewDeadline: 10 * time.Second},
				leader.ErrInvalidConfig,
				"RenewDeadline 10s is not less than LeaseDuration 10s",
			},
			{
				config{RenewDeadline: 5 * time.Second, RenewInterval: 5 * time.Second},
				leader.ErrInvalidConfig,
				"RenewInterval 5s is not less than RenewDeadline 5s",
			},
			{
				config{LeaseDuration: 5 * time.Second, RenewInterval: 6 * time.Second},
				leader.ErrInvalidConfig,
				"RenewInterval 6s is not less than LeaseDuration 5s",
			},
			{config{LeaseDuration: 400 * 24 * time.Hour}, leader.ErrInvalidConfig, "LeaseDuration 9600h0m0s is more than"},
			{config{LeaseDuration: 1}, leader.ErrInvalidConfig, "LeaseDuration 1ns is less than 1ms"},
			{config{MinToken: math.MaxUint64}, leader.ErrInvalidConfig, "MinToken 18446744073709551615 is more than"},
			{config{Value: make([]byte, maxValue+1)}, leader.ErrValueTooLarge, "Value of 65537 bytes is more than 65536"},
			{config{ID: strings.Repeat("x", 257)}, leader.ErrInvalidConfig, "ID of 257 bytes is more than 256"},
		} {
			c, err := leader.Campaign(w.Context(), store, "e", k.cfg)
			if c != nil || !errors.Is(err, k.is) || !strings.Contains(err.Error(), k.text) || !strings.HasPrefix(err.Error(), "leader: ") {
				t.Errorf("got %v, want %q", err, k.text)
			}
		}
		var none *leader.Bucket
		for _, s := range []leader.Store{nil, none} {
			check.Is(t, check.Err(leader.Campaign(w.Context(), s, "e", config{})), leader.ErrInvalidConfig)
		}
	})
}

// The names of elections are those of keys.
func TestElectionNames_AreKeys(t *testing.T) {
	inSealed(t, func(w *world) {
		for _, name := range []string{
			"", ".", "a.", ".a", "a..b", "a b", "a*", ">", "a.>", "*", "ä", "a\n", "a\x00", "a:b", "a$", "a,b", "a\tb", "a\\b",
		} {
			c, err := leader.Campaign(w.Context(), w.ops.bucket(t), name, leader.Config{})
			check.That(t, errors.Is(err, leader.ErrInvalidConfig) && c == nil, "%q: %v", name, err)
		}
		cl := w.dial("a")
		for _, name := range []string{"a", "shards.17", "A-b_c=d/e", "0", "a.b.c.d", "/", "-", "_kv"} {
			c := w.campaign(w.Context(), cl, name, leader.Config{ID: "a"})
			c.saw(t, "0s pending", "0s elected")
			h, err := leader.Lookup(w.Context(), cl.bucket(t), name)
			check.That(t, err == nil && h.ID == "a", "%q: %v, %v", name, h, err)
		}
	})
}

// A lease longer than the bucket allows is refused. Fault 12 of docs/faults.md: a TTL or
// MaxLease shorter than the lease.
func TestLease_BeyondBucket(t *testing.T) {
	for _, k := range []struct {
		name string
		make func(w *world)
		text string
	}{
		{"MaxLease", (*world).sealed, "LeaseDuration 7s is more than the bucket's MaxLease 6s"},
		{"TTL", func(w *world) {
			w.Helper()
			_, err := w.ops.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{
				Bucket: "E", TTL: 5 * time.Second, Storage: jetstream.MemoryStorage,
			})
			w.ok(err)
		}, "LeaseDuration 7s is more than the bucket's TTL 5s"},
	} {
		in(k.make).run(t, k.name, func(t *testing.T, w *world) {
			// Known: refused at once.
			b := w.ops.bucket(t)
			check.Got(b.Info(w.Context()))(w)
			c, err := leader.Campaign(w.Context(), b, "e", leader.Config{LeaseDuration: 7 * time.Second})
			if c != nil || !errors.Is(err, leader.ErrIncompatibleBucket) || !strings.Contains(err.Error(), k.text) {
				t.Errorf("got %v, want %q", err, k.text)
			}
			// Not known: reported once, and tried again.
			a := w.standAs(leader.Config{ID: "a", LeaseDuration: 7 * time.Second})
			w.at(time.Minute)
			a.saw(t, "0s faulted unfit")
		})
	}
}

// A bucket whose MaxLease is raised later is used.
func TestMaxLease_RaisedIsUsed(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.standAs(leader.Config{ID: "a", LeaseDuration: 7 * time.Second})
		w.at(time.Minute)
		a.news()
		w.create(leader.BucketConfig{MaxLease: 8 * time.Second})
		w.at(2 * time.Minute)
		got := a.transitions()
		check.That(t, len(got) == 2 && a.IsLeader(), "a saw %q", got)
	})
}

// The defaults follow from the settings of the bucket.
func TestDefaults_FollowBucket(t *testing.T) {
	for _, k := range []struct {
		name string
		make func(w *world)
		want time.Duration // of the lease
		wait time.Duration // until elected
	}{
		{"its MaxLease", (*world).sealed, lease, 0},
		{"two thirds of its TTL", func(w *world) {
			w.Helper()
			_, err := w.ops.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{
				Bucket: "E", TTL: 9 * time.Second, Storage: jetstream.MemoryStorage,
			})
			w.ok(err)
		}, 6 * time.Second, 9 * time.Second},
		{"15s", (*world).ordinary, 15 * time.Second, 15 * time.Second},
		{"15s by default", func(w *world) { w.create(leader.BucketConfig{}) }, 15 * time.Second, 0},
	} {
		in(k.make).run(t, k.name, func(t *testing.T, w *world) {
			cl := w.dial("a")
			c := check.Got(leader.Campaign(w.Context(), cl.bucket(t), "e", leader.Config{}))(w)
			w.at(k.wait)
			term, ok := c.Term()
			check.Must(t, ok && term.Remaining() == k.want/5*4, "it leads: %v", ok)
			h, _ := c.Leader()
			check.That(t, h.Lease == k.want && h.ID == c.ID() && strings.Count(c.ID(), "_") >= 2,
				"lease %v of %s", h.Lease, h.ID)
			w.at(k.wait + k.want/6 - 1)
			before := w.requests(cl)
			w.at(k.wait + k.want/6)
			check.Equal(t, w.requests(cl)-before, 1, "%d requests when a renewal is due")
			w.ok(c.Stop(w.Context()))
		})
	}
}

// Tokens are greater than MinToken.
func TestTokens_ExceedMinToken(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.standAs(leader.Config{ID: "a", MinToken: 5e15})
		check.Equal(t, a.lastTerm(t).Token(), 5e15+1, "token %d")
		b := w.stand("b")
		w.at(500 * time.Millisecond)
		w.ok(a.Stop(w.Context()))
		check.Equal(t, b.lastTerm(t).Token(), 5e15+2, "token %d")
	})
}

// PendingPeriod is the least time from winning to leading.
func TestPendingPeriod_IsTheLeastWait(t *testing.T) {
	forEachKind(t, func(w *world, unknown time.Duration) {
		a := w.standAs(leader.Config{ID: "a", PendingPeriod: 2500 * time.Millisecond})
		w.at(time.Minute)
		if wait := strings.Join(a.news(), "|"); unknown == lease && !strings.HasPrefix(wait, "0s pending for 2.5s|2.5s elected") &&
			!strings.HasPrefix(wait, "0s pending for 6s|6s elected") {
			w.Errorf("a saw %q", wait)
		}
		w.ok(a.Resign(w.Context()))
		w.at(2 * time.Minute)
		a.saw(w.T, "1m0s deposed resigned", "1m0s observed nobody", "1m1.25s pending for 2.5s", "1m3.75s elected")
	})
}
