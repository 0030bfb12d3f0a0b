package leader

import (
	"testing"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/record"
)

// A value that is not UTF-8 is announced in another field than a text. Each replaces the other.
func TestAnnouncement_ValueReplaced(t *testing.T) {
	var s record.Announcement
	for _, value := range []string{"\xff", "text", "\xfe\x00", ""} {
		s.Publish(value)
		got := entryOf(s).Value
		check.That(t, string(got) == value, "%q is shown as %q", value, got)
	}
}
