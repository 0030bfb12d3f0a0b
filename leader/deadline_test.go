package leader_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// handClock is moved by hand, and so are its timers. It is the clock of a process with
// late timers, such as one that is starved or was stopped. It needs a bubble.
type handClock struct {
	mu     sync.Mutex
	now    time.Time
	looks  int // to come until hook is called
	hook   func()
	timers []*handTimer
	alarm  func() // of the newest watchdog

	watchdogIn time.Duration // fires after that
}

type handTimer struct {
	c     chan time.Time
	armed bool
	in    *time.Duration // of the watchdog: is set to when it fires
}

func (t *handTimer) C() <-chan time.Time { return t.c }
func (t *handTimer) Reset(d time.Duration) bool {
	if t.armed = true; t.in != nil {
		*t.in = d
	}
	return true
}

func (t *handTimer) Stop() bool { t.armed = false; return true }

func (c *handClock) NewTimer(time.Duration) leader.Timer {
	t := &handTimer{c: make(chan time.Time, 1)}
	c.timers = append(c.timers, t)
	return t
}

func (c *handClock) AfterFunc(d time.Duration, f func()) leader.Timer {
	c.alarm, c.watchdogIn = f, d
	return &handTimer{in: &c.watchdogIn}
}

// Now returns the time as it was before the hook, which it may call.
func (c *handClock) Now() time.Time {
	c.mu.Lock()
	now, hook := c.now, c.hook
	if hook != nil {
		if c.looks--; c.looks > 0 {
			hook = nil
		} else {
			c.hook = nil
		}
	}
	c.mu.Unlock()
	if hook != nil {
		hook()
	}
	return now
}

func (c *handClock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// at makes the nth look at the clock from now on call the hook.
func (c *handClock) at(n int, hook func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks, c.hook = n, hook
}

// tick fires the candidate's timer.
func (c *handClock) tick() {
	c.timers[0].c <- c.Now()
	synctest.Wait()
}

// deferred is a store that answers a write when the test says so.
type deferred struct {
	*plainStore
	hold   bool
	answer func()
}

// Backend returns d.
func (d *deferred) Backend() backend.Store { return d }

func (d *deferred) Update(ctx context.Context, key string, value []byte, revision uint64, reply func(uint64, error)) {
	if !d.hold {
		d.plainStore.Update(ctx, key, value, revision, reply)
		return
	}
	d.plainStore.Update(ctx, key, value, revision, func(revision uint64, err error) {
		d.answer = func() { reply(revision, err) }
	})
}

// The watchdog, or a reader of the context, may end it at any moment of a step that prolongs
// the lease, just before the deadline. The candidate then never goes on as leader: its events
// agree with the context.
func TestContext_AgreesWithEvents(t *testing.T) {
	for name, look := range map[string]func(*handClock, *leader.Term){
		"watchdog": func(c *handClock, _ *leader.Term) { c.alarm() },
		"Err":      func(_ *handClock, t *leader.Term) { _ = t.Context().Err() },
		"Done":     func(_ *handClock, t *leader.Term) { _ = t.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) { endsInTheStep(t, look) })
	}
}

// eventsSoFar returns the events of a candidate that has emitted few.
func eventsSoFar(c *leader.Candidate) (events []leader.Event) {
	next, _ := backend.EventsOf(c)
	for e, ok := next(); ok; e, ok = next() {
		events = append(events, e.(leader.Event))
	}
	return events
}

func endsInTheStep(t *testing.T, look func(*handClock, *leader.Term)) {
	t.Helper()
	lapsed := 0
	for n := 1; n <= 12; n++ {
		synctest.Test(t, func(t *testing.T) {
			clock, store := &handClock{now: time.Now()}, &deferred{plainStore: newPlainStore()}
			c := check.Got(leader.Campaign(t.Context(), store, "e", leader.Config{Clock: clock}))(t)
			synctest.Wait()
			term, ok := c.Term()
			check.Must(t, ok, "does not lead")
			clock.move(plainInterval)
			store.hold = true
			clock.tick() // it renews
			clock.move(plainDeadline - plainInterval - 1)
			clock.at(n, func() {
				clock.move(1)
				look(clock, term)
			})
			store.answer()
			synctest.Wait()
			clock.at(0, nil)
			over := term.Context().Err() != nil
			fenced, deposed := false, false
			for _, event := range eventsSoFar(c) {
				if e, ok := event.(leader.Fenced); ok {
					fenced = errors.Is(e.Cause, context.Cause(term.Context()))
				}
				if e, ok := event.(leader.Deposed); ok {
					deposed = errors.Is(e.Cause, context.Cause(term.Context()))
				}
			}
			switch {
			case over && !fenced:
				t.Errorf("look %d: the context ended, and no Fenced was emitted with its cause", n)
			case !over && (fenced || deposed || !c.IsLeader()):
				t.Errorf("look %d: the context is alive, and %v", n, c.State())
			}
			if over {
				lapsed++
			}
			backend.Crash(c)
			if store.answer != nil {
				store.answer()
			}
			<-c.Done()
		})
	}
	check.That(t, lapsed != 0, "it was never first")
}

// A call that is rejected at once, and a feed that was replaced, apply the deadlines like
// all other input, although the timer is late.
func TestDeadline_AppliedByAnyInput(t *testing.T) {
	for name, come := range map[string]func(term *leader.Term, store *plainStore){
		"a Proclaim that is refused": func(term *leader.Term, _ *plainStore) {
			_ = term.Proclaim(context.Background(), make([]byte, 65<<10))
		},
		"a feed that was replaced": func(_ *leader.Term, store *plainStore) {
			store.delivers[0](backend.FeedEvent{Reconnected: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock, store := &handClock{now: time.Now()}, newPlainStore()
				c := check.Got(leader.Campaign(t.Context(), store, "e", leader.Config{Clock: clock}))(t)
				synctest.Wait()
				store.delivers[0](backend.FeedEvent{Err: leader.ErrUnreachable}) // another is opened
				synctest.Wait()
				if len(store.delivers) != 2 || !c.IsLeader() {
					t.Fatalf("%d feeds, leads: %v", len(store.delivers), c.IsLeader())
				}
				before := len(eventsSoFar(c))
				term := leadertest.Led(c)
				clock.move(plainDeadline)
				come(term, store)
				synctest.Wait()
				if all := eventsSoFar(c); len(all) == before {
					t.Error("the deadline was not applied")
				} else if _, ok := all[before].(leader.Fenced); !ok {
					t.Errorf("told: %v", all[before])
				}
				_ = c.Stop()
			})
		})
	}
}
