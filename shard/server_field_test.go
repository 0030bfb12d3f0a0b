//go:build field

package shard_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// Three members on a server share 24 shards: one joins, one leaves, one loses its connection for good.
func TestServer_Shares(t *testing.T) {
	s := check.Got(server.NewServer(&server.Options{DontListen: true, NoSigs: true, JetStream: true, StoreDir: testserver.StoreDir(t)}))(t)
	s.Start()
	t.Cleanup(s.Shutdown)
	check.Must(t, s.ReadyForConnections(10*time.Second), "the server is not ready")
	var mu sync.Mutex
	owners := make(map[int]string)
	join := func(id string) (stop func(), nc *nats.Conn) {
		nc = check.Got(nats.Connect("", nats.InProcessServer(s)))(t)
		js := check.Got(jetstream.New(nc))(t)
		b := check.Got(leader.EnsureBucket(js, leader.BucketConfig{Name: "G", Storage: jetstream.MemoryStorage}))(t)
		ctx, cancel := context.WithCancel(context.Background())
		m := check.Got(shard.Join(ctx, b, "orders", shard.Config{Shards: 24, ID: id, LeaseDuration: 3 * time.Second}))(t)
		go func() {
			for s := range m.Shards() {
				go func() {
					defer s.Release()
					mu.Lock()
					check.That(t, owners[s.Number()] == "", "%d is owned by %s and %s", s.Number(), owners[s.Number()], id)
					owners[s.Number()] = id
					mu.Unlock()
					<-s.Context().Done()
					mu.Lock()
					delete(owners, s.Number())
					mu.Unlock()
				}()
			}
		}()
		stop = func() {
			cancel()
			<-m.Done()
			nc.Close()
		}
		t.Cleanup(stop)
		return stop, nc
	}
	shared := func(members int) {
		t.Helper()
		from, least := time.Now(), 24/members
		for {
			mu.Lock()
			n := make(map[string]int)
			for _, id := range owners {
				n[id]++
			}
			even, sum := len(n) == members, 0
			for _, k := range n {
				even, sum = even && k >= least, sum+k
			}
			mu.Unlock()
			if even && sum == 24 {
				t.Logf("%d members: even after %v", members, time.Since(from))
				return
			}
			check.Must(t, time.Since(from) < time.Minute, "%v", n)
			time.Sleep(10 * time.Millisecond)
		}
	}
	join("a")
	shared(1)
	join("b")
	shared(2)
	stop, _ := join("c")
	shared(3)
	stop()
	shared(2)
	_, nc := join("d")
	shared(3)
	nc.Close()
	shared(2)
}
