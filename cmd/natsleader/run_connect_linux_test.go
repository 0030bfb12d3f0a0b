package main

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sys/unix"

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
		if got := answersWith(at + path); got != want {
			t.Errorf("%s without a server: %d, want %d", path, got, want)
		}
	}
	s.server = startServer(t, func(o *server.Options) { o.Port = port })
	a.says("bucket elections does not exist")
	if got := answersWith(at + "/live"); got != 200 {
		t.Errorf("/live without a bucket: %d", got)
	}
	newBucket(t, s.url, "elections", leader.BucketConfig{MaxLease: 15 * time.Second})
	a.waitBegun(1)
	for path, want := range map[string]int{"/live": 200, "/connected": 200, "/leader": 200} {
		eventually(t, path, func() bool { return answersWith(at+path) == want })
	}
	if said := a.text(); strings.Count(said, "(--retry-connect)") != 2 {
		t.Errorf("%s", said)
	}
	a.signal(unix.SIGTERM)
	a.exits(128 + 15)
}

// A signal, and --wait with the reason, end a run that waits for a server. Wrong flags and
// missing permissions are not waited for.
func TestRunRetryConnect_Ends(t *testing.T) {
	t.Parallel()
	s := &runFixture{T: t, dir: t.TempDir(), url: "nats://127.0.0.1:1"}
	a := s.start("a", "--retry-connect", "--wait", "5s", "--", "true")
	if a.exits(exitWaited); !strings.Contains(lastLine(a.text()), "not connected within --wait 5s: cannot connect to nats://127.0.0.1:1") {
		t.Errorf("%s", a.text())
	}
	b := s.start("b", "--retry-connect", "--", "true")
	b.says("cannot connect")
	b.signal(unix.SIGTERM)
	b.exits(128 + 15)
	fails(t, natsleader(t, "run", "--retry-connect", "--tlsca", "/nowhere/ca", "jobs", "--", "true"), exitUsage, "/nowhere/ca")
}
