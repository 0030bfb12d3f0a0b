package machine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/record"
)

// A feed that misses messages is opened anew three times, then only now and then, and
// reported once. A message that it delivers ends that.
func TestFeedHealth_DeafFeed(t *testing.T) {
	var f feedHealth
	reopened, reported := 0, 0
	for range 32 {
		f.opened()
		if f.missed(epoch) {
			reported++
		}
		if !f.up {
			reopened++
		}
	}
	if reopened != mute+2 || reported != 1 || f.trusted() {
		t.Errorf("opened anew %d times, reported %d times, trusted: %v", reopened, reported, f.trusted())
	}
	f.opened()
	if f.delivered(); !f.trusted() || f.broken() != "" {
		t.Errorf("a feed that delivers is not trusted, or broken: %q", f.broken())
	}
}

func (b *bucketView) broken() string {
	s := b.settings
	switch {
	case b.bound < min(max(s.MaxLease, s.TTL), record.MaxLease):
		return fmt.Sprintf("bound %v is less than MaxLease %v or TTL %v", b.bound, s.MaxLease, s.TTL)
	case b.bound > record.MaxLease:
		return fmt.Sprintf("bound %v is longer than any lease", b.bound)
	}
	return ""
}

func (f *feedHealth) broken() string {
	if f.fails > 0 && !f.up && f.retryAt.IsZero() {
		return "it failed and has no time to retry"
	}
	return ""
}

// The error about a record that is too large names the limit as it is set, and not the room
// that the header of a write leaves.
func TestFit_NamesTheLimit(t *testing.T) {
	for room, ok := range map[int]bool{1: false, 50: false, 1 << 20: true, 0: true} {
		m := New(Params{ID: "a", Session: "S"}, "")
		m.bucket.settings = backend.Settings{MaxValue: room, Limit: "the limit"}
		err := m.fit("")
		if ok && err != nil || !ok && (!errors.Is(err, backend.ErrValueTooLarge) || !strings.HasSuffix(err.Error(), "more than the limit")) {
			t.Errorf("room for %d bytes: %v", room, err)
		}
	}
}
