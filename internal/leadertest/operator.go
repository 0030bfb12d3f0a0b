package leadertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/natskv"
	"github.com/natsleader/natsleader/leader"
)

// errPurgeProtected is returned for the operations that a purge-protected bucket refuses:
// to purge, to erase and to expire.
var errPurgeProtected = errors.New("leadertest: the bucket is purge-protected")

// Entry is one message of a key.
type Entry struct {
	Revision uint64    // greater than that of every earlier message of the bucket; 0: no message
	Value    []byte    // empty in most markers; not to be changed
	Marker   bool      // the key was deleted, purged or expired
	Created  time.Time // when the message was stored
}

// Entry returns the newest message of the key; without one, a zero Entry.
func (s *Store) Entry(key string) Entry {
	defer s.lock("Store.Entry")()
	return Entry(s.keys[key])
}

// Holder returns the holder of the election, or of a seat, that the newest message of the
// key names, as [leader.HolderOf] does.
func (s *Store) Holder(election string) leader.Holder {
	return holderOf(s.Entry(election), election)
}

// Leader returns the holder of the election, or of a seat, that leads now by the record in
// the store: it is not pending, it has not given the key up, and one lease since its last
// renewal is not over. Without one, Leader returns a zero Holder. The holder itself stops
// earlier, at its RenewDeadline.
func (s *Store) Leader(election string) leader.Holder {
	h := s.Holder(election)
	if h.State != leader.HolderLeading || h.Renewed.Add(h.Lease).Compare(s.time.Now()) <= 0 {
		return leader.Holder{}
	}
	return h
}

func holderOf(e Entry, election string) leader.Holder {
	return leader.HolderOf(natskv.KeyValue(backend.Entry(e), election))
}

// Put writes a value over whatever the key holds, as `nats kv put` does, and
// returns its revision. The value may be foreign, or empty.
func (s *Store) Put(key string, value []byte) uint64 {
	defer s.lock("Store.Put")()
	return s.put(key, value, false).Revision
}

// Delete leaves a marker, as `nats kv del` does, and returns its revision.
func (s *Store) Delete(key string) uint64 {
	defer s.lock("Store.Delete")()
	return s.put(key, nil, true).Revision
}

// Forge delivers an entry to the open feeds of the key without storing it. A client
// that may publish on the subject of a feed can do that.
func (s *Store) Forge(key string, e Entry) {
	defer s.lock("Store.Forge")()
	for _, f := range s.feeds {
		if f.key == key {
			f.tell(backend.FeedEvent{Entry: backend.Entry(e)})
		}
	}
}

// Purge leaves a marker, as `nats kv purge` does. It fails for a purge-protected bucket.
func (s *Store) Purge(key string) error {
	return s.unlessProtected("Purge", func() { s.put(key, nil, true) })
}

// Expire lets the newest message of the key expire now, whatever the TTL: a
// record leaves a marker, a marker leaves nothing. It fails for a purge-protected bucket.
func (s *Store) Expire(key string) error {
	return s.unlessProtected("Expire", func() { s.expire(key) })
}

// Erase removes the newest message of the key without a trace. It fails for a
// purge-protected bucket.
func (s *Store) Erase(key string) error {
	return s.unlessProtected("Erase", func() { s.erase(key) })
}

// Wipe purges the stream: every message is gone without a trace, and the
// sequence goes on. It fails for a purge-protected bucket.
func (s *Store) Wipe() error {
	return s.unlessProtected("Wipe", func() {
		clear(s.keys)
		clear(s.before)
		clear(s.written)
	})
}

func (s *Store) unlessProtected(what string, do func()) error {
	defer s.lock("Store." + what)()
	if s.settings.PurgeProtected {
		return fmt.Errorf("%w, so %s is not possible: make the store with WithoutPurgeProtection", errPurgeProtected, what)
	}
	do()
	return nil
}

// Drop deletes the bucket. Until [Store.Recreate], requests for settings and new feeds fail
// with [leader.ErrNoBucket]. Writes and the first read of a link fail with
// [leader.ErrUnreachable], because no stream serves them.
func (s *Store) Drop() {
	defer s.lock("Store.Drop")()
	s.restore(Snapshot{})
	s.gone = true
	s.endWatches(leader.ErrNoBucket, func(*Link) bool { return true })
}

// Recreate deletes the bucket and makes it anew, empty. The next revision is 1, as in a
// bucket that was not made by [leader.CreateOrUpdateBucket]. Open feeds live on and do not report
// the change.
func (s *Store) Recreate() {
	defer s.lock("Store.Recreate")()
	s.restore(Snapshot{})
	s.gone = false
	s.made++
	s.endWatches(nil, func(*Link) bool { return true })
}

// Snapshot returns the content of the store, for [Store.Rollback].
func (s *Store) Snapshot() Snapshot {
	defer s.lock("Store.Snapshot")()
	return s.snapshot()
}

// Rollback makes the store forget all writes since the snapshot, the revisions
// included. Open feeds live on and do not report the change.
func (s *Store) Rollback(to Snapshot) {
	defer s.lock("Store.Rollback")()
	s.restore(to)
	s.endWatches(nil, func(*Link) bool { return true })
}

// Configure changes the settings of the bucket to those of a new Store with these options.
// The latency stays unless it is among them. A new TTL applies to messages that are written
// from now on.
func (s *Store) Configure(opts ...Option) {
	defer s.lock("Store.Configure")()
	s.settings = defaultSettings
	for _, opt := range opts {
		opt(s)
	}
}
