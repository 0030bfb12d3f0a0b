//go:build unix

package main

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/natsleader/natsleader/health"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/metrics"
)

// listen opens the address of --http, if there is one.
func (r *run) listen() (net.Listener, error) {
	if r.http == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", r.http)
	if err != nil {
		return nil, fmt.Errorf("--http %s: %w", r.http, err)
	}
	return l, nil
}

// serve answers for the candidate until the listener is closed.
func serve(l net.Listener, c *leader.Candidate) error {
	h, err := answers(c)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(l) }()
	return nil
}

// answers returns the handler of --http.
func answers(c *leader.Candidate) (http.Handler, error) {
	collector := new(metrics.Collector)
	if err := collector.Add(c); err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	for _, each := range []prometheus.Collector{
		collector, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := registry.Register(each); err != nil {
			return nil, err
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/leader", health.Leader(c))
	mux.Handle("/live", health.Live(c))
	mux.Handle("/connected", health.Connected(c))
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux, nil
}
