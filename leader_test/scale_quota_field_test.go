//go:build field && unix

package leader_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

// A process that leads thousands of elections loses none while it and the server get half of
// the processor time that the renewals take: each leader may miss some renewals, and needs one
// in each RenewDeadline, a fifth of them. It does not matter how fast or busy the machine is,
// because the limit is half of what has just been measured on it. A hundredth may be lost,
// because other processes that begin meanwhile make the same processor time worth less. Without
// a window all of them were lost.
//
// The kernel counts the periods in which the processes used up their share. If these are less
// than half, the processes were not held to the limit, or other processes left them less than
// that. Then nothing is proved, and the test fails.
func TestScale_HalfTheProcessorTime(t *testing.T) {
	proof.Only(t)
	const (
		elections = 2000
		lease     = 5 * time.Second // a leader is fenced 4 s after its last renewal
		interval  = lease / 6
	)
	w := scaleLimited(t)
	c := w.client(w.url)
	w.lead(c, elections, lease)
	client, server := w.shares(c, func() { time.Sleep(2 * interval) }) // all renew twice
	share := (client + server) / 2
	var limited scalePeriods
	o := w.suffer(c, elections, tcpLimit, func() {
		before := check.Got(w.limit.periods())(t)
		check.OK(t, w.limit.limit(share))
		time.Sleep(lease + interval) // longer than any lease
		limited = check.Got(w.limit.periods())(t).since(before)
		check.OK(t, w.limit.limit(0))
	})
	t.Logf("limited by %s to %.0f%% of a processor, which was used up in %d of %d periods: at least %d lead, %d were fenced, %s; %+v",
		w.limit.name(), 100*share, limited.throttled, limited.all, o.least, o.fences, o.text, o.counts)
	check.OK(t, limited.held(lease+interval))
	check.Must(t, o.least >= elections*99/100,
		"at least %d of %d lead, %d were fenced; %s", o.least, elections, o.fences, o.text)
}

// The limit held only if the kernel counted its periods, and throttled the processes in half
// of them.
func TestScalePeriods_Held(t *testing.T) {
	for _, tt := range []struct {
		all, throttled int
		held           bool
	}{{50, 50, true}, {50, 25, true}, {50, 24, false}, {25, 25, true}, {24, 24, false}, {0, 0, false}} {
		err := (scalePeriods{tt.all, tt.throttled}).held(50 * scalePeriod)
		check.That(t, (err == nil) == tt.held,
			"%d of %d periods: %v, want held: %t", tt.throttled, tt.all, err, tt.held)
	}
}

// scaleQuota limits client and server together to a share of one processor.
func scaleQuota(b *testing.B, t *scaleTable, size scaleSize, share float64) {
	b.Helper()
	w := scaleLimited(b)
	c := w.client(w.url)
	w.lead(c, size.elections, 0)
	time.Sleep(size.settle)
	o := w.suffer(c, size.elections, size.back, func() {
		check.OK(b, w.limit.limit(share))
		time.Sleep(size.limited)
		check.OK(b, w.limit.limit(0))
	})
	t.add(b, fmt.Sprintf("quota-%.0f", 100*share), fmt.Sprintf("at least %d lead, %s", o.least, o.text), o.metrics())
	t.limited = w.limit.name()
}
