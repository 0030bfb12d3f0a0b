package leader_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
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
	b, err := fence.OpenBucket(cl.js, "orders", opts...)
	check.OK(t, err)
	return b
}

// openStream returns the guarded stream ORDERS with the guard orders.guard.
func (cl *client) openStream(t *testing.T) *fence.Stream {
	t.Helper()
	s, err := fence.OpenStream(cl.js, "ORDERS", "orders.guard")
	check.OK(t, err)
	return s
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
	_, err := w.ops.js.CreateOrUpdateStream(w.Context(), c)
	w.ok(err)
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
	s, err := w.ops.js.Stream(w.Context(), "ORDERS")
	w.ok(err)
	state := s.CachedInfo().State
	return state.LastSeq, state.Msgs
}

// A check names the setting of the stream that is not safe for a guard.
func TestGuardCheck_UnsafeSettings(t *testing.T) {
	type config = jetstream.StreamConfig
	orders := []string{"orders.>"}
	for _, k := range []struct {
		name string
		cfg  config
		text string
	}{
		{
			"MaxMsgs",
			config{Subjects: orders, MaxMsgs: 1000},
			"drops its oldest messages when it is full (MaxMsgs 1000 with discard old), and with them the guard",
		},
		{
			"MaxBytes",
			config{Subjects: orders, MaxBytes: 1 << 20},
			"drops its oldest messages when it is full (MaxBytes 1048576 with discard old), and with them the guard",
		},
		{
			"work queue",
			config{Subjects: orders, Retention: jetstream.WorkQueuePolicy},
			"drops what consumers have read (Retention WorkQueue), and with it the guard",
		},
		{
			"interest",
			config{Subjects: orders, Retention: jetstream.InterestPolicy},
			"drops what consumers have read (Retention Interest), and with it the guard",
		},
		{
			"MaxAge",
			config{Subjects: orders, MaxAge: time.Hour},
			"drops messages after 1h0m0s (MaxAge without AllowMsgTTL), and with them the guard",
		},
		{
			"DiscardNewPerSubject",
			config{Subjects: orders, MaxMsgsPerSubject: 3, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true},
			"refuses more than 3 messages of a subject (MaxMsgsPerSubject with DiscardNewPerSubject), and so to raise the guard",
		},
		{
			"MaxMsgSize",
			config{Subjects: orders, MaxMsgSize: 100},
			"takes messages of up to 100 bytes (MaxMsgSize), less than the 1536 that a guard may need",
		},
		{"NoAck", config{Subjects: orders, NoAck: true}, "acknowledges nothing (NoAck)"},
		{
			"Subjects",
			config{Subjects: []string{"orders.new", "orders.*.paid"}},
			`does not contain its guard: none of its subjects ["orders.new" "orders.*.paid"] covers orders.guard`,
		},
		{"Mirror", config{Mirror: &jetstream.StreamSource{Name: "OTHER"}}, "is a mirror of stream OTHER, and takes no writes"},
		{
			"Sources",
			config{Subjects: orders, Sources: []*jetstream.StreamSource{
				{Name: "SAFE", FilterSubject: "paid.>"}, {Name: "OTHER", FilterSubject: "orders.>"},
			}},
			"takes what comes from stream OTHER without conditions (Sources), also on the guard's subject orders.guard",
		},
		{
			"all of a source",
			config{Subjects: orders, Sources: []*jetstream.StreamSource{{Name: "OTHER"}}},
			"takes what comes from stream OTHER without conditions (Sources), also on the guard's subject orders.guard",
		},
		{
			"a source's transform",
			config{Subjects: orders, Sources: []*jetstream.StreamSource{
				{Name: "OTHER", SubjectTransforms: []jetstream.SubjectTransformConfig{{Source: "paid.*", Destination: "orders.$1"}}},
			}},
			"takes what comes from stream OTHER without conditions (Sources), also on the guard's subject orders.guard",
		},
		{
			"SubjectTransform away",
			config{Subjects: orders, SubjectTransform: &jetstream.SubjectTransformConfig{Source: "orders.>", Destination: "sold.>"}},
			`stores "orders.>" as "sold.>" (SubjectTransform), the guard's subject orders.guard among them`,
		},
		{
			"SubjectTransform to it",
			config{Subjects: []string{"orders.>", "x.*"}, SubjectTransform: &jetstream.SubjectTransformConfig{
				Source: "x.*", Destination: "orders.{{wildcard(1)}}",
			}},
			`stores "x.*" as "orders.{{wildcard(1)}}" (SubjectTransform), the guard's subject orders.guard among them`,
		},
		{"AllowMsgCounter", config{Subjects: orders, AllowMsgCounter: true}, "takes nothing but counters (AllowMsgCounter)"},
		{
			"PersistMode",
			config{Subjects: orders, PersistMode: jetstream.AsyncPersistMode},
			"acknowledges what a crash of the server can undo (PersistMode async), and so the guard",
		},
	} {
		inBubble.run(t, k.name, func(t *testing.T, w *world) {
			w.stream(k.cfg)
			w.sealed()
			before, _ := w.messages()
			err := checked(w.Context(), w.ops.openStream(t))
			want := leader.ErrIncompatibleBucket.Error() + ": stream ORDERS " + k.text
			check.That(t, err != nil && err.Error() == want && errors.Is(err, leader.ErrIncompatibleBucket),
				"got\n %v\nwant\n %s", err, want)
			cl := w.dial("a")
			a := w.guarding(cl, cl.openStream(t))
			w.at(time.Minute)
			a.saw(t, "0s faulted unfit")
			after, _ := w.messages()
			check.That(t, after == before, "%d messages were written", after-before)
		})
	}
}

// A stream that is sealed in the sense of NATS takes no writes, and a check refuses it.
func TestGuardCheck_SealedStream(t *testing.T) {
	bubble(t, func(w *world) {
		c := jetstream.StreamConfig{Subjects: []string{"orders.>"}}
		w.stream(c)
		c.Sealed = true
		w.stream(c)
		err := checked(w.Context(), w.ops.openStream(t))
		want := leader.ErrIncompatibleBucket.Error() + ": stream ORDERS is sealed, and takes no writes"
		check.That(t, err != nil && err.Error() == want, "got %v, want %s", err, want)
	})
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
	type config = jetstream.StreamConfig
	orders := []string{"orders.>"}
	for name, c := range map[string]config{
		"nothing set":       {Subjects: orders},
		"the guard alone":   {Subjects: []string{"orders.guard"}},
		"one per subject":   {Subjects: orders, MaxMsgsPerSubject: 1},
		"discard new":       {Subjects: orders, MaxMsgs: 1000, MaxBytes: 1 << 20, Discard: jetstream.DiscardNew},
		"MaxAge":            {Subjects: orders, MaxAge: time.Hour, AllowMsgTTL: true, SubjectDeleteMarkerTTL: time.Minute},
		"roomy messages":    {Subjects: orders, MaxMsgSize: 1536},
		"a filtered source": {Subjects: orders, Sources: []*jetstream.StreamSource{{Name: "OTHER", FilterSubject: "paid.>"}}},
		"a mapped source": {Subjects: orders, Sources: []*jetstream.StreamSource{
			{Name: "OTHER", SubjectTransforms: []jetstream.SubjectTransformConfig{{Source: "paid.>", Destination: "orders.paid.>"}}},
		}},
		"a transform": {Subjects: []string{"orders.>", "x.*"}, SubjectTransform: &jetstream.SubjectTransformConfig{
			Source: "x.*", Destination: "orders.paid.$1",
		}},
		"republished":  {Subjects: orders, RePublish: &jetstream.RePublish{Source: ">", Destination: "copy.>"}},
		"no deletes":   {Subjects: orders, DenyDelete: true, DenyPurge: true},
		"roll-ups":     {Subjects: orders, AllowRollup: true},
		"schedules":    {Subjects: orders, AllowMsgSchedules: true},
		"compressed":   {Subjects: orders, Compression: jetstream.S2Compression, FirstSeq: 1000},
		"fast batches": {Subjects: orders, AllowBatchPublish: true, AllowAtomicPublish: true},
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
		kv, err := w.ops.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "orders", History: 5})
		w.ok(err)
		w.ok(checked(w.Context(), w.ops.openBucket(t)))
		if _, err = kv.Get(w.Context(), fence.DefaultGuardKey); !errors.Is(err, jetstream.ErrKeyNotFound) {
			t.Errorf("Get: %v", err)
		}
		if _, err = kv.Keys(w.Context()); !errors.Is(err, jetstream.ErrNoKeysFound) {
			t.Errorf("Keys: %v", err)
		}
		h, err := kv.History(w.Context(), fence.DefaultGuardKey)
		w.ok(err)
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
		s, err := w.ops.js.Stream(w.Context(), "ORDERS")
		w.ok(err)
		was, err := s.GetLastMsgForSubject(w.Context(), "orders.guard")
		w.ok(err)
		blind := w.dial("blind")
		blind.filter(func(f frame) treatment {
			for _, h := range []string{jetstream.ExpectedLastSubjSeqHeader, jetstream.ExpectedLastSubjSeqSubjHeader} {
				renames(h)(f)
			}
			return pass
		})
		if err = checked(w.Context(), blind.openStream(t)); !errors.Is(err, leader.ErrIncompatibleBucket) {
			t.Errorf("got %v", err)
		}
		is, err := s.GetLastMsgForSubject(w.Context(), "orders.guard")
		w.ok(err)
		check.That(t, is.Sequence != was.Sequence && bytes.Equal(is.Data, was.Data),
			"the guard is %d %s, was %d %s", is.Sequence, is.Data, was.Sequence, was.Data)
		w.at(time.Minute)
		a.saw(t, "6s faulted guard deleted") // it has no condition
		check.That(t, term.Err() == nil, "the term ended: %v", term.Err())
	})
}

// A candidate checks again after each reconnection.
func TestGuardCheck_Reconnection(t *testing.T) {
	inSealed(t, func(w *world) {
		c := jetstream.StreamConfig{Subjects: []string{"orders.>"}}
		w.stream(c)
		cl := w.dial("a")
		a := w.guarding(cl, cl.openStream(t))
		a.saw(t, "0s pending", "0s elected")
		c.MaxMsgs = 1000
		w.stream(c)
		w.at(30 * time.Second)
		a.saw(t)
		reconnect := func() {
			w.Helper()
			cl.cut()
			cl.open()
			w.at(w.now() + 2*redial)
		}
		reconnect()
		if got := a.without("unreachable"); len(got) != 1 || !strings.HasSuffix(got[0], "faulted unfit") {
			t.Errorf("a saw %q", got)
		}
		w.at(2 * time.Minute)
		a.saw(t)
		check.That(t, a.IsLeader(), "it does not lead on")
		c.MaxMsgs = -1
		w.stream(c)
		reconnect()
		w.at(3 * time.Minute)
		if got := a.without("unreachable"); len(got) != 0 || !a.IsLeader() {
			t.Errorf("a saw %q", got)
		}
	})
}

// A candidate checks its guards again every minute. Another server may become the leader
// of the stream at any time, and settings change.
func TestGuardCheck_EveryMinute(t *testing.T) {
	inSealed(t, func(w *world) {
		w.stream(jetstream.StreamConfig{Subjects: []string{"orders.>"}})
		cl := w.dial("a")
		a := w.guarding(cl, cl.openStream(t))
		a.saw(t, "0s pending", "0s elected")
		cl.filter(saysVersion(cl.nc.ConnectedServerVersion(), "2.11.4"))
		w.at(time.Minute + time.Second)
		a.saw(t, "1m0s faulted unfit")
		w.at(10 * time.Minute)
		a.saw(t)
		check.That(t, a.IsLeader(), "it does not lead on")
	})
}
