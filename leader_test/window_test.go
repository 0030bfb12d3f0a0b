package leader_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// narrow is a link with requests that share a window with those of other links, as the candidates of
// one connection do.
type narrow struct {
	backend.Store
	clock  leader.Clock
	window *backend.Window
	lines  *inFlight
}

func (n narrow) Backend() backend.Store  { return n }
func (n narrow) Clock() leader.Clock     { return n.clock }
func (n narrow) Window() *backend.Window { return n.window }

// inFlight counts the writes that are in flight, and the most at a time.
type inFlight struct {
	mu        sync.Mutex
	now, most int
	writes    []string    // keys in the order in which their writes were sent
	times     []time.Time // of the writes
}

// Update counts the write.
func (n narrow) Update(ctx context.Context, key string, value []byte, revision uint64, reply func(uint64, error)) {
	n.lines.mu.Lock()
	n.lines.now++
	n.lines.most = max(n.lines.most, n.lines.now)
	n.lines.writes, n.lines.times = append(n.lines.writes, key), append(n.lines.times, n.clock.Now())
	n.lines.mu.Unlock()
	n.Store.Update(ctx, key, value, revision, func(r uint64, err error) {
		n.lines.mu.Lock()
		n.lines.now--
		n.lines.mu.Unlock()
		reply(r, err)
	})
}

// crowd is candidates that share one connection with one slot.
type crowd struct {
	kit
	link   *leadertest.Link
	window *backend.Window
	lines  inFlight
	cs     candidates
	ws     []*leadertest.Watcher
}

func newCrowd(t *testing.T, opts ...leadertest.Option) *crowd {
	c := &crowd{kit: newKit(t, opts...), window: backend.NewWindow(1, 1)}
	c.link = c.store.Link("crowd")
	c.Cleanup(func() {
		c.link.Close()
		for _, candidate := range c.cs {
			<-candidate.Done()
		}
	})
	return c
}

// join starts a candidate in an election.
func (c *crowd) join(election string, cfg leader.Config) *leader.Candidate {
	c.Helper()
	candidate, err := leader.Campaign(c.Context(), c.mark.of(narrow{c.link.Backend(), c.clock, c.window, &c.lines}), election, cfg)
	check.OK(c, err)
	c.cs, c.ws = append(c.cs, candidate), append(c.ws, leadertest.Watch(c, c.clock, candidate))
	return candidate
}

// withoutWaiting returns the context of a caller that does not wait for the outcome. The call has an
// effect, and returns at once.
func withoutWaiting() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// candidates are candidates that share one connection.
type candidates []*leader.Candidate

// leading returns how many of them lead.
func (cs candidates) leading() (n int) {
	for _, c := range cs {
		if c.IsLeader() {
			n++
		}
	}
	return n
}

// stats returns the sums of what they have counted.
func (cs candidates) stats() (fenced, faults, congested uint64) {
	for _, c := range cs {
		s := c.Stats()
		for _, n := range s.Fenced {
			fenced += n
		}
		for _, n := range s.Faults {
			faults += n
		}
		congested += s.Faults[leader.ErrCongested]
	}
	return fenced, faults, congested
}

// A hundred leaders share one slot. None is lost, because each renewal takes a hundredth of the
// interval, and no two requests are in flight.
func TestWindow_ManyLeadersOneSlot(t *testing.T) {
	c := newCrowd(t, leadertest.WithLatency(5*time.Millisecond))
	for i := range 100 {
		c.join(fmt.Sprint("e", i), leader.Config{})
	}
	c.clock.Advance(8 * time.Second) // four round trips each, and renewals
	n := c.cs.leading()
	check.Must(t, n == 100, "%d lead", n)
	c.clock.Advance(5 * time.Minute)
	fenced, faults, _ := c.cs.stats()
	if n := c.cs.leading(); n != 100 || fenced != 0 || faults != 0 || c.lines.most != 1 {
		t.Errorf("%d lead, %d were fenced, %d faults, %d writes in flight", n, fenced, faults, c.lines.most)
	}
}

// The renewals of leaders that were elected at the same instant are spread over their interval, except
// those of the first few.
func TestWindow_SpreadsRenewals(t *testing.T) {
	const inPhase, interval = 10, 3 * time.Second
	c := newCrowd(t)
	c.window = backend.NewWindow(1000, 1000)
	for i := range backend.Phases * (1 + inPhase) {
		c.join(fmt.Sprint("e", i), leader.Config{})
	}
	c.clock.Advance(time.Minute)
	before := len(c.lines.times)
	c.clock.Advance(interval)
	at := make(map[time.Time]int)
	for _, sent := range c.lines.times[before:] {
		at[sent]++
	}
	renewals, most := len(c.lines.times)-before, 0
	for _, n := range at {
		most = max(most, n)
	}
	check.That(t, renewals >= len(c.cs) && len(at) >= backend.Phases && most <= len(c.cs)/4,
		"%d renewals at %d instants, %d at one of them", renewals, len(at), most)
}

// Leaders that lose their connection at the same instant try again at different ones.
func TestPause_IsRandom(t *testing.T) {
	c := newCrowd(t)
	c.window = backend.NewWindow(1000, 1000)
	for i := range backend.Phases { // few, whose renewals are not spread
		c.join(fmt.Sprint("e", i), leader.Config{ID: "a"})
	}
	c.clock.Advance(time.Minute)
	c.link.Cut()
	c.lines.times = nil
	c.clock.Advance(4 * time.Second) // longer than the interval of renewals
	at := make(map[time.Time]int)
	for _, sent := range c.lines.times[backend.Phases:] { // after the first try of each
		at[sent]++
	}
	check.That(t, len(at) > backend.Phases && at[c.lines.times[backend.Phases]] < backend.Phases/2,
		"%d tries at %d instants", len(c.lines.times), len(at))
}

// A connection that is too slow for its leaders keeps as many as it has time for. One of them
// reports it. As soon as the connection is fast again, all lead again.
func TestWindow_Congestion(t *testing.T) {
	c := newCrowd(t)
	for i := range 60 {
		c.join(fmt.Sprint("e", i), leader.Config{})
	}
	c.clock.Advance(time.Second)
	n := c.cs.leading()
	check.Must(t, n == 60, "%d lead", n)
	c.link.Delay(250 * time.Millisecond) // a round takes 30s, which is twice the lease
	c.clock.Advance(5 * time.Second)
	if _, _, congested := c.cs.stats(); congested != 0 {
		t.Errorf("%d reports after 5s", congested)
	}
	c.clock.Advance(4 * time.Second)
	s := c.cs[0].Stats()
	check.That(t, s.Queued >= 30 && s.QueueAge >= 5*time.Second && s.QueueAge <= 8*time.Second,
		"%d requests wait, for %v", s.Queued, s.QueueAge)
	c.clock.Advance(20 * time.Second)
	fenced, _, congested := c.cs.stats()
	check.That(t, congested == 1, "%d reports of one congestion", congested)
	if kept := c.cs.leading(); fenced == 0 || kept < 20 { // 24 renewals fit into a renew deadline
		t.Errorf("%d were fenced, and %d lead", fenced, kept)
	}
	c.link.Delay(0)
	c.clock.Advance(20 * time.Second) // a deposed candidate waits for its own last lease
	check.Equal(t, c.cs.leading(), 60, "%d lead")
	before, _, _ := c.cs.stats()
	c.clock.Advance(time.Minute)
	if after, _, _ := c.cs.stats(); after != before || c.cs[0].Stats().Queued != 0 {
		t.Errorf("%d were fenced afterwards, and %d requests wait", after-before, c.cs[0].Stats().Queued)
	}
}

// The renewals of leaders are sent before what waiting candidates ask, which came before.
func TestWindow_LeadersFirst(t *testing.T) {
	c := newCrowd(t)
	led := c.join("led", leader.Config{})
	c.clock.Advance(time.Second)
	c.link.Delay(200 * time.Millisecond)
	for i := range 100 { // 160s of requests
		c.join(fmt.Sprint("e", i), leader.Config{})
	}
	c.clock.Advance(time.Minute)
	s := led.Stats()
	check.That(t, s.Elected == 1 && s.SinceRenewal <= 3*time.Second+400*time.Millisecond,
		"%d terms, and the last renewal was %v ago", s.Elected, s.SinceRenewal)
}

// A candidate with several seats has a machine for each. They share the slot with one another
// and with other candidates.
func TestWindow_Seats(t *testing.T) {
	c := newCrowd(t, leadertest.WithLatency(5*time.Millisecond))
	for i := range 5 {
		c.mark = seated(3)
		c.join("e", leader.Config{ID: fmt.Sprint("c", i)})
	}
	c.clock.Advance(5 * time.Second)
	for range 10 {
		n := c.cs.leading()
		check.Must(t, n == 3, "%d lead", n)
		for _, candidate := range c.cs {
			if candidate.IsLeader() {
				_ = leadertest.Led(candidate).Resign(withoutWaiting()) // which it has begun when this returns
				break
			}
		}
		c.clock.Advance(20 * time.Second)
	}
}

// However a candidate ends, its slot or its place in line is free for others.
func TestWindow_EndsFreeSlots(t *testing.T) {
	for name, end := range map[string]func(c *crowd, of *leader.Candidate){
		"stop": func(c *crowd, of *leader.Candidate) { go func() { _ = of.Stop() }() },
		"abandon": func(c *crowd, of *leader.Candidate) {
			backend.Crash(of)
		},
		"connection closed": func(c *crowd, of *leader.Candidate) { c.link.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, leadertest.WithLatency(20*time.Millisecond))
			for i := range 50 {
				c.join(fmt.Sprint("e", i), leader.Config{})
			}
			c.clock.Advance(1500 * time.Millisecond) // some lead, and some wait for their first slot
			for _, candidate := range c.cs {
				end(c, candidate)
			}
			for _, candidate := range c.cs {
				check.Soon(t, candidate.ID()+" ends", func() bool { return !isOpen(candidate.Done()) }, func() { c.clock.Advance(time.Second) })
			}
			var p backend.Place
			n, _ := c.window.Waiting(c.clock.Now())
			check.That(t, n == 0 && c.window.Take(&p, backend.RankRead, nil, c.clock.Now()),
				"%d wait, or a slot is taken", n)
		})
	}
}

// isOpen reports whether a candidate has not ended.
func isOpen(done <-chan struct{}) bool {
	select {
	case <-done:
		return false
	default:
		return true
	}
}
