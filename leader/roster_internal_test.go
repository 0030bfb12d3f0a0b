package leader

import "testing"

// A value that is not UTF-8 is announced in another field than a text. Each replaces the other.
func TestAnnouncement_ValueReplaced(t *testing.T) {
	var s announcement
	for _, value := range []string{"\xff", "text", "\xfe\x00", ""} {
		s.publish(value)
		if got := s.show().Value; string(got) != value {
			t.Errorf("%q is shown as %q", value, got)
		}
	}
}
