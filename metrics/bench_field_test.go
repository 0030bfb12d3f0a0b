//go:build field

package metrics_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/metrics"
)

// A process has many leaders. Of 1,000, each has led and lost twice before, and the goal is a
// scrape within 50 ms. 10,000 have led since they began.
// By bucket, 10,000 cost less than 50 kB.
func BenchmarkScrape(b *testing.B) {
	b.Run("candidates=1000", func(b *testing.B) { benchmarkScrape(b, new(metrics.Collector), 1000, 2) })
	b.Run("candidates=10000", func(b *testing.B) { benchmarkScrape(b, new(metrics.Collector), 10_000, 0) })
	b.Run("by-bucket=10000", func(b *testing.B) { benchmarkScrape(b, &metrics.Collector{ByBucket: true}, 10_000, 0) })
}

func benchmarkScrape(b *testing.B, collector *metrics.Collector, n, losses int) {
	b.Helper()
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock, leadertest.WithLatency(time.Millisecond))
	link := store.Link("a")
	candidates := make([]*leader.Candidate, n)
	for i := range candidates {
		c, err := leader.Campaign(b.Context(), link, fmt.Sprintf("service.%05d", i), leader.Config{ID: "a"})
		check.OK(b, err)
		check.OK(b, collector.Add(c))
		candidates[i] = c
	}
	clock.Advance(20 * time.Second)
	for range losses {
		clock.Advance(20 * time.Second)
		link.Cut()
		clock.Advance(13 * time.Second)
		link.Restore()
		clock.Advance(20 * time.Second)
		for i := range candidates {
			store.Delete(candidates[i].Election())
		}
		clock.Advance(20 * time.Second)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector)
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	b.Cleanup(func() {
		server.Close()
		link.Close()
		for _, c := range candidates {
			<-c.Done()
		}
	})
	var size int64
	for b.Loop() {
		size = fetch(b, server)
	}
	b.ReportMetric(float64(size), "bytes")
}

func fetch(b *testing.B, server *httptest.Server) int64 {
	b.Helper()
	response, err := server.Client().Get(server.URL)
	check.OK(b, err)
	defer response.Body.Close() //nolint:errcheck // nothing is written
	size, err := io.Copy(io.Discard, response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		b.Fatal(response.Status, err)
	}
	return size
}
