//go:build unix

package leader_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/testserver"
)

// scaleWorld is a server and its clients, each a process.
type scaleWorld struct {
	tb     testing.TB
	limit  *scaleLimit // nil: none
	server *scaleProcess
	url    string
}

// scaleWorldOf starts a server.
func scaleWorldOf(tb testing.TB) *scaleWorld {
	tb.Helper()
	w := &scaleWorld{tb: tb}
	w.start()
	return w
}

// scaleLimited starts a server, and limits it and its clients when asked to.
func scaleLimited(tb testing.TB) *scaleWorld {
	tb.Helper()
	w := &scaleWorld{tb: tb, limit: scaleLimitOf(tb)}
	w.start()
	w.limit.add(w.server)
	return w
}

func (w *scaleWorld) start() {
	w.tb.Helper()
	w.server = scaleStart(w.tb, "server", scaleEnv+"_STORE="+testserver.StoreDir(w.tb))
	w.url = w.server.do("url").URL
}

// client starts a client of that URL.
func (w *scaleWorld) client(url string) *scaleProcess {
	w.tb.Helper()
	c := scaleStart(w.tb, "client", "NATS_URL="+url)
	if w.limit != nil {
		w.limit.add(c)
	}
	return c
}

// lead makes a process lead a number of elections, and returns how long that took.
func (w *scaleWorld) lead(c *scaleProcess, n int) time.Duration {
	w.tb.Helper()
	began := time.Now()
	c.ask(scaleRequest{Do: "campaign", Number: n})
	if r := c.ask(scaleRequest{Do: "until all lead", Limit: tcpLimit}); r.Leads < n {
		w.tb.Fatalf("%d of %d lead after %v", r.Leads, n, tcpLimit)
	}
	return time.Since(began)
}

// scaleLeads waits until all lead again, for a limited time, and returns what to print.
func scaleBack(c *scaleProcess, n int, limit time.Duration) (took time.Duration, text string) {
	began := time.Now()
	r := c.ask(scaleRequest{Do: "until all lead", Limit: limit})
	took = time.Since(began)
	if r.Leads < n {
		return took, fmt.Sprintf("%d lead after %v", r.Leads, limit)
	}
	return took, fmt.Sprintf("all lead after %.1f s", took.Seconds())
}
