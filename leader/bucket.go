package leader

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/wire"
)

// BucketConfig holds the settings of a bucket for [CreateBucket] and [EnsureBucket].
type BucketConfig struct {
	// Name of the bucket: letters, digits, '-' and '_'. Its stream is called KV_ and the
	// name.
	Name string
	// Description is for people. Empty keeps that of an existing bucket.
	Description string
	// Replicas is 1, 3 or 5. Default 0: a new bucket gets 1, an existing one keeps its
	// number.
	Replicas int
	// Storage cannot be changed once the bucket exists. Default:
	// jetstream.FileStorage.
	Storage jetstream.StorageType
	// MaxLease is the longest lease that a candidate may ask for, from 100 ms to 24 h. A
	// candidate that cannot know which lease was running waits as long as MaxLease. Default:
	// the MaxLease of the existing bucket if it is less than TTL, or else 15s, or two thirds
	// of TTL if that is shorter.
	//
	// MaxLease cannot be lowered while a longer lease may be running. A longer lease may be
	// running until the record that is held with it, or the deletion of a key, is older than
	// that lease plus one minute by the server's clock. Candidates learn of a change when
	// they next connect. Have all of them reconnect after MaxLease was lowered. After it was
	// raised, have all of them reconnect before longer leases are used.
	MaxLease time.Duration
	// TTL is the time after which the bucket drops records, at least 100ms.
	// Default 0: records stay until they are replaced, and the bucket is
	// purge-protected. With a TTL, a candidate that finds the key empty waits one TTL
	// before it leads, even in a new election. Keep the TTL short or set none.
	TTL time.Duration
	// Placement selects the servers that keep the bucket. Default: the server chooses, and
	// an existing bucket stays where it is.
	Placement *jetstream.Placement
	// Roster makes CreateBucket create, or update, the bucket beside this one in which
	// candidates announce themselves. EnsureBucket creates it with the bucket. Default: that
	// bucket is left alone, even if it exists.
	Roster bool
	// Adopt lets CreateBucket turn an existing bucket into one for elections although the
	// bucket holds values that are not records of an election, or several revisions of a
	// key. All but the newest revision of each key are dropped. Without a TTL the bucket
	// denies purges from then on, which cannot be undone. Default: such a bucket is rejected
	// with [ErrIncompatibleBucket]. It is not for EnsureBucket.
	Adopt bool
}

// BucketInfo is the result of [Bucket.Info].
type BucketInfo struct {
	Name        string
	Description string
	Replicas    int
	Storage     jetstream.StorageType
	Placement   *jetstream.Placement // nil: anywhere
	// PurgeProtected reports that only a delete marker can remove a record, and that no
	// record expires. See [CreateBucket].
	PurgeProtected bool
	// MaxLease is the longest lease that a candidate may ask for; 0: unlimited.
	MaxLease time.Duration
	// TTL is the time after which the bucket drops records; 0: never.
	TTL time.Duration
	// MaxValue is the largest record in bytes that the bucket and the connection take; 0:
	// unlimited.
	MaxValue int
	// FeedSubject is the prefix of the subject of a key's feed; a dot and the key follow.
	// Empty: candidates watch the key with a consumer instead.
	FeedSubject string
	// Roster reports whether the bucket has a roster that CreateBucket has made.
	Roster bool
}

// Bucket is a JetStream key-value bucket whose keys are elections. It is the [Store] for
// NATS. Any number of candidates may use it at once. It needs no closing.
//
// A Bucket never touches the handlers of the connection. While the connection is down, it
// hands nothing over to nats.go, because a write that waits in the reconnect buffer may
// be applied a minute later.
//
// Only the last error of the connection distinguishes a missing permission from silence.
// That error is one slot for all users of the connection. A request that is denied ends as
// soon as it is there, some 20 ms and a round trip after the request was sent. If many requests are
// denied at the same time, some of them end with [ErrUnreachable], when their time is over. Others
// do not wait for them. Of many subscriptions that are
// denied at the same time, one is reported. The others look alive, and a candidate finds by a
// read within half a lease that its feed is not.
//
// nats.go does not send while it dials, or while the network swallows the data that it
// writes. It then blocks its callers, whatever their contexts say, for
// nats.FlusherTimeout, a minute by default. The methods of a Bucket do not wait for that.
// They return [ErrUnreachable] soon after their contexts have ended. One goroutine for the
// requests of the connection, and one for each other call, is left behind until nats.go
// continues. While 64 calls of a Bucket, or 64 requests of the connection, have waited in vain,
// further ones fail at once.
type Bucket struct{ s bucketStore }

// Backend is for this module.
func (b *Bucket) Backend() backend.Store { return &b.s }

// bucketStore is the backend of a [Bucket].
type bucketStore struct {
	api    jsapi.Stream
	name   string
	pre    string // prefix of a key's subject in the stream
	put    string // prefix of the subject to which a key is written
	direct string // prefix of the subject from which a key is read, where direct gets are allowed

	feedPrefix string        // given by WithFeedSubject
	ensure     *BucketConfig // given to EnsureBucket; nil: a bucket that does not exist is not created

	unanswered atomic.Int32 // direct gets in a row

	hub    hub
	roster rosterBucket
	clock  Clock          // the default of its candidates
	memory backend.Memory // of what they have seen
}

// CreateBucket creates the bucket, or updates it if it exists, and returns it as
// [OpenBucket] does. An ordinary bucket of that name is brought to these settings. It
// keeps its metadata, limits of size and other settings that do not matter to an
// election, and a republication that can serve as a feed. If nothing needs to change,
// nothing is written. A bucket that was not made by CreateBucket and holds anything but
// records of elections is rejected, see [BucketConfig].Adopt.
//
// The revisions of a new bucket begin at the Unix time in microseconds, and so do its
// tokens. So no revision is used twice, and tokens go on rising, when a bucket is deleted
// and created again. But a leader that is cut off meanwhile continues until its lease is
// over, while another candidate leads. Only a resource that compares tokens is safe from
// that. Stop all candidates before you delete a bucket.
//
// Without a TTL the bucket is purge-protected: it denies deletes of messages, purges and
// roll-ups, has no per-message TTL, keeps one message for each key and refuses new
// messages when full. So `nats kv del` works on it, and `nats kv purge` is refused. A
// client that may write one key cannot wipe another with the header Nats-Rollup. Clients
// cannot undo the protection. Make a bucket purge-protected before its first election, or
// while no candidate campaigns, because a candidate cannot know of a record that was
// purged just before.
//
// With a TTL the server requires roll-ups and cannot deny purges (nats-server,
// checkStreamCfg), so such a bucket promises less. A client that may write a key of it,
// or purge its stream, can wipe all other keys. An empty key may have had a record a
// moment ago, so its winner waits. Expired records leave a marker for one TTL, in whole
// seconds.
//
// Both kinds work with jetstream.KeyValue and the nats tool. Both republish their
// messages below "natsleader.feed.", the name of the bucket and a dot. Allow no client to
// publish there.
//
// The roster is the bucket with the name of this one and "_roster". If that name is
// longer than 252 bytes, it is cut and made unique by a hash. The roster is an ordinary
// bucket with message TTLs, and has the storage and placement of this one. In memory it
// would be lost with the server, and nothing creates it again. The announcement of a
// candidate lapses after three of its leases. It needs nats-server 2.11. If the roster cannot
// be created, the bucket is not created or changed either.
//
// Errors: [ErrInvalidConfig] for settings that cannot work, [ErrIncompatibleBucket] for
// an existing stream that cannot be brought to them, [ErrPermission], [ErrUnreachable],
// [ErrConnectionClosed], and other errors of the server as a *jetstream.APIError.
func CreateBucket(ctx context.Context, js jetstream.JetStream, cfg BucketConfig) (*Bucket, error) {
	b, err := OpenBucket(js, cfg.Name)
	if err != nil {
		return nil, err
	}
	if err = cfg.check(); err != nil {
		return nil, err
	}
	ctx, cancel := deadline.Limit(ctx)
	defer cancel()
	if err = b.s.establish(ctx, cfg); err != nil {
		return nil, fmt.Errorf("create bucket %s: %w", cfg.Name, err)
	}
	return b, nil
}

// OpenBucket returns a bucket that exists, or is created later by another client. It sends
// no request; a candidate checks the bucket by itself, and reports [ErrIncompatibleBucket]
// in a [Faulted] event if no election can work with it, as in the roster of another bucket.
// See [EnsureBucket] for a bucket that candidates create. Errors: [ErrInvalidConfig].
func OpenBucket(js jetstream.JetStream, name string) (*Bucket, error) {
	if err := jsapi.CheckJetStream(js); err != nil {
		return nil, err
	}
	if err := jsapi.CheckBucketName(name); err != nil {
		return nil, err
	}
	b := &Bucket{s: bucketStore{name: name, pre: "$KV." + name + "."}}
	b.s.open(js)
	return b, nil
}

// WithFeedSubject returns another Bucket for the same bucket, with another subject on which
// its republished messages arrive: prefix, a dot and the key. The two share no feeds, and
// the new one reads the settings itself. It is needed where an account imports these
// messages with a prefix of its own; otherwise the stream's settings name the subject. The
// prefix is not checked against those settings. If nothing arrives on the subject,
// candidates fall back to reading the key. Errors: [ErrInvalidConfig].
func (b *Bucket) WithFeedSubject(prefix string) (*Bucket, error) {
	if err := jsapi.CheckSubject("the prefix of the feed", prefix); err != nil {
		return nil, err
	}
	other, err := OpenBucket(b.s.api.JS, b.s.name)
	if err != nil {
		return nil, err
	}
	other.s.feedPrefix = prefix
	other.s.ensure, other.s.api.Seen = b.s.ensure, b.s.api.Seen
	return other, nil
}

// Info reads the settings of the bucket from the server. Errors: [ErrNoBucket] if it does
// not exist, [ErrIncompatibleBucket] if no election can work with it (the BucketInfo is
// filled all the same), [ErrPermission], [ErrUnreachable], [ErrConnectionClosed].
func (b *Bucket) Info(ctx context.Context) (BucketInfo, error) { return b.s.Info(ctx) }

func (b *bucketStore) open(js jetstream.JetStream) {
	b.api.Init(js, "KV_"+b.name)
	b.clock = SystemClock()
	b.api.Make = "make it with leader.CreateBucket or leader.EnsureBucket, or by `natsleader bucket add " + b.name + "`"
	b.api.Again = "stop all candidates, or wait for one MaxLease, before you make it again"
	b.direct = b.api.Prefix + "DIRECT.GET." + b.api.Name + "." + b.pre
	b.put = b.api.PutPrefix(b.pre)
	b.roster.open(js, b.name)
}

func (b *bucketStore) Info(ctx context.Context) (BucketInfo, error) {
	ctx, cancel := deadline.Limit(ctx)
	defer cancel()
	info, err := b.api.Info(ctx)
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
	s, err := settings(c, b.name, b.api.MaxPayload())
	bi.MaxLease, bi.MaxValue = s.MaxLease, s.MaxValue
	// A client that needs no roster needs no permission to read its settings.
	bi.Roster = c.Metadata[wire.RosterKey] != "" && !b.roster.isMissing(ctx)
	return bi, err
}
