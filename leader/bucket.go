package leader

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/natskv"
)

// BucketConfig holds the settings of a bucket for [CreateOrUpdateBucket] and [EnsureBucket].
type BucketConfig struct {
	// Name of the bucket: letters, digits, '-' and '_'. Its stream is called KV_ and the name.
	Name string
	// Description is for people. Empty keeps that of an existing bucket.
	Description string
	// Replicas is 1, 3 or 5. Default 0: a new bucket gets 1, an existing one keeps its number.
	Replicas int
	// Storage cannot be changed once the bucket exists. Default: jetstream.FileStorage.
	Storage jetstream.StorageType
	// MaxLease is the longest lease that a candidate may ask for, from 100 ms to 24 h. A candidate that cannot know
	// which lease was running waits as long as MaxLease. Default: the MaxLease of the existing bucket if it is less
	// than TTL, or else 15s, or two thirds of TTL if that is shorter.
	//
	// MaxLease cannot be lowered while a longer lease may be running. Candidates learn of a change when they next
	// connect: have all of them reconnect after MaxLease was lowered, and before longer leases are used.
	MaxLease time.Duration
	// TTL is the time after which the bucket drops records, at least 100ms. Default 0: records stay until they are
	// replaced, and the bucket is purge-protected. With a TTL, a candidate that finds the key empty waits one TTL
	// before it leads, even in a new election. Keep the TTL short or set none.
	TTL time.Duration
	// Placement selects the servers that keep the bucket. Default: the server chooses, and an existing bucket stays
	// where it is.
	Placement *jetstream.Placement
	// Roster makes CreateOrUpdateBucket create, or update, the bucket beside this one in which candidates announce
	// themselves. EnsureBucket creates it with the bucket. Default: that bucket is left alone, even if it exists.
	Roster bool
	// Adopt lets CreateOrUpdateBucket take an existing bucket although it holds values that are not records of an
	// election, or several revisions of a key. All but the newest revision of each key are dropped. Without a TTL
	// the bucket denies purges from then on, which cannot be undone. Default: such a bucket is rejected with
	// [ErrIncompatibleBucket].
	Adopt bool
}

// BucketInfo is the result of [Bucket.Info].
type BucketInfo struct {
	Name        string
	Description string
	Replicas    int
	Storage     jetstream.StorageType
	Placement   *jetstream.Placement // nil: anywhere
	// PurgeProtected reports that only a delete marker can remove a record, and that no record expires. See
	// [CreateOrUpdateBucket].
	PurgeProtected bool
	// MaxLease is the longest lease that a candidate may ask for; 0: unlimited.
	MaxLease time.Duration
	// TTL is the time after which the bucket drops records; 0: never.
	TTL time.Duration
	// MaxValue is the largest record in bytes that the bucket and the connection take; 0: unlimited.
	MaxValue int
	// FeedSubject is the prefix of the subject of a key's feed; a dot and the key follow. Empty: candidates watch
	// the key with a consumer instead.
	FeedSubject string
	// Roster reports whether the bucket has a roster that CreateOrUpdateBucket has made.
	Roster bool
}

// Bucket is a JetStream key-value bucket whose keys are elections. It is the [Store] for NATS. Any
// number of candidates may use it at once. It needs no closing, and it never touches the handlers
// of the connection. While the connection is down, it hands nothing over to nats.go, because a
// write that waits in the reconnect buffer may be applied a minute later.
//
// Its methods return [ErrUnreachable] soon after their contexts have ended, also while nats.go
// blocks its callers. docs/contract.md has more about connections that hang, and about missing
// permissions.
type Bucket struct {
	storeSeal // of a *natskv.Bucket

	clock Clock // one for all candidates, so that they can compare instants
}

// store returns the backend. Its methods report that a zero value was not opened.
func (b *Bucket) store() *natskv.Bucket {
	if kv, ok := b.Backend().(*natskv.Bucket); ok {
		return kv
	}
	return new(natskv.Bucket)
}

func (b *Bucket) defaultClock() Clock { return b.clock }

// CreateOrUpdateBucket creates the bucket, or updates it if it exists, and returns it as [OpenBucket]
// does. An ordinary bucket of that name is brought to these settings. It keeps the settings that
// do not matter to an election. If nothing needs to change, nothing is written. A bucket that
// CreateOrUpdateBucket has not made and that holds anything but records of elections is rejected, see
// [BucketConfig].Adopt.
//
// Without a TTL the bucket is purge-protected: nothing but a delete marker removes a record, and
// clients cannot undo that. `nats kv del` works on it, and `nats kv purge` is refused. Make a
// bucket purge-protected while no candidate campaigns. With a TTL a client that may write one key
// can wipe all others, and the winner of an empty key waits. Both kinds work with
// jetstream.KeyValue and republish their messages below "natsleader.feed.", the name of the bucket
// and a dot. Allow no client to publish there.
//
// Tokens go on rising when a bucket is deleted and created again. But a leader that is cut off
// meanwhile continues until its lease is over. Stop all candidates before you delete a bucket.
//
// The roster is the bucket with the name of this one and "_roster". It needs nats-server 2.11. If
// it cannot be created, the bucket is neither created nor changed. docs/contract.md has the rest.
//
// Errors: [ErrInvalidConfig] for settings that cannot work, [ErrIncompatibleBucket] for an
// existing stream that cannot be brought to them, [ErrPermission], [ErrUnreachable],
// [ErrConnectionClosed], and other errors of the server as a *jetstream.APIError.
func CreateOrUpdateBucket(ctx context.Context, js jetstream.JetStream, cfg BucketConfig) (*Bucket, error) {
	return bucketOf(natskv.Create(ctx, js, natskv.Config(cfg)))
}

// OpenBucket returns a bucket that exists, or that another client creates later. It sends no
// request. A candidate reports [ErrIncompatibleBucket] in a [Faulted] event if no election can
// work with the bucket. Errors: [ErrInvalidConfig].
func OpenBucket(js jetstream.JetStream, name string) (*Bucket, error) {
	return bucketOf(natskv.Open(js, name))
}

// EnsureBucket returns a bucket that its candidates create if it does not exist. It sends no
// request, so it works before there is a server (nats.RetryOnFailedConnect). Any number of
// processes may use it at the same time: one of them creates the bucket, with a roster if
// cfg.Roster is set. A candidate that cannot create it reports the reason in a [Faulted] event,
// and tries again with growing pauses. [Observe] and [Lookup] create nothing.
//
// An existing bucket is never changed. If it differs from cfg, each candidate goes on with the
// bucket as it is, and reports the first setting that differs, once, in a [Faulted] event with
// [ErrBucketDiffers]. Settings that have a default of their own in cfg are not compared.
//
// A bucket that was found once through this Bucket is not created again. If it is deleted,
// candidates report [ErrNoBucket] until there is one. But a process that has never seen the bucket
// creates it, and leads in it at once. A leader of the deleted bucket that is cut off from NATS
// then goes on until its lease is over. Stop all candidates before you delete a bucket.
//
// Errors: [ErrInvalidConfig] for settings that cannot work, and for Adopt.
func EnsureBucket(js jetstream.JetStream, cfg BucketConfig) (*Bucket, error) {
	return bucketOf(natskv.Ensure(js, natskv.Config(cfg)))
}

func bucketOf(kv *natskv.Bucket, err error) (*Bucket, error) {
	if err != nil {
		return nil, err
	}
	return &Bucket{backend.NewSeal[backend.Store](kv), SystemClock()}, nil
}

// WithFeedSubject returns another Bucket for the same bucket, with another subject on which its
// republished messages arrive: prefix, a dot and the key. It is needed where an account imports
// these messages with a prefix of its own. If nothing arrives on the subject, candidates read the
// key instead. Errors: [ErrInvalidConfig].
func (b *Bucket) WithFeedSubject(prefix string) (*Bucket, error) {
	return bucketOf(b.store().WithFeed(prefix))
}

// Info reads the settings of the bucket from the server. Errors: [ErrNoBucket] if it does
// not exist, [ErrIncompatibleBucket] if no election can work with it (the BucketInfo is
// filled all the same), [ErrPermission], [ErrUnreachable], [ErrConnectionClosed].
func (b *Bucket) Info(ctx context.Context) (BucketInfo, error) {
	info, err := b.store().Info(ctx)
	return BucketInfo(info), err
}
