//go:build field && unix

package leader_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/testserver"
)

// scaleWorld is a server and its clients, each a process.
type scaleWorld struct {
	tb     testing.TB
	limit  scaleGroup // nil: none
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

// scaleLimited starts a server, and limits it and its clients when asked to. Where no control group can
// do that the test is skipped.
func scaleLimited(tb testing.TB) *scaleWorld {
	tb.Helper()
	w := &scaleWorld{tb: tb, limit: scaleNewGroup()}
	if w.limit == nil {
		proof.Skip(tb, "no control group can be made here")
	}
	tb.Cleanup(func() { // when the processes have ended
		tcpEventually(tb, "the control group can be removed", func() bool { return w.limit.remove() == nil })
	})
	w.start()
	if err := w.limit.add(w.server.Cmd.Process.Pid); err != nil {
		proof.Skip(tb, "no process can be moved to a control group: ", err)
	}
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
		check.OK(w.tb, w.limit.add(c.Cmd.Process.Pid))
	}
	return c
}

// lead makes a process lead a number of elections with that lease, 0 for the default, and
// returns how long that took.
func (w *scaleWorld) lead(c *scaleProcess, n int, lease time.Duration) time.Duration {
	w.tb.Helper()
	began := time.Now()
	c.ask(scaleRequest{Do: "campaign", Number: n, Lease: lease})
	r := c.ask(scaleRequest{Do: "until all lead", Limit: tcpLimit})
	check.Must(w.tb, r.Leads >= n, "%d of %d lead after %v", r.Leads, n, tcpLimit)
	return time.Since(began)
}

// shares returns how much of one processor a client and the server use meanwhile.
func (w *scaleWorld) shares(c *scaleProcess, meanwhile func()) (client, server float64) {
	w.tb.Helper()
	client0, server0, began := c.do("cpu").CPU, w.server.do("cpu").CPU, time.Now()
	meanwhile()
	client1, server1, passed := c.do("cpu").CPU, w.server.do("cpu").CPU, time.Since(began)
	return (client1 - client0).Seconds() / passed.Seconds(), (server1 - server0).Seconds() / passed.Seconds()
}

// scaleOutcome is how leaders came through a fault.
type scaleOutcome struct {
	least  int           // candidates that led at the same time
	took   time.Duration // from the end of the fault until all led, or the limit
	text   string        // says it
	fences int
	counts scaleCounts // what the server received meanwhile
}

// suffer lets n leaders of a process come through a fault, and waits until all lead again.
func (w *scaleWorld) suffer(c *scaleProcess, n int, limit time.Duration, fault func()) scaleOutcome {
	w.tb.Helper()
	before := w.server.do("counts").Counts
	c.do("watch")
	fault()
	began := time.Now()
	r := c.ask(scaleRequest{Do: "until all lead", Limit: limit})
	o := scaleOutcome{took: time.Since(began), text: "all lead"}
	if r.Leads < n {
		o.text = fmt.Sprintf("%d lead", r.Leads)
	}
	o.text += fmt.Sprintf(" after %.1f s", o.took.Seconds())
	o.least, o.fences = c.do("least").Leads, c.do("status").Fences
	o.counts = w.server.do("counts").Counts.since(before)
	return o
}

func (o scaleOutcome) metrics() scaleMetrics {
	return scaleMetrics{
		"led-least": float64(o.least), "s-until-all-lead": o.took.Seconds(), "fences": float64(o.fences),
		"STREAM.INFO": float64(o.counts.StreamInfo), "direct-gets": float64(o.counts.DirectGets),
		"stored": float64(o.counts.Stored), "refused": float64(o.counts.NotStored),
	}
}
