//go:build field

package snippets_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
)

// Two processes count items of 50 shards on a server. The one that is left when the other stops goes on from its counts.
func TestCounters_OnAServer(t *testing.T) {
	opts := &server.Options{DontListen: true, NoSigs: true, JetStream: true, StoreDir: testserver.StoreDir(t)}
	s := check.Got(server.NewServer(opts))(t)
	go s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	check.That(t, s.ReadyForConnections(10*time.Second), "the server does not start")
	var items atomic.Int64
	var processes sync.WaitGroup
	var kv jetstream.KeyValue
	stops := make(map[string]context.CancelFunc)
	for _, id := range []string{"a", "b"} {
		nc := check.Got(nats.Connect("", nats.InProcessServer(s)))(t)
		defer nc.Close()
		js := check.Got(jetstream.New(nc))(t)
		bucket := check.Got(leader.EnsureBucket(js, leader.BucketConfig{Name: "elections"}))(t)
		ctx, cancel := context.WithCancel(t.Context())
		stops[id] = cancel
		processes.Go(func() {
			check.OK(t, counters(ctx, js, bucket, id, func(context.Context) {
				items.Add(1)
				time.Sleep(20 * time.Millisecond)
			}))
		})
		time.Sleep(2 * time.Second)
		kv = check.Got(js.KeyValue(t.Context(), "counts"))(t)
	}
	stops["a"]()
	time.Sleep(2 * time.Second)
	stops["b"]()
	processes.Wait()
	sum := 0
	for n := range 50 {
		e := check.Got(kv.Get(t.Context(), countKey(n)))(t)
		sum += check.Got(strconv.Atoi(string(e.Value())))(t)
	}
	check.That(t, sum > 1000 && int64(sum) == items.Load(), "%d items are counted, of %d", sum, items.Load())
}
