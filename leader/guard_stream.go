package leader

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/jsapi"
)

// DefaultGuardKey is the key of a guarded bucket that is its guard, unless
// [GuardKey] names another.
const DefaultGuardKey = "natsleader.guard"

// guardedStream is a stream that has messages which only the leader may write.
type guardedStream struct {
	api   jsapi.Stream
	title string // for people: "bucket orders"
	guard string // the subject of the guard, in the stream
	whole string // the subject that the stream's subjects have to cover
	to    string // prefix of the subjects that are written to, in front of the stream's own

	keeps atomic.Bool // the stream takes a message TTL, and so also "never"
	muted atomic.Bool // the connection may not ask servers for their versions
}

// GuardedBucket is a key-value bucket that only the leader may write. It is a [Guard], to
// be given to [Campaign], and makes writers for the term. Any number of candidates may
// use it at once. It needs no closing.
type GuardedBucket struct {
	guardedStream
	name string
	pre  string // of a key's subject
}

// GuardedStream is a stream that only the leader may write. It is a [Guard], to be given
// to [Campaign], and makes writers for the term. Any number of candidates may use it at
// once. It needs no closing.
type GuardedStream struct {
	guardedStream
}

// GuardOption is an option of a [GuardedBucket].
type GuardOption func(*GuardedBucket) error

// GuardKey sets the key that is the guard, of at most 1024 bytes, in place of
// [DefaultGuardKey]. With it several elections may guard one bucket, each the keys that
// it writes. A value at the key that is no guard is overwritten.
func GuardKey(key string) GuardOption {
	return func(b *GuardedBucket) error {
		if err := jsapi.CheckLength("GuardKey", key, jsapi.MaxSubject); err != nil {
			return err
		}
		if !jsapi.ValidKey(key) {
			return fmt.Errorf("%w: GuardKey %q is not a key", ErrInvalidConfig, key)
		}
		b.guard = b.pre + key
		return nil
	}
}

// OpenGuardedBucket returns a bucket that exists, or is created later. It sends no request;
// a candidate checks the bucket by itself, when it starts and once a minute: see
// docs/fencing.md in the repository. Errors: [ErrInvalidConfig].
func OpenGuardedBucket(js jetstream.JetStream, name string, opts ...GuardOption) (*GuardedBucket, error) {
	if err := jsapi.CheckJetStream(js); err != nil {
		return nil, err
	}
	if err := jsapi.CheckBucketName(name); err != nil {
		return nil, err
	}
	b := &GuardedBucket{name: name, pre: "$KV." + name + "."}
	b.api.Init(js, "KV_"+name)
	b.title, b.guard, b.whole = b.String(), b.pre+DefaultGuardKey, b.pre+">"
	b.to = b.api.PutPrefix("")
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

// OpenGuardedStream returns a stream that exists, or is created later. guard is the
// subject of the stream that is its guard. OpenGuardedStream sends no request. Errors:
// [ErrInvalidConfig].
func OpenGuardedStream(js jetstream.JetStream, stream, guard string) (*GuardedStream, error) {
	if err := jsapi.CheckJetStream(js); err != nil {
		return nil, err
	}
	if err := jsapi.CheckSubject("guard", guard); err != nil {
		return nil, err
	}
	if !jsapi.LiteralSubject(stream) || strings.ContainsAny(stream, "./\\\f") || len(stream) > jsapi.MaxBucketName+len("KV_") {
		return nil, fmt.Errorf("%w: stream %.300q is not the name of a stream", ErrInvalidConfig, stream)
	}
	if hidden := hides(guard); hidden != "" {
		return nil, fmt.Errorf("%w: guard %q: nats-server may take it for the header %s", ErrInvalidConfig, guard, hidden)
	}
	s := &GuardedStream{}
	s.api.Init(js, stream)
	s.title, s.guard, s.whole = s.String(), guard, guard
	return s, nil
}

// Backend is for this module.
func (s *guardedStream) Backend() backend.Guard { return guardBackend{s} }

// guardBackend is the backend of a guarded bucket or stream.
type guardBackend struct{ *guardedStream }

// String names the bucket.
func (b *GuardedBucket) String() string { return "bucket " + b.name }

// String names the stream.
func (s *GuardedStream) String() string { return "stream " + s.api.Name }

// Get implements [backend.Guard]. The stream's leader answers.
func (s guardBackend) Get(ctx context.Context, reply func(backend.Entry, error)) {
	go func() {
		e, err := s.api.LastOf(ctx, s.guard)
		if err == nil && e.Revision == 0 {
			_, err = s.settings(ctx) // perhaps it has expired, because the stream was given a maximum age
		}
		reply(e, err)
	}()
}

// Update implements [backend.Guard]. The message never expires.
func (s guardBackend) Update(ctx context.Context, value []byte, revision uint64, reply func(uint64, error)) {
	go func() { reply(s.api.Store(ctx, s.guardMessage(value, revision))) }()
}

// guardMessage returns a write of the guard, on the condition that the guard's last
// revision is revision.
func (s *guardedStream) guardMessage(value []byte, revision uint64) *nats.Msg {
	m := &nats.Msg{
		Subject: s.to + s.guard,
		Header:  nats.Header{jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(revision, 10)}},
		Data:    value,
	}
	if s.keeps.Load() {
		m.Header.Set(jetstream.MsgTTLHeader, "never")
	}
	return m
}
