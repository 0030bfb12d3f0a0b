//go:build field

package keys_test

import (
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testserver"
)

// restartable is a server that is stopped and started, perhaps with another directory.
type restartable struct {
	*testing.T
	mu sync.Mutex
	s  *server.Server
}

// InProcessConn connects to the server that runs now.
func (r *restartable) InProcessConn() (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.s.InProcessConn()
}

func (r *restartable) start(dir string) {
	s := check.Got(server.NewServer(&server.Options{DontListen: true, NoSigs: true, JetStream: true, StoreDir: dir}))(r)
	s.Start()
	check.Must(r, s.ReadyForConnections(10*time.Second), "the server is not ready")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.s = s
}

func (r *restartable) stop() {
	r.s.Shutdown()
	r.s.WaitForShutdown()
}

// A server that comes back with an earlier state of its directory has lost the last writes to the bucket of the keys: all work ends,
// and what is in the bucket begins, with guards and without.
func TestServer_RestoredBucket(t *testing.T) {
	for _, guards := range []string{"", "guards"} {
		t.Run("guards="+guards, func(t *testing.T) {
			r := &restartable{T: t}
			now, backup := testserver.StoreDir(t), testserver.StoreDir(t)+"/backup"
			r.start(now)
			defer func() { r.stop() }()
			c := newCrew(t, guards)
			options := []nats.Option{nats.InProcessServer(r), nats.MaxReconnects(-1), nats.ReconnectWait(10 * time.Millisecond)}
			connect := func() jetstream.JetStream {
				nc := check.Got(nats.Connect("", options...))(t)
				t.Cleanup(nc.Close)
				return check.Got(jetstream.New(nc))(t)
			}
			js := connect()
			check.OK(t, check.Err(fence.CreateOrUpdateBucket(t.Context(), js, jetstream.KeyValueConfig{Bucket: "tenants"})))
			c.kv, c.keysAt = check.Got(js.KeyValue(t.Context(), "tenants"))(t), connect
			c.put(0, 10, "1")
			r.stop()
			check.OK(t, os.CopyFS(backup, os.DirFS(now)))
			r.start(now)
			c.start("a")
			c.have("a cold start", 10)
			c.put(5, 20, "2")
			for _, name := range []string{"t.0", "t.1"} {
				c.eventually("the deletion of "+name, func() bool { return c.kv.Delete(t.Context(), name) == nil })
			}
			c.have("what was put and deleted", 18)
			r.stop()
			r.start(backup)
			c.have("what was in the backup", 10)
			c.eventually("the values of the backup", func() bool {
				for name, k := range c.works {
					if string(k.Entry().Value) != "1" || k.Context().Err() != nil || len(name) > len("t.9") {
						return false
					}
				}
				return true
			})
			c.put(3, 4, "3")
			c.eventually("a new value", func() bool { return string(c.works["t.3"].Entry().Value) == "3" })
			c.mu.Lock()
			k := c.works["t.3"]
			c.mu.Unlock()
			check.OK(t, k.Complete())
			c.have("one is complete", 9)
		})
	}
}
