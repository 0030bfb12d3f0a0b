package leader_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// openBucket returns the guarded bucket "orders" as this client sees it.
func (cl *client) openBucket(t *testing.T, opts ...fence.BucketOption) *fence.Bucket {
	t.Helper()
	return check.Got(fence.OpenBucket(cl.js, "orders", opts...))(t)
}

// openStream returns the guarded stream ORDERS with the guard orders.guard.
func (cl *client) openStream(t *testing.T) *fence.Stream {
	t.Helper()
	return check.Got(fence.OpenStream(cl.js, "ORDERS", "orders.guard"))(t)
}

// checked returns the result of a guard's check.
func checked(ctx context.Context, g leader.Guard) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	reply := make(chan error, 1)
	g.Backend().Check(ctx, func(err error) { reply <- err })
	return <-reply
}

// stream makes the stream ORDERS, or changes it.
func (w *world) stream(c jetstream.StreamConfig) {
	w.Helper()
	c.Name = "ORDERS"
	check.Got(w.ops.js.CreateOrUpdateStream(w.Context(), c))(w)
}

// guarding makes the candidate a of the election e with these guards.
func (w *world) guarding(cl *client, guards ...leader.Guard) *candidate {
	w.Helper()
	return w.campaign(w.Context(), cl, "e", leader.Config{ID: "a", Guards: guards})
}

// messages returns how many messages the stream ORDERS has ever taken, and how many it
// has.
func (w *world) messages() (last, has uint64) {
	w.Helper()
	s := check.Got(w.ops.js.Stream(w.Context(), "ORDERS"))(w)
	state := s.CachedInfo().State
	return state.LastSeq, state.Msgs
}

// A check names the setting of the stream that is not safe for a guard, and the candidate writes
// nothing. TestHazard_Settings of package fence has all such settings.
func TestGuardCheck_UnsafeSettings(t *testing.T) {
	orders := []string{"orders.>"}
	for text, c := range map[string]jetstream.StreamConfig{
		"drops its oldest messages when it is full (MaxMsgs 1000 with discard old), and with them the guard": {Subjects: orders, MaxMsgs: 1000},
		"takes messages of up to 100 bytes (MaxMsgSize), less than the 1536 that a guard may need":           {Subjects: orders, MaxMsgSize: 100},
		"is sealed, and takes no writes": {Subjects: orders, Sealed: true},
		"takes what comes from stream OTHER without conditions (Sources), also on the guard's subject orders.guard": {
			Subjects: orders, Sources: []*jetstream.StreamSource{{Name: "SAFE", FilterSubject: "paid.>"}, {Name: "OTHER", FilterSubject: "orders.>"}},
		},
		`stores "x.*" as "orders.{{wildcard(1)}}" (SubjectTransform), the guard's subject orders.guard among them`: {
			Subjects:         []string{"orders.>", "x.*"},
			SubjectTransform: &jetstream.SubjectTransformConfig{Source: "x.*", Destination: "orders.{{wildcard(1)}}"},
		},
	} {
		inSealed(t, func(w *world) {
			if c.Sealed { // which no new stream may be
				w.stream(jetstream.StreamConfig{Subjects: orders})
			}
			w.stream(c)
			before, _ := w.messages()
			err := checked(w.Context(), w.ops.openStream(t))
			want := leader.ErrIncompatibleBucket.Error() + ": stream ORDERS " + text
			check.That(t, errors.Is(err, leader.ErrIncompatibleBucket) && err.Error() == want, "got\n %v\nwant\n %s", err, want)
			cl := w.dial("a")
			a := w.guarding(cl, cl.openStream(t))
			w.at(time.Minute)
			a.saw(t, "0s faulted unfit")
			after, _ := w.messages()
			check.That(t, after == before, "%d messages were written", after-before)
		})
	}
}

// A check of a guarded bucket names the bucket.
func TestGuardCheck_NamesTheBucket(t *testing.T) {
	bubble(t, func(w *world) {
		b := w.ops.openBucket(t)
		for _, k := range []struct{ subject, text string }{
			{"$KV.orders.*", `does not contain its guard: none of its subjects ["$KV.orders.*"] covers $KV.orders.>`},
			{"$KV.orders.>", "drops its oldest messages when it is full (MaxMsgs 7 with discard old), and with them the guard"},
		} {
			_, err := w.ops.js.CreateOrUpdateStream(w.Context(), jetstream.StreamConfig{
				Name: "KV_orders", Subjects: []string{k.subject}, MaxMsgs: 7,
			})
			w.ok(err)
			err = checked(w.Context(), b)
			want := leader.ErrIncompatibleBucket.Error() + ": bucket orders " + k.text
			check.That(t, err != nil && err.Error() == want, "got\n %v\nwant\n %s", err, want)
		}
	})
}

// A stream that keeps the guard is fit. The first check leaves one message behind, and
// later checks none.
func TestGuardCheck_SafeStream(t *testing.T) {
	orders := []string{"orders.>"}
	for name, c := range map[string]jetstream.StreamConfig{
		"nothing set":     {Subjects: orders},
		"the guard alone": {Subjects: []string{"orders.guard"}},
		"discard new": {
			Subjects: orders, MaxMsgsPerSubject: 1, MaxMsgs: 1000, MaxBytes: 1 << 20, Discard: jetstream.DiscardNew, MaxMsgSize: 1536,
			AllowRollup: true, AllowBatchPublish: true, AllowAtomicPublish: true, Compression: jetstream.S2Compression, FirstSeq: 1000,
		},
		"an age": {
			Subjects: orders, MaxAge: time.Hour, AllowMsgTTL: true, SubjectDeleteMarkerTTL: time.Minute, AllowMsgSchedules: true, AllowRollup: true,
		},
		"sources": {
			Subjects: orders, DenyDelete: true, DenyPurge: true, RePublish: &jetstream.RePublish{Source: ">", Destination: "copy.>"},
			Sources: []*jetstream.StreamSource{
				{Name: "OTHER", FilterSubject: "paid.>"},
				{Name: "ANOTHER", SubjectTransforms: []jetstream.SubjectTransformConfig{{Source: "paid.>", Destination: "orders.paid.>"}}},
			},
		},
		"a transform": {
			Subjects:         []string{"orders.>", "x.*"},
			SubjectTransform: &jetstream.SubjectTransformConfig{Source: "x.*", Destination: "orders.paid.$1"},
		},
	} {
		inBubble.run(t, name, func(t *testing.T, w *world) {
			w.stream(c)
			w.sealed()
			s := w.ops.openStream(t)
			for range 3 {
				w.ok(checked(w.Context(), s))
			}
			_, n := w.messages()
			check.That(t, n == 1, "%d messages after three checks", n)
			cl := w.dial("a")
			a := w.guarding(cl, cl.openStream(t))
			a.saw(t, "0s pending", "0s elected")
			term := a.lastTerm(t)
			before, _ := w.messages()
			w.ok(checked(w.Context(), s))
			after, _ := w.messages()
			check.That(t, after == before, "a check wrote %d messages over a guard", after-before)
			check.That(t, term.Err() == nil, "the term ended: %v", term.Err())
		})
	}
}

// A client that looks at a guarded bucket before its first term finds the guard
// deleted.
func TestGuardCheck_LeavesMarker(t *testing.T) {
	bubble(t, func(w *world) {
		kv := check.Got(w.ops.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "orders", History: 5}))(w)
		w.ok(checked(w.Context(), w.ops.openBucket(t)))
		check.Is(t, check.Err(kv.Get(w.Context(), fence.DefaultGuardKey)), jetstream.ErrKeyNotFound)
		check.Is(t, check.Err(kv.Keys(w.Context())), jetstream.ErrNoKeysFound)
		h := check.Got(kv.History(w.Context(), fence.DefaultGuardKey))(w)
		check.That(t, len(h) == 1 && h[0].Operation() == jetstream.KeyValueDelete, "history %v", h)
	})
}

// renames returns a rule for a link that renames a header, so that the server does not
// know it.
func renames(header string) func(frame) treatment {
	line := []byte("\r\n" + header + ":")
	return func(f frame) treatment {
		for f.head > 0 && f.dir == up {
			i := bytes.Index(f.raw, line)
			if i < 0 {
				break
			}
			f.raw[i+2] = 'X'
		}
		return pass
	}
}

// A check finds a server that ignores the condition on another subject. An old server
// knows only the last sequence of the message's own subject.
func TestGuardCheck_FindsOldServer(t *testing.T) {
	inSealed(t, func(w *world) {
		w.stream(jetstream.StreamConfig{Subjects: []string{"orders.>"}})
		cl := w.dial("a")
		cl.filter(renames(jetstream.ExpectedLastSubjSeqSubjHeader))
		a := w.guarding(cl, cl.openStream(t))
		w.at(time.Minute)
		a.saw(t, "0s faulted unfit")
		n, _ := w.messages()
		check.That(t, n == 1, "%d messages were written", n) // the marker
		want := leader.ErrIncompatibleBucket.Error() + ": stream ORDERS does not heed a condition on another subject " +
			"(Nats-Expected-Last-Subject-Sequence-Subject) as nats-server 2.11.8 and later do: " +
			"server " + cl.nc.ConnectedServerName() + ", which leads the stream, says that it is of version " + cl.nc.ConnectedServerVersion()
		err := checked(w.Context(), cl.openStream(t))
		check.That(t, err != nil && err.Error() == want, "got\n %v\nwant\n %s", err, want)
		// With a server that applies it, the same candidate is elected.
		cl.cut()
		cl.open()
		w.at(2 * time.Minute)
		if !a.IsLeader() {
			t.Errorf("a saw %q", a.news())
		}
		before, _ := w.messages()
		cl.filter(renames(jetstream.ExpectedLastSubjSeqSubjHeader))
		check.Is(t, checked(w.Context(), cl.openStream(t)), leader.ErrIncompatibleBucket)
		after, _ := w.messages()
		check.That(t, after == before, "%d messages were written", after-before)
	})
}

// A check changes nothing where the server applies no condition. Where not even the headers
// arrive, the guard is rewritten as it was, and the leader raises it again.
func TestGuardCheck_NoConditions(t *testing.T) {
	inSealed(t, func(w *world) {
		w.stream(jetstream.StreamConfig{Subjects: []string{"orders.>"}})
		cl := w.dial("a")
		a := w.guarding(cl, cl.openStream(t))
		a.saw(t, "0s pending", "0s elected")
		term := a.lastTerm(t)
		s := check.Got(w.ops.js.Stream(w.Context(), "ORDERS"))(w)
		was := check.Got(s.GetLastMsgForSubject(w.Context(), "orders.guard"))(w)
		blind := w.dial("blind")
		blind.filter(func(f frame) treatment {
			for _, h := range []string{jetstream.ExpectedLastSubjSeqHeader, jetstream.ExpectedLastSubjSeqSubjHeader} {
				renames(h)(f)
			}
			return pass
		})
		check.Is(t, checked(w.Context(), blind.openStream(t)), leader.ErrIncompatibleBucket)
		is := check.Got(s.GetLastMsgForSubject(w.Context(), "orders.guard"))(w)
		check.That(t, is.Sequence != was.Sequence && bytes.Equal(is.Data, was.Data),
			"the guard is %d %s, was %d %s", is.Sequence, is.Data, was.Sequence, was.Data)
		w.at(time.Minute)
		a.saw(t, "6s faulted guard deleted") // it has no condition
		check.That(t, term.Err() == nil, "the term ended: %v", term.Err())
	})
}
