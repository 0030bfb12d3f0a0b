package leader

import (
	"fmt"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/natskv"
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
	if b, ok := s.(*natskv.Bucket); ok && !b.IsOpen() {
		return nil, fmt.Errorf("%w: the store is a Bucket that %w", ErrInvalidConfig, backend.ErrNotOpened)
	}
	return s, nil
}

// backendFor returns the backend of a store that was opened, for a call that names the key of an election.
func backendFor(store Store, election string) (backend.Store, error) {
	b, err := backendOf(store)
	if err != nil {
		return nil, err
	}
	return b, checkKey(election)
}

// clockOf returns the clock of the store's time.
func clockOf(store Store) Clock {
	if s, ok := store.(interface{ Clock() Clock }); ok {
		return s.Clock()
	}
	if b, ok := store.(interface{ defaultClock() Clock }); ok {
		return b.defaultClock()
	}
	return SystemClock()
}
