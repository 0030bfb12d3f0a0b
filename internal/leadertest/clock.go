package leadertest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/natsleader/natsleader/leader"
)

// patience is how long Advance and Settle wait for everything to come to rest
// before they panic. Inside a testing/synctest bubble that time passes only when
// the whole bubble is blocked, which is a real deadlock.
const patience = 30 * time.Second

// start is the time that every new [Clock] shows.
var start = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// Clock is a [leader.Clock] that moves only in [Clock.Advance].
//
// Everything that happens in its time is an event in one queue: ticks of timers, and the
// messages of a [Store]. The queue is in the order of time and then of scheduling. One
// event runs at a time, and only when all candidates are at rest. Events that are due now
// run by themselves, without Advance.
//
// The timer of a candidate, which is made by [Clock.Unarmed], takes part in this. Its
// owner counts as busy from then on, from every tick, and from every call of the timer's
// method Wake, until the owner calls Reset or Stop. That call must be its last act before
// it waits. (A call of Reset by an owner at rest races with Advance: the time may move
// before the call.) The timer of a worker, which is made by [Clock.NewTimer], does not take
// part. Advance sends its ticks and does not wait for the worker, so a test has to hear
// from the worker before it advances again.
//
// The clock shows the time of the store, and that of leases. The time of day of the hosts is
// the same, unless [Clock.SetWall] or [Link.SetWall] sets it.
//
// The clock does not see a candidate that another goroutine is about to make. A test of code
// that calls leader.Campaign itself uses a testing/synctest bubble instead, with the store of
// NewStore(nil).
//
// A Clock is safe for concurrent use. Inside a bubble make it there.
type Clock struct {
	mu      sync.Mutex
	now     time.Time
	ahead   time.Duration // of the wall clocks of the hosts
	queue   queue
	busy    map[*timer]struct{} // timers that take part and are not at rest
	dirty   bool                // something ran since contexts were last looked at
	running bool                // a goroutine runs events
	idle    chan struct{}       // closed when all has settled; nil: no caller waits
	polls   []func()
}

// NewClock returns a clock that shows midnight, 1 January 2000, UTC, as in a
// testing/synctest bubble.
func NewClock() *Clock {
	return &Clock{now: start, busy: make(map[*timer]struct{})}
}

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Elapsed returns how far the clock has been advanced.
func (c *Clock) Elapsed() time.Duration { return c.Now().Sub(start) }

// SetWall sets the wall clocks of all hosts ahead of the time by so much, or behind it if that is negative.
func (c *Clock) SetWall(ahead time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead = ahead
}

// Wall returns the time of day of a host, for [backend.Wall].
func (c *Clock) Wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now.Add(c.ahead)
}

// Ahead is for [backend.Ahead].
func (c *Clock) Ahead() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ahead
}

// NewTimer returns a timer that fires after d.
func (c *Clock) NewTimer(d time.Duration) leader.Timer {
	t := &timer{clock: c, c: make(chan time.Time, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	t.arm(d)
	c.kick()
	return t
}

// Unarmed returns a timer that is not armed and takes part in the rest, as [Clock] explains, for
// [backend.Unarmed]. It first waits, as [Clock.Settle] does, so that candidates begin one after the other.
func (c *Clock) Unarmed() leader.Timer {
	t := &timer{clock: c, c: make(chan time.Time, 1), tracked: true, made: caller()}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.await("Unarmed")
	c.busy[t] = struct{}{}
	return t
}

// Advance moves the clock by d, from one event to the next. It returns when all events that
// were due have run and all is at rest. It never skips an event, not even one that was
// scheduled on the way. It panics if d is negative, or if between two events all has not
// come to rest for 30 s.
func (c *Clock) Advance(d time.Duration) {
	if d < 0 {
		panic(fmt.Sprintf("leadertest: Advance(%v): time does not run backwards", d))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	target := c.now.Add(d)
	for {
		c.await("Advance")
		at, ok := c.queue.next()
		if !ok || at.After(target) {
			break
		}
		c.now = at
		c.kick()
	}
	if c.now.Before(target) { // not if another goroutine has advanced further
		c.now = target
	}
}

// Settle returns when all events that are due now have run and all is at rest. It
// panics as [Clock.Advance] does.
func (c *Clock) Settle() { c.settle("Settle") }

func (c *Clock) settle(who string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.await(who)
}

// await is Settle with the lock held. It releases the lock while it waits.
func (c *Clock) await(who string) {
	if c.settled() {
		return
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for !c.settled() {
		if c.idle == nil {
			c.idle = make(chan struct{})
		}
		idle := c.idle
		c.mu.Unlock()
		late := false
		select {
		case <-idle:
		case <-limit.C:
			late = true
		}
		c.mu.Lock()
		if late && !c.settled() {
			c.complain(who)
		}
	}
}

// complain panics and names the makers of the timers that are not at rest.
func (c *Clock) complain(who string) {
	var makers []string
	for t := range c.busy {
		makers = append(makers, "\n\ta timer made by "+t.made)
	}
	slices.Sort(makers)
	what := strings.Join(makers, "")
	if what == "" {
		what = "\n\tan event, or one that schedules itself again and again"
	}
	panic(fmt.Sprintf("leadertest: %s waited %v for everything to come to rest. Still busy:%s\n"+
		"Whoever owns such a timer must call its Reset or Stop before it waits, and nobody may "+
		"call %s from a callback, a log handler or while it is busy itself.", who, patience, what, who))
}

// caller names the function outside of the test kit that wants a timer, or wakes its owner.
func caller() string {
	pcs := make([]uintptr, 8)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		f, more := frames.Next()
		if !more || !strings.Contains(f.Function, "/internal/backend.") && !strings.Contains(f.Function, "leadertest.hostClock") {
			return fmt.Sprintf("%s (%s:%d)", f.Function, f.File, f.Line)
		}
	}
}

// settled reports whether no owner is busy and no event is due.
func (c *Clock) settled() bool {
	return !c.running && !c.dirty && len(c.busy) == 0 && !c.queue.due(c.now)
}

// kick is called after any change. While no owner is busy and run does not go on, it starts
// run if there is work for it, and else wakes the callers that wait for rest. Events never
// run on the goroutine that causes them, because it may hold a lock that they need.
func (c *Clock) kick() {
	switch {
	case c.running || len(c.busy) > 0:
	case c.dirty || c.queue.due(c.now):
		c.running = true
		go c.run()
	case c.idle != nil:
		close(c.idle)
		c.idle = nil
	}
}

// run runs due events as long as all is at rest. Before every event it looks for ended
// contexts. Whichever owner of a timer ended one did so before it came to rest, but the
// goroutine that context.AfterFunc starts may be late.
func (c *Clock) run() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.busy) == 0 {
		if c.dirty {
			c.dirty = false
			polls := c.polls
			c.mu.Unlock()
			for _, poll := range polls {
				poll()
			}
			c.mu.Lock()
			continue
		}
		if !c.queue.due(c.now) {
			break
		}
		e := c.queue.take()
		c.mu.Unlock()
		e.run()
		c.mu.Lock()
		c.dirty = true
	}
	c.running = false
	c.kick()
}

func (c *Clock) after(d time.Duration, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue.add(c.now.Add(max(d, 0)), f)
	c.kick()
}

func (c *Clock) poke() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dirty = true
	c.kick()
}

func (c *Clock) onRest(poll func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.polls = append(c.polls, poll)
}

// timer is a leader.Timer with a method Wake.
type timer struct {
	clock   *Clock
	c       chan time.Time
	tick    *event // nil: not armed
	tracked bool   // its owner takes part in the rest
	made    string // the function that made it
}

func (t *timer) C() <-chan time.Time { return t.c }

// Reset arms the timer and puts its owner at rest. It reports whether an earlier
// tick was still to come.
func (t *timer) Reset(d time.Duration) bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	active := t.disarm()
	t.arm(d)
	t.rest()
	return active
}

// Stop disarms the timer and puts its owner at rest. It reports whether an
// earlier tick was still to come.
func (t *timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	active := t.disarm()
	t.rest()
	return active
}

// Wake marks the owner of the timer as busy, because it was handed work. Wake never
// blocks and runs no event.
func (t *timer) Wake() {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	if !t.tracked {
		t.tracked = true
		t.made = caller()
	}
	t.clock.busy[t] = struct{}{}
}

// The methods below are called with the clock's lock held.

func (t *timer) arm(d time.Duration) {
	var e *event
	e = t.clock.queue.add(t.clock.now.Add(max(d, 0)), func() { t.fire(e) })
	t.tick = e
}

func (t *timer) disarm() bool {
	active := t.tick != nil
	if active {
		t.clock.queue.remove(t.tick)
		t.tick = nil
	}
	select {
	case <-t.c: // a tick that was not received
		active = true
	default:
	}
	return active
}

func (t *timer) rest() {
	if _, ok := t.clock.busy[t]; ok {
		delete(t.clock.busy, t)
		t.clock.dirty = true
	}
	t.clock.kick()
}

// fire is the event of a tick. It takes the lock itself.
func (t *timer) fire(e *event) {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	if t.tick != e {
		return // reset or stopped since it was taken from the queue
	}
	t.tick = nil
	if t.tracked {
		t.clock.busy[t] = struct{}{}
	}
	t.c <- t.clock.now // there is room: arming takes an old tick out
}
