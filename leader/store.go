package leader

import (
	"fmt"

	"github.com/natsleader/natsleader/internal/backend"
)

// Store is a bucket of elections, which only this module implements: a [Bucket] on a NATS
// server, or a leadertest.Store or leadertest.Link in memory.
//
// A Store with a method Clock() Clock has a time of its own, which is then the default of
// [Config].Clock.
type Store interface {
	// Backend is for this module; applications do not call it.
	Backend() backend.Store
}

// backendOf returns the backend of a store that was opened.
func backendOf(store Store) (backend.Store, error) {
	if b, ok := store.(*Bucket); store == nil || ok && b == nil {
		return nil, fmt.Errorf("%w: the store is nil", ErrInvalidConfig)
	}
	s := store.Backend()
	if b, ok := s.(*bucketStore); ok && b.api.Conn == nil {
		return nil, fmt.Errorf("%w: the store is a Bucket that %w", ErrInvalidConfig, backend.ErrNotOpened)
	}
	return s, nil
}

// clockOf returns the clock of the store's time.
func clockOf(store Store) Clock {
	if s, ok := store.(interface{ Clock() Clock }); ok {
		return s.Clock()
	}
	if b, ok := store.Backend().(*bucketStore); ok {
		return b.clock // one for all candidates, so that they can compare instants
	}
	return SystemClock()
}
