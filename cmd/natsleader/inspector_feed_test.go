package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
)

// slowFeed is a JetStream with a bucket whose feed is not opened before its context ends. It returns
// the feed all the same if there is one.
type slowFeed struct {
	jetstream.JetStream
	feed jetstream.KeyWatcher
}

func (s slowFeed) KeyValue(context.Context, string) (jetstream.KeyValue, error) {
	return slowBucket{feed: s.feed}, nil
}

type slowBucket struct {
	jetstream.KeyValue
	feed jetstream.KeyWatcher
}

func (s slowBucket) WatchAll(ctx context.Context, _ ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	<-ctx.Done()
	if s.feed != nil {
		return s.feed, nil
	}
	return nil, ctx.Err()
}

// A feed that is not opened in time is an outage, and not the end of the command.
func TestInspector_FeedIsNotOpenedInTime(t *testing.T) {
	for name, feed := range map[string]jetstream.KeyWatcher{"no answer": nil, "a late answer": &aFeed{make(chan struct{})}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &inspector{js: slowFeed{feed: feed}, limit: 3 * time.Second}
				began := time.Now()
				_, _, err := s.watch(t.Context(), "")
				if took := time.Since(began); codeOf(err) != exitUnreachable || took != s.limit {
					t.Fatalf("%v with code %d after %v", err, codeOf(err), took)
				}
				w := newWatcher(&inspector{}, "", &recorder{})
				if failed := w.lookedAt(look{err: err}, true); failed != nil || !w.troubled {
					t.Errorf("not reported: %v", failed)
				}
				ended, end := context.WithCancel(t.Context())
				end()
				if _, _, err = s.watch(ended, ""); !errors.Is(err, context.Canceled) || errors.Is(err, leader.ErrUnreachable) {
					t.Errorf("given up: %v", err)
				}
			})
		})
	}
}
