//go:build field

package shard_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testcluster"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// crew is members that share 24 shards on a server.
type crew struct {
	t       *testing.T
	bucket  leader.BucketConfig
	options []nats.Option
	url     string

	mu     sync.Mutex
	owners map[int]*shard.Shard // the last
	ids    map[*shard.Shard]string
}

func newCrew(t *testing.T, url string, bucket leader.BucketConfig, options ...nats.Option) *crew {
	return &crew{t: t, url: url, bucket: bucket, options: options, owners: make(map[int]*shard.Shard), ids: make(map[*shard.Shard]string)}
}

// join starts a member with a connection of its own.
func (c *crew) join(id string) (stop func(), nc *nats.Conn) {
	c.t.Helper()
	nc = check.Got(nats.Connect(c.url, c.options...))(c.t)
	js := check.Got(jetstream.New(nc))(c.t)
	b := check.Got(leader.OpenBucket(js, c.bucket.Name))(c.t)
	ctx, cancel := context.WithCancel(context.Background())
	m := check.Got(shard.Join(ctx, b, "orders", shard.Config{Shards: 24, ID: id, LeaseDuration: 3 * time.Second}))(c.t)
	runs(m, func(lead context.Context, s *shard.Shard) {
		c.begin(s, id)
		<-lead.Done()
	})
	stop = func() {
		cancel()
		<-m.Done()
		nc.Close()
	}
	c.t.Cleanup(stop)
	return stop, nc
}

// begin notes the owner of a shard. The context of the owner before has ended, and its token is less.
func (c *crew) begin(s *shard.Shard, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if was := c.owners[s.Number()]; was != nil {
		check.That(c.t, was.Context().Err() != nil || s.Context().Err() != nil, "%d is owned by %s and %s", s.Number(), c.ids[was], id)
		check.That(c.t, was.Token() < s.Token(), "%d has token %d after %d", s.Number(), s.Token(), was.Token())
	}
	c.owners[s.Number()], c.ids[s] = s, id
}

// shared waits until members share all shards evenly.
func (c *crew) shared(members int) {
	c.t.Helper()
	n := map[string]int{}
	from := time.Now()
	testcluster.Eventually(c.t, fmt.Sprintf("%d members share the shards", members), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		clear(n)
		least, sum := 24, 0
		for _, s := range c.owners {
			if s.Context().Err() == nil {
				n[c.ids[s]]++
				sum++
			}
		}
		for _, k := range n {
			least = min(least, k)
		}
		return sum == 24 && len(n) == members && least >= 24/members
	})
	c.t.Logf("even after %v: %v", time.Since(from).Round(time.Millisecond), n)
}

// Three members on a server share 24 shards: one joins, one leaves, one loses its connection for good.
func TestServer_Shares(t *testing.T) {
	s := check.Got(server.NewServer(&server.Options{DontListen: true, NoSigs: true, JetStream: true, StoreDir: testserver.StoreDir(t)}))(t)
	s.Start()
	t.Cleanup(s.Shutdown)
	check.Must(t, s.ReadyForConnections(10*time.Second), "the server is not ready")
	c := newCrew(t, "", leader.BucketConfig{Name: "G", Storage: jetstream.MemoryStorage}, nats.InProcessServer(s))
	nc := check.Got(nats.Connect("", c.options...))(t)
	t.Cleanup(nc.Close)
	check.OK(t, check.Err(leader.CreateOrUpdateBucket(t.Context(), check.Got(jetstream.New(nc))(t), c.bucket)))
	c.join("a")
	c.shared(1)
	c.join("b")
	c.shared(2)
	stop, _ := c.join("c")
	c.shared(3)
	stop()
	c.shared(2)
	_, nc = c.join("d")
	c.shared(3)
	nc.Close()
	c.shared(2)
}

// clustered starts servers, and three members that share 24 shards on them.
func clustered(t *testing.T, servers int, bucket leader.BucketConfig) (*testcluster.Cluster, *crew) {
	t.Helper()
	options := []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(100 * time.Millisecond), nats.RetryOnFailedConnect(true)}
	servants := testcluster.New(t, testcluster.Options{Binaries: make([]string, servers), Connect: func(urls string) *nats.Conn {
		nc := check.Got(nats.Connect(urls, options...))(t)
		t.Cleanup(nc.Close)
		return nc
	}})
	bucket.Replicas = servers
	testcluster.Until(t, "the bucket can be made", func(ctx context.Context) error {
		return check.Err(leader.CreateOrUpdateBucket(ctx, servants.JS, bucket))
	})
	c := newCrew(t, servants.URLs, bucket, options...)
	for _, id := range []string{"a", "b", "c"} {
		c.join(id)
	}
	c.shared(3)
	return servants, c
}

// Each server of a cluster is killed in turn. Each shard has an owner without it, and with it again.
func TestCluster_ServersKilled(t *testing.T) {
	t.Parallel()
	servers, c := clustered(t, 3, leader.BucketConfig{Name: "G", MaxLease: 3 * time.Second})
	for _, n := range servers.Nodes {
		servers.Lead("G", n)
		n.Kill()
		time.Sleep(4 * time.Second) // longer than a lease
		c.shared(3)
		servers.Whole("G")
		c.shared(3)
	}
}

// A server that is killed, and a bucket that is deleted and made anew, stop the work for a while.
func TestServer_Forgets(t *testing.T) {
	t.Parallel()
	servers, c := clustered(t, 1, leader.BucketConfig{Name: "G", MaxLease: 3 * time.Second})
	servers.Nodes[0].Kill()
	time.Sleep(4 * time.Second)
	servers.Whole("G")
	c.shared(3)
	testcluster.Until(t, "the bucket is deleted", func(ctx context.Context) error { return servers.JS.DeleteKeyValue(ctx, "G") })
	time.Sleep(4 * time.Second)
	testcluster.Until(t, "the bucket is made anew", func(ctx context.Context) error {
		return check.Err(leader.CreateOrUpdateBucket(ctx, servers.JS, c.bucket))
	})
	c.shared(3)
}

// A server refuses the writes of a shard's earlier owner.
func TestServer_GuardsOfShards(t *testing.T) {
	s := check.Got(server.NewServer(&server.Options{DontListen: true, NoSigs: true, JetStream: true, StoreDir: testserver.StoreDir(t)}))(t)
	s.Start()
	t.Cleanup(s.Shutdown)
	check.Must(t, s.ReadyForConnections(10*time.Second), "the server is not ready")
	const shards = 4
	var writers [shards]*fence.BucketWriter // of the first member
	join := func(id string, put func(w *fence.BucketWriter, s *shard.Shard)) {
		nc := check.Got(nats.Connect("", nats.InProcessServer(s)))(t)
		js := check.Got(jetstream.New(nc))(t)
		b := check.Got(leader.EnsureBucket(js, leader.BucketConfig{Name: "G", Storage: jetstream.MemoryStorage}))(t)
		check.Got(fence.CreateOrUpdateBucket(t.Context(), js, jetstream.KeyValueConfig{Bucket: "orders"}))(t)
		var guards [shards]*fence.Bucket
		for n := range guards {
			guards[n] = check.Got(fence.OpenBucket(js, "orders", fence.GuardKey(fmt.Sprintf("guard.%d", n))))(t)
		}
		ctx, cancel := context.WithCancel(context.Background())
		m := check.Got(shard.Join(ctx, b, "orders", shard.Config{
			Shards: shards, ID: id, Guards: func(n int) []leader.Guard { return []leader.Guard{guards[n]} },
		}))(t)
		t.Cleanup(func() {
			cancel()
			<-m.Done()
			nc.Close()
		})
		runs(m, func(lead context.Context, s *shard.Shard) {
			put(guards[s.Number()].Writer(s.Term()), s)
			<-lead.Done()
		})
	}
	begun := make(chan int, 100)
	join("a", func(w *fence.BucketWriter, s *shard.Shard) {
		writers[s.Number()] = w
		_, err := w.Put(t.Context(), fmt.Sprint(s.Number()), []byte("a"))
		check.That(t, err == nil || t.Context().Err() != nil, "shard %d: %v", s.Number(), err) // a shard may be granted when the test is over
		begun <- s.Number()
	})
	for range shards {
		<-begun
	}
	join("b", func(w *fence.BucketWriter, s *shard.Shard) {
		_, err := w.Put(t.Context(), fmt.Sprint(s.Number()), []byte("b"))
		check.That(t, err == nil || t.Context().Err() != nil, "shard %d: %v", s.Number(), err) // a shard may be granted when the test is over
		begun <- s.Number()
	})
	for range shards / 2 {
		n := <-begun
		_, err := writers[n].Put(t.Context(), fmt.Sprint(n), []byte("late"))
		check.Is(t, err, leader.ErrFenced)
	}
}
