//go:build field

package leader_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// BenchmarkCapacity writes as many keys as the client and the servers can together, each on the
// condition of its last revision, as renewals are. 256 writes are in flight.
func BenchmarkCapacity(b *testing.B) {
	benchPlaces(b, benchCapacity)
}

func benchCapacity(b *testing.B, dial func() *nats.Conn, conf jetstream.KeyValueConfig) {
	b.Helper()
	const crowd = 256
	js := tcpJS(b, dial())
	conf.Bucket = "capacity"
	var kv jetstream.KeyValue
	clusterPlaced(b, func() (err error) {
		kv, err = js.CreateKeyValue(b.Context(), conf)
		return err
	})
	value := make([]byte, 200) // about the size of a record
	var writers sync.WaitGroup
	each := (b.N + crowd - 1) / crowd
	began := time.Now()
	for i := range crowd {
		writers.Go(func() {
			last := uint64(0)
			for range each {
				revision, err := kv.Update(b.Context(), fmt.Sprint("k", i), value, last)
				if err != nil {
					b.Error(err)
					return
				}
				last = revision
			}
		})
	}
	writers.Wait()
	b.ReportMetric(float64(each*crowd)/time.Since(began).Seconds(), "writes/s")
}
