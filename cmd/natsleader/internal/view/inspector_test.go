package view

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// withBucket is a JetStream with a bucket.
type withBucket struct {
	jetstream.JetStream
	kv jetstream.KeyValue
}

func (w withBucket) KeyValue(context.Context, string) (jetstream.KeyValue, error) { return w.kv, nil }

// A feed that is not opened in time is an outage, and not the end of the command.
func TestInspector_FeedIsNotOpenedInTime(t *testing.T) {
	for name, parts := range map[string][][]jetstream.KeyValueEntry{"no answer": nil, "late answers": {nil, nil, nil, nil, nil}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &inspect.Inspector{Js: withBucket{kv: &testworld.Watches{Parts: parts, Slow: true}}, Limit: 3 * time.Second}
				began := time.Now()
				_, _, err := s.Watch(t.Context(), "")
				expect.Equal(t, s.Js.(withBucket).kv.(*testworld.Watches).Open, 0, "%d watches are open")
				if took := time.Since(began); front.CodeOf(err) != front.ExitUnreachable || took != s.Limit {
					t.Fatalf("%v with code %d after %v", err, front.CodeOf(err), took)
				}
				w := newWatcher(&inspect.Inspector{}, "", recorder{w: &testworld.World{T: t}})
				failed := w.lookedAt(look{err: err}, true)
				expect.That(t, failed == nil && w.Troubled, "not reported: %v", failed)
				ended, end := context.WithCancel(t.Context())
				end()
				_, _, err = s.Watch(ended, "")
				expect.That(t, errors.Is(err, context.Canceled) && !errors.Is(err, leader.ErrUnreachable),
					"given up: %v", err)
			})
		})
	}
}
