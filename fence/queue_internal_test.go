package fence

import (
	"context"
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
)

// With replicas, changes that come up meanwhile share a batch. It has at most 999 messages and
// 4 MiB, no message with an ID of the caller, and no condition on what it writes.
func TestTake_SharesBatches(t *testing.T) {
	message := func(key string, n int) message { return message{subject: key, on: key, data: make([]byte, n)} }
	set := func(n, size int) *writeSet {
		c := &writeSet{}
		for range n {
			c.messages = append(c.messages, message("k", size))
		}
		return c
	}
	single := set(1, 0)
	single.single = true
	conditioned := set(1, 0)
	conditioned.messages[0].conditioned = true
	left := set(1, 0)
	left.left = true
	for _, k := range []struct {
		name  string
		queue []*writeSet
		want  int // taken
		group int
	}{
		{"999 messages", []*writeSet{set(998, 0), set(1, 0), set(1, 0)}, 2, 2},
		{"1000 messages", []*writeSet{set(998, 0), set(2, 0)}, 1, 1},
		{"4 MiB", []*writeSet{set(1, 2<<20), set(1, 2<<20), set(1, 1)}, 2, 2},
		{"an ID behind", []*writeSet{set(1, 0), single}, 1, 1},
		{"an ID ahead", []*writeSet{single, set(1, 0)}, 1, 1},
		{"a condition on what is written", []*writeSet{set(1, 0), conditioned}, 1, 1},
		{"a condition first", []*writeSet{conditioned, set(1, 0)}, 2, 2},
		{"given up", []*writeSet{left, set(1, 0), left}, 3, 1},
	} {
		q := &writeQueue{s: &guardedStream{}, f: &term{}, queue: slices.Clone(k.queue)}
		q.s.api.Known.Store(&jetstream.StreamConfig{Replicas: 3, AllowAtomicPublish: true})
		group := q.take()
		taken := len(k.queue) - len(q.queue)
		check.That(t, taken == k.want && len(group) == k.group,
			"%s: %d were taken for a batch of %d", k.name, taken, len(group))
		q.s.api.Known.Store(&jetstream.StreamConfig{Replicas: 3})
		q.queue = []*writeSet{set(1, 0), set(1, 0)}
		group = q.take()
		check.That(t, len(group) == 1, "%d in a batch that the stream does not take", len(group))
	}
}

// A guard that was raised again while it was read is not awaited.
func TestRaisedAgain_Meanwhile(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		d.Move(3, true)
		c := d.begin(func() error { return d.w.l.raisedAgain(d.Context(), 1) })
		c.is(0, nil)
		check.Equal(t, d.suspects, 0, "reported %d times")
	})
}

// The error of a call that ends before its first try has no other reason.
func TestGaveUp_Texts(t *testing.T) {
	check.Equal(t, gaveUp(context.Canceled, nil).Error(), "fence: nothing was written: context canceled", "%s")
	check.Equal(t, gaveUp(context.Canceled, errNotNow).Error(), "fence: nothing was written: context canceled: the stream takes no writes now", "%s")
}
