package leader

import (
	"context"
	"time"
)

// Store is the narrow port through which a candidate sees one bucket: its settings, one
// key of it, a compare-and-set, and a feed of changes. [Bucket] implements it for NATS,
// leadertest.Store in memory.
//
// Every method returns at once, without waiting for the store, and answers through reply.
// It calls reply exactly once, from any goroutine, even before it returns, and at the
// latest soon after ctx has ended.
//
// A Store that lives in a time of its own has a method Clock() Clock, which is then the
// default of [Config].Clock. A Store that may know the bucket's settings without a
// request has a method KnownSettings() (Settings, bool). [Campaign] then fails at once
// for durations that the bucket rejects.
type Store interface {
	// Settings reads the settings of the bucket. On a replicated bucket the answer comes
	// from the stream's leader. Errors: [ErrNoBucket], [ErrIncompatibleBucket],
	// [ErrPermission], [ErrUnreachable], [ErrConnectionClosed].
	Settings(ctx context.Context, reply func(Settings, error))
	// Get reads the newest message of the key. The answer may be late or come from a replica
	// that lags. No message is an Entry with Revision 0 and no error.
	Get(ctx context.Context, key string, reply func(Entry, error))
	// Update writes value if the last revision of the key is revision, 0 for no message, and
	// answers with the new revision. A rejection is a [RefusedError]. After any other error
	// the write may still be applied, even much later.
	Update(ctx context.Context, key string, value []byte, revision uint64, reply func(uint64, error))
	// Watch opens a feed. From its reply on, deliver is called with the changes of the key
	// that become known, one call at a time. deliver never blocks. If instead is not nil, it
	// is a feed that has ended or was found deaf: Watch stops it, and opens one that is
	// independent of it. ctx is for the opening only.
	Watch(ctx context.Context, key string, instead Feed, deliver func(FeedEvent), reply func(Feed, error))
}

// Marker is an optional interface of a [Store]. A Marker can write a record so that every
// KV client takes the key for deleted. Candidates with [Config].KVElect need it, and give
// up the key in that way. [Bucket] and leadertest.Store are Markers.
type Marker interface {
	// Mark is Update, but writes a delete marker that carries the value.
	Mark(ctx context.Context, key string, value []byte, revision uint64, reply func(uint64, error))
}

// Feed is an open feed. It may lose messages: a feed is a hint.
type Feed interface {
	// Stop ends the feed and releases its resources.
	Stop()
}

// FeedEvent is one event of a feed.
type FeedEvent struct {
	// Entry is a message that was stored, if its Revision is not 0.
	Entry Entry
	// Reconnected reports that the connection was lost and is back: messages may be missing,
	// and the bucket's settings may have changed.
	Reconnected bool
	// Err is the reason why the feed has ended, or nil. After [ErrConnectionClosed] there
	// will never be another feed.
	Err error

	seen *sight // Entry as decoded once for all feeds that get it; or nil
}

// Entry is one revision of a key.
type Entry struct {
	Revision uint64    // greater than that of every earlier message of the bucket; 0: no message
	Value    []byte    // empty in a marker that was not written by [Marker].Mark
	Marker   bool      // the key was deleted, purged or expired
	Created  time.Time // when the server stored it, by the server's clock
}

// Settings holds the settings of a bucket that a candidate needs.
type Settings struct {
	// PurgeProtected reports that only a delete marker can remove a message, and that no
	// message expires. An empty key of a purge-protected bucket has never been written.
	PurgeProtected bool
	// MaxLease is the longest lease that a candidate may ask for; 0: unlimited.
	MaxLease time.Duration
	// TTL is the time after which the bucket drops records; 0: never.
	TTL time.Duration
	// MaxValue is the largest record in bytes that the bucket takes; 0: unlimited.
	MaxValue int
	// LastRevision is the last revision of the whole bucket. If it is lower than a revision
	// that was known when Settings was called, the bucket has lost its memory.
	LastRevision uint64
}
