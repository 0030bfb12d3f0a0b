package leader_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// The names of elections are those of keys.
func TestElectionNames_AreKeys(t *testing.T) {
	inSealed(t, func(w *world) {
		cl := w.dial("a")
		for _, name := range []string{"a", "shards.17", "A-b_c=d/e", "0", "a.b.c.d", "/", "-", "_kv"} {
			c := w.campaign(w.Context(), cl, name, leader.Config{ID: "a"})
			c.saw(t, "0s pending", "0s elected")
			h, err := leader.Lookup(w.Context(), cl.bucket(t), name)
			check.That(t, err == nil && h.ID == "a", "%q: %v, %v", name, h, err)
		}
	})
}

// Without an ID a candidate makes one of three parts. A Bucket that is nil is refused.
func TestCampaign_WithoutIDOrBucket(t *testing.T) {
	inSealed(t, func(w *world) {
		c := check.Got(leader.Campaign(w.Context(), w.dial("a").bucket(t), "e", leader.Config{}))(w)
		check.That(t, strings.Count(c.ID(), "_") >= 2, "the ID is %q", c.ID())
		w.ok(c.Stop())
		var none *leader.Bucket
		check.Is(t, check.Err(leader.Campaign(w.Context(), none, "e", leader.Config{})), leader.ErrInvalidConfig)
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

// Leases that differ are told once, by the candidate that waits, in a bucket that bounds none. In any other they are safe.
func TestLease_OfAnother(t *testing.T) {
	forEachKind(t, func(w *world, _ time.Duration) {
		log := new(warnings)
		w.standAs(leader.Config{ID: "a", LeaseDuration: lease, Logger: slog.New(log)})
		w.at(time.Minute)
		w.standAs(leader.Config{ID: "b", LeaseDuration: lease / 2, Logger: slog.New(log)})
		w.standAs(leader.Config{ID: "c", LeaseDuration: lease, Logger: slog.New(log)})
		w.at(2 * time.Minute)
		if info := check.Got(w.ops.bucket(t).Info(w.Context()))(w); info.MaxLease > 0 || info.TTL > 0 {
			log.were(w)
			return
		}
		log.were(w, "the leader has another lease, and the bucket has no MaxLease; holder=a; its=6s; own=3s; instead=give all candidates of the election the same LeaseDuration")
	})
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

// Tokens are greater than MinToken.
func TestTokens_ExceedMinToken(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.standAs(leader.Config{ID: "a", MinToken: 5e15})
		check.Equal(t, a.lastTerm(t).Token(), 5e15+1, "token %d")
		b := w.stand("b")
		w.at(500 * time.Millisecond)
		w.ok(a.Stop())
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
		w.ok(leadertest.Resign(w.Context(), a))
		w.at(2 * time.Minute)
		a.saw(w.T, "1m0s deposed resigned", "1m0s observed nobody", "1m1.25s pending for 2.5s", "1m3.75s elected")
	})
}
