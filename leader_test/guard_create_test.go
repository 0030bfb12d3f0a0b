package leader_test

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// settings returns the settings of a stream, without the server's own metadata.
func (w *world) settings(stream string) jetstream.StreamConfig {
	w.Helper()
	s := check.Got(w.ops.js.Stream(w.Context(), stream))(w)
	c := s.CachedInfo().Config
	maps.DeleteFunc(c.Metadata, func(key, _ string) bool { return strings.HasPrefix(key, "_nats.") })
	if len(c.Metadata) == 0 {
		c.Metadata = nil
	}
	return c
}

// createBucket makes the guarded bucket "orders", or brings it to these settings.
func (w *world) createBucket(cfg jetstream.KeyValueConfig) *fence.Bucket {
	w.Helper()
	cfg.Bucket = "orders"
	return check.Got(fence.CreateOrUpdateBucket(w.Context(), w.ops.js, cfg))(w)
}

// sends records the operator's requests to create and update streams from now on.
func (w *world) sends() *[]string {
	var seen []string
	w.ops.filter(func(f frame) treatment {
		if f.dir == up && (strings.Contains(f.subject, "STREAM.CREATE") || strings.Contains(f.subject, "STREAM.UPDATE")) {
			seen = append(seen, strings.Split(f.subject, ".")[3])
		}
		return pass
	})
	return &seen
}

// A new guarded bucket is the bucket that nats.go makes, with the settings that the
// guard needs.
func TestCreateBucket_MatchesNATS(t *testing.T) {
	for name, cfg := range map[string]jetstream.KeyValueConfig{
		"nothing set": {},
		"everything": {
			Description: "of the shop", MaxValueSize: 4096, History: 64, TTL: time.Hour, MaxBytes: 1 << 20, Storage: jetstream.MemoryStorage,
			Replicas: 1, RePublish: &jetstream.RePublish{Source: ">", Destination: "copy.>"}, Compression: true,
			LimitMarkerTTL: time.Minute, Metadata: map[string]string{"team": "x"},
		},
		"a short TTL":   {TTL: time.Minute},
		"a long TTL":    {TTL: 24 * time.Hour},
		"delete marker": {LimitMarkerTTL: time.Second},
	} {
		inBubble.run(t, name, func(t *testing.T, w *world) {
			b := w.createBucket(cfg)
			w.ok(checked(w.Context(), b))
			got := w.settings("KV_orders")
			w.ok(w.ops.js.DeleteKeyValue(w.Context(), "orders"))
			cfg.Bucket = "orders"
			check.Got(w.ops.js.CreateKeyValue(w.Context(), cfg))(w)
			want := w.settings("KV_orders")
			want.AllowAtomicPublish = true
			want.FirstSeq = uint64(time.Now().UnixMicro()) // no time passes in the bubble
			want.AllowMsgTTL = want.AllowMsgTTL || cfg.TTL > 0
			check.That(t, reflect.DeepEqual(got, want), "got\n %+v\nwant\n %+v", got, want)
		})
	}
}

// Existing settings are kept, requested ones are added, and if there is nothing to add,
// no request is sent.
func TestCreateBucket_Keeps(t *testing.T) {
	const memory = jetstream.MemoryStorage // see expiring
	bubble(t, func(w *world) {
		kv, err := w.ops.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{
			Bucket: "orders", Description: "of the shop", History: 5, TTL: time.Hour, MaxBytes: 1 << 20, Storage: memory,
			Metadata: map[string]string{"team": "x"},
		})
		w.ok(err)
		check.Got(kv.PutString(w.Context(), "k", "v"))(w)
		want := w.settings("KV_orders")
		seen := w.sends()
		b := w.createBucket(jetstream.KeyValueConfig{Storage: memory})
		want.AllowAtomicPublish, want.AllowMsgTTL = true, true
		check.Deep(t, w.settings("KV_orders"), want)
		w.ok(checked(w.Context(), b))
		w.createBucket(jetstream.KeyValueConfig{Storage: memory})
		w.createBucket(jetstream.KeyValueConfig{Storage: memory, History: 5, TTL: time.Hour, Replicas: 1, Metadata: map[string]string{"team": "x"}})
		check.Deep(t, *seen, []string{"UPDATE"})
		w.createBucket(jetstream.KeyValueConfig{
			Storage: memory, Description: "new", History: 2, TTL: time.Minute, MaxBytes: -1, MaxValueSize: 2048, LimitMarkerTTL: time.Second,
			Metadata: map[string]string{"rank": "1"},
		})
		want.Description, want.MaxMsgsPerSubject, want.MaxAge, want.Duplicates, want.MaxBytes = "new", 2, time.Minute, time.Minute, -1
		want.MaxMsgSize, want.SubjectDeleteMarkerTTL = 2048, time.Second
		want.Metadata = map[string]string{"team": "x", "rank": "1"}
		check.Deep(t, w.settings("KV_orders"), want)
		if e, err := kv.Get(w.Context(), "k"); err != nil || string(e.Value()) != "v" {
			t.Errorf("the bucket's contents: %v, %v", e, err)
		}
	})
}

// A guarded bucket that is made anew refuses the writers of the old bucket. Writes of the
// old bucket do not become valid again, because revisions go on rising.
func TestRecreatedGuard_OldWriters(t *testing.T) {
	inSealed(t, func(w *world) {
		w.createBucket(jetstream.KeyValueConfig{})
		a := w.guard("a", "orders")
		w.at(time.Second)
		old := a.writer(t)
		w.ok(a.Stop())
		w.ok(w.ops.js.DeleteKeyValue(w.Context(), "orders"))
		w.createBucket(jetstream.KeyValueConfig{})
		b := w.guard("b", "orders")
		w.at(2 * time.Second)
		check.Got(b.writer(t).Put(w.Context(), "k", nil))(w)
		_, err := old.Put(w.Context(), "k", nil)
		check.That(t, isFenced(err), "%v", err)
	})
}

// An ordinary update of the bucket disables batches, and the next CreateOrUpdateBucket
// enables them again. The leader leads on.
func TestGuardedBucket_OrdinaryUpdate(t *testing.T) {
	inSealed(t, func(w *world) {
		w.createBucket(jetstream.KeyValueConfig{})
		cl := w.dial("a")
		b := cl.openBucket(t)
		a := w.guarding(cl, b)
		a.saw(t, "0s pending", "0s elected")
		check.Got(w.ops.js.CreateOrUpdateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "orders"}))(w)
		check.That(t, !w.settings("KV_orders").AllowAtomicPublish,
			"the update of nats.go keeps AllowAtomicPublish: the documentation says otherwise")
		check.Got(b.Writer(a.lastTerm(t)).Put(w.Context(), "k", []byte("v")))(w)
		w.ok(checked(w.Context(), b))
		w.createBucket(jetstream.KeyValueConfig{})
		check.That(t, w.settings("KV_orders").AllowAtomicPublish, "not mended")
		w.at(time.Minute)
		a.saw(t)
	})
}

// A guarded bucket with a TTL refuses an ordinary update. A TTL of the bucket's own needs
// the message TTLs that keep the guard, and the server does not disable them.
func TestGuardedBucket_TTL(t *testing.T) {
	bubble(t, func(w *world) {
		b := w.createBucket(jetstream.KeyValueConfig{TTL: time.Minute})
		_, err := w.ops.js.CreateOrUpdateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "orders", TTL: time.Minute})
		check.That(t, err != nil, "the update of nats.go was accepted: the documentation says otherwise")
		w.ok(checked(w.Context(), b))
	})
}

// If two clients create the same bucket at the same time, both get it.
func TestCreateBucket_Concurrently(t *testing.T) {
	bubble(t, func(w *world) {
		cl := w.dial("b")
		w.ops.detain(down) // the first client is answered after the second has created it
		first := w.begin(func() error {
			_, err := fence.CreateOrUpdateBucket(w.Context(), w.ops.js, jetstream.KeyValueConfig{Bucket: "orders", Description: "x"})
			return err
		})
		first.pending()
		check.Got(fence.CreateOrUpdateBucket(w.Context(), cl.js, jetstream.KeyValueConfig{Bucket: "orders"}))(w)
		w.ops.open()
		first.returned(0, nil)
		check.Equal(t, w.settings("KV_orders").Description, "x", "description %q")
	})
}

// Settings that the server refuses are named, and the stream is left as it was. TestReshape_Existing and
// TestHazard_Settings of package fence have those that are not sent.
func TestCreateStream_Invalid(t *testing.T) {
	type config = jetstream.StreamConfig
	orders := []string{"orders.>"}
	const refuses = "the server refuses these settings for stream ORDERS: "
	for _, k := range []struct {
		name       string
		there, cfg config
		is         error
		text       string
	}{
		{
			"the server's rules",
			config{Subjects: orders, AllowMsgSchedules: true},
			config{Discard: jetstream.DiscardNew},
			leader.ErrIncompatibleBucket, refuses,
		},
		{
			"replicas",
			config{},
			config{Subjects: orders, Replicas: 3},
			leader.ErrInvalidConfig, "Replicas is more than the server can keep",
		},
		{
			"subjects of another stream",
			config{},
			config{Subjects: []string{"taken.>"}},
			leader.ErrIncompatibleBucket, refuses,
		},
		{
			"a storage that cannot be changed",
			config{Subjects: orders, Storage: jetstream.MemoryStorage},
			config{},
			leader.ErrIncompatibleBucket, "stream ORDERS exists and is stored in Memory, which cannot be changed to File",
		},
	} {
		if k.there.AllowMsgSchedules && misses(t, 14, k.name) { // older ones change such a stream
			continue
		}
		inBubble.run(t, k.name, func(t *testing.T, w *world) {
			check.Got(w.ops.js.CreateStream(w.Context(), config{Name: "TAKEN", Subjects: []string{"taken.*"}}))(w)
			if k.there.Subjects != nil {
				w.stream(k.there)
			}
			before, _ := w.ops.js.Stream(w.Context(), "ORDERS")
			k.cfg.Name = "ORDERS"
			err := check.Err(fence.CreateOrUpdateStream(w.Context(), w.ops.js, k.cfg, "orders.guard"))
			check.Says(t, err, k.is, k.is.Error()+": "+k.text)
			after, _ := w.ops.js.Stream(w.Context(), "ORDERS")
			check.Must(t, (after != nil) == (before != nil), "the stream was created or deleted")
			if before != nil {
				check.Deep(t, after.CachedInfo().Config, before.CachedInfo().Config)
			}
		})
	}
}
