//go:build field && unix

package leader_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// BenchmarkWaiters lets callers wait for a lock that another one holds. It measures from its Unlock until each of them has
// had the lock and has given it back at once, beside as many creates and deletes of a key, one after the other. The server is
// a process of its own.
func BenchmarkWaiters(b *testing.B) {
	w := scaleWorldOf(b)
	for _, k := range []struct {
		name                 string
		callers, connections int
	}{
		{"10-connections", 10, 10},
		{"50-connections", 50, 50},
		{"200-connections", 200, 200},
		{"500-connections", 500, 500},
		{"500-on-one-connection", 500, 1},
	} {
		b.Run(k.name, func(b *testing.B) { benchWaiters(b, w, k.callers, k.connections) })
	}
}

func benchWaiters(b *testing.B, w *scaleWorld, callers, connections int) {
	b.Helper()
	nc := tcpDial(b, w.url)
	kv, first := benchKV(b, nc), tcpBucket(b, tcpJS(b, nc))
	stores := make([]*leader.Bucket, connections)
	for i := range stores {
		stores[i] = tcpBucket(b, tcpJS(b, tcpDial(b, w.url)))
	}
	received := func() int64 {
		c := w.server.do("counts").Counts
		return c.StreamInfo + c.DirectGets + c.OtherAPI + c.Stored + c.NotStored
	}
	var ours, idle, bare benchSamples
	var requests int64
	lock := 0
	for b.Loop() {
		lock++
		name := fmt.Sprintf("waiters-%d-%d-%d", callers, connections, lock)
		held := check.Got(leader.Acquire(b.Context(), first, name, leader.Config{ID: "first"}))(b)
		rests := benchRests{}
		all, ctx := errgroup.WithContext(b.Context())
		for i := range callers {
			all.Go(func() error {
				l, err := leader.Acquire(ctx, stores[i%connections], name, leader.Config{ID: fmt.Sprint(i)})
				if err != nil {
					return err
				}
				rests.end()
				rests.begin()
				return l.Unlock(context.WithoutCancel(ctx))
			})
		}
		before, since := received(), time.Now()
		tcpEventually(b, "all wait", func() bool {
			if n := received(); n != before {
				before, since = n, time.Now()
			}
			return time.Since(since) > 500*time.Millisecond
		})
		began := time.Now()
		rests.begin()
		check.OK(b, held.Unlock(b.Context()))
		check.OK(b, all.Wait())
		ours, idle = append(ours, time.Since(began)), append(idle, rests.longest)
		requests += received() - before
		began = time.Now()
		for range callers {
			check.Got(kv.Create(b.Context(), "bare", make([]byte, 180)))(b)
			check.OK(b, kv.Delete(b.Context(), "bare"))
		}
		bare = append(bare, time.Since(began))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(benchMicros(ours.at(0.5))/1e3, "ms-all")
	b.ReportMetric(benchMicros(bare.at(0.5))/1e3, "ms-bare")
	b.ReportMetric(float64(ours.at(0.5))/float64(bare.at(0.5)), "ratio")
	b.ReportMetric(benchMicros(idle.at(1))/1e3, "ms-longest-idle")
	b.ReportMetric(float64(requests)/float64(lock*callers), "messages/caller")
}

// benchRests are the times in which a lock is not held.
type benchRests struct {
	mu      sync.Mutex
	since   time.Time
	longest time.Duration
}

func (r *benchRests) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since = time.Now()
}

func (r *benchRests) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.longest = max(r.longest, time.Since(r.since))
}
