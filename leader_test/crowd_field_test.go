//go:build field

package leader_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leaks"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// timerClock is the system's clock. It knows the timers that were not stopped and have not
// called their function.
type timerClock struct {
	leader.Clock
	mu   sync.Mutex
	left map[*leftTimer]bool
}

type leftTimer struct {
	leader.Timer
	clock *timerClock
}

func (c *timerClock) set(t *leftTimer, left bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if left {
		c.left[t] = true
	} else {
		delete(c.left, t)
	}
}

func (c *timerClock) NewTimer(d time.Duration) leader.Timer {
	t := &leftTimer{c.Clock.NewTimer(d), c}
	c.set(t, true)
	return t
}

func (c *timerClock) AfterFunc(d time.Duration, f func()) leader.Timer {
	t := &leftTimer{clock: c}
	c.set(t, true)
	t.Timer = backend.AfterFunc(c.Clock, d, func() { c.set(t, false); f() })
	return t
}

func (t *leftTimer) Reset(d time.Duration) bool {
	t.clock.set(t, true)
	return t.Timer.Reset(d)
}

func (t *leftTimer) Stop() bool {
	t.clock.set(t, false)
	return t.Timer.Stop()
}

// crowdStates are the states in which candidates of TestCrowd_LeavesNothing are stopped. Each
// returns the settings, the election of the candidate with that number, and whether the
// candidate has come to that state.
var crowdStates = []func(i int) (leader.Config, string, func(*leader.Candidate) bool){
	func(i int) (leader.Config, string, func(*leader.Candidate) bool) { // its first requests wait in line or are in flight
		return leader.Config{}, fmt.Sprint("many.", i), func(*leader.Candidate) bool { return true }
	},
	func(i int) (leader.Config, string, func(*leader.Candidate) bool) {
		return leader.Config{PendingPeriod: time.Hour}, fmt.Sprint("many.", i), func(c *leader.Candidate) bool { return c.State() == leader.StatePending }
	},
	func(i int) (leader.Config, string, func(*leader.Candidate) bool) {
		return leader.Config{}, fmt.Sprint("many.", i), (*leader.Candidate).IsLeader
	},
	func(i int) (leader.Config, string, func(*leader.Candidate) bool) { // it waits, beside many others
		return leader.Config{LeaseDuration: 2 * time.Second}, fmt.Sprint("few.", i%4), func(c *leader.Candidate) bool { return c.Leader().State == leader.HolderLeading }
	},
	func(i int) (leader.Config, string, func(*leader.Candidate) bool) { // likewise, in the order of succession
		return leader.Config{LeaseDuration: 2 * time.Second, Queue: &leader.Queue{}}, fmt.Sprint("few.", i%4), func(c *leader.Candidate) bool { return c.Leader().State == leader.HolderLeading }
	},
}

// crowdStops are the ways to stop a candidate: by Stop, by the end of the context that was
// given to leader.Campaign, and at once.
var crowdStops = []func(c *leader.Candidate, cancel context.CancelFunc){
	func(c *leader.Candidate, _ context.CancelFunc) { _ = c.Stop() },
	func(_ *leader.Candidate, cancel context.CancelFunc) { cancel() },
	func(c *leader.Candidate, _ context.CancelFunc) {
		backend.Crash(c)
	},
}

// crowdWait polls, with a limit for a machine that is very busy.
func crowdWait(t *testing.T, what string, is func() bool) {
	t.Helper()
	for limit := time.Now().Add(2 * time.Minute); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Errorf("not in time: %s", what)
			return
		}
	}
}

// Candidates come and go on one connection, by the thousand, and end in every state and in
// every way. No goroutine, no subscription, no timer, no entry of a map, and no place in the
// window is left of them.
func TestCrowd_LeavesNothing(t *testing.T) {
	nc := tcpDial(t, tcpServe(t, tcpOptions(t, "")).ClientURL())
	js := tcpJS(t, nc)
	b, err := leader.CreateOrUpdateBucket(t.Context(), js, leader.BucketConfig{Name: "E", Storage: jetstream.MemoryStorage, Roster: true})
	check.OK(t, err)
	clock := &timerClock{Clock: leader.SystemClock(), left: make(map[*leftTimer]bool)}
	run := func(i int) {
		cfg, election, is := crowdStates[i%len(crowdStates)](i)
		cfg.Clock = clock
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		c, err := leader.Campaign(ctx, b, election, cfg)
		if err != nil {
			t.Error(err)
			return
		}
		crowdWait(t, fmt.Sprintf("candidate %d of %s is as wanted", i, election), func() bool { return is(c) })
		crowdStops[i/len(crowdStates)%len(crowdStops)](c, cancel)
		<-c.Done()
	}
	run(2) // what the connection keeps, it has now
	before, subscriptions := goleak.IgnoreCurrent(), js.Conn().NumSubscriptions()

	n := proof.Size(300, 3000)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { run(i) })
	}
	all.Wait()
	proof.Ran(n, "candidates that come and go")

	crowdWait(t, "the goroutines have ended", func() bool { return goleak.Find(before) == nil })
	crowdWait(t, "the subscriptions have ended", func() bool { return js.Conn().NumSubscriptions() == subscriptions })
	var ledger leaks.Ledger
	ledger.Check(t, len(clock.left), b.Backend().(leaks.Keeper))
	w := b.Backend().(interface{ Window() *backend.Window }).Window()
	waiting, _ := w.Waiting(time.Now())
	check.That(t, waiting == 0, "%d wait for a slot", waiting)
	for i := range backend.Phases { // the first of a crowd that use a bucket have no phase
		check.Must(t, w.Join() == 0, "%d or more candidates count as there", backend.Phases-i)
	}
}
