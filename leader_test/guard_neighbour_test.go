package leader_test

import (
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
