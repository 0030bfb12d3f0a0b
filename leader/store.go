package leader

import (
	"cmp"
	"fmt"
	"reflect"

	"github.com/natsleader/natsleader/internal/backend"
)

// Store is a bucket of elections: a [Bucket] on a NATS server, a leadertest.Store or leadertest.Link in memory, or
// one of these with the settings of package seats or kvelect. Only this module implements it.
//
// The errors of every Store are [ErrNoBucket], [ErrPermission], [ErrUnreachable], [ErrConnectionClosed], and
// [ErrInvalidConfig] for a name that can be no election. When ctx ends, the error is its error, ErrUnreachable, or
// both. Without a deadline of ctx, requests to the bucket end after 5 s.
type Store interface {
	sealedStore
}

// sealedStore and storeSeal keep the method that returns the backend out of the documentation.
type (
	sealedStore = backend.Sealed[backend.Store]
	storeSeal   = backend.Seal[backend.Store]
)

// opened returns the backend of a store or guard: nil if that is nil, a nil pointer, or was not opened.
func opened[B any](s backend.Sealed[B]) (b B) {
	if v := reflect.ValueOf(s); v.IsValid() && (v.Kind() != reflect.Pointer || !v.IsNil()) {
		b = s.Backend()
	}
	return b
}

// unmarked returns the store without the marks of packages seats and kvelect, and the marks.
func unmarked(store Store) (_ Store, marks backend.Marked) {
	for {
		m, ok := store.(backend.Marked)
		if !ok {
			return store, marks
		}
		store, marks.Seats, marks.KVElect = m.Sealed, cmp.Or(marks.Seats, m.Seats), marks.KVElect || m.KVElect
		marks.Uncordoned = marks.Uncordoned || m.Uncordoned
	}
}

// backendOf returns the backend of a store that was opened.
func backendOf(store Store) (backend.Store, error) {
	store, _ = unmarked(store)
	b := opened(store)
	if b == nil {
		return nil, fmt.Errorf("%w: the store is nil, or %w", ErrInvalidConfig, backend.ErrNotOpened)
	}
	return b, nil
}

// backendFor returns the backend of a store that was opened, for a call that names the key of an election.
func backendFor(store sealedStore, election string) (backend.Store, error) {
	b, err := backendOf(store)
	if err != nil {
		return nil, err
	}
	return b, checkKey(election)
}

// clockOf returns the clock of the store's time.
func clockOf(store Store) Clock {
	store, _ = unmarked(store)
	if s, ok := store.(interface{ Clock() Clock }); ok {
		return s.Clock()
	}
	if b, ok := store.(interface{ defaultClock() Clock }); ok {
		return b.defaultClock()
	}
	return SystemClock()
}
