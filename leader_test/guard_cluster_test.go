package leader_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/proof"
)

// Many goroutines write through one guard. On three replicas, conditions on one subject
// reject one another in flight. The callers do not notice any of that.
func TestClusterGuard_ManyWriters(t *testing.T) {
	t.Parallel()
	c := clusterStart(t)
	for name, storage := range map[string]jetstream.StorageType{"file": jetstream.FileStorage, "memory": jetstream.MemoryStorage} {
		t.Run(name, func(t *testing.T) {
			put, kv := guardWriter(t, c.nc, jetstream.KeyValueConfig{Storage: storage, Replicas: 3, History: 64})
			guardRush(t, put, kv, 64, proof.Size(10, 40), func(i int) {
				if i == 5 {
					tcpOK(t, kv.Delete(t.Context(), fence.DefaultGuardKey))
				}
			})
		})
	}
	t.Run("without batches", func(t *testing.T) {
		put, kv := guardWriter(t, c.nc, jetstream.KeyValueConfig{Replicas: 3})
		s, err := c.js.Stream(t.Context(), "KV_"+kv.Bucket())
		tcpOK(t, err)
		conf := s.CachedInfo().Config
		conf.AllowAtomicPublish = false
		_, err = c.js.UpdateStream(t.Context(), conf)
		tcpOK(t, err)
		for g := range 16 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for range proof.Size(5, 20) {
					if _, err := put.Put(t.Context(), string(rune('a'+g)), nil); err != nil {
						t.Error(err)
					}
				}
			})
		}
	})
}
