//go:build field && linux

package torture_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testcluster"
)

// link is the connection of one candidate, or of one server, to one server: a proxy
// that does harm. It has at most one toxic in each direction.
type link struct {
	tb     testing.TB
	server string // the server that it leads to
	proxy  *toxiproxy.Proxy
}

func newLink(tb testing.TB, server, address string) *link {
	tb.Helper()
	l := &link{tb: tb, server: server}
	l.open(testcluster.FreeAddress(tb), address)
	tb.Cleanup(func() { l.proxy.Stop() })
	return l
}

// open may have to wait: a process that is being started may still have a copy of the
// listener that was closed.
func (l *link) open(listen, address string) {
	l.tb.Helper()
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	testcluster.Eventually(l.tb, "a proxy listens on "+listen, func() bool {
		l.proxy = toxiproxy.NewProxy(api, l.server, listen, address)
		return l.proxy.Start() == nil
	})
}

// cut breaks the connections and refuses others.
func (l *link) cut() { l.proxy.Stop() }

// heal replaces the proxy by a new one. The connections of the old one break, because a
// stream cannot go on after a hole. (Toxics are not removed one by one, because
// Toxiproxy waits for ever for a toxic that has closed its connection.)
func (l *link) heal() {
	l.tb.Helper()
	l.proxy.Stop()
	l.open(l.proxy.Listen, l.proxy.Upstream)
}

const (
	toServer = "upstream"
	otherWay = "downstream"
)

// swallow takes everything and delivers nothing, while connections stay open and
// new ones are accepted.
func (l *link) swallow(directions ...string) {
	for _, d := range directions {
		l.toxic("timeout", d, `"timeout": 0`)
	}
}

// slow delays everything.
func (l *link) slow(rng *rand.Rand) {
	latency := 100 + rng.IntN(400)
	for _, d := range []string{toServer, otherWay} {
		l.toxic("latency", d, fmt.Sprintf(`"latency": %d, "jitter": %d`, latency, latency/2))
	}
}

// delay holds back the data for the server, even if the connection is closed meanwhile.
func (l *link) delay(by time.Duration) {
	l.toxic("latency", toServer, fmt.Sprintf(`"latency": %d`, by.Milliseconds()))
}

// lose has the effect of packet loss on TCP connections. They stall, and then break in
// the middle of a message, again and again.
func (l *link) lose(rng *rand.Rand) {
	l.toxic("latency", toServer, fmt.Sprintf(`"latency": %d, "jitter": %d`, 200, 200))
	l.toxic("limit_data", otherWay, fmt.Sprintf(`"bytes": %d`, 1000+rng.IntN(6000)))
}

func (l *link) toxic(kind, direction, attributes string) {
	l.tb.Helper()
	_, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(
		`{"type": %q, "stream": %q, "attributes": {%s}}`, kind, direction, attributes)))
	expect.OK(l.tb, err)
}
