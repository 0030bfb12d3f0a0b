// Package keyset has the interface between package keys and what keeps the keys: a bucket on a NATS server, or the store
// in memory of the test kit. Applications do not use it.
package keyset

import (
	"context"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/leader"
)

// Bucket is a bucket of keys with values, which come, change and go. Errors are those of package leader. Each request ends
// with its context.
type Bucket interface {
	// Name returns the name of the bucket.
	Name() string
	// Check returns [leader.ErrNoBucket] if the bucket does not exist, and [leader.ErrIncompatibleBucket] if its keys expire
	// without a sign.
	Check(ctx context.Context) error
	// Follow delivers all keys that match the filters, in the order of their revisions, then Listed, and then each change.
	// It returns when ctx ends, or when a change may have been missed. The error is nil if the next call is to follow at
	// once. Before all, Follow delivers Remade if this may be another bucket than that of the call before. If the connection
	// is lost, Follow delivers Away, and nothing more. deliver may wait.
	Follow(ctx context.Context, filters []string, deliver func(Change)) error
	// Get reads the newest value of a key. The answer may come from a replica that lags. Revision 0: there is no value.
	Get(ctx context.Context, key string) (Entry, error)
	// Delete deletes a key if its last revision is revision. Otherwise it returns [backend.ErrRefused]. After any other
	// error the key may still be deleted.
	Delete(ctx context.Context, key string, revision uint64) error
	// Guard returns the guard that is that key of the bucket, and its writers.
	Guard(key string) (leader.Guard, func(*leader.Term) fence.KVWriter, error)
}

// Entry is a key with its newest value.
type Entry struct {
	Name     string
	Value    []byte
	Revision uint64
}

// Kind is the kind of a [Change].
type Kind uint8

// The kinds of changes.
const (
	Put    Kind = iota // the key has a new value
	Gone               // the key was deleted
	Listed             // all keys have been delivered that there were when Follow was called
	Remade             // no revision that was delivered earlier means anything
	Away               // changes are missed from now on
)

// Change is what a bucket reports. Of an Entry, Listed has the revision alone: the last one of the whole bucket, since Follow was
// called. Remade and Away have none.
type Change struct {
	Kind Kind
	Entry
}
