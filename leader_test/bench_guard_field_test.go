//go:build field

package leader_test

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// The figures of guarded writes, each beside the bare operation on the same bucket and
// the same connection, turn by turn.

var guardBuckets atomic.Int64

// guardWriter returns the writer of a term that has begun, and the bare bucket.
func guardWriter(tb testing.TB, nc *nats.Conn, conf jetstream.KeyValueConfig) (*fence.BucketWriter, jetstream.KeyValue) {
	tb.Helper()
	js := tcpJS(tb, nc)
	conf.Bucket = "orders" + strconv.FormatInt(guardBuckets.Add(1), 10)
	var kv jetstream.KeyValue
	clusterPlaced(tb, func() (err error) {
		kv, err = js.CreateKeyValue(tb.Context(), conf)
		return err
	})
	s := check.Got(js.Stream(tb.Context(), "KV_"+conf.Bucket))(tb)
	sc := s.CachedInfo().Config
	sc.AllowAtomicPublish = true
	check.Got(js.UpdateStream(tb.Context(), sc))(tb)
	g := check.Got(fence.OpenBucket(js, conf.Bucket))(tb)
	c, err := leader.Campaign(tb.Context(), tcpBucket(tb, js), conf.Bucket, leader.Config{Guards: []leader.Guard{g}})
	check.OK(tb, err)
	tb.Cleanup(func() { _ = c.Stop() })
	for e := range c.Events(tb.Context()) {
		if e, ok := e.(leader.Elected); ok {
			return g.Writer(e.Term), kv
		}
	}
	tb.Fatal("the candidate has ended")
	return nil, nil
}

// BenchmarkGuardedPut makes one write after the other.
func BenchmarkGuardedPut(b *testing.B) {
	benchPlaces(b, func(b *testing.B, dial func() *nats.Conn, conf jetstream.KeyValueConfig) {
		w, kv := guardWriter(b, dial(), conf)
		value := make([]byte, 128)
		var ours, bare benchSamples
		for n := 0; b.Loop(); n++ {
			for range 10 {
				key := "k" + strconv.Itoa(n%1000)
				began := time.Now()
				check.Got(w.Put(b.Context(), key, value))(b)
				ours = append(ours, time.Since(began))
				began = time.Now()
				check.Got(kv.Put(b.Context(), key, value))(b)
				bare = append(bare, time.Since(began))
			}
		}
		benchBoth(b, ours, bare)
	})
}

// BenchmarkGuardedThroughput writes from 64 goroutines at once, in turns of a second.
func BenchmarkGuardedThroughput(b *testing.B) {
	benchPlaces(b, func(b *testing.B, dial func() *nats.Conn, conf jetstream.KeyValueConfig) {
		w, kv := guardWriter(b, dial(), conf)
		b.Run("fresh", func(b *testing.B) { guardThroughput(b, w, kv) })
		b.Run("old", func(b *testing.B) {
			guardFlood(b, func(key string, v []byte) error {
				_, err := kv.Put(b.Context(), key, v)
				return err
			}, 100_000, 0)
			guardThroughput(b, w, kv)
		})
	})
}

func guardThroughput(b *testing.B, w *fence.BucketWriter, kv jetstream.KeyValue) {
	b.Helper()
	var ours, bare int64
	var oursIn, bareIn time.Duration
	for b.Loop() {
		for _, turn := range []struct {
			n   *int64
			in  *time.Duration
			put func(string, []byte) error
		}{
			{&ours, &oursIn, func(key string, v []byte) error { _, err := w.Put(b.Context(), key, v); return err }},
			{&bare, &bareIn, func(key string, v []byte) error { _, err := kv.Put(b.Context(), key, v); return err }},
		} {
			began := time.Now()
			*turn.n += guardFlood(b, turn.put, 0, 300*time.Millisecond)
			*turn.in += time.Since(began)
		}
	}
	o, r := float64(ours)/oursIn.Seconds(), float64(bare)/bareIn.Seconds()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(o, "ours/s")
	b.ReportMetric(r, "bare/s")
	b.ReportMetric(o/r, "ratio")
}

// guardFlood writes from 64 goroutines, a number of times or for a duration.
func guardFlood(b *testing.B, put func(key string, v []byte) error, times int64, d time.Duration) int64 {
	b.Helper()
	var n atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for g := range 64 {
		wg.Go(func() {
			value := make([]byte, 128)
			for i := 0; ; i++ {
				if times > 0 && n.Load() >= times || times == 0 && time.Since(began) >= d {
					return
				}
				if err := put(fmt.Sprintf("k%d.%d", g, i%100), value); err != nil {
					b.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return n.Load()
}

// BenchmarkGuardRaise measures a handover with guards, beside one without, all from an
// idle moment, and while the old term goes on writing as fast as it can.
// (guard_raise_test.go asserts that one guard or several add one round trip.)
func BenchmarkGuardRaise(b *testing.B) {
	benchPlaces(b, func(b *testing.B, dial func() *nats.Conn, conf jetstream.KeyValueConfig) {
		nc := dial()
		js := tcpJS(b, nc)
		var guards []leader.Guard
		for range 4 {
			conf.Bucket = "orders" + strconv.FormatInt(guardBuckets.Add(1), 10)
			clusterPlaced(b, func() error { return check.Err(js.CreateKeyValue(b.Context(), conf)) })
			g := check.Got(fence.OpenBucket(js, conf.Bucket))(b)
			guards = append(guards, g)
		}
		b.Run("undisturbed", func(b *testing.B) {
			kv := benchKV(b, nc)
			var one, with, without, update benchSamples
			for b.Loop() {
				one = append(one, guardHandover(b, nc, guards[:1], nil))
				with = append(with, guardHandover(b, nc, guards, nil))
				without = append(without, guardHandover(b, nc, nil, nil))
				began := time.Now()
				check.Got(kv.Put(b.Context(), "bare", make([]byte, 180)))(b)
				update = append(update, time.Since(began))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(benchMicros(one.at(0.5)), "µs-one-guard")
			b.ReportMetric(benchMicros(with.at(0.5)), "µs-four-guards")
			b.ReportMetric(benchMicros(without.at(0.5)), "µs-without")
			b.ReportMetric(benchMicros(update.at(0.5)), "µs-update")
		})
		for name, write := range map[string]func(w *fence.BucketWriter, key string, last uint64) (uint64, error){
			"against-puts-of-a-zombie": func(w *fence.BucketWriter, key string, _ uint64) (uint64, error) {
				return w.Put(b.Context(), key, make([]byte, 128))
			},
			"against-updates-of-a-zombie": func(w *fence.BucketWriter, key string, last uint64) (uint64, error) {
				return w.Update(b.Context(), key, make([]byte, 128), last)
			},
		} {
			b.Run(name, func(b *testing.B) {
				var with benchSamples
				for n := 0; b.Loop(); n++ {
					with = append(with, guardHandover(b, nc, guards[:1], guardZombie(guards[0], n, write)))
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(benchMicros(with.at(0.5))/1e3, "ms-p50")
				b.ReportMetric(benchMicros(with.at(0.99))/1e3, "ms-p99")
			})
		}
	})
}

// guardZombie writes as fast as it can, even if its writes are rejected.
func guardZombie(g leader.Guard, n int, write func(w *fence.BucketWriter, key string, last uint64) (uint64, error)) func(*leader.Term, <-chan struct{}) {
	return func(t *leader.Term, stop <-chan struct{}) {
		bucket, ok := g.(*fence.Bucket)
		if !ok {
			return
		}
		w := bucket.Writer(t)
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				for last := uint64(0); ; {
					select {
					case <-stop:
						return
					default:
					}
					if seq, err := write(w, fmt.Sprintf("z%d.%d", n, i), last); err == nil {
						last = seq
					}
				}
			})
		}
		wg.Wait()
	}
}

// guardHandover returns the time from Resign to the other's Elected. The worker of the
// first term goes on until then.
func guardHandover(b *testing.B, nc *nats.Conn, guards []leader.Guard, zombie func(t *leader.Term, stop <-chan struct{})) time.Duration {
	b.Helper()
	store := tcpBucket(b, tcpJS(b, nc))
	first, second := make(chan time.Time, 1), make(chan time.Time, 1)
	a := benchCampaign(b, store, "e", leader.Config{ID: "a", Guards: guards, TurnTimeout: longTurn}, first)
	<-first
	c := benchCampaign(b, store, "e", leader.Config{ID: "b", Guards: guards}, second)
	tcpEventually(b, "b listens", func() bool { return c.Leader().State == leader.HolderLeading })
	<-time.After(50 * time.Millisecond) // in which both look at their guards
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		if t, ok := a.Term(); ok && zombie != nil {
			zombie(t, stop)
		}
	}()
	if zombie != nil {
		<-time.After(20 * time.Millisecond)
	}
	began := time.Now()
	check.OK(b, leadertest.Resign(b.Context(), a))
	took := (<-second).Sub(began)
	close(stop)
	<-stopped
	benchStop(b, a)
	benchStop(b, c)
	return took
}
