//go:build field && linux

package torture_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/testcluster"
	"github.com/natsleader/natsleader/leader"
)

const (
	defaultFence = 12 * time.Second // the RenewDeadline of a lease of 15 s
	// bearable is how long writes may fail at default settings without a change of
	// leader, even on a busy machine. The defaults leave 9.5 s less the wait of an
	// attempt (see docs/configuration.md).
	bearable = 7 * time.Second
)

// probe writes to the bucket through each server separately, to find the times in which
// no server accepted a write.
type probe struct {
	mu      sync.Mutex
	last    int64
	longest time.Duration
}

func startProbe(tb testing.TB, c *cluster, bucket string) *probe {
	tb.Helper()
	p := &probe{last: monotonic()}
	for _, n := range c.Nodes {
		js := expect.Got(jetstream.New(c.dial("nats://" + n.Address)))(tb)
		go func() {
			for ; tb.Context().Err() == nil; time.Sleep(50 * time.Millisecond) {
				sent := monotonic()
				ctx, cancel := context.WithTimeout(tb.Context(), 500*time.Millisecond)
				if _, err := js.Publish(ctx, "$KV."+bucket+".probe", nil, jetstream.WithRetryAttempts(0)); err == nil {
					p.wrote(sent)
				}
				cancel()
			}
		}()
	}
	return p
}

func (p *probe) wrote(sent int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.longest = max(p.longest, time.Duration(sent-p.last))
	p.last = max(p.last, sent)
}

// outage returns the longest time without a write since its last call.
func (p *probe) outage() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.longest = 0 }()
	return p.longest
}

// At default settings none of these faults costs the leadership, not even for a moment,
// because there would be a new term. The candidates connect like an application that
// wants to notice when its server hangs (see docs/production.md): the client notices after three to
// four intervals of nats.PingInterval.
//
// The test is of the library, and not of the speed of NATS elections. If writes failed
// for longer than the defaults are made for, the case is tried again.
//
// The leader writes all the time, so that its guards take part in all that, too.
func TestDefaultSettings_ServerLoss(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	c := startCluster(t, 3)
	d := newDriver(t, c, rand.New(rand.NewPCG(1, 1)), candidateSpec{Ping: *ping}, defaultFence, leader.BucketConfig{Name: "E"})
	b := d.buckets[0]
	d.keep(b, jetstream.FileStorage, ledgerSpec{})
	holder := d.seat(c.Nodes...)
	testcluster.Eventually(t, "the first leads", func() bool { s, _ := d.leader(b); return s == holder })
	d.seat()
	d.seat()
	d.calm()
	p := startProbe(t, c, "E")
	for _, k := range []struct {
		how  string
		lose func()
	}{
		{"its server, which leads the stream, killed", func() { d.c.Lead("E", d.server(holder)); d.lose((*testcluster.Node).Kill, d.server(holder)) }},
		{"its server, which leads the stream, paused", func() { d.c.Lead("E", d.server(holder)); d.lose((*testcluster.Node).Pause, d.server(holder)) }},
		{"another server, which leads the stream, killed", func() { n := d.another(holder); d.c.Lead("E", n); d.lose((*testcluster.Node).Kill, n) }},
		{"another server, which leads the stream, paused", func() { n := d.another(holder); d.c.Lead("E", n); d.lose((*testcluster.Node).Pause, n) }},
		{"its server killed", func() { d.c.Lead("E", d.another(holder)); d.lose((*testcluster.Node).Kill, d.server(holder)) }},
		{"its server paused", func() { d.c.Lead("E", d.another(holder)); d.lose((*testcluster.Node).Pause, d.server(holder)) }},
		{"rolling restart", func() { d.roll() }},
	} {
		for try := 1; ; try++ {
			d.calm()
			before, was := d.leader(b)
			p.outage()
			k.lose()
			d.calm()
			out := p.outage()
			after, is := d.leader(b)
			left := defaultFence
			for _, e := range before.lives[b].entries {
				if e.What == leads && e.At > was.At && e.Token == was.Token {
					left = min(left, time.Duration(e.Left))
				}
			}
			d.logf("%s: no writes for %v, the lease had %v left at least", k.how, out.Round(time.Millisecond), left.Round(time.Millisecond))
			if after == before && is.Token == was.Token {
				break
			}
			holder = after
			if out <= bearable || try == 3 {
				t.Errorf("%s: token %d led, now %d does", k.how, was.Token, is.Token)
				break
			}
		}
	}
	d.close()
	d.check()
	d.checkLedgers()
}

// lose takes a server away until everything goes on without it.
func (d *driver) lose(how func(*testcluster.Node), n *testcluster.Node) {
	how(n)
	time.Sleep(defaultFence)
	n.Up()
}

// another returns a server that the candidate is not connected to.
func (d *driver) another(s *seat) *testcluster.Node {
	for _, n := range d.c.Nodes {
		if n != d.server(s) {
			return n
		}
	}
	return nil
}
