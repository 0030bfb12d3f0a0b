package leader

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/testserver"
)

// timerClock is the system's clock. It knows the timers that were not stopped and have not
// called their function.
type timerClock struct {
	Clock
	mu   sync.Mutex
	left map[*leftTimer]bool
}

type leftTimer struct {
	Timer
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

func (c *timerClock) NewTimer(d time.Duration) Timer {
	return &leftTimer{c.Clock.NewTimer(d), c} // stopped, as a candidate makes it
}

func (c *timerClock) AfterFunc(d time.Duration, f func()) Timer {
	t := &leftTimer{clock: c}
	c.set(t, true)
	t.Timer = c.Clock.(alarmClock).AfterFunc(d, func() { c.set(t, false); f() })
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
var crowdStates = []func(i int) (Config, string, func(*Candidate) bool){
	func(i int) (Config, string, func(*Candidate) bool) { // its first requests wait in line or are in flight
		return Config{}, fmt.Sprint("many.", i), func(*Candidate) bool { return true }
	},
	func(i int) (Config, string, func(*Candidate) bool) {
		return Config{PendingPeriod: time.Hour}, fmt.Sprint("many.", i), func(c *Candidate) bool { return c.State() == StatePending }
	},
	func(i int) (Config, string, func(*Candidate) bool) {
		return Config{}, fmt.Sprint("many.", i), (*Candidate).IsLeader
	},
	func(i int) (Config, string, func(*Candidate) bool) { // it waits, beside many others
		return Config{LeaseDuration: 2 * time.Second}, fmt.Sprint("few.", i%4), func(c *Candidate) bool { _, known := c.Leader(); return known }
	},
	func(i int) (Config, string, func(*Candidate) bool) { // likewise, in the order of succession
		return Config{LeaseDuration: 2 * time.Second, Queue: true}, fmt.Sprint("few.", i%4), func(c *Candidate) bool { _, known := c.Leader(); return known }
	},
}

// crowdStops are the ways to stop a candidate: by Stop, by the end of the context that was
// given to Campaign, and at once.
var crowdStops = []func(c *Candidate, cancel context.CancelFunc){
	func(c *Candidate, _ context.CancelFunc) { _ = c.Stop(context.Background()) },
	func(_ *Candidate, cancel context.CancelFunc) { cancel() },
	func(c *Candidate, _ context.CancelFunc) {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		_ = c.Stop(over)
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
	l := &lab{T: t}
	s, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: testserver.StoreDir(t), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	l.s = s
	s.Start()
	defer func() { s.Shutdown(); s.WaitForShutdown() }()
	js := dialJS(l, s)
	defer js.Conn().Close()
	b := mustCreate(l, js, BucketConfig{Storage: jetstream.MemoryStorage, Roster: true})
	clock := &timerClock{Clock: SystemClock(), left: make(map[*leftTimer]bool)}
	run := func(i int) {
		cfg, election, is := crowdStates[i%len(crowdStates)](i)
		cfg.Clock = clock
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		c, err := Campaign(ctx, crowdStore{b}, election, cfg)
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
	if left := len(clock.left); left != 0 {
		t.Errorf("%d timers are left", left)
	}
	if sources, keys, own := len(b.hub.sources), len(b.hub.trusted), len(noEcho.listeners); sources+keys+own != 0 {
		t.Errorf("%d feeds of %d keys are left, and %d listeners on the connection itself", sources, keys, own)
	}
	w := b.Window()
	if waiting, _ := w.Waiting(time.Now()); waiting != 0 {
		t.Errorf("%d wait for a slot", waiting)
	}
	for i := range backend.Phases { // the first of a crowd that use a bucket have no phase
		if w.Join() != 0 {
			t.Fatalf("%d or more candidates count as there", backend.Phases-i)
		}
	}
}

// crowdStore is the bucket as a store.
type crowdStore struct{ b *bucketStore }

func (s crowdStore) Backend() backend.Store { return s.b }
