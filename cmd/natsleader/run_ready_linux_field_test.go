//go:build field && linux

package main

import (
	"net"
	"net/http"
	"testing"

	expect "github.com/natsleader/natsleader/internal/check"
)

// The address of --http answers before there is a candidate, and then is free for the candidate's
// answers. No client keeps a connection to the first.
func TestWaitingServer_LendsItsListener(t *testing.T) {
	l := expect.Got(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = l.Close() }()
	w := answerWhileWaiting(l)
	client := &http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	for path, want := range map[string]int{"/live": http.StatusOK, "/leader": http.StatusServiceUnavailable} {
		answer, failed := client.Get("http://" + l.Addr().String() + path) //nolint:noctx // it has a timeout
		expect.Must(t, failed == nil, "%v", failed)
		_ = answer.Body.Close()
		expect.That(t, answer.StatusCode == want && answer.Close,
			"%s: %d, the connection ends: %t", path, answer.StatusCode, answer.Close)
	}
	w.end()
	dialed, err := net.Dial("tcp", l.Addr().String()) //nolint:noctx // of this process
	expect.OK(t, err)
	defer func() { _ = dialed.Close() }()
	taken, err := l.Accept()
	expect.Must(t, err == nil, "the listener is not free: %v", err)
	_ = taken.Close()
	answerWhileWaiting(nil).end() // without --http
}
