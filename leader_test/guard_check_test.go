package leader_test

import (
	"bytes"
	"context"
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
		if c.AllowBatchPublish && misses(t, 14, name) {
			continue
		}
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
			check.That(t, leader.Err(term.Context()) == nil, "the term ended: %v", leader.Err(term.Context()))
		})
	}
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
		check.That(t, leader.Err(term.Context()) == nil, "the term ended: %v", leader.Err(term.Context()))
	})
}
