//go:build field && unix

package leader_test

import (
	"net/url"
	"strconv"
	"testing"
)

// scaleGate is a gate before a server.
type scaleGate struct {
	*gate
	url string
}

func scaleGateTo(tb testing.TB, server string) scaleGate {
	tb.Helper()
	u, err := url.Parse(server)
	tcpOK(tb, err)
	port, err := strconv.Atoi(u.Port())
	tcpOK(tb, err)
	g := gateTo(tb, port)
	return scaleGate{g, "nats://127.0.0.1:" + strconv.Itoa(g.port)}
}
