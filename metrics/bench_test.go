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

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
	"github.com/natsleader/natsleader/metrics"
)

// A process has 1,000 candidates, and each has led and lost twice. The goal is a scrape
// within 50 ms.
func BenchmarkScrapeOf1000Candidates(b *testing.B) {
	const n = 1000
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock, leadertest.WithLatency(time.Millisecond))
	collector := new(metrics.Collector)
	link := store.Link("a")
	candidates := make([]*leader.Candidate, n)
	for i := range candidates {
		c, err := leader.Campaign(b.Context(), link, fmt.Sprintf("service.%04d", i), leader.Config{ID: "a"})
		if err != nil {
			b.Fatal(err)
		}
		if err := collector.Add(c); err != nil {
			b.Fatal(err)
		}
		candidates[i] = c
	}
	for range 2 {
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
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // nothing is written
	size, err := io.Copy(io.Discard, response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		b.Fatal(response.Status, err)
	}
	return size
}
