//go:build field

package keys_test

import (
	"context"
	"errors"
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
	"github.com/natsleader/natsleader/keys"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// crew is processes that work on the keys "t.*" of a bucket on a server.
type crew struct {
	*testing.T
	options []nats.Option
	guards  string
	shared  keys.Bucket                // of all processes; nil: each has its own
	keysAt  func() jetstream.JetStream // the server of the keys; nil: that of the group
	kv      jetstream.KeyValue
	work    func(lead context.Context, k *keys.Key) // in place of waiting for the end

	mu    sync.Mutex
	works map[string]*keys.Key
	by    map[string]string
	begun map[string]int
}

func newCrew(t *testing.T, guards string) *crew {
	s := check.Got(server.NewServer(&server.Options{DontListen: true, NoSigs: true, JetStream: true, StoreDir: testserver.StoreDir(t)}))(t)
	s.Start()
	t.Cleanup(s.Shutdown)
	check.Must(t, s.ReadyForConnections(10*time.Second), "the server is not ready")
	c := &crew{
		T: t, options: []nats.Option{nats.InProcessServer(s), nats.MaxReconnects(-1), nats.ReconnectWait(10 * time.Millisecond)},
		guards: guards, works: make(map[string]*keys.Key), by: make(map[string]string), begun: make(map[string]int),
	}
	js := check.Got(jetstream.New(c.connect()))(t)
	check.OK(t, check.Err(leader.CreateOrUpdateBucket(t.Context(), js, leader.BucketConfig{Name: "groups", Storage: jetstream.MemoryStorage})))
	check.OK(t, check.Err(fence.CreateOrUpdateBucket(t.Context(), js, jetstream.KeyValueConfig{Bucket: "tenants"})))
	c.kv = check.Got(js.KeyValue(t.Context(), "tenants"))(t)
	return c
}

func (c *crew) connect() *nats.Conn {
	nc := check.Got(nats.Connect("", c.options...))(c)
	c.Cleanup(nc.Close)
	return nc
}

// start starts a process with a connection of its own.
func (c *crew) start(id string) (stop func(), nc *nats.Conn) {
	c.Helper()
	nc = c.connect()
	js := check.Got(jetstream.New(nc))(c)
	ctx, cancel := context.WithCancel(context.Background())
	bucket := c.shared
	if c.keysAt != nil {
		bucket = check.Got(keys.OpenBucket(c.keysAt(), "tenants"))(c)
	}
	if bucket == nil {
		bucket = check.Got(keys.OpenBucket(js, "tenants"))(c)
	}
	s := check.Got(keys.Join(ctx, check.Got(leader.OpenBucket(js, "groups"))(c), "tenants", keys.Config{
		Bucket: bucket, Filter: "t.*", Guards: c.guards,
		Member: shard.Config{ID: id, Shards: 32, LeaseDuration: 3 * time.Second},
	}))(c)
	ended := make(chan error)
	go func() { ended <- s.Serve(func(lead context.Context, k *keys.Key) { c.begin(lead, id, k) }) }()
	stop = sync.OnceFunc(func() {
		cancel()
		check.OK(c, <-ended)
	})
	c.Cleanup(stop)
	return stop, nc
}

func (c *crew) begin(lead context.Context, id string, k *keys.Key) {
	c.mu.Lock()
	if c.works[k.Name()] != nil {
		c.Errorf("%s begins %s, on which %s works", id, k.Name(), c.by[k.Name()])
	}
	c.works[k.Name()], c.by[k.Name()] = k, id
	c.begun[k.Name()]++
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.works, k.Name())
	}()
	if c.work != nil {
		c.work(lead, k)
		return
	}
	<-lead.Done()
}

// have waits until there is work on so many keys.
func (c *crew) have(what string, n int) {
	c.Helper()
	testcluster.Eventually(c, fmt.Sprintf("%s: %d works", what, n), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.works) == n
	})
}

// eventually waits until is, which is called with the lock held.
func (c *crew) eventually(what string, is func() bool) {
	c.Helper()
	testcluster.Eventually(c, what, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return is()
	})
}

func (c *crew) put(from, to int, value string) {
	for i := from; i < to; i++ {
		check.OK(c, check.Err(c.kv.PutString(c.Context(), fmt.Sprint("t.", i), value)))
	}
}

// On a server, with guards and without: keys come and go while members join, leave, and lose their connection.
func TestServer_Keys(t *testing.T) {
	for _, guards := range []string{"", "guards"} {
		t.Run("guards="+guards, func(t *testing.T) {
			c := newCrew(t, guards)
			c.put(0, 50, "1")
			stop, _ := c.start("a")
			c.have("a cold start", 50)
			_, nc := c.start("b")
			c.put(50, 100, "1")
			c.have("more keys", 100)
			stop()
			c.have("a has left", 100)
			for i := range 30 {
				check.OK(t, c.kv.Delete(t.Context(), fmt.Sprint("t.", i)))
			}
			c.have("some are deleted", 70)
			check.OK(t, nc.ForceReconnect())
			check.OK(t, c.kv.Delete(t.Context(), "t.30"))
			c.put(100, 110, "1")
			c.have("after a reconnection", 79)
			c.put(50, 51, "2")
			testcluster.Eventually(t, "a new value", func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return string(c.works["t.50"].Entry().Value) == "2"
			})
			c.mu.Lock()
			k := c.works["t.50"]
			c.mu.Unlock()
			if guards != "" {
				check.OK(t, check.Err(k.Writer().Update(t.Context(), k.Name(), []byte("3"), k.Entry().Revision)))
				check.Is(t, k.Complete(), keys.ErrChanged)
				testcluster.Eventually(t, "the value that it has written", func() bool { return string(k.Entry().Value) == "3" })
			}
			check.OK(t, k.Complete())
			c.have("one is complete", 78)
			check.Is(t, check.Err(c.kv.Get(t.Context(), "t.50")), jetstream.ErrKeyNotFound)
		})
	}
}

// Jobs are completed once, while members come and go.
func TestServer_Jobs(t *testing.T) {
	c := newCrew(t, "")
	var mu sync.Mutex
	done, again := make(map[string]bool), 0
	c.work = func(lead context.Context, k *keys.Key) {
		mu.Lock()
		if done[k.Name()] {
			again++
		}
		mu.Unlock()
		select {
		case <-time.After(20 * time.Millisecond):
		case <-lead.Done():
			return
		}
		if err := k.Complete(); err != nil {
			check.That(t, errors.Is(err, keys.ErrChanged), "%v", err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		done[k.Name()] = true
	}
	c.start("a")
	c.start("b")
	for i := range 4 {
		stop, _ := c.start(fmt.Sprint("n", i))
		c.put(100*i, 100*(i+1), "1")
		stop()
	}
	testcluster.Eventually(t, "all are complete", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(done) == 400
	})
	check.Equal(t, again, 0, "%d jobs have begun again")
}

// A bucket that is deleted and made again: what is not in it ends, and what is in it begins.
func TestServer_BucketMadeAgain(t *testing.T) {
	defer keys.SetLookEach(keys.SetLookEach(100 * time.Millisecond))
	c := newCrew(t, "")
	c.put(0, 10, "1")
	c.start("a")
	c.have("a cold start", 10)
	js := check.Got(jetstream.New(c.connect()))(t)
	check.OK(t, js.DeleteKeyValue(t.Context(), "tenants"))
	c.kv = check.Got(js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "tenants"}))(t)
	c.put(5, 20, "2")
	testcluster.Eventually(t, "work on the keys of the new bucket", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i := range 20 {
			if k := c.works[fmt.Sprint("t.", i)]; (k != nil) != (i >= 5) || k != nil && string(k.Entry().Value) != "2" {
				return false
			}
		}
		return true
	})
	check.OK(t, js.DeleteKeyValue(t.Context(), "tenants"))
	_, err := keys.Join(t.Context(), check.Got(leader.OpenBucket(js, "groups"))(t), "tenants", keys.Config{
		Bucket: check.Got(keys.OpenBucket(js, "tenants"))(t), Filter: "t.*",
	})
	check.Is(t, err, leader.ErrNoBucket)
}
