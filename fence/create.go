package fence

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/leader"
)

// create brings the stream to the wished settings, starting from fresh if it does not
// exist.
func (s *guardedStream) create(ctx context.Context, fresh, wish jetstream.StreamConfig) error {
	fresh = s.shape(fresh, wish)
	if reason := s.hazard(fresh); reason != "" {
		return fmt.Errorf("%w: so set, %s %s", leader.ErrInvalidConfig, s.title, reason)
	}
	ctx, cancel := deadline.Limit(ctx)
	defer cancel()
	err := s.api.Establish(ctx, func() jetstream.StreamConfig {
		conf := fresh // each try has a time of its own
		if conf.FirstSeq == 0 {
			conf.FirstSeq = jsapi.FirstRevision()
		}
		return conf
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
		return old, false, fmt.Errorf("%w: stream %s exists and is stored in %v, which cannot be changed to %v", leader.ErrIncompatibleBucket, s.api.Name, old.Storage, wish.Storage)
	}
	conf = s.shape(old, wish)
	if reason := s.hazard(conf); reason != "" {
		return conf, false, fmt.Errorf("%w: stream %s exists and %s", leader.ErrIncompatibleBucket, s.api.Name, reason)
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
