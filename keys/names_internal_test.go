package keys

import (
	"hash/fnv"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
)

// The slot of a name is that of docs/howto/shards.md.
func TestSlotOf(t *testing.T) {
	for name, want := range map[string]int{"": 37, "customer-17": 12, "order-4711": 39} {
		check.Equal(t, slotOf(name, 50), want, "%d")
		h := fnv.New64a()
		_, _ = h.Write([]byte(name))
		check.Equal(t, uint64(slotOf(name, 997)), h.Sum64()%997, "%d")
	}
}

// Patterns overlap if a name matches both.
func TestOverlap(t *testing.T) {
	for _, c := range []struct {
		one, other string
		want       bool
	}{
		{"g.*", "g.*", true},
		{"g.*", "*.x", true},
		{"g.*", ">", true},
		{"g.*", "g.>", true},
		{"g.*", "*.*.x", false},
		{"g.*", "t.*", false},
		{"g.*", "g", false},
		{"g.*", "g.x.y", false},
		{"a.b.*", "a.*.c", true},
		{"a.b.*", "a.c.*", false},
	} {
		check.Equal(t, overlap(c.one, c.other), c.want, c.one+" and "+c.other+": %v")
		check.Equal(t, overlap(c.other, c.one), c.want, c.other+" and "+c.one+": %v")
	}
}
