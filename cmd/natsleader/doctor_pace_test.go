package main

import (
	"strings"
	"testing"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
)

// doctor compares the rates of the clocks of the host and of the server with the margin of leases, which is a fifth.
func TestDoctor_JudgesPace(t *testing.T) {
	const s = time.Second
	for _, k := range []struct {
		server, host, uncertain time.Duration
		want                    string // empty: they keep pace
	}{
		{12 * s, 10 * s, 0, ""},
		{12*s + 1, 10 * s, 0, "2s slower than the server's in 10s: leases of 15s allow for 3s"},
		{8 * s, 10 * s, 0, ""},
		{8*s - 1, 10 * s, 0, "2s faster"},
		{13 * s, 10 * s, s, ""},
		{13*s + 1, 10 * s, s, "2s slower"},
	} {
		f := judgePace(k.server, k.host, k.uncertain, 15*s)
		apart := f.Severity > severityOK
		expect.That(t, apart == (k.want != "") && strings.Contains(f.Text, k.want), "%+v: %+v", k, f)
		expect.That(t, !apart || f.Severity == severityCritical, "%+v is %v", k, f.Severity)
	}
}
