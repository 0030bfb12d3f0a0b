//go:build field && linux

package main

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
)

// answersWith returns the status of a health check, or 0 if there is none.
func answersWith(url string) int {
	client := http.Client{Timeout: patience}
	answer, err := client.Get(url) //nolint:noctx // it has a timeout
	if err != nil {
		return 0
	}
	_ = answer.Body.Close()
	client.CloseIdleConnections()
	return answer.StatusCode
}

// With --retry-connect a run waits for the server, and then for the bucket. It is alive
// meanwhile, and not ready.
func TestRunRetryConnect(t *testing.T) {
	t.Parallel()
	port, health := testserver.FreePort(t), testserver.FreePort(t)
	s := &runFixture{T: t, dir: t.TempDir(), url: "nats://127.0.0.1:" + strconv.Itoa(port)}
	at := "http://127.0.0.1:" + strconv.Itoa(health)
	a := s.start("a", "--retry-connect", "--http", strings.TrimPrefix(at, "http://"), "--", s.obedient())
	a.says("cannot connect to " + s.url)
	for path, want := range map[string]int{"/live": 200, "/connected": 503, "/leader": 503} {
		got := answersWith(at + path)
		expect.That(t, got == want, "%s without a server: %d, want %d", path, got, want)
	}
	s.server = startServer(t, func(o *server.Options) { o.Port = port })
	a.says("bucket elections does not exist")
	expect.Equal(t, answersWith(at+"/live"), 200, "/live without a bucket: %d")
	newBucket(t, s.url, "elections", leader.BucketConfig{MaxLease: 15 * time.Second})
	a.waitBegun(1)
	for path, want := range map[string]int{"/live": 200, "/connected": 200, "/leader": 200} {
		eventually(t, path, func() bool { return answersWith(at+path) == want })
	}
	said := a.text()
	expect.That(t, strings.Count(said, "(--retry-connect)") == 2, "%s", said)
	a.terminated()
}
