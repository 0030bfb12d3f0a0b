//go:build field && unix

package leader_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	netlink "github.com/natsleader/natsleader/internal/link"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// startLease is short, so that the tests are. Its candidates may lose it on a busy machine,
// which is no failure. Another program may insist on the default.
func startLease() time.Duration {
	if *otherProgram != "" {
		return 15 * time.Second
	}
	return 3 * time.Second
}

// After SIGTERM the item ends, and then the next process begins. The exit status is 0.
func TestQuickStart_SIGTERM(t *testing.T) {
	t.Parallel()
	p := plantOf(t, quickStart(t), startLease())
	a := p.start("a", p.url, 1500*time.Millisecond)
	a.works(0)
	b := p.start("b", p.url, 50*time.Millisecond)
	a.inItem()
	a.signal(syscall.SIGTERM)
	a.exits(0)
	n := p.count(a, runs)
	check.That(t, n <= 0, "%d items were cut off", n)
	b.works(0)
	b.signal(syscall.SIGTERM)
	b.exits(0)
	p.judge(nil)
}

// pair starts two processes with short items, of which the first works.
func pair(t *testing.T) (p *plant, a, b *program) {
	t.Helper()
	p = plantOf(t, quickStart(t), startLease())
	a = p.start("a", p.url, 50*time.Millisecond)
	a.works(0)
	b = p.start("b", p.url, 50*time.Millisecond)
	a.works(5)
	return p, a, b
}

// After kill -9 the next process begins when the lease is over.
func TestQuickStart_Killed(t *testing.T) {
	t.Parallel()
	p, a, b := pair(t)
	a.signal(syscall.SIGKILL)
	a.exits(-1)
	b.works(3)
	p.judge(nil)
}

// A process that was stopped for longer than its lease begins no item of the term any more.
func TestQuickStart_SIGSTOP(t *testing.T) {
	t.Parallel()
	p, a, b := pair(t)
	a.signal(syscall.SIGSTOP)
	b.works(5)
	stopped, before := a.current(), p.count(a, every)
	a.signal(syscall.SIGCONT)
	b.works(40)
	b.signal(syscall.SIGTERM)
	b.exits(0)
	a.works(before)
	p.judge(stopped)
}

// A process whose packets are swallowed until its lease is over goes on with its item. When
// the network is back, its next term begins after that item.
func TestQuickStart_BlackHole(t *testing.T) {
	t.Parallel()
	p := plantOf(t, quickStart(t), startLease())
	l := linkTo(t, strings.TrimPrefix(p.url, "nats://"))
	a := p.start("a", "nats://"+l.Addr(), 2*startLease())
	a.inItem()
	first := a.current()
	l.Set(netlink.Held)
	tcpEventually(t, "a is fenced", func() bool { return strings.Contains(a.log.String(), "fenced") })
	l.Set(netlink.Works)
	tcpEventually(t, "the item ends", func() bool { return a.current() != first })
	a.works(1)
	p.judge(nil)
}

// A process without NATS lives on, and works again when NATS is back.
func TestQuickStart_Outage(t *testing.T) {
	t.Parallel()
	p := plantOf(t, quickStart(t), startLease())
	a := p.start("a", p.url, 50*time.Millisecond)
	a.works(5)
	p.host.down()
	tcpEventually(t, "a gives up its term", func() bool { return strings.Contains(a.log.String(), "fenced") })
	before := p.count(a, every)
	p.host.up()
	a.works(before + 1)
	p.judge(nil)
	a.signal(syscall.SIGTERM)
	a.exits(0)
}

// A process that starts before the server and the bucket works as soon as they are there. It
// exits in time after SIGTERM while the server is down: the default lease of 15 s is longer
// than StopTimeout.
func TestQuickStart_BeforeTheServer(t *testing.T) {
	t.Parallel()
	p := plantOf(t, quickStart(t), 0)
	a := p.start("a", p.url, 50*time.Millisecond)
	tcpEventually(t, "a has found no server", func() bool { return strings.Contains(a.log.String(), "faulted") })
	p.host.up()
	a.works(5)
	p.host.down()
	began := time.Now()
	a.signal(syscall.SIGTERM)
	a.exits(0)
	took := time.Since(began)
	check.That(t, took <= 12*time.Second, "it took %v, and not 8s", took)
	p.judge(nil)
}

// The program exits with an error when it cannot go on.
func TestQuickStart_ConnectionGivesUp(t *testing.T) {
	t.Parallel()
	shown := replaced(t, quickStart(t), "nats.MaxReconnects(-1)", "nats.MaxReconnects(1)")
	p := plantOf(t, replaced(t, shown, "nats.RetryOnFailedConnect(true)", "nats.ReconnectWait(10*time.Millisecond)"), startLease())
	a := p.start("a", p.url, 50*time.Millisecond)
	a.works(0)
	p.host.down()
	a.exits(1)
	text := a.log.String()
	check.That(t, strings.Contains(text, leader.ErrConnectionClosed.Error()), "it does not say why:\n%s", text)
}

// The shapes of a worker that asks after each wait, and begins no item after its lease.
var shapes = map[string]string{
	"select": `		ticker := time.NewTicker(5 * time.Millisecond)
		for {
			select {
			case <-ticker.C:
			case <-lead.Done():
			}
			if asked = time.Now(); lead.Err() != nil {
				break
			}
			item(lead, term.Token())
		}
`,
	"sleep": `		for lead.Err() == nil {
			time.Sleep(5 * time.Millisecond)
			if asked = time.Now(); lead.Err() == nil {
				item(lead, term.Token())
			}
		}
`,
	"child": `		work, end := context.WithTimeout(lead, time.Hour)
		ticker := time.NewTicker(5 * time.Millisecond)
		for {
			select {
			case <-ticker.C:
			case <-work.Done():
			}
			if asked = time.Now(); leader.Err(work) != nil {
				break
			}
			item(work, term.Token())
		}
		end()
`,
}

// Processes are stopped at random instants, for longer than their lease. None begins an item
// with it.
func TestQuickStart_ManyStops(t *testing.T) {
	t.Parallel()
	processes, stops := proof.Size(3, 10), proof.Size(1, 4)
	for name, loop := range shapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shown := quickStart(t)
			from := strings.Index(shown, "\t\tfor lead := term.Context();")
			to := strings.Index(shown, "\n\t}\n\tif err := c.Err()")
			check.Must(t, from >= 0 && to >= from, "the quick start has another loop:\n%s", shown)
			loop = strings.ReplaceAll(loop, "\t\t\t\tbreak\n", "\t\t\t\tbreak work\n")
			loop = strings.Replace(loop, "\t\tfor {\n", "\twork:\n\t\tfor {\n", 1)
			shown = shown[:from] + "\t\tlead := term.Context()\n" + loop + shown[to+1:]
			shown = replaced(t, shown, `"billing"`, `os.Getenv("ELECTION")`)
			path := plantOf(t, shown, 2*time.Second)
			var all []*program
			for n := range processes {
				all = append(all, path.start("process "+strconv.Itoa(n), path.url, time.Millisecond, "ELECTION=e"+strconv.Itoa(n)))
			}
			var done sync.WaitGroup
			for _, a := range all {
				done.Go(func() {
					for range stops {
						a.works(path.count(a, every) + 10)
						time.Sleep(rand.N(50 * time.Millisecond)) // at a random instant
						a.signal(syscall.SIGSTOP)
						time.Sleep(3 * time.Second) // the length of the stop
						a.signal(syscall.SIGCONT)
					}
					a.works(path.count(a, every) + 10)
				})
			}
			done.Wait()
			for _, a := range all {
				n := path.count(a, func(i *item) bool { return i.over })
				check.That(t, n <= 0, "%s began %d items after its lease", a.name, n)
				terms := make(map[uint64]bool)
				path.count(a, func(i *item) bool { terms[i.token] = true; return false })
				check.That(t, len(terms) >= stops, "%s had %d terms in %d stops", a.name, len(terms), stops)
			}
		})
	}
}
