package metrics_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
	"github.com/natsleader/natsleader/metrics"
)

func Example() {
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock) // in production a leader.Bucket
	candidate, err := leader.Campaign(context.Background(), store, "billing", leader.Config{ID: "a"})
	if err != nil {
		panic(err)
	}
	collector := new(metrics.Collector)
	if err := collector.Add(candidate); err != nil {
		panic(err)
	}
	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer, and promhttp.Handler()
	registry.MustRegister(collector)
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})

	clock.Settle()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "natsleader_state") {
			fmt.Print(line)
		}
	}

	if err := candidate.Stop(); err != nil {
		panic(err)
	}
	collector.Remove(candidate)
	// Output:
	// natsleader_state{bucket="",election="billing",state="candidate"} 0
	// natsleader_state{bucket="",election="billing",state="ended"} 0
	// natsleader_state{bucket="",election="billing",state="fenced"} 0
	// natsleader_state{bucket="",election="billing",state="leader"} 1
	// natsleader_state{bucket="",election="billing",state="pending"} 0
}
