package backend

import "sync"

// Memory is what package leader remembers of keys in this process, beyond the life of a
// candidate. It is bounded: while it is full, each further key displaces one of the others.
// The zero value is empty.
type Memory struct {
	mu   sync.Mutex // held for moments only
	keys map[string]any
}

// MemorySize is how many keys a Memory holds.
const MemorySize = 1024

// Recall returns what is remembered of the key, or nil.
func (m *Memory) Recall(key string) any {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.keys[key]
}

// Remember replaces what is remembered of the key. nil is nothing.
func (m *Memory) Remember(key string, what any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if what == nil {
		delete(m.keys, key)
		return
	}
	if m.keys == nil {
		m.keys = make(map[string]any)
	}
	if _, known := m.keys[key]; !known && len(m.keys) >= MemorySize {
		for other := range m.keys { // a random one: of more keys tried in turn, some stay long enough
			delete(m.keys, other)
			break
		}
	}
	m.keys[key] = what
}

// Len returns the number of keys.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.keys)
}
