package leader_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// pausedClock is a handClock with a time of day that the test sets.
type pausedClock struct {
	handClock
	ahead time.Duration
}

func (c *pausedClock) Ahead() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ahead
}

// set sets the time of day.
func (c *pausedClock) set(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += by
}

// paused is a leader on a virtual machine with a clock that is moved by hand, beside a candidate and a store that are not paused.
type paused struct {
	clock *pausedClock
	link  *leadertest.Link
	c     *leader.Candidate
	lead  context.Context
}

const (
	pausedInterval = 2500 * time.Millisecond // the defaults for a lease of 15 s
	pausedDeadline = 12 * time.Second
)

func newPaused(t *testing.T, others ...string) *paused {
	t.Helper()
	store := leadertest.NewStore(nil)
	p := &paused{clock: &pausedClock{handClock: handClock{now: time.Now()}}, link: store.Link("a")}
	p.c = check.Got(leader.Campaign(t.Context(), p.link, "e", leader.Config{ID: "a", Clock: p.clock}))(t)
	synctest.Wait()
	term, ok := p.c.Term()
	check.Must(t, ok, "does not lead")
	p.lead = term.Context()
	t.Cleanup(func() {
		p.link.Restore()
		go func() { _ = p.c.Stop() }()
		for { // it waits for a request that was lost
			select {
			case <-p.c.Done():
				return
			case p.clock.timers[0].c <- p.clock.Now():
				p.clock.move(time.Second)
				time.Sleep(time.Second)
			}
		}
	})
	for _, id := range others {
		check.Got(leader.Campaign(t.Context(), store.Link(id), "e", leader.Config{ID: id}))(t)
	}
	synctest.Wait()
	return p
}

// runs lets so much time pass on the machine, and another time elsewhere.
func (p *paused) runs(by, elsewhere time.Duration) {
	time.Sleep(elsewhere)
	synctest.Wait()
	p.clock.move(by)
	p.clock.tick()
}

// sets sets the time of day, and lets the work ask its context.
func (p *paused) sets(t *testing.T, by time.Duration) {
	t.Helper()
	p.clock.set(by)
	check.OK(t, p.lead.Err())
	synctest.Wait()
}

// A machine was paused for 18 s, and its connection broke meanwhile. When its time of day is set, the leader finds at once
// that another one leads.
func TestPause_TimeOfDayShowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPaused(t, "b")
		p.link.LoseFeed(-1)
		time.Sleep(18 * time.Second)
		synctest.Wait()
		check.Equal(t, p.c.Leader().ID, "a", "it knows that %q leads")
		p.sets(t, 18*time.Second)
		check.Is(t, leader.Err(p.lead), leader.ErrPreempted)
	})
}

// An acknowledgement that waited while the machine was paused elects no leader: the candidate counts its write as sent so much
// earlier before it reads its mail, and writes again.
func TestPause_ReplyThatWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &pausedClock{handClock: handClock{now: time.Now()}}
		link := leadertest.NewStore(nil).Link("a")
		link.Delay(time.Second)
		c := check.Got(leader.Campaign(t.Context(), link, "e", leader.Config{ID: "a", Clock: clock}))(t)
		link.LoseFeed(-1) // no other mail comes before the reply
		for link.Requests().Writes == 0 {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		clock.set(18 * time.Second)
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		check.That(t, !c.IsLeader() && link.Requests().Writes == 2, "leads: %v, after %d writes", c.IsLeader(), link.Requests().Writes)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		check.That(t, c.IsLeader(), "does not lead")
		link.Delay(0)
		check.OK(t, c.Stop())
	})
}

// While no renewal is answered, the lease ends by the time of day, but not before a renew interval.
func TestPause_UnansweredEndsLease(t *testing.T) {
	for _, k := range []struct{ by, left time.Duration }{
		{3 * time.Second, pausedDeadline}, // within the margin
		{5 * time.Second, pausedDeadline - 5*time.Second},
		{18 * time.Second, pausedInterval},
		{-time.Hour, pausedDeadline},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPaused(t)
			p.link.Cut()
			p.sets(t, k.by)
			p.clock.move(k.left - 1)
			check.OK(t, p.lead.Err())
			p.clock.move(1)
			check.That(t, p.lead.Err() != nil, "%v: the lease is valid after %v", k.by, k.left)
		})
	}
}

// Whoever sets the time of day costs a leader one renewal. The lease is as long as before.
func TestPause_OperatorSetsTimeOfDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPaused(t, "b")
		p.clock.move(time.Second)
		before := p.link.Requests()
		p.sets(t, time.Hour)
		after := p.link.Requests()
		check.That(t, after.Total() == before.Total()+1 && after.Writes == before.Writes+1, "%+v, then %+v", before, after)
		p.clock.move(pausedDeadline - 1)
		check.OK(t, p.lead.Err())
		for _, e := range eventsSoFar(p.c) {
			if f, ok := e.(leader.Faulted); ok {
				t.Errorf("told: %v", f)
			}
		}
	})
}

// The watchdog follows a lease that has become shorter, although the candidate's goroutine is held up afterwards.
func TestPause_WatchdogFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPaused(t)
		p.link.Cut()
		p.sets(t, 18*time.Second)
		check.Equal(t, p.clock.watchdogIn, pausedInterval, "the watchdog fires in %v")
	})
}

// The server's clock shows a pause, and a clock that constantly runs at another rate, within a lease or two. Each is reported once.
func TestPause_ServerShowsIt(t *testing.T) {
	for name, k := range map[string]struct {
		pause, rate time.Duration
		want        string
	}{
		"pause":                       {pause: 18 * time.Second, rate: pausedInterval, want: "it ran 18s slower than the server's in 15s"},
		"pause within the margin":     {pause: 3 * time.Second, rate: pausedInterval},
		"slow":                        {rate: pausedInterval * 13 / 10, want: "slower than the server's"},
		"fast":                        {rate: pausedInterval * 7 / 10, want: "faster than the server's"},
		"slow, but within the margin": {rate: pausedInterval * 11 / 10},
		"fast, but within the margin": {rate: pausedInterval * 9 / 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPaused(t)
				for range 2 {
					p.runs(pausedInterval, k.rate)
				}
				time.Sleep(k.pause)
				for range 40 {
					p.runs(pausedInterval, k.rate)
				}
				var told []string
				for _, e := range eventsSoFar(p.c) {
					if f, ok := e.(leader.Faulted); ok {
						check.That(t, errors.Is(f.Err, leader.ErrClock), "%v", f)
						told = append(told, f.Err.Error())
					}
				}
				check.That(t, len(told) == 0 && k.want == "" || len(told) == 1 && k.want != "" && strings.Contains(told[0], k.want), "told %q, want %q", told, k.want)
				check.OK(t, p.lead.Err())
			})
		})
	}
}

// A candidate that lost its lease in the pause reports the pause.
func TestPause_ToldAfterTheLoss(t *testing.T) {
	for name, hurt := range map[string]func(*leadertest.Link){"no feed": func(l *leadertest.Link) { l.LoseFeed(-1) }, "cut off": (*leadertest.Link).Cut} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPaused(t, "b")
				hurt(p.link)
				time.Sleep(18 * time.Second)
				synctest.Wait()
				p.link.Restore()
				p.runs(pausedInterval, 0)
				check.Is(t, leader.Err(p.lead), leader.ErrPreempted)
				told := slices.ContainsFunc(eventsSoFar(p.c), func(e leader.Event) bool {
					f, ok := e.(leader.Faulted)
					return ok && errors.Is(f.Err, leader.ErrClock)
				})
				check.That(t, told, "no fault with ErrClock")
			})
		})
	}
}
