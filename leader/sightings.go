package leader

import (
	"reflect"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/record"
)

// sightings are the entries of keys that were read in this process, each with the instant
// at which it was first received. A candidate of TryAcquire does not live long enough to
// watch a lease run out. It begins with what the candidates before it have seen.
type sightings struct {
	memory *backend.Memory
	clock  Clock // nil: one call has them for itself
}

// remembered is a sighting as the memory holds it.
type remembered struct {
	machine.Sighting       // its instant is one of the clock
	clock            Clock // instants of another clock say nothing
}

// sightingsOf returns the sightings of a store, by a clock. There are none if the store keeps
// none, or if the clock cannot be compared with others.
func sightingsOf(store backend.Store, clock Clock) *sightings {
	s, ok := store.(interface{ Memory() *backend.Memory })
	if !ok || !reflect.ValueOf(clock).Comparable() {
		return &sightings{memory: new(backend.Memory)}
	}
	return &sightings{s.Memory(), clock}
}

// recall returns what was seen of a key, with an instant of the clock, or none.
func (s *sightings) recall(key string) machine.Sighting {
	r, ok := s.memory.Recall(key).(remembered)
	if !ok || r.clock != s.clock {
		return machine.Sighting{}
	}
	return r.Sighting
}

// since returns when an entry that was read at an instant of the clock was first received, and
// remembers it.
func (s *sightings) since(key string, o record.Observation, at time.Time) time.Time {
	if r := s.recall(key); !r.At.IsZero() && r.Revision == o.Revision && r.Same(o) {
		return r.At
	}
	s.memory.Remember(key, remembered{machine.SeenAs(o, at), s.clock})
	return at
}
