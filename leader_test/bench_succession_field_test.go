//go:build field

package leader_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// BenchmarkTransfer is BenchmarkHandover by Transfer to the other candidate, which then
// has no turn to wait for.
func BenchmarkTransfer(b *testing.B) {
	transfer := func(a *leader.Term, ctx context.Context) error { return a.TransferTo(ctx, "b") }
	benchPlaces(b, func(b *testing.B, dial func() *nats.Conn, _ jetstream.KeyValueConfig) {
		b.Run("without-a-roster", func(b *testing.B) {
			benchWarmths(b, func(b *testing.B, warmth benchWarmth) {
				benchHandover(b, dial, warmth, leader.Config{}, transfer)
			})
		})
		benchRoster(b, tcpJS(b, dial()))
		b.Run("in-a-queue", func(b *testing.B) {
			benchWarmths(b, func(b *testing.B, warmth benchWarmth) {
				benchHandover(b, dial, warmth, leader.Config{Queue: &leader.Queue{}}, transfer)
			})
		})
	})
}

// benchRoster makes the roster of the bucket E.
func benchRoster(b *testing.B, js jetstream.JetStream) {
	b.Helper()
	s := check.Got(js.Stream(b.Context(), "KV_E"))(b)
	conf := s.CachedInfo().Config
	clusterPlaced(b, func() error {
		_, err := leader.CreateOrUpdateBucket(b.Context(), js, leader.BucketConfig{Name: "E", Storage: conf.Storage, Replicas: conf.Replicas, Roster: true})
		return err
	})
}

// benchLine returns how many candidates are in line according to the key's record,
// which the leader writes anew first.
func benchLine(b *testing.B, kv jetstream.KeyValue, c *leader.Candidate) int {
	b.Helper()
	check.OK(b, leadertest.Led(c).Proclaim(b.Context(), nil))
	e := check.Got(kv.Get(b.Context(), c.Election()))(b)
	var record struct {
		Next []string `json:"next"`
	}
	check.OK(b, json.Unmarshal(e.Value(), &record))
	return len(record.Next)
}
