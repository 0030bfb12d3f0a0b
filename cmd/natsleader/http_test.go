package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
)

// closing is a connection that reports when it is closed.
type closing struct {
	net.Conn
	closed chan time.Time
}

func (c closing) Close() error {
	select {
	case c.closed <- time.Now():
	default: // it was closed before
	}
	return c.Conn.Close()
}

// A client that sends or reads slowly loses its connection after a bounded time, and one that sends a huge
// header at once.
func TestServeHTTP_SlowClients(t *testing.T) {
	const begin, get = "GET / HTTP/1.1\r\nHost: x\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, x := range map[string]struct {
		sends string
		reads bool
		after time.Duration
		says  string // the answer
	}{
		"sends no header":     {sends: begin, reads: true, after: 10 * time.Second},
		"sends no body":       {sends: "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", reads: true, after: 30 * time.Second},
		"reads nothing":       {sends: get, after: 30 * time.Second},
		"asks nothing more":   {sends: get, reads: true, after: 5 * time.Minute, says: "200"},
		"sends a huge header": {sends: begin + "X: " + strings.Repeat("x", 68<<10), reads: true, after: 500 * time.Millisecond, says: "431"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := testworld.NewPipes()
				defer p.End()
				front.ServeHTTP(p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					_, _ = w.Write([]byte("hello"))
				}))
				ours, theirs := net.Pipe()
				closed := make(chan time.Time, 1)
				p.Conns <- closing{theirs, closed}
				began := time.Now()
				var answer bytes.Buffer
				if x.reads {
					go func() { _, _ = io.Copy(&answer, ours) }()
				}
				_, _ = io.WriteString(ours, x.sends)
				got := (<-closed).Sub(began)
				synctest.Wait()
				expect.That(t, got == x.after && strings.Contains(answer.String(), x.says), "closed after %v: %s", got, &answer)
			})
		})
	}
}
