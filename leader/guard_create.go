package leader

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/jsapi"
)

// CreateGuardedBucket creates the bucket, or updates it if it exists, so that it keeps
// its guard and takes atomic batches, and returns it as [OpenGuardedBucket] does. A new
// bucket is the result of js.CreateKeyValue for cfg, with three differences. It has
// AllowAtomicPublish. With a TTL it has AllowMsgTTL, so that the guard never expires. Its
// revisions begin at the time of day in microseconds, so that no revision is used twice
// when the bucket is deleted and created again.
//
// Of an existing bucket only the settings in cfg are changed. The zero value of a field
// keeps the existing setting, and Metadata are added. Only the Storage must be the same,
// because it cannot be changed. If nothing needs to change, nothing is written.
//
// Later updates with js.CreateOrUpdateKeyValue switch AllowAtomicPublish off again. With
// a TTL but without LimitMarkerTTL, they are rejected. Updates with this function have
// neither effect. Without AllowAtomicPublish, writers go on with the writes that a single
// message can carry, and more slowly on several replicas.
//
// A client that may write a key of the bucket can wipe all other keys, and the guard,
// with the header Nats-Rollup. A client that may purge the stream can wipe them with a
// purge. The leader raises a guard again that was wiped.
//
// Errors: [ErrInvalidConfig] for settings with which the guard is not safe,
// [ErrIncompatibleBucket] for an existing bucket that cannot be brought to them, or if
// the server rejects them, [ErrPermission], [ErrUnreachable], [ErrConnectionClosed], and
// other errors of the server as a *jetstream.APIError.
func CreateGuardedBucket(ctx context.Context, js jetstream.JetStream, cfg jetstream.KeyValueConfig, opts ...GuardOption) (*GuardedBucket, error) {
	b, err := OpenGuardedBucket(js, cfg.Bucket, opts...)
	if err != nil {
		return nil, err
	}
	switch {
	case cfg.History > jetstream.KeyValueMaxHistory:
		return nil, fmt.Errorf("%w: History %d is more than %d", ErrInvalidConfig, cfg.History, jetstream.KeyValueMaxHistory)
	case len(cfg.Sources) > 0:
		return nil, fmt.Errorf("%w: Sources bring all their keys without conditions, and so their own %s", ErrInvalidConfig, DefaultGuardKey)
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

// CreateGuardedStream creates the stream, or updates it if it exists, so that it contains
// the subject guard, keeps it and takes atomic batches, and returns it as
// [OpenGuardedStream] does. It switches AllowAtomicPublish on. If the stream has a
// MaxAge, it also switches AllowMsgTTL on, so that the guard never expires. It adds the
// guard's subject to Subjects unless they cover it. A new stream without FirstSeq begins
// at the time of day in microseconds.
//
// Of an existing stream only the settings in cfg are changed. The zero value of a field
// keeps the existing setting, and Subjects and Metadata are added. Only the Storage must
// be the same, because it cannot be changed. If nothing needs to change, nothing is
// written.
//
// CreateGuardedStream does not make limits safe, because that would change the nature of
// a stream. With MaxMsgs or MaxBytes, Discard must be jetstream.DiscardNew. The stream
// then rejects messages when it is full, including those that raise the guard.
// MaxMsgsPerSubject and MaxAge keep the guard and may be used freely.
//
// Errors: as of [CreateGuardedBucket].
func CreateGuardedStream(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig, guard string) (*GuardedStream, error) {
	s, err := OpenGuardedStream(js, cfg.Name, guard)
	if err != nil {
		return nil, err
	}
	var fresh jetstream.StreamConfig
	if len(cfg.Subjects) == 0 {
		fresh.Subjects = []string{cfg.Name} // the server's default, which the server does not add to the guard's subject
	}
	if err := s.create(ctx, fresh, cfg); err != nil {
		return nil, err
	}
	return s, nil
}

// create brings the stream to the wished settings, starting from fresh if it does not
// exist.
func (s *guardedStream) create(ctx context.Context, fresh, wish jetstream.StreamConfig) error {
	fresh = s.shape(fresh, wish)
	if reason := s.hazard(fresh); reason != "" {
		return fmt.Errorf("%w: so set, %s %s", ErrInvalidConfig, s.title, reason)
	}
	ctx, cancel := deadline.Limit(ctx)
	defer cancel()
	err := s.api.Establish(ctx, func() jetstream.StreamConfig {
		if fresh.FirstSeq == 0 {
			fresh.FirstSeq = jsapi.FirstRevision()
		}
		return fresh
	}, func(old jetstream.StreamConfig) (conf jetstream.StreamConfig, changed bool, err error) {
		return s.reshape(old, wish)
	}, nil)
	if err != nil {
		return fmt.Errorf("create %s: %w", s.title, err)
	}
	return nil
}

// reshape returns the configuration of an existing stream with the wished settings, and
// reports whether anything changes.
func (s *guardedStream) reshape(old, wish jetstream.StreamConfig) (conf jetstream.StreamConfig, changed bool, err error) {
	s.keeps.Store(old.AllowMsgTTL)
	if old.Storage != wish.Storage {
		return old, false, fmt.Errorf("%w: stream %s exists and is stored in %v, which cannot be changed to %v", ErrIncompatibleBucket, s.api.Name, old.Storage, wish.Storage)
	}
	conf = s.shape(old, wish)
	if reason := s.hazard(conf); reason != "" {
		return conf, false, fmt.Errorf("%w: stream %s exists and %s", ErrIncompatibleBucket, s.api.Name, reason)
	}
	return conf, !reflect.DeepEqual(conf, old), nil
}

// shape sets the wished settings and those that the guard needs, and keeps all others.
// The zero value of a setting is no wish.
func (s *guardedStream) shape(old, wish jetstream.StreamConfig) jetstream.StreamConfig {
	conf := old
	to, from := reflect.ValueOf(&conf).Elem(), reflect.ValueOf(wish)
	for i := range from.NumField() {
		if f := from.Field(i); !f.IsZero() {
			to.Field(i).Set(f)
		}
	}
	conf.Subjects = addSubjects(old.Subjects, append(slices.Clone(wish.Subjects), s.guard))
	conf.Metadata = maps.Clone(old.Metadata)
	for key, value := range wish.Metadata {
		if conf.Metadata == nil {
			conf.Metadata = make(map[string]string)
		}
		conf.Metadata[key] = value
	}
	conf.AllowAtomicPublish = true
	if conf.MaxAge > 0 {
		conf.AllowMsgTTL = true
		if wish.Duplicates == 0 { // it must not exceed MaxAge
			conf.Duplicates = min(conf.Duplicates, conf.MaxAge)
		}
	}
	return conf
}

// addSubjects returns subjects and more, without those that another covers, because the
// subjects of a stream must not overlap.
func addSubjects(subjects, more []string) []string {
	all := slices.Clone(subjects)
	for _, sub := range more {
		if slices.ContainsFunc(all, func(have string) bool { return jsapi.Covers(have, sub) }) {
			continue
		}
		all = slices.DeleteFunc(all, func(have string) bool { return jsapi.Covers(sub, have) })
		all = append(all, sub)
	}
	return all
}
