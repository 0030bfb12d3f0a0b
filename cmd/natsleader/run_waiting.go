//go:build unix

package main

import (
	"io"
	"net"
	"net/http"
	"time"
)

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
