package backend_test

import (
	"fmt"
	"testing"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

// A Memory holds what was remembered last of each key, and is bounded.
func TestMemory_Bounded(t *testing.T) {
	var m backend.Memory
	m.Remember("a", 1)
	m.Remember("a", 2)
	got := m.Recall("a")
	check.That(t, got == 2 && m.Recall("b") == nil, "a is %v", got)
	m.Remember("a", nil)
	m.Remember("b", nil)
	if got := m.Recall("a"); got != nil || m.Len() != 0 {
		t.Errorf("a is %v of %d", got, m.Len())
	}
	for i := range 3 * backend.MemorySize {
		key := fmt.Sprint(i)
		m.Remember(key, i)
		if m.Recall(key) != i || m.Len() > backend.MemorySize {
			t.Fatalf("%d keys; the newest is %v", m.Len(), m.Recall(key))
		}
	}
	check.Equal(t, m.Len(), backend.MemorySize, "%d keys")
}

// A key that is known displaces no other, although the Memory is full.
func TestMemory_KnownKeyDisplacesNone(t *testing.T) {
	var m backend.Memory
	for i := range backend.MemorySize {
		m.Remember(fmt.Sprint(i), i)
	}
	for i := range backend.MemorySize {
		m.Remember(fmt.Sprint(i), i)
	}
	for i := range backend.MemorySize {
		got := m.Recall(fmt.Sprint(i))
		check.Must(t, got == i && m.Len() == backend.MemorySize, "%d is %v of %d", i, got, m.Len())
	}
	m.Remember("another", 0)
	check.That(t, m.Len() == backend.MemorySize, "%d keys after another one", m.Len())
}
