package fence

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// DefaultGuardKey is the key of a [Bucket] that is its guard, unless [GuardKey] names
// another.
const DefaultGuardKey = "natsleader.guard"

// Bucket is a key-value bucket that only the leader may write. It is a [leader.Guard], to be
// given to [leader.Campaign], and makes writers for the term. Any number of candidates may
// use it at once. It needs no closing.
type Bucket struct {
	guardedStream
	name string
	pre  string // of a key's subject
}

// BucketOption is an option of [OpenBucket] and [CreateBucket].
type BucketOption func(*Bucket) error

// GuardKey sets the key that is the guard, of at most 1024 bytes, in place of
// [DefaultGuardKey]. With it several elections may guard one bucket, each the keys that
// it writes. A value at the key that is no guard is overwritten.
func GuardKey(key string) BucketOption {
	return func(b *Bucket) error {
		if err := jsapi.CheckLength("GuardKey", key, jsapi.MaxSubject); err != nil {
			return err
		}
		if !wire.ValidKey(key) {
			return fmt.Errorf("%w: GuardKey %q is not a key", leader.ErrInvalidConfig, key)
		}
		b.guard = b.pre + key
		return nil
	}
}

// OpenBucket returns a bucket that exists, or is created later. It sends no request. A
// candidate checks the bucket by itself, when it starts and once a minute: see
// docs/fencing.md in the repository. Errors: [leader.ErrInvalidConfig].
func OpenBucket(js jetstream.JetStream, name string, opts ...BucketOption) (*Bucket, error) {
	if err := jsapi.CheckJetStream(js); err != nil {
		return nil, err
	}
	if err := jsapi.CheckBucketName(name); err != nil {
		return nil, err
	}
	b := &Bucket{name: name, pre: "$KV." + name + "."}
	b.api.Init(js, "KV_"+name)
	b.api.Make = "make it with fence.CreateBucket"
	b.title, b.guard, b.whole = b.String(), b.pre+DefaultGuardKey, b.pre+">"
	b.to = b.api.PutPrefix("")
	for _, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("%w: an option is nil", leader.ErrInvalidConfig)
		}
		if err := opt(b); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// CreateBucket creates the bucket, or updates it if it exists, so that it keeps its guard
// and takes atomic batches, and returns it as [OpenBucket] does. A new bucket is the result
// of js.CreateKeyValue for cfg, with three differences. It has AllowAtomicPublish. With a
// TTL it has AllowMsgTTL, so that the guard never expires. Its revisions begin at the Unix
// time of its creation, in microseconds, so that no revision is used twice when the bucket
// is deleted and created again.
//
// Of an existing bucket only the settings in cfg are changed. The zero value of a field
// keeps the existing setting, and Metadata are added. Only the Storage must be the same,
// because it cannot be changed. If nothing needs to change, nothing is written.
//
// Later updates with js.CreateOrUpdateKeyValue switch AllowAtomicPublish off again. The
// server rejects them if their KeyValueConfig has a TTL but no LimitMarkerTTL. Updates with
// this function have neither effect. Without AllowAtomicPublish, writers go on with the
// writes that a single message can carry, and more slowly on several replicas.
//
// A client that may write a key of the bucket can wipe all other keys, and the guard,
// with the header Nats-Rollup. A client that may purge the stream can wipe them with a
// purge. The leader raises a guard again that was wiped.
//
// Errors: [leader.ErrInvalidConfig] for settings with which the guard is not safe,
// [leader.ErrIncompatibleBucket] for an existing bucket that cannot be brought to them, or
// if the server rejects them, [leader.ErrPermission], [leader.ErrUnreachable],
// [leader.ErrConnectionClosed], and other errors of the server as a *jetstream.APIError.
func CreateBucket(ctx context.Context, js jetstream.JetStream, cfg jetstream.KeyValueConfig, opts ...BucketOption) (*Bucket, error) {
	b, err := OpenBucket(js, cfg.Bucket, opts...)
	if err != nil {
		return nil, err
	}
	switch {
	case cfg.History > jetstream.KeyValueMaxHistory:
		return nil, fmt.Errorf("%w: History %d is more than %d", leader.ErrInvalidConfig, cfg.History, jetstream.KeyValueMaxHistory)
	case len(cfg.Sources) > 0:
		return nil, fmt.Errorf("%w: Sources bring all their keys without conditions, and so their own %s", leader.ErrInvalidConfig, DefaultGuardKey)
	}
	wish := jetstream.StreamConfig{
		Name: b.api.Name, Subjects: []string{b.whole}, Description: cfg.Description,
		MaxMsgsPerSubject: int64(cfg.History), MaxBytes: cfg.MaxBytes, MaxAge: cfg.TTL, MaxMsgSize: cfg.MaxValueSize,
		Storage: cfg.Storage, Replicas: cfg.Replicas, Placement: cfg.Placement,
		Mirror: cfg.Mirror, RePublish: cfg.RePublish, Metadata: cfg.Metadata, Discard: jetstream.DiscardNew,
		AllowMsgTTL: cfg.LimitMarkerTTL > 0, SubjectDeleteMarkerTTL: cfg.LimitMarkerTTL,
	}
	if cfg.Compression {
		wish.Compression = jetstream.S2Compression
	}
	// As nats.go does: jetstream/kv.go, prepareKeyValueConfig.
	fresh := jetstream.StreamConfig{MaxMsgsPerSubject: 1, AllowRollup: true, DenyDelete: true, AllowDirect: true}
	if err := b.create(ctx, fresh, wish); err != nil {
		return nil, err
	}
	return b, nil
}

// String names the bucket.
func (b *Bucket) String() string { return "bucket " + b.name }

// Backend is for this module. It returns nil for a Bucket that was not opened.
func (b *Bucket) Backend() backend.Guard {
	if b == nil {
		return nil
	}
	return b.backend()
}
