package leadertest

import (
	"errors"
	"fmt"

	"github.com/natsleader/natsleader/leader"
)

// ErrSealed is returned for what a sealed bucket refuses: to purge, to erase
// and to expire.
var ErrSealed = errors.New("leadertest: the bucket is sealed")

// Entry returns the newest message of the key; without one, a zero Entry.
func (s *Store) Entry(key string) leader.Entry {
	s.lock("Store.Entry")
	defer s.mu.Unlock()
	return s.keys[key]
}

// Put writes a value over whatever the key holds, as `nats kv put` does, and
// returns its revision. The value may be foreign, or empty.
func (s *Store) Put(key string, value []byte) uint64 {
	s.lock("Store.Put")
	defer s.mu.Unlock()
	return s.put(key, value, false).Revision
}

// Delete leaves a marker, as `nats kv del` does, and returns its revision.
func (s *Store) Delete(key string) uint64 {
	s.lock("Store.Delete")
	defer s.mu.Unlock()
	return s.put(key, nil, true).Revision
}

// Purge leaves a marker, as `nats kv purge` does. A sealed bucket returns
// [ErrSealed].
func (s *Store) Purge(key string) error {
	return s.unsealed("Purge", func() { s.put(key, nil, true) })
}

// Expire lets the newest message of the key expire now, whatever the TTL: a
// record leaves a marker, a marker leaves nothing. A sealed bucket returns
// [ErrSealed].
func (s *Store) Expire(key string) error {
	return s.unsealed("Expire", func() { s.expire(key) })
}

// Erase removes the newest message of the key without a trace. A sealed bucket
// returns [ErrSealed].
func (s *Store) Erase(key string) error {
	return s.unsealed("Erase", func() { s.erase(key) })
}

// Wipe purges the stream: every message is gone without a trace, and the
// sequence goes on. A sealed bucket returns [ErrSealed].
func (s *Store) Wipe() error {
	return s.unsealed("Wipe", func() {
		clear(s.keys)
		clear(s.before)
		clear(s.written)
	})
}

func (s *Store) unsealed(what string, do func()) error {
	s.lock("Store." + what)
	defer s.mu.Unlock()
	if s.settings.Sealed {
		return fmt.Errorf("%w: no %s", ErrSealed, what)
	}
	do()
	return nil
}

// Drop deletes the bucket. Until [Store.Recreate], settings and new feeds are
// answered with [leader.ErrNoBucket], reads and writes with
// [leader.ErrUnreachable], because nobody serves them.
func (s *Store) Drop() {
	s.lock("Store.Drop")
	defer s.mu.Unlock()
	s.restore(Snapshot{})
	s.gone = true
}

// Recreate deletes the bucket and makes it anew, empty: the next revision is 1.
// Open feeds live on and are told nothing.
func (s *Store) Recreate() {
	s.lock("Store.Recreate")
	defer s.mu.Unlock()
	s.restore(Snapshot{})
	s.gone = false
}

// Snapshot returns what the store holds now, for [Store.Rollback].
func (s *Store) Snapshot() Snapshot {
	s.lock("Store.Snapshot")
	defer s.mu.Unlock()
	return s.snapshot()
}

// Rollback makes the store forget all that was written since the snapshot, the
// revisions included. Open feeds live on and are told nothing.
func (s *Store) Rollback(to Snapshot) {
	s.lock("Store.Rollback")
	defer s.mu.Unlock()
	s.restore(to)
}

// Configure changes what the bucket is set to. LastRevision is ignored. A new
// TTL counts for what is written from now on.
func (s *Store) Configure(settings leader.Settings) {
	s.lock("Store.Configure")
	defer s.mu.Unlock()
	s.settings = settings
}
