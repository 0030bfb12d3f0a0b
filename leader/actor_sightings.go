package leader

import (
	"reflect"
	"time"

	"github.com/natsleader/natsleader/internal/backend"

	"github.com/natsleader/natsleader/internal/record"
)

// sightings are the entries of keys that were read in this process, each with the instant
// at which it was first received. A candidate of TryAcquire does not live long enough to
// watch a lease run out. It begins with what the candidates before it have seen.
type sightings struct {
	memory *backend.Memory
	clock  Clock
}

// remembered is a sighting as the memory holds it.
type remembered struct {
	sighting       // its instant is one of the clock
	clock    Clock // instants of another clock say nothing
}

// sightingsOf returns the sightings of a store, by a clock. There are none if the store keeps
// none, or if the clock cannot be compared with others.
func sightingsOf(store backend.Store, clock Clock) *sightings {
	s, ok := store.(interface{ Memory() *backend.Memory })
	if !ok || !reflect.ValueOf(clock).Comparable() {
		return &sightings{memory: new(backend.Memory), clock: clock}
	}
	return &sightings{s.Memory(), clock}
}

// recall returns what was seen of the key before.
func (a *actor) recall() sighting {
	s := a.c.sightings
	if s == nil {
		return sighting{}
	}
	r := s.recall(a.c.election)
	if r.at.IsZero() {
		return sighting{}
	}
	r.at = a.inside(r.at)
	return r
}

// recall returns what was seen of a key, with an instant of the clock, or none.
func (s *sightings) recall(key string) sighting {
	r, ok := s.memory.Recall(key).(remembered)
	if !ok || r.clock != s.clock {
		return sighting{}
	}
	return r.sighting
}

// since returns when an entry that was read at an instant of the clock was first received, and
// remembers it.
func (s *sightings) since(key string, o record.Observation, at time.Time) time.Time {
	if r := s.recall(key); !r.at.IsZero() && r.Revision == o.Revision && r.Same(o) {
		return r.at
	}
	s.memory.Remember(key, remembered{seenAs(o, at), s.clock})
	return at
}

// remember keeps what is seen of the key for later candidates.
func (a *actor) remember() {
	s := a.c.sightings
	switch {
	case s == nil:
	case a.status.seenAt.IsZero():
		s.memory.Remember(a.c.election, nil)
	default:
		s.memory.Remember(a.c.election, remembered{seenAs(*a.status.seen, a.outside(a.status.seenAt)), s.clock})
	}
}

// seenAs returns the part of an observation that identifies the write.
func seenAs(o record.Observation, at time.Time) sighting {
	rec := record.Record{ID: o.Rec.ID, Session: o.Rec.Session, Counter: o.Rec.Counter}
	return sighting{record.Observation{Revision: o.Revision, Kind: o.Kind, Rec: rec}, at}
}
