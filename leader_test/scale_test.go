//go:build unix

package leader_test

import (
	"fmt"
	"testing"
	"time"
)

// scaleSize is what a run of BenchmarkScale measures. Candidates have the default lease of
// 15 s, of which the intervals follow: a renewal each 2.5 s, a leader fenced after 12 s.
type scaleSize struct {
	elections, crowd, many int
	settle, measure        time.Duration // before and while a steady state is measured
	limited, back          time.Duration // how long processors are limited; to recover
	quotas                 []float64     // shares of one processor
}

var (
	scaleFull = scaleSize{10_000, 5_000, 30_000, 5 * time.Second, 20 * time.Second, 15 * time.Second, 15 * time.Second, []float64{0.4, 0.2, 0.1}}
	// scaleSample shows that everything runs.
	scaleSample = scaleSize{1_000, 500, 0, time.Second, 2 * time.Second, 2 * time.Second, 15 * time.Second, []float64{0.2}}
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
	if size.many > 0 {
		b.Run("dead", func(b *testing.B) { scaleDead(b, t, size) })
		b.Run("many", func(b *testing.B) { scaleMany(b, t, size) })
	}
	t.print(b)
}

// scaleLed measures a process that leads: set-up, memory, a steady state, a reconnection.
func scaleLed(b *testing.B, t *scaleTable, size scaleSize) {
	b.Helper()
	w := scaleWorldOf(b)
	c := w.client(w.url)
	empty, zero := c.do("memory").Memory, w.server.do("counts").Counts
	took := w.lead(c, size.elections)
	asked := w.server.do("counts").Counts.since(zero)
	t.add(b, "set-up", fmt.Sprintf("%.1f s", took.Seconds()), scaleMetrics{
		"s-set-up": took.Seconds(), "STREAM.INFO-set-up": float64(asked.StreamInfo), "refused-set-up": float64(asked.NotStored),
	})
	time.Sleep(size.settle) // the length of a measurement, as all of these
	t.addMemory(b, "memory", empty, c.do("memory").Memory, size.elections)
	scaleSteady(b, t, w, c, size)

	before := w.server.do("counts").Counts
	w.server.do("kick")
	time.Sleep(size.settle)
	asked = w.server.do("counts").Counts.since(before)
	lost := c.do("status")
	t.add(b, "reconnection", fmt.Sprintf("%d / %d", asked.StreamInfo, asked.NotStored), scaleMetrics{
		"STREAM.INFO-reconnection": float64(asked.StreamInfo), "refused-reconnection": float64(asked.NotStored),
		"fences-reconnection": float64(lost.Fences), "direct-gets-reconnection": float64(asked.DirectGets),
	})
}

// scaleSteady measures the processor time of a steady state.
func scaleSteady(b *testing.B, t *scaleTable, w *scaleWorld, c *scaleProcess, size scaleSize) {
	b.Helper()
	before := w.server.do("counts").Counts
	client, server, began := c.do("cpu").CPU, w.server.do("cpu").CPU, time.Now()
	time.Sleep(size.measure)
	client, server = c.do("cpu").CPU-client, w.server.do("cpu").CPU-server
	passed := time.Since(began)
	renewals := float64(w.server.do("counts").Counts.since(before).Stored) / passed.Seconds()
	share := func(d time.Duration) float64 { return 100 * d.Seconds() / passed.Seconds() }
	t.add(b, "cpu", fmt.Sprintf("%.0f%% client, %.0f%% server (%.0f renewals/s)", share(client), share(server), renewals), scaleMetrics{
		"%core-client": share(client), "%core-server": share(server), "renewals/s": renewals,
	})
}

// scaleWaiting measures a process whose candidates wait, while another process leads.
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
		w.lead(holder, n)
	}
	empty := c.do("memory").Memory
	c.ask(scaleRequest{Do: "campaign", Number: n, OneKey: oneKey})
	r := c.ask(scaleRequest{Do: "until all know", Limit: tcpLimit})
	if r.Leads > 0 {
		b.Errorf("%d that wait lead", r.Leads)
	}
	time.Sleep(size.settle)
	t.addMemory(b, what, empty, c.do("memory").Memory, n)
}

// scaleQuota limits client and server together to a share of one processor.
func scaleQuota(b *testing.B, t *scaleTable, size scaleSize, share float64) {
	b.Helper()
	w := scaleLimited(b)
	c := w.client(w.url)
	w.lead(c, size.elections)
	time.Sleep(size.settle)
	before := w.server.do("counts").Counts
	c.do("watch")
	w.limit.to(share)
	time.Sleep(size.limited)
	w.limit.lift()
	took, text := scaleBack(c, size.elections, size.back)
	least, lost := c.do("least").Leads, c.do("status")
	asked := w.server.do("counts").Counts.since(before)
	what := fmt.Sprintf("quota-%.0f", 100*share)
	t.add(b, what, fmt.Sprintf("at least %d lead, %s", least, text), scaleMetrics{
		"led-least": float64(least), "s-until-all-lead": took.Seconds(), "led-at-the-end": float64(lost.Leads),
		"fences": float64(lost.Fences), "STREAM.INFO": float64(asked.StreamInfo), "refused": float64(asked.NotStored),
		"direct-gets": float64(asked.DirectGets), "stored": float64(asked.Stored),
	})
	t.limited = w.limit.name()
}

// scaleDead swallows all packets of the client for longer than a leader trusts its lease.
func scaleDead(b *testing.B, t *scaleTable, size scaleSize) {
	b.Helper()
	w := scaleWorldOf(b)
	g := scaleGateTo(b, w.url)
	c := w.client(g.url)
	w.lead(c, size.elections)
	time.Sleep(size.settle)
	before := w.server.do("counts").Counts
	g.shut()
	time.Sleep(13 * time.Second) // the length of the fault
	g.open()
	took, text := scaleBack(c, size.elections, tcpLimit)
	asked, lost := w.server.do("counts").Counts.since(before), c.do("status")
	t.add(b, "dead", fmt.Sprintf("%d fenced, %s", lost.Fences, text), scaleMetrics{
		"s-until-all-lead": took.Seconds(), "fences": float64(lost.Fences), "STREAM.INFO": float64(asked.StreamInfo),
		"refused": float64(asked.NotStored), "direct-gets": float64(asked.DirectGets),
	})
}

// scaleMany runs more candidates than one process should have.
func scaleMany(b *testing.B, t *scaleTable, size scaleSize) {
	b.Helper()
	w := scaleWorldOf(b)
	c := w.client(w.url)
	c.ask(scaleRequest{Do: "campaign", Number: size.many})
	took, text := scaleBack(c, size.many, tcpLimit)
	time.Sleep(size.measure)
	r := c.do("status")
	t.add(b, "many", fmt.Sprintf("%d / %d (at first %s)", r.Fences, r.Faults, text), scaleMetrics{
		"s-set-up": took.Seconds(), "fences": float64(r.Fences), "faults": float64(r.Faults), "led-at-the-end": float64(r.Leads),
	})
}
