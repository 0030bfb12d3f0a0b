//go:build field && unix

package leader_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
)

// scaleCrowd is the candidates of one process. Nothing reads their events.
type scaleCrowd struct {
	store leader.Store
	all   []*leader.Candidate
	end   chan struct{} // ends the watch
	least chan int      // its result
}

// scaleClient connects, and returns what serves requests.
func scaleClient(url string) func(scaleRequest) scaleReply {
	// Reconnection as a program has it that sets nothing.
	nc := scaleMust(nats.Connect(url, nats.MaxReconnects(-1), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})))
	return (&scaleCrowd{store: scaleMust(leader.OpenBucket(scaleMust(jetstream.New(nc)), "E"))}).serve
}

func (c *scaleCrowd) serve(q scaleRequest) (r scaleReply) {
	began := time.Now()
	switch q.Do {
	case "campaign":
		scaleOK(c.campaign(q))
	case "until all lead":
		c.until(began, q.Limit, (*leader.Candidate).IsLeader)
	case "until all know":
		c.until(began, q.Limit, scaleKnows)
	case "cpu":
		return r
	case "memory":
		r.Memory = scaleMemoryNow()
		return r
	case "resident":
		r.Resident = scaleResident()
		return r
	case "watch":
		c.end, c.least = make(chan struct{}), make(chan int)
		go c.watch(c.end, c.least)
	case "least":
		close(c.end)
		r.Leads = <-c.least
		return r
	case "status":
		for _, a := range c.all {
			s := a.Stats()
			r.Fences += scaleSum(s.Fenced)
			r.Faults += scaleSum(s.Faults)
		}
	default:
		scaleOK(fmt.Errorf("no request %q", q.Do))
	}
	r.Took, r.Leads = time.Since(began), c.leads()
	return r
}

// campaign adds candidates to those that are there.
func (c *scaleCrowd) campaign(q scaleRequest) error {
	for range q.Number {
		election := "e"
		if !q.OneKey {
			election += "." + strconv.Itoa(len(c.all))
		}
		a, err := leader.Campaign(context.Background(), c.store, election, leader.Config{LeaseDuration: q.Lease})
		if err != nil {
			return err
		}
		c.all = append(c.all, a)
		if q.Loop {
			go func() {
				for t := range a.Terms() {
					<-t.Context().Done()
				}
			}()
		}
	}
	return nil
}

// scaleResident returns the memory that the process has, as the kernel counts it, in bytes.
func scaleResident() (n float64) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	_, err = fmt.Sscan(rest, &n)
	scaleOK(err)
	return n * 1024
}

func scaleKnows(a *leader.Candidate) bool {
	return a.Leader().State == leader.HolderLeading
}

// until waits until all candidates are as wanted, or for the limit. A look ends at the first
// candidate that is not, so that looking costs little.
func (c *scaleCrowd) until(began time.Time, limit time.Duration, is func(*leader.Candidate) bool) {
	for next := 0; time.Since(began) < limit; {
		for next < len(c.all) && is(c.all[next]) {
			next++
		}
		if next == len(c.all) {
			if next = c.first(is); next == len(c.all) {
				return
			}
		}
		time.Sleep(5 * time.Millisecond) // between two looks
	}
}

// first returns the first candidate that is not as wanted.
func (c *scaleCrowd) first(is func(*leader.Candidate) bool) int {
	for i, a := range c.all {
		if !is(a) {
			return i
		}
	}
	return len(c.all)
}

// leads returns how many candidates lead.
func (c *scaleCrowd) leads() (n int) {
	for _, a := range c.all {
		if a.IsLeader() {
			n++
		}
	}
	return n
}

// scaleLook is the time between two looks at all candidates. A look at 10,000 takes a few
// milliseconds, of the processor time that is limited.
const scaleLook = time.Second

// watch looks again and again how many candidates lead, and returns the least number.
func (c *scaleCrowd) watch(end <-chan struct{}, least chan<- int) {
	tick := time.NewTicker(scaleLook)
	defer tick.Stop()
	n := c.leads()
	for {
		select {
		case <-tick.C:
			n = min(n, c.leads())
		case <-end:
			least <- min(n, c.leads())
			return
		}
	}
}

func scaleSum(counts map[error]uint64) (n int) {
	for _, k := range counts {
		n += int(k)
	}
	return n
}

// scaleMemoryNow collects garbage, three times, because the stack of a goroutine shrinks by
// half each time.
func scaleMemoryNow() scaleMemory {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return scaleMemory{m.HeapAlloc, m.HeapInuse, m.StackInuse, runtime.NumGoroutine()}
}
