package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
)

// BucketConfig is what [CreateBucket] sets a bucket to.
type BucketConfig struct {
	// Name of the bucket: letters, digits, '-' and '_'. Its stream is called
	// KV_ and the name.
	Name string
	// Description is for people. Empty keeps that of an existing bucket.
	Description string
	// Replicas is 1, 3 or 5. Default 0: 1 for a new bucket, as many as it has
	// for an existing one.
	Replicas int
	// Storage cannot be changed once the bucket exists. Default:
	// jetstream.FileStorage.
	Storage jetstream.StorageType
	// MaxLease is the longest lease that a candidate may ask for; a
	// candidate that cannot know which lease was running waits that long. It is from 100 ms to 24 h.
	// Default: that of the existing bucket if it is less than TTL, or else 15s, or two
	// thirds of TTL if that is shorter. It cannot be lowered while a longer lease may be
	// running: until a record that is held with one, or a key that was deleted, is older
	// than the lease and a minute by the server's clock. Candidates learn of a change when
	// they next connect: have all of them reconnect after it was lowered, and before longer
	// leases are used after it was raised.
	MaxLease time.Duration
	// TTL is the time after which the bucket drops records, at least 100ms.
	// Default 0: records stay until they are replaced, and the bucket is
	// purge-protected. With a TTL, a candidate that finds the key empty waits one TTL
	// before it leads, even in a new election. Keep the TTL short or set none.
	TTL time.Duration
	// Placement tells on which servers. Default: as the server likes, or where
	// an existing bucket is.
	Placement *jetstream.Placement
	// Roster tells CreateBucket to make, or bring up to date, the bucket beside it
	// in which candidates announce themselves. Default: it is left alone, also if it
	// exists.
	Roster bool
	// Adopt lets CreateBucket turn an existing bucket into one for elections although it
	// holds what is no record of an election, or several revisions of a key. All but the
	// newest revision of each key are dropped, and without a TTL the bucket denies purges
	// from then on, which cannot be taken back. Default: such a bucket is refused with
	// [ErrIncompatibleBucket].
	Adopt bool
}

// BucketInfo is what [Bucket.Info] tells.
type BucketInfo struct {
	Name        string
	Description string
	Replicas    int
	Storage     jetstream.StorageType
	Placement   *jetstream.Placement // nil: anywhere
	// PurgeProtected: nothing but a delete marker can remove a record, and none
	// expires. See [CreateBucket].
	PurgeProtected bool
	// MaxLease is the longest lease that a candidate may ask for; 0: unlimited.
	MaxLease time.Duration
	// TTL is the time after which the bucket drops records; 0: never.
	TTL time.Duration
	// MaxValue is the largest record in bytes that the bucket and the
	// connection take; 0: unlimited.
	MaxValue int
	// FeedSubject is what the feed of a key begins with; a dot and the key
	// follow. Empty: candidates watch the key with a consumer instead.
	FeedSubject string
	// Roster tells whether there is a roster that CreateBucket has made.
	Roster bool
}

// BucketOption is an option of [OpenBucket].
type BucketOption func(*Bucket) error

// FeedSubject tells on what subject the bucket's republished messages arrive:
// prefix, a dot and the key. It is needed where an account imports them with a
// prefix of its own; otherwise the stream's settings tell. It is not checked
// against them: where nothing arrives on the subject, candidates fall back to
// looking for themselves.
func FeedSubject(prefix string) BucketOption {
	return func(b *Bucket) error {
		if err := checkSubject("FeedSubject", prefix); err != nil {
			return err
		}
		b.s.feedPrefix = prefix
		return nil
	}
}

// Bucket is a JetStream key-value bucket whose keys are elections. It is the
// [Store] for NATS, is used by any number of candidates at once, and needs no
// closing.
//
// It never touches the handlers of the connection. When the connection is not
// up it hands nothing over: a write that waits in the reconnect buffer may be
// applied a minute later.
//
// A missing permission can be told apart from silence only by the last error of
// the connection, which is one slot for all that use the connection: where many
// requests are denied at the same time, some are reported as [ErrUnreachable].
//
// nats.go does not send while it dials, or while the network swallows what it writes, and
// keeps its callers waiting whatever their contexts say: for nats.FlusherTimeout, a minute by
// default. The methods of a Bucket do not wait for that. They answer with [ErrUnreachable]
// soon after their contexts have ended, and leave a goroutine behind until nats.go goes on;
// of 64 that are left, further requests fail at once.
type Bucket struct{ s bucketStore }

// Backend is for this module.
func (b *Bucket) Backend() backend.Store { return &b.s }

// bucketStore is the backend of a [Bucket].
type bucketStore struct {
	streamAPI
	name   string
	pre    string // of a key's subject in the stream
	put    string // of the subject that a key is written to
	direct string // of the subject that a key is read from, where direct gets are allowed

	feedPrefix string // given by FeedSubject

	hub    hub
	roster rosterBucket
}

// CreateBucket creates the bucket, or updates it if it exists, and returns it
// as [OpenBucket] does. An ordinary bucket of that name is brought to these
// settings; the metadata, limits of size and other settings that do not matter
// to an election are kept, and so is a republication that can serve as a feed.
// Where nothing is to be changed, nothing is written. A bucket that was not made by
// CreateBucket and holds anything but records of elections is refused, see
// [BucketConfig].Adopt.
//
// The revisions of a new bucket begin at the time of day in microseconds, and so do its
// tokens. So they do not come again, and tokens go on rising, when a bucket is deleted and
// created again. But a leader that is cut off meanwhile goes on until its lease is over, while
// another leads: only a resource that compares tokens is safe from that. Stop all
// candidates before a bucket is deleted.
//
// Without a TTL the bucket is purge-protected: it denies deletes of messages, purges and
// roll-ups, has no per-message TTL, keeps one message for each key and refuses
// new messages when full. So `nats kv del` works on it, `nats kv purge` is
// refused, and a client that may write one key cannot wipe another with the
// header Nats-Rollup. Clients cannot undo that. A bucket should be purge-protected before
// its first election, or while no candidate stands: what was purged just before
// is not known to have been there.
//
// With a TTL the server requires roll-ups and cannot deny purges
// (nats-server, checkStreamCfg), so such a bucket promises less: whoever may
// write a key of it, or purge its stream, can wipe all others, and an empty key
// may have had a record a moment ago, so that its winner waits. Expired records
// leave a marker for one TTL, in whole seconds.
//
// Both kinds work with jetstream.KeyValue and the nats tool. Both republish
// what they store below "natsleader.feed.", the name of the bucket and a dot;
// no client should be allowed to publish there.
//
// The roster is the bucket with the name of this one and "_roster", where that is at
// most 252 long (otherwise it is cut, and a hash tells it apart). It is an
// ordinary bucket with message TTLs, stored and placed as this one: in memory it
// would be lost with the server, and nothing creates it again. What a candidate
// announces lapses after three of its leases.
//
// Errors: [ErrInvalidConfig] for settings that cannot work, [ErrIncompatibleBucket] for an
// existing stream that cannot be brought to them, [ErrPermission],
// [ErrUnreachable], [ErrConnectionClosed], and what the server answers as a
// *jetstream.APIError.
func CreateBucket(ctx context.Context, js jetstream.JetStream, cfg BucketConfig) (*Bucket, error) {
	b, err := OpenBucket(js, cfg.Name)
	if err != nil {
		return nil, err
	}
	if err = cfg.check(); err != nil {
		return nil, err
	}
	ctx, cancel := limit(ctx)
	defer cancel()
	err = b.s.establish(ctx, cfg.newStream, cfg.reshape, func(info *jetstream.StreamInfo, conf jetstream.StreamConfig) error {
		return b.s.inspect(ctx, cfg.Adopt, info, conf)
	})
	if err == nil && cfg.Roster {
		var conf jetstream.StreamConfig
		if conf, err = b.s.config(ctx); err == nil {
			like := rosterConfig{bucket: cfg.Name, like: conf}
			err = b.s.roster.establish(ctx, like.newStream, like.reshape, nil)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("create bucket %s: %w", cfg.Name, err)
	}
	return b, nil
}

// establish looks at the stream, and creates or updates it, unless inspect refuses to.
func (a *streamAPI) establish(ctx context.Context, create func() jetstream.StreamConfig, reshape func(old jetstream.StreamConfig) (conf jetstream.StreamConfig, changed bool, err error), inspect func(*jetstream.StreamInfo, jetstream.StreamConfig) error) error {
	for again := false; ; again = true {
		err := a.establishOnce(ctx, create, reshape, inspect)
		// Somebody else created it between our look and our request, or
		// deleted it: look again, once.
		raced := errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) || errors.Is(err, ErrNoBucket)
		if again || !raced {
			return err
		}
	}
}

func (a *streamAPI) establishOnce(ctx context.Context, create func() jetstream.StreamConfig, reshape func(old jetstream.StreamConfig) (conf jetstream.StreamConfig, changed bool, err error), inspect func(*jetstream.StreamInfo, jetstream.StreamConfig) error) error {
	info, err := a.streamInfo(ctx)
	switch {
	case errors.Is(err, ErrNoBucket):
		conf := create()
		return a.submit(ctx, "CREATE", func() (jetstream.Stream, error) { return a.js.CreateStream(ctx, conf) })
	case err != nil:
		return err
	}
	conf, changed, err := reshape(info.Config)
	if err != nil || !changed {
		return err
	}
	if inspect != nil {
		if err = inspect(info, conf); err != nil {
			return err
		}
	}
	return a.submit(ctx, "UPDATE", func() (jetstream.Stream, error) { return a.js.UpdateStream(ctx, conf) })
}

// OpenBucket returns a bucket that exists, or will. It asks nothing of the
// server: a candidate finds out by itself. Errors: [ErrInvalidConfig].
func OpenBucket(js jetstream.JetStream, name string, opts ...BucketOption) (*Bucket, error) {
	if err := checkJetStream(js); err != nil {
		return nil, err
	}
	if err := checkBucketName(name); err != nil {
		return nil, err
	}
	b := &Bucket{s: bucketStore{name: name, pre: "$KV." + name + "."}}
	b.s.open(js)
	for _, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("%w: an option is nil", ErrInvalidConfig)
		}
		if err := opt(b); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Info asks the server what the bucket is set to. Errors: [ErrNoBucket] if it
// does not exist, [ErrIncompatibleBucket] if no election can work with it, in which case the
// BucketInfo is filled all the same, [ErrPermission], [ErrUnreachable],
// [ErrConnectionClosed].
func (b *Bucket) Info(ctx context.Context) (BucketInfo, error) { return b.s.Info(ctx) }

func (b *bucketStore) open(js jetstream.JetStream) {
	b.init(js, "KV_"+b.name)
	b.direct = b.api + "DIRECT.GET." + b.stream + "." + b.pre
	b.put = b.putPrefix(b.pre)
	b.roster.open(js, b.name)
}

func (b *bucketStore) Info(ctx context.Context) (BucketInfo, error) {
	ctx, cancel := limit(ctx)
	defer cancel()
	info, err := b.streamInfo(ctx)
	if err != nil {
		return BucketInfo{Name: b.name}, err
	}
	c := info.Config
	bi := BucketInfo{
		Name: b.name, Description: c.Description, Replicas: c.Replicas, Storage: c.Storage,
		Placement: c.Placement, TTL: c.MaxAge, PurgeProtected: isPurgeProtected(c),
	}
	if prefix, ok := b.feedOf(c); ok {
		bi.FeedSubject = prefix
	}
	payload, err := b.maxPayload(ctx)
	if err != nil {
		return BucketInfo{Name: b.name}, err
	}
	s, err := settings(c, b.name, payload)
	bi.MaxLease, bi.MaxValue = s.MaxLease, s.MaxValue
	// Who needs no roster needs no permission to ask.
	bi.Roster = c.Metadata[rosterKey] != "" && !b.roster.isMissing(ctx)
	return bi, err
}
