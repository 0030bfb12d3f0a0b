package fence

import (
	"context"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

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

// BucketOption is an option of [OpenBucket] and [CreateOrUpdateBucket].
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
	b.init(js, "KV_"+name)
	b.api.Make = "make it with fence.CreateOrUpdateBucket"
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

// CreateOrUpdateBucket creates the bucket, or updates it if it exists, so that it keeps its guard
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
func CreateOrUpdateBucket(ctx context.Context, js jetstream.JetStream, cfg jetstream.KeyValueConfig, opts ...BucketOption) (*Bucket, error) {
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

// KVWriter writes keys to a guarded bucket. A [BucketWriter] is one, and so is the
// writer of a leadertest.Link. Code that takes a KVWriter can be tested without a server.
type KVWriter interface {
	Put(ctx context.Context, key string, value []byte) (revision uint64, err error)
	Create(ctx context.Context, key string, value []byte) (revision uint64, err error)
	Update(ctx context.Context, key string, value []byte, last uint64) (revision uint64, err error)
	Delete(ctx context.Context, key string) error
	Purge(ctx context.Context, key string) error
	GuardRevision() uint64
}

// BucketWriter writes to a guarded bucket as the leader of one term. The server accepts
// its writes as long as the term's guard stands, whatever the process believes, and
// however late a write arrives. It may be used by many goroutines at once, and after the
// term.
//
// A write returns
//
//   - [leader.ErrFenced] if a later term has raised the guard, or if this term is over and
//     its guard is gone. Nothing was written, and nothing ever will be.
//   - [ErrUnknownOutcome] if it was sent and not answered, for 5 seconds or until ctx has
//     ended. It may have been written, or may yet be, but not any more once a later write
//     of the same term has been acknowledged.
//   - any other error if nothing was written: [jetstream.ErrKeyExists],
//     [jetstream.ErrKeyRevisionMismatch] for a condition of the caller's own, a rejection
//     by the server as a *jetstream.APIError, or the error of ctx.
//
// A write that the server rejects only for the moment is tried again until ctx ends;
// without a deadline, for 5 seconds. Keys, and the subjects of a [StreamWriter], have at
// most 1024 bytes.
type BucketWriter struct {
	b *Bucket
	l *writeQueue
}

// Writer returns the writer of a term. The candidate of that term must have been given
// the bucket as one of its Guards.
func (b *Bucket) Writer(t *leader.Term) *BucketWriter {
	return &BucketWriter{b: b, l: queueOf(t, b, &b.guardedStream)}
}

// GuardRevision returns the revision at which the guard stands for the term, or 0 if the term has
// no such guard. The writes of earlier terms have lower revisions. It changes when the guard is
// written again: when the candidate has to raise it again, with each write that has a condition of the
// caller's own, and at times with others.
func (w *BucketWriter) GuardRevision() uint64 { return w.l.guardRevision() }

// Put writes a key and returns its new revision.
func (w *BucketWriter) Put(ctx context.Context, key string, value []byte) (revision uint64, err error) {
	return w.one(ctx, func(b *BucketBatch) { b.Put(key, value) })
}

// Create writes a key that does not exist, or is deleted, and returns its
// revision. Otherwise it returns [jetstream.ErrKeyExists].
func (w *BucketWriter) Create(ctx context.Context, key string, value []byte) (revision uint64, err error) {
	return w.one(ctx, func(b *BucketBatch) { b.Create(key, value) })
}

// Update writes a key if its last revision is last, and returns the new one. Otherwise it
// returns [jetstream.ErrKeyRevisionMismatch].
func (w *BucketWriter) Update(ctx context.Context, key string, value []byte, last uint64) (revision uint64, err error) {
	return w.one(ctx, func(b *BucketBatch) { b.Update(key, value, last) })
}

// Delete marks a key as deleted.
func (w *BucketWriter) Delete(ctx context.Context, key string) error {
	_, err := w.one(ctx, func(b *BucketBatch) { b.Delete(key) })
	return err
}

// Purge marks a key as deleted and removes its history.
func (w *BucketWriter) Purge(ctx context.Context, key string) error {
	_, err := w.one(ctx, func(b *BucketBatch) { b.Purge(key) })
	return err
}

func (w *BucketWriter) one(ctx context.Context, add func(*BucketBatch)) (uint64, error) {
	b := w.Batch()
	add(b)
	c, err := b.commit(ctx)
	if err != nil {
		return 0, err
	}
	return c.ack.Sequence, nil
}

// BucketBatch is several writes that are all made, or none of them. It is not for use by
// several goroutines. It may be committed again, as after an unknown outcome.
//
// On one replica the server stores a batch message by message. If it runs out of storage
// in the middle, the outcome is unknown, and a part may have been written.
type BucketBatch struct {
	w        *BucketWriter
	messages []message
}

// Batch returns an empty batch.
func (w *BucketWriter) Batch() *BucketBatch {
	return &BucketBatch{w: w}
}

// Put adds a write of a key.
func (b *BucketBatch) Put(key string, value []byte) { b.add(key, message{data: value}) }

// Create adds a write of a key on the condition that it does not exist, or is
// deleted, before the batch.
func (b *BucketBatch) Create(key string, value []byte) {
	b.add(key, message{data: value, conditioned: true, create: true})
}

// Update adds a write of a key on the condition that its last revision before the batch
// is last.
func (b *BucketBatch) Update(key string, value []byte, last uint64) {
	b.add(key, message{data: value, conditioned: true, expected: last})
}

// Delete adds a delete marker.
func (b *BucketBatch) Delete(key string) {
	b.add(key, message{header: nats.Header{jsapi.KVOperation: {jsapi.KVDelete}}})
}

// Purge adds a marker that also removes the history of the key.
func (b *BucketBatch) Purge(key string) {
	b.add(key, message{header: nats.Header{jsapi.KVOperation: {jsapi.KVPurge}, jetstream.MsgRollup: {jetstream.MsgRollupSubject}}})
}

func (b *BucketBatch) add(key string, m message) {
	m.key, m.subject = key, key
	if b.made() {
		m.subject = b.w.b.pre + key
	}
	m.on = m.subject
	b.messages = append(b.messages, m)
}

// Commit makes the writes and returns their revisions, in the order in which they
// were added.
func (b *BucketBatch) Commit(ctx context.Context) (revisions []uint64, err error) {
	c, err := b.commit(ctx)
	if err != nil {
		return nil, err
	}
	first := c.ack.Sequence - uint64(len(c.messages)) + 1
	for i := range c.messages {
		revisions = append(revisions, first+uint64(i))
	}
	return revisions, nil
}

// made reports whether the batch's writer was made by a bucket.
func (b *BucketBatch) made() bool { return b.w != nil && b.w.b != nil }

func (b *BucketBatch) commit(ctx context.Context) (*writeSet, error) {
	if !b.made() {
		return nil, fmt.Errorf("%w: the writer was not made by Bucket.Writer", leader.ErrInvalidConfig)
	}
	for _, m := range b.messages {
		if err := jsapi.CheckLength("key", m.key, jsapi.MaxSubject); err != nil {
			return nil, err
		}
		if !wire.ValidKey(m.key) {
			return nil, fmt.Errorf("fence: key %q: %w", m.key, jetstream.ErrInvalidKey)
		}
	}
	return b.w.l.commit(ctx, b.w.b, &writeSet{messages: slices.Clone(b.messages)})
}
