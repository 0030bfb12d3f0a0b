package fence

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/leader"
)

// The reply to a write has one meaning. Only one that is not understood leaves the outcome
// open.
func TestSort_Replies(t *testing.T) {
	classes := map[error]string{errNotNow: "not now", errIncomplete: "incomplete", errStored: "stored", errStage: "stage", backend.ErrRefused: "refused", ErrUnknownOutcome: "unknown", leader.ErrIncompatibleBucket: "unfit"}
	atDesk(t, 1, func(d *desk) {
		for _, k := range []struct {
			reply []byte
			want  []error
		}{
			{refusal(400, jsapi.CodeBatchIncomplete, ""), []error{errNotNow, errIncomplete}},
			{refusal(503, jsapi.CodeClusterNotAvailable, ""), []error{errNotNow}},
			{refusal(503, jsapi.CodeClusterNotLeader, ""), []error{errNotNow}},
			{refusal(429, jsapi.CodeTooManyRequests, ""), []error{errNotNow}},
			{refusal(429, jsapi.CodeBatchesInflight, ""), []error{errNotNow}},
			{refusal(409, jsapi.CodeIDInProcess, ""), []error{errNotNow}},
			{known, []error{errStored}},
			{refusal(400, jsapi.CodeBatchDisabled, ""), []error{errStage, leader.ErrIncompatibleBucket}},
			{refused, []error{backend.ErrRefused}},
			{named("7"), []error{backend.ErrRefused}},
			{refusal(500, 10099, "broken"), nil},
			{[]byte("junk"), []error{ErrUnknownOutcome}},
			{[]byte(`{"stream":"OTHER","seq":7}`), []error{ErrUnknownOutcome, leader.ErrIncompatibleBucket}},
		} {
			_, err := d.bucket.sort(d.Context(), &nats.Msg{Subject: "x"}, k.reply)
			check.That(t, err != nil, "%s: no error", k.reply)
			for class, name := range classes {
				want := false
				for _, e := range k.want {
					want = want || errors.Is(e, class)
				}
				check.That(t, errors.Is(err, class) == want, "%s: %s %v", k.reply, name, !want)
			}
			d.Move(1, true)
		}
		ack, err := d.bucket.sort(d.Context(), &nats.Msg{Subject: "x"}, []byte(`{"stream":"KV_B","seq":7}`))
		check.That(t, err == nil && ack.Sequence == 7, "%+v, %v", ack, err)
	})
}

// A stream that says that it takes no batches any more is asked for its settings.
func TestSort_BatchesSwitchedOff(t *testing.T) {
	for _, answered := range []bool{true, false} {
		atDesk(t, 1, func(d *desk) {
			d.conf.AllowAtomicPublish = false
			d.follow(func(_ *nats.Msg, nth int) []byte {
				if nth > 0 {
					return refusal(400, jsapi.CodeBatchDisabled, "atomic publish is disabled")
				}
				if !answered {
					return silence
				}
				return nil
			})
			c := d.within(time.Minute, aCreate)
			at := time.Duration(0)
			if !answered {
				at = 5 * time.Second
				d.until(at)
			}
			c.is(at, leader.ErrIncompatibleBucket)
			check.That(t, !d.bucket.batches(), "it is taken for a stream that takes batches")
		})
	}
}

// A message without a reply has one meaning, too.
func TestExchange_NotAnswered(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		c := d.write("denied", "")
		d.until(20 * time.Millisecond) // see jsapi: it looks for denials then
		c.is(20*time.Millisecond, leader.ErrPermission)
		d.idle()
	})
	atDesk(t, 1, func(d *desk) {
		d.replies([]byte("junk"))
		d.write("a", "1").is(0, ErrUnknownOutcome)
	})
	atDesk(t, 1, func(d *desk) { // no server answers for a while
		d.follow(func(m *nats.Msg, nth int) []byte {
			if nth != 1 {
				return nil
			}
			_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"503"}}})
			return silence
		})
		d.write("a", "1").is(0)
	})
	atDesk(t, 1, func(d *desk) {
		d.nc.Close()
		d.write("a", "1").is(0, leader.ErrConnectionClosed)
	})
	atDesk(t, 1, func(d *desk) { // it is stored, and no reply may be heard
		nc := d.dial("deaf")
		defer nc.Close()
		js := check.Got(jetstream.New(nc))(d)
		b := check.Got(OpenBucket(js, "B"))(d)
		b.api.Known.Store(&d.conf)
		w := &BucketWriter{b: b, l: &writeQueue{s: &b.guardedStream, f: &d.term}}
		c := d.begin(func() error { return aPut(d.Context(), w) })
		d.until(20 * time.Millisecond)
		c.is(20*time.Millisecond, ErrUnknownOutcome, leader.ErrPermission)
	})
}

// Conditions of a caller's own are compared with what the stream has. An older answer may be
// late: three are excused.
func TestCompare_Conditions(t *testing.T) {
	conditioned := func(last uint64, create bool) *writeSet {
		return &writeSet{messages: []message{
			{subject: "$KV.B.a", on: "$KV.B.a"}, // without one
			{key: "k", subject: "$KV.B.k", on: "$KV.B.k", conditioned: true, expected: last, create: create},
		}}
	}
	atDesk(t, 1, func(d *desk) {
		d.have("$KV.B.a", "x")
		at := d.have("$KV.B.k", "x") // 3
		for _, k := range []struct {
			name string
			set  *writeSet
			want []error // of one comparison after the other
		}{
			{"held", conditioned(at, false), []error{nil, nil}},
			{"newer", conditioned(at-1, false), []error{jetstream.ErrKeyRevisionMismatch}},
			{"older", conditioned(at+1, false), []error{nil, nil, nil, jetstream.ErrKeyRevisionMismatch}},
			{"exists", conditioned(0, true), []error{jetstream.ErrKeyExists}},
		} {
			for i, want := range k.want {
				err := d.bucket.compare(k.set)
				check.That(t, errors.Is(err, want), "%s, %d: %v, want %v", k.name, i+1, err, want)
			}
		}
		d.mu.Lock()
		d.put("$KV.B.k", "", nats.Header{jsapi.KVOperation: {jsapi.KVDelete}})
		d.mu.Unlock()
		c := conditioned(0, true)
		if err := d.bucket.compare(c); err != nil || c.messages[1].expected != 4 {
			t.Errorf("a deleted key: %v, expected at %d", err, c.messages[1].expected)
		}
		err := d.bucket.compare(conditioned(0, false))
		check.That(t, errors.Is(err, jetstream.ErrKeyRevisionMismatch), "an update of a deleted key: %v", err)
		d.follow(func(*nats.Msg, int) []byte { return refusal(500, 10099, "broken") })
		if err := d.bucket.compare(conditioned(0, true)); !errors.Is(err, &jetstream.APIError{ErrorCode: 10099}) || errors.Is(err, errNotNow) {
			t.Errorf("an error: %v", err)
		}
		d.follow(func(*nats.Msg, int) []byte { return silence })
		call := d.begin(func() error { return d.bucket.compare(conditioned(0, true)) })
		d.until(5 * time.Second)
		call.is(5*time.Second, errNotNow, leader.ErrUnreachable)
	})
}

// A single write that is rejected although the guard stands reads the settings: perhaps the
// stream has more replicas by now. The read ends after 5 s.
func TestSendDirect_MoreReplicas(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		d.conf.Replicas = 3
		d.replies(refused, nil)
		d.write("a", "1").is(0)
		check.That(t, d.bucket.replicated(), "the settings were not read")
	})
	atDesk(t, 1, func(d *desk) {
		d.follow(func(m *nats.Msg, nth int) []byte {
			switch {
			case m.Subject == "$JS.API.STREAM.INFO.KV_B":
				return silence
			case nth == 1:
				return refused
			}
			return nil
		})
		c := d.within(time.Minute, aPut)
		d.until(5 * time.Second)
		c.is(5 * time.Second)
	})
}

// A stream whose settings are not known is written as one that has replicas and takes no
// batches.
func TestReplicated_Settings(t *testing.T) {
	for _, k := range []struct {
		known               *jetstream.StreamConfig
		replicated, batches bool
	}{
		{nil, true, false},
		{&jetstream.StreamConfig{Replicas: 1}, false, false},
		{&jetstream.StreamConfig{Replicas: 2, AllowAtomicPublish: true}, true, true},
	} {
		var s guardedStream
		s.api.Known.Store(k.known)
		if s.replicated() != k.replicated || s.batches() != k.batches {
			t.Errorf("%+v: replicated %v, batches %v", k.known, s.replicated(), s.batches())
		}
	}
}

// A single write on a connection that is down was not sent.
func TestPublish_SingleUnsent(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		d.s.Shutdown()
		d.came()
		c := d.write("a", "1")
		d.until(5 * time.Second)
		c.is(5*time.Second, context.DeadlineExceeded, errNotNow, leader.ErrUnreachable)
	})
}
