//go:build field

package leader_test

import (
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

// Many goroutines write through one guard. On three replicas, conditions on one subject
// reject one another in flight. The callers do not notice any of that.
func TestClusterGuard_ManyWriters(t *testing.T) {
	t.Parallel()
	c := clusterStart(t)
	for name, storage := range map[string]jetstream.StorageType{"file": jetstream.FileStorage, "memory": jetstream.MemoryStorage} {
		t.Run(name, func(t *testing.T) {
			put, kv := guardWriter(t, c.NC, jetstream.KeyValueConfig{Storage: storage, Replicas: 3, History: 64})
			guardRush(t, put, kv, 64, proof.Size(10, 40), func(i int) {
				if i == 5 {
					check.OK(t, kv.Delete(t.Context(), fence.DefaultGuardKey))
				}
			})
		})
	}
	t.Run("without batches", func(t *testing.T) {
		put, kv := guardWriter(t, c.NC, jetstream.KeyValueConfig{Replicas: 3})
		s := check.Got(c.JS.Stream(t.Context(), "KV_"+kv.Bucket()))(t)
		conf := s.CachedInfo().Config
		conf.AllowAtomicPublish = false
		check.Got(c.JS.UpdateStream(t.Context(), conf))(t)
		for g := range 16 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for range proof.Size(5, 20) {
					check.Is(t, check.Err(put.Put(t.Context(), string(rune('a'+g)), nil)), nil)
				}
			})
		}
	})
}

// On three replicas, while the guard moves as fast as it can.
func TestClusterGuardCheck_GuardThatMoves(t *testing.T) {
	t.Parallel()
	c := clusterStart(t)
	cfg := jetstream.KeyValueConfig{Bucket: "orders", Replicas: 3}
	var g *fence.Bucket
	clusterPlaced(t, func() (err error) {
		g, err = fence.CreateOrUpdateBucket(t.Context(), c.JS, cfg)
		return err
	})
	check.OK(t, checked(t.Context(), g))
	stop, stopped := make(chan struct{}), make(chan struct{})
	var moves atomic.Int64
	go func() {
		defer close(stopped)
		type answer struct {
			revision uint64
			err      error
		}
		reply := make(chan answer, 1)
		g.Backend().Get(t.Context(), func(e backend.Entry, err error) { reply <- answer{e.Revision, err} })
		marker := <-reply
		for last := marker.revision; ; {
			select {
			case <-stop:
				return
			default:
			}
			g.Backend().Update(t.Context(), []byte("junk"), last, func(revision uint64, err error) { reply <- answer{revision, err} })
			if a := <-reply; a.err == nil {
				moves.Add(1)
				last = a.revision
			}
		}
	}()
	other := check.Got(fence.OpenBucket(tcpJS(t, c.dial()), "orders"))(t)
	checks := 0
	tcpEventually(t, "100 checks while the guard moves 100 times", func() bool {
		check.OK(t, checked(t.Context(), other))
		checks++
		return checks >= 100 && moves.Load() >= 100
	})
	close(stop)
	<-stopped
	check.Is(t, check.Err(fence.CreateOrUpdateBucket(t.Context(), c.JS, cfg)), nil)
}
