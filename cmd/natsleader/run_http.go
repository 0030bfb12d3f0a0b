//go:build unix

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

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

// waitingServer answers health checks on the address of --http while there is no candidate
// yet. With --retry-connect that may take long, and the process is not to be restarted for
// it.
type waitingServer struct {
	server *http.Server
	lent   *lentListener
	done   chan struct{}
}

// answerWhileWaiting serves a listener until end is called. The listener stays open.
func answerWhileWaiting(l net.Listener) *waitingServer {
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/live", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"live":true}`+"\n") })
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"error":"not connected to NATS yet"}`+"\n")
	})
	w := &waitingServer{server: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}, lent: &lentListener{tcp}, done: make(chan struct{})}
	w.server.SetKeepAlivesEnabled(false) // the next request is for the candidate
	go func() {
		defer close(w.done)
		_ = w.server.Serve(w.lent)
	}()
	return w
}

// end ends the answers, and returns when the listener is free for another server.
func (w *waitingServer) end() {
	if w == nil {
		return
	}
	_ = w.server.Close()
	<-w.done
	_ = w.lent.SetDeadline(time.Time{})
}

// lentListener is a listener that stays open when its server is closed.
type lentListener struct{ *net.TCPListener }

// Close ends a call of Accept. By then the server is shutting down, and takes the timeout for its end.
func (l *lentListener) Close() error { return l.SetDeadline(time.Unix(1, 0)) }
