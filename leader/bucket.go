package leader

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/natskv"
)

// BucketConfig holds the settings of a bucket.
type BucketConfig struct {
	Name        string                // letters, digits, '-' and '_'; its stream is called KV_ and the name
	Description string                // for people; empty keeps that of an existing bucket
	Replicas    int                   // 1, 3 or 5; default 0: a new bucket gets 1, an existing one keeps its number
	Storage     jetstream.StorageType // cannot be changed once the bucket exists; default: jetstream.FileStorage
	// MaxLease is the longest lease that a candidate may ask for, from 100 ms to 24 h. A candidate that cannot know which
	// lease is running waits for it. It cannot be lowered while a longer lease may be running. Have all candidates reconnect
	// after that. Default: that of the existing bucket if it is less than TTL, or 15 s or two thirds of TTL, the shorter.
	MaxLease time.Duration
	// TTL is the time after which the bucket drops records, at least 100 ms. Then the winner of an empty key waits for a TTL
	// before it leads, and a client that may write one key can wipe all. Default 0: the bucket is purge-protected.
	TTL       time.Duration
	Placement *jetstream.Placement // which servers; default: the server chooses, an existing bucket stays where it is
	// Roster creates or updates the bucket Name_roster, too, in which candidates announce themselves. If that fails, this
	// bucket stays as it is. It needs nats-server 2.11. Default: that bucket is left alone, even if it exists.
	Roster bool
	// Adopt lets CreateOrUpdateBucket take a bucket that holds values other than records of elections, or several
	// revisions of a key, all but the newest of which it drops, or a TTL to take off. Default: [ErrIncompatibleBucket].
	Adopt bool
}

// BucketInfo is the result of [Bucket.Info].
type BucketInfo struct {
	Name           string
	Description    string
	Replicas       int
	Storage        jetstream.StorageType
	Placement      *jetstream.Placement // nil: anywhere
	PurgeProtected bool                 // no record expires, and only a delete marker removes one
	MaxLease       time.Duration        // the longest lease that a candidate may ask for; 0: unlimited
	TTL            time.Duration        // after which the bucket drops records; 0: never
	MaxValue       int                  // the largest record that bucket and connection take, in bytes; 0: unlimited
	FeedSubject    string               // a key is republished on this, a dot and the key; empty: it is not republished
	Roster         bool                 // see [BucketConfig].Roster
	Domain         string               // the JetStream domain that has the bucket; empty: none
}

// Bucket is a JetStream key-value bucket whose keys are elections: the [Store] for NATS. Any number of candidates may use
// it at once. It needs no closing, and never touches the handlers of the connection. Its methods return soon after their
// contexts have ended, also while nats.go blocks. Stop all candidates before you delete or restore it (docs/production.md).
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

// CreateOrUpdateBucket creates the bucket, or brings an existing one to these settings, and returns it as
// [OpenBucket] does. A bucket that holds anything but records of elections is rejected, see [BucketConfig].Adopt.
//
// Without a TTL the bucket is purge-protected, for good: `nats kv del` works and `nats kv purge` is refused. Make an
// existing bucket purge-protected while no candidate campaigns. The bucket republishes its messages below
// "natsleader.feed.", its name and a dot: allow no client to publish there.
//
// Errors: [ErrInvalidConfig]; [ErrIncompatibleBucket] for a stream that cannot be brought to the settings; those of
// every [Store]; others of the server as a *jetstream.APIError.
func CreateOrUpdateBucket(ctx context.Context, js jetstream.JetStream, cfg BucketConfig) (*Bucket, error) {
	return bucketOf(natskv.Create(ctx, js, natskv.Config(cfg)))
}

// OpenBucket returns a bucket that exists, or that another client creates later. It sends no request. Candidates
// report [ErrIncompatibleBucket] if no election can work with it. For the bucket of a KeyValue
// of either API pass jetstream.New(nc) and kv.Bucket(). Errors: [ErrInvalidConfig].
func OpenBucket(js jetstream.JetStream, name string) (*Bucket, error) {
	return bucketOf(natskv.Open(js, name))
}

// EnsureBucket returns a bucket that its candidates create if it does not exist. [Observe] and [Lookup] create
// nothing. EnsureBucket sends no request, so it works before there is a server (nats.RetryOnFailedConnect), and in
// any number of processes at once. Errors: [ErrInvalidConfig], also for Adopt.
//
// An existing bucket is never changed. If it differs from what cfg sets, or has another TTL or Storage, candidates
// report [ErrBucketDiffers] once. They create none, and report [ErrNoBucket], when a bucket that was seen through this
// Bucket was deleted, and on a leaf node with a JetStream domain of its own that js does not name. A process that has
// never seen the deleted bucket creates it, and leads in it at once.
func EnsureBucket(js jetstream.JetStream, cfg BucketConfig) (*Bucket, error) {
	return bucketOf(natskv.Ensure(js, natskv.Config(cfg)))
}

func bucketOf(kv *natskv.Bucket, err error) (*Bucket, error) {
	if err != nil {
		return nil, err
	}
	return &Bucket{backend.NewSeal[backend.Store](kv), SystemClock()}, nil
}

// WithFeedSubject returns another Bucket for the same bucket, whose republished messages arrive on another subject:
// prefix, a dot and the key. It is for an account that imports them. If nothing arrives there, candidates read the
// key instead. Errors: [ErrInvalidConfig].
func (b *Bucket) WithFeedSubject(prefix string) (*Bucket, error) {
	return bucketOf(b.store().WithFeed(prefix))
}

// Info reads the settings from the server. Errors: [ErrIncompatibleBucket], with a filled BucketInfo, if no election
// can work with the bucket, and those of every [Store].
func (b *Bucket) Info(ctx context.Context) (BucketInfo, error) {
	info, err := b.store().Info(ctx)
	return BucketInfo(info), err
}
