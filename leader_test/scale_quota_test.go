//go:build unix

package leader_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/proof"
)

// A process that leads thousands of elections loses none while it and the server get half of
// the processor time that the renewals take: each leader may miss some renewals, and needs one
// in each RenewDeadline, a fifth of them. It does not matter how fast or busy the machine is,
// because the limit is half of what has just been measured on it. A hundredth may be lost,
// because other processes that begin meanwhile make the same processor time worth less. Without
// a window all of them were lost.
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
	for try := 1; ; try++ {
		o := w.suffer(c, elections, tcpLimit, func() {
			w.limit.to(share)
			client, server = w.shares(c, func() { time.Sleep(lease + interval) }) // longer than any lease
			w.limit.lift()
		})
		t.Logf("limited by %s to %.0f%% of a processor, of which %.0f%% were used: at least %d lead, %d were fenced, %s; %+v",
			w.limit.name(), 100*share, 100*(client+server), o.least, o.fences, o.text, o.counts)
		if client+server > 1.5*share {
			t.Skipf("%s does not hold the processes to the limit", w.limit.name())
		}
		if o.least >= elections*99/100 {
			return
		}
		if starved := client+server < 0.8*share; !starved || try == 3 { // starved: by other processes
			t.Fatalf("at least %d of %d lead, %d were fenced; %s", o.least, elections, o.fences, o.text)
		}
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
		w.limit.to(share)
		time.Sleep(size.limited)
		w.limit.lift()
	})
	t.add(b, fmt.Sprintf("quota-%.0f", 100*share), fmt.Sprintf("at least %d lead, %s", o.least, o.text), o.metrics())
	t.limited = w.limit.name()
}
