//go:build unix

package main

import (
	"fmt"
	"net"
	"net/http"

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

// serve answers for the candidate and its command until the listener is closed.
func serve(l net.Listener, c *leader.Candidate, command *commandMetrics) error {
	h, err := answers(c, command)
	if err != nil {
		return err
	}
	serveHTTP(l, h)
	return nil
}

// answers returns the handler of --http.
func answers(c *leader.Candidate, command *commandMetrics) (http.Handler, error) {
	collector := &metrics.Collector{LeaderIDs: true} // of one election
	if err := collector.Add(c); err != nil {
		return nil, err
	}
	pages, err := metricsPage(collector, command)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/leader", health.Leader(c))
	mux.Handle("/live", health.Live(c))
	mux.Handle("/connected", health.Connected(c))
	mux.Handle("/metrics", pages)
	return mux, nil
}
