package leader_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/kvelect"
	"github.com/natsleader/natsleader/leader"
)

// A TTL of 30 s is the least that nats-kv-leader-elect accepts; its interval is 22.5 s.
const (
	kvTTL      = 30 * time.Second
	kvInterval = 22500 * time.Millisecond
)

// A fleet of nats-kv-leader-elect moves over one process at a time.
func TestKVElect_FleetMovesOver(t *testing.T) { story(t) }

// An old process takes a released key at its next interval.
func TestKVElect_Release(t *testing.T) { story(t) }

// A handover among candidates takes no time beside old processes.
func TestKVElect_Handover(t *testing.T) { story(t) }

// An old leader that dies is replaced after two TTLs.
func TestKVElect_DeadOldLeader(t *testing.T) { story(t) }

// Without kvelect.Beside, each record of an old process is a fault.
func TestKVElect_Unset(t *testing.T) { story(t) }

// A key that is deleted under an old leader is led when the old leader must have noticed.
func TestKVElect_DeletedKey(t *testing.T) { story(t) }

// A leader whose key is deleted while it is cut off is fenced before an old process
// leads.
func TestKVElect_CutOffIsFenced(t *testing.T) { story(t) }

// Lost replies cost the old process its lead, and cost no process its safety. Faults 7
// and 8 of docs/faults.md: writes with lost replies, on either side.
func TestKVElect_LostReplies(t *testing.T) { story(t) }

// kvelect.Beside is refused for a bucket in which it cannot work.
func TestKVElect_UnfitBucket(t *testing.T) {
	inSealed(t, func(w *world) {
		b := w.ops.bucket(t)
		check.Got(b.Info(w.Context()))(w)
		_, err := leader.Campaign(w.Context(), kvelect.Beside(b), "e", leader.Config{})
		wantText(t, err, leader.ErrIncompatibleBucket, "beside nats-kv-leader-elect a bucket needs a TTL, and this has none")
		w.ok(w.ops.js.DeleteKeyValue(w.Context(), "E"))
		check.Got(w.ops.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "E", TTL: 16 * time.Second, Storage: jetstream.MemoryStorage}))(w)
		b = w.ops.bucket(t)
		check.Got(b.Info(w.Context()))(w)
		_, err = leader.Campaign(w.Context(), kvelect.Beside(b), "e", leader.Config{LeaseDuration: 13 * time.Second})
		wantText(t, err, leader.ErrIncompatibleBucket, "beside nats-kv-leader-elect LeaseDuration 13s is more than three quarters of the bucket's TTL 16s")
	})
}

func wantText(t *testing.T, err, is error, text string) {
	t.Helper()
	check.That(t, errors.Is(err, is) && err.Error() == fmt.Sprintf("%v: %s", is, text),
		"%v, want %v: %s", err, is, text)
}
