//go:build field && unix

package leader_test

import (
	"net/url"
	"strconv"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
)

// scaleGate is a gate before a server.
type scaleGate struct {
	*gate
	url string
}

func scaleGateTo(tb testing.TB, server string) scaleGate {
	tb.Helper()
	u, err := url.Parse(server)
	check.OK(tb, err)
	port, err := strconv.Atoi(u.Port())
	check.OK(tb, err)
	g := gateTo(tb, port)
	return scaleGate{g, "nats://127.0.0.1:" + strconv.Itoa(g.port)}
}
