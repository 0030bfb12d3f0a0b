package leader_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// If a write cannot be made, its caller gets the reason at once, and no other caller
// notices.

// A write that cannot be made fails alone, and with its reason.
func TestGuardedWrite_FailsAlone(t *testing.T) {
	inSealed(t, func(w *world) {
		_, err := fence.CreateBucket(w.Context(), w.ops.js, jetstream.KeyValueConfig{Bucket: "orders", MaxValueSize: 2000})
		w.ok(err)
		a := w.guard("a", "orders")
		w.at(time.Second)
		put := a.writer(t)
		for name, size := range map[string]int{"the bucket's limit": 5000, "the connection's limit": 2 << 20} {
			for kind, write := range map[string]func(ctx context.Context) error{
				"put":    func(ctx context.Context) error { _, err := put.Put(ctx, "k", make([]byte, size)); return err },
				"create": func(ctx context.Context) error { _, err := put.Create(ctx, "k", make([]byte, size)); return err },
				"batch": func(ctx context.Context) error {
					b := put.Batch()
					b.Put("k", make([]byte, size))
					b.Put("j", nil)
					_, err := b.Commit(ctx)
					return err
				},
			} {
				ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
				bad := w.begin(func() error { return write(ctx) })
				good := w.begin(func() error { _, err := put.Put(ctx, "other", nil); return err })
				good.returned(time.Second, nil)
				bad.returned(time.Second, leader.ErrValueTooLarge)
				check.That(t, !errors.Is(bad.err, fence.ErrUnknownOutcome), "%s, %s: %v", name, kind, bad.err)
				cancel()
			}
		}
	})
}

// A message that is not of the stream is refused at once.
func TestGuardedWrite_OtherStream(t *testing.T) {
	inSealed(t, func(w *world) {
		for _, name := range []string{"log", "other"} {
			_, err := w.ops.js.CreateStream(w.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}, AllowAtomicPublish: true, AllowMsgSchedules: true})
			w.ok(err)
		}
		g := check.Got(fence.OpenStream(w.ops.js, "log", "log.guard"))(w)
		a := w.standAs(leader.Config{ID: "a", Guards: []leader.Guard{g}})
		w.at(time.Second)
		pub := g.Writer(a.lastTerm(t))
		for subject, h := range map[string]nats.Header{
			"other.x": nil,
			"none.x":  nil,
			"log.x":   {"Nats-Schedule": {"@at 2100-01-01T00:00:00Z"}, "Nats-Schedule-Target": {"log.y"}}, // stored later, without a guard
		} {
			_, err := pub.PublishMsg(w.Context(), &nats.Msg{Subject: subject, Header: h})
			w.refused(err, leader.ErrInvalidConfig)
			w.isAt(time.Second, subject)
		}
	})
}

// A batch can be committed again after a commit that failed.
func TestBatch_CommittedAgain(t *testing.T) {
	inSealed(t, func(w *world) {
		kv := w.orders()
		a := w.guard("a", "orders")
		w.at(time.Second)
		put := a.writer(t)
		b := put.Batch()
		b.Put("x", []byte("1"))
		b.Put("y", []byte("1"))
		a.cut()
		w.at(1500 * time.Millisecond)
		ctx, cancel := context.WithTimeout(w.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := b.Commit(ctx)
		w.refused(err, context.DeadlineExceeded)
		check.That(t, strings.Contains(err.Error(), "the connection is"), "%v does not say why", err)
		a.open()
		w.at(4 * time.Second)
		for range 2 {
			check.Got(b.Commit(w.Context()))(w)
		}
		check.Equal(t, w.history(kv, "x"), "1 1", "%q")
	})
}

// A writer accepts batches as soon as the stream accepts them. The settings of the stream
// may change while the term lasts.
func TestBatch_AcceptedOnceAllowed(t *testing.T) {
	inSealed(t, func(w *world) {
		check.Got(w.ops.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "orders"}))(w)
		a := w.guard("a", "orders")
		w.at(time.Second)
		check.Got(fence.CreateBucket(w.Context(), w.ops.js, jetstream.KeyValueConfig{Bucket: "orders"}))(w)
		check.Got(a.writer(t).Create(w.Context(), "k", nil))(w)
		w.ok(w.ops.js.DeleteKeyValue(w.Context(), "orders")) // and it may be gone
	})
}

// A check is not misled by a message on the subject of its probe. The subject of the
// probe belongs to the stream, and another client writes it.
func TestGuardCheck_ProbeSubject(t *testing.T) {
	inSealed(t, func(w *world) {
		kv := w.orders()
		a := w.guard("a", "orders")
		w.at(time.Second)
		check.Got(kv.Put(w.Context(), fence.DefaultGuardKey+".probe", nil))(w)
		b := w.guard("b", "orders")
		w.at(2 * time.Second)
		w.ok(a.Stop(w.Context()))
		w.at(3 * time.Second)
		if !b.IsLeader() {
			t.Errorf("b saw %q", b.news())
		}
	})
}

// A message with an ID of its own is written once, even if the caller sends it again.
func TestMessageID_IsWrittenOnce(t *testing.T) {
	inSealed(t, func(w *world) {
		s, err := w.ops.js.CreateStream(w.Context(), jetstream.StreamConfig{Name: "LOG", Subjects: []string{"log.>"}, AllowAtomicPublish: true})
		w.ok(err)
		g := check.Got(fence.OpenStream(w.ops.js, "LOG", "log.guard"))(w)
		a := w.standAs(leader.Config{ID: "a", Guards: []leader.Guard{g}})
		w.at(time.Second)
		m := &nats.Msg{Subject: "log.a", Header: nats.Header{"Nats-Msg-Id": {"1"}}}
		check.Got(g.Writer(a.lastTerm(t)).PublishMsg(w.Context(), m))(w)
		w.ok(a.Resign(w.Context()))
		w.at(10 * time.Second)
		ack := check.Got(g.Writer(a.lastTerm(t)).PublishMsg(w.Context(), m))(w)
		check.That(t, ack.Duplicate, "%+v", ack)
		b := g.Writer(a.lastTerm(t)).Batch()
		b.Publish("log.b", nil)
		b.PublishMsg(m)
		if _, err = b.Commit(w.Context()); err == nil || !strings.Contains(err.Error(), "stored before") {
			t.Error(err)
		}
		info := check.Got(s.Info(w.Context(), jetstream.WithSubjectFilter("log.*")))(w)
		check.That(t, info.State.Subjects["log.a"] == 1 && info.State.Subjects["log.b"] == 0, "%v", info.State.Subjects)
	})
}
