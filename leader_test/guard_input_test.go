package leader_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// Guards that cannot be raised, or not for long, and the events of their candidates.

// A candidate whose guarded bucket appears later is then elected.
func TestGuard_BucketAppearsLater(t *testing.T) {
	inSealed(t, func(w *world) {
		cl := w.dial("a")
		b := cl.openBucket(t)
		if err := checked(w.Context(), b); !errors.Is(err, leader.ErrNoBucket) || err.Error() != "leader: bucket orders does not exist: make it with fence.CreateOrUpdateBucket" {
			t.Errorf("got %v", err)
		}
		a := w.guarding(cl, b)
		w.at(time.Minute)
		a.saw(t, "0s faulted no bucket")
		w.createBucket(jetstream.KeyValueConfig{})
		w.at(2 * time.Minute)
		got := a.transitions()
		check.That(t, len(got) == 2 && a.IsLeader(), "a saw %q", got)
	})
}

// With guards of their own, two elections share a bucket.
func TestGuardKey_SharedBucket(t *testing.T) {
	inSealed(t, func(w *world) {
		w.createBucket(jetstream.KeyValueConfig{})
		for _, election := range []string{"e", "f"} {
			cl := w.dial(election)
			c := w.campaign(w.Context(), cl, election, leader.Config{
				ID: "a", Guards: []leader.Guard{cl.openBucket(t, fence.GuardKey("guards."+election))},
			})
			c.saw(t, "0s pending", "0s elected")
		}
		kv := check.Got(w.ops.js.KeyValue(w.Context(), "orders"))(w)
		for _, election := range []string{"e", "f"} {
			e, err := kv.Get(w.Context(), "guards."+election)
			check.That(t, err == nil && bytes.Contains(e.Value(), []byte(`"E/`+election+`"`)),
				"the guard of %s: %v, %v", election, e, err)
		}
	})
}

// Messages expire. The guard does not, nor does its delete marker before it.
func TestGuard_OutlivesMaxAge(t *testing.T) {
	for name, c := range map[string]jetstream.StreamConfig{
		"without markers": {MaxAge: time.Minute},
		"with markers":    {MaxAge: time.Minute, AllowMsgTTL: true, SubjectDeleteMarkerTTL: 10 * time.Second},
	} {
		inSealed.run(t, name, func(t *testing.T, w *world) {
			c.Name, c.Storage, c.Subjects = "ORDERS", jetstream.MemoryStorage, []string{"orders.>"}
			s := check.Got(fence.CreateOrUpdateStream(w.Context(), w.ops.js, c, "orders.guard"))(w)
			w.ok(checked(w.Context(), s))
			check.Got(w.ops.js.Publish(w.Context(), "orders.new", nil))(w)
			w.at(10 * time.Minute)
			last, n := w.messages()
			check.That(t, n == 1 && last >= 2, "%d of %d messages are left, want the guard's marker", n, last)
			cl := w.dial("a")
			a := w.guarding(cl, cl.openStream(t))
			a.saw(t, "10m0s pending", "10m0s elected")
			stream := check.Got(w.ops.js.Stream(w.Context(), "ORDERS"))(w)
			raised := check.Got(stream.GetLastMsgForSubject(w.Context(), "orders.guard"))(w)
			w.at(30 * time.Minute)
			a.saw(t)
			stands := check.Got(stream.GetLastMsgForSubject(w.Context(), "orders.guard"))(w)
			check.That(t, stands.Sequence == raised.Sequence,
				"the guard is at %d, and was raised at %d", stands.Sequence, raised.Sequence)
		})
	}
}

// A stream that is given a maximum age under a leader drops the guard once. It is
// raised again for good.
func TestGuard_StreamIsGivenMaxAge(t *testing.T) {
	inSealed(t, func(w *world) {
		c := jetstream.StreamConfig{Subjects: []string{"orders.>"}, Storage: jetstream.MemoryStorage}
		w.stream(c)
		cl := w.dial("a")
		a := w.guarding(cl, cl.openStream(t))
		a.saw(t, "0s pending", "0s elected")
		c.MaxAge, c.AllowMsgTTL = time.Minute, true
		w.stream(c)
		w.at(2 * time.Minute)
		got := a.news()
		check.That(t, len(got) == 1 && strings.HasSuffix(got[0], "faulted guard deleted"), "a saw %q", got)
		w.at(10 * time.Minute)
		a.saw(t)
		check.That(t, a.IsLeader(), "a does not lead")
	})
}

// A full stream that rejects new messages rejects the guard, and the error says so.
func TestGuard_OfAFullStream(t *testing.T) {
	inSealed(t, func(w *world) {
		c := jetstream.StreamConfig{Subjects: []string{"orders.>"}, MaxMsgs: 1, Discard: jetstream.DiscardNew}
		w.stream(c)
		check.Got(w.ops.js.Publish(w.Context(), "orders.new", nil))(w)
		err := checked(w.Context(), w.ops.openStream(t))
		check.Says(t, err, leader.ErrFull, "maximum messages exceeded: make room, or raise the limit")
		cl := w.dial("a")
		a := w.guarding(cl, cl.openStream(t))
		w.at(time.Minute)
		got := a.news()
		check.That(t, len(got) == 1 && strings.HasSuffix(got[0], "faulted full"), "a saw %q", got)
		c.MaxMsgs = 3
		w.stream(c)
		w.at(2 * time.Minute)
		if !a.IsLeader() {
			t.Errorf("a saw %q", a.news())
		}
	})
}

// Guards that are nil, or the same, are refused.
func TestGuards_NilOrSame(t *testing.T) {
	bubble(t, func(w *world) {
		b, s := w.ops.openBucket(t), w.ops.openStream(t)
		var noBucket *fence.Bucket
		var noStream *fence.Stream
		for _, k := range []struct {
			guards []leader.Guard
			text   string
		}{
			{[]leader.Guard{nil}, "Guards[0] is nil, or was not made by leader.OpenBucket, fence.OpenBucket, fence.OpenStream or their Create functions"},
			{[]leader.Guard{b, noBucket}, "Guards[1] is nil, or was not made by leader.OpenBucket, fence.OpenBucket, fence.OpenStream or their Create functions"},
			{[]leader.Guard{noStream}, "Guards[0] is nil, or was not made by leader.OpenBucket, fence.OpenBucket, fence.OpenStream or their Create functions"},
			{[]leader.Guard{b, s, b}, "Guards[0] and Guards[2] are the same, bucket orders"},
		} {
			c, err := leader.Campaign(w.Context(), w.ops.bucket(t), "e", leader.Config{Guards: k.guards})
			if c != nil || !errors.Is(err, leader.ErrInvalidConfig) || !strings.HasSuffix(err.Error(), k.text) {
				t.Errorf("got %v, want %q", err, k.text)
			}
		}
	})
}
