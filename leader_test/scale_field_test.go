//go:build field && unix

package leader_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/check"
	netlink "github.com/natsleader/natsleader/internal/link"
)

// scaleSize is what a run of BenchmarkScale measures. Candidates have the default lease of
// 15 s, of which the intervals follow: a renewal each 2.5 s, a leader fenced after 12 s.
type scaleSize struct {
	elections, crowd, many int
	settle, measure        time.Duration // before and while a steady state is measured
	limited, back          time.Duration // how long processors are limited; the time to recover
	dead                   time.Duration // how long packets are swallowed
	quotas                 []float64     // shares of one processor
}

var (
	scaleFull = scaleSize{
		elections: 10_000, crowd: 5_000, many: 30_000, settle: 5 * time.Second, measure: 20 * time.Second,
		limited: 15 * time.Second, back: 15 * time.Second, dead: 13 * time.Second, quotas: []float64{0.4, 0.2, 0.1},
	}
	// scaleSample shows that everything runs.
	scaleSample = scaleSize{
		elections: 1_000, crowd: 500, many: 2_000, settle: time.Second, measure: 2 * time.Second,
		limited: time.Second, back: 15 * time.Second, dead: time.Second, quotas: []float64{0.2},
	}
)

// BenchmarkScale measures a process with thousands of candidates, and prints a table.
func BenchmarkScale(b *testing.B) {
	size := scaleSample
	if *scaleInFull {
		size = scaleFull
	}
	t := &scaleTable{}
	b.Run("led", func(b *testing.B) { scaleLed(b, t, size) })
	b.Run("waiting", func(b *testing.B) {
		b.Run("on-one-key", func(b *testing.B) { scaleWaiting(b, t, size, true) })
		b.Run("on-keys-of-their-own", func(b *testing.B) { scaleWaiting(b, t, size, false) })
	})
	for _, share := range size.quotas {
		b.Run(fmt.Sprintf("quota-%.0f", 100*share), func(b *testing.B) { scaleQuota(b, t, size, share) })
	}
	b.Run("dead", func(b *testing.B) { scaleDead(b, t, size) })
	b.Run("many", func(b *testing.B) { scaleMany(b, t, size) })
	t.print(b)
}

// scaleLed measures a process that leads: set-up, memory, a steady state, a reconnection.
func scaleLed(b *testing.B, t *scaleTable, size scaleSize) {
	b.Helper()
	w := scaleWorldOf(b)
	c := w.client(w.url)
	empty, zero := c.do("memory").Memory, w.server.do("counts").Counts
	took := w.lead(c, size.elections, 0)
	asked := w.server.do("counts").Counts.since(zero)
	t.add(b, "set-up", fmt.Sprintf("%.1f s, %d STREAM.INFO, %d refused", took.Seconds(), asked.StreamInfo, asked.NotStored), scaleMetrics{
		"s": took.Seconds(), "STREAM.INFO": float64(asked.StreamInfo), "refused": float64(asked.NotStored),
	})
	time.Sleep(size.settle) // the length of a measurement, as all of these
	t.addMemory(b, "memory", empty, c.do("memory").Memory, size.elections)
	scaleSteady(b, t, w, c, size)

	o := w.suffer(c, size.elections, tcpLimit, func() {
		w.server.do("kick")
		time.Sleep(max(size.settle, 2*nats.DefaultReconnectWait)) // which the client waits, and all renew
	})
	t.add(b, "reconnection", fmt.Sprintf("%d / %d", o.counts.StreamInfo, o.counts.NotStored), o.metrics())
}

// scaleSteady measures the processor time of a steady state.
func scaleSteady(b *testing.B, t *scaleTable, w *scaleWorld, c *scaleProcess, size scaleSize) {
	b.Helper()
	before, machine, began := w.server.do("counts").Counts, scaleMachine(), time.Now()
	client, server := w.shares(c, func() { time.Sleep(size.measure) })
	passed := time.Since(began).Seconds()
	renewals := float64(w.server.do("counts").Counts.since(before).Stored) / passed
	// What else runs makes the same work take more time.
	others := max(0, (scaleMachine()-machine).Seconds()/passed-client-server)
	t.add(b, "cpu", fmt.Sprintf("%.0f%% client, %.0f%% server, beside %.0f%% of others (%.0f renewals/s)", 100*client, 100*server, 100*others, renewals), scaleMetrics{
		"%core-client": 100 * client, "%core-server": 100 * server, "%core-others": 100 * others, "renewals/s": renewals,
	})
}

// scaleWaiting measures a process with candidates that wait, while another process leads.
func scaleWaiting(b *testing.B, t *scaleTable, size scaleSize, oneKey bool) {
	b.Helper()
	w := scaleWorldOf(b)
	holder, c := w.client(w.url), w.client(w.url)
	n, what := size.elections, "waiting-many-keys"
	if oneKey {
		n, what = size.crowd, "waiting-one-key"
		holder.ask(scaleRequest{Do: "campaign", Number: 1, OneKey: true})
		holder.ask(scaleRequest{Do: "until all lead", Limit: tcpLimit})
	} else {
		w.lead(holder, n, 0)
	}
	empty := c.do("memory").Memory
	c.ask(scaleRequest{Do: "campaign", Number: n, OneKey: oneKey})
	r := c.ask(scaleRequest{Do: "until all know", Limit: tcpLimit})
	check.That(b, r.Leads <= 0, "%d that wait lead", r.Leads)
	time.Sleep(size.settle)
	t.addMemory(b, what, empty, c.do("memory").Memory, n)
}

// scaleDead swallows all packets of the client for longer than a leader trusts its lease.
func scaleDead(b *testing.B, t *scaleTable, size scaleSize) {
	b.Helper()
	w := scaleWorldOf(b)
	l := linkTo(b, strings.TrimPrefix(w.url, "nats://"))
	c := w.client("nats://" + l.Addr())
	w.lead(c, size.elections, 0)
	time.Sleep(size.settle)
	o := w.suffer(c, size.elections, tcpLimit, func() {
		l.Set(netlink.Held)
		time.Sleep(size.dead)
		l.Set(netlink.Works)
	})
	t.add(b, "dead", fmt.Sprintf("%d fenced, %s", o.fences, o.text), o.metrics())
}

// scaleMany runs more candidates than one process should have.
func scaleMany(b *testing.B, t *scaleTable, size scaleSize) {
	b.Helper()
	w := scaleWorldOf(b)
	c := w.client(w.url)
	o := w.suffer(c, size.many, tcpLimit, func() { c.ask(scaleRequest{Do: "campaign", Number: size.many}) })
	time.Sleep(size.measure)
	r := c.do("status")
	metrics := o.metrics()
	metrics["fences"], metrics["faults"], metrics["led-at-the-end"] = float64(r.Fences), float64(r.Faults), float64(r.Leads)
	t.add(b, "many", fmt.Sprintf("%d / %d, %s, %d at the end", r.Fences, r.Faults, o.text, r.Leads), metrics)
}
