//go:build field && linux

package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// refusals is a server that refuses each connection: the first three for one reason, and all others for
// another. It counts them.
func refusals(t *testing.T) (url string, count *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	expect.OK(t, err)
	count = new(atomic.Int64)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			reason := "authorization violation"
			if count.Add(1) > 3 {
				reason = "maximum connections exceeded"
			}
			_ = conn.SetDeadline(time.Now().Add(patience))
			_, _ = fmt.Fprint(conn, "INFO {}\r\n")
			for r := bufio.NewScanner(conn); r.Scan() && r.Text() != "PING"; {
			}
			_, _ = fmt.Fprintf(conn, "-ERR '%s'\r\n", reason)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	return "nats://" + l.Addr().String(), count
}

// The pauses between attempts grow to 5 s, half more or less. Each reason is logged once, and --wait ends
// with the last one. The clock of the bubble stands during an attempt.
func TestReach_TriesAgain(t *testing.T) {
	url, count := refusals(t)
	synctest.Test(t, func(t *testing.T) {
		var said lockedText
		c := &runLoop{run: &run{globals: globalsOf(url, "elections"), retryConnect: true, wait: time.Minute}, log: newRunLog(&said, "jobs", logText, false), waited: time.After(time.Minute)}
		_, _, err := c.reach()
		c.log.close()
		if codeOf(err) != exitWaited || !strings.HasPrefix(err.Error(), "not connected within --wait 1m0s: ") || !strings.HasSuffix(err.Error(), "maximum connections exceeded") {
			t.Errorf("%v", err)
		}
		if n := count.Load(); n < 12 || n > 28 { // if all pauses are as long, or as short, as they can be
			t.Errorf("%d attempts in a minute", n)
		}
		text := said.text.String()
		expect.That(t, strings.Count(text, "(--retry-connect)") == 2, "it has said:\n%s", text)
	})
}
