package leadertest_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// start is the time that every new clock shows.
var start = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// A clock stands still until it is advanced.
func TestClock_StandsStill(t *testing.T) {
	c := leadertest.NewClock()
	got := c.Now()
	check.Must(t, got.Equal(start), "a new clock shows %v", got)
	c.Advance(time.Hour)
	if got := c.Elapsed(); got != time.Hour {
		t.Fatalf("advanced to %v", got)
	}
}

func TestClock_DoesNotRunBackwards(t *testing.T) {
	c := leadertest.NewClock()
	c.Advance(1)
	defer func() { check.Must(t, recover() != nil, "no panic") }()
	c.Advance(-1)
}

// A timer has the semantics of Go 1.23.
func TestTimer_SemanticsOfGo123(t *testing.T) {
	c := leadertest.NewClock()
	timer := c.NewTimer(time.Second)
	c.Advance(time.Second)
	check.Must(t, timer.Stop(), "a tick that nobody took was not stopped")
	check.Must(t, !check.Now(timer.C()), "a stale tick")
	check.Must(t, !timer.Reset(time.Minute), "a stopped timer was active")
	c.Advance(time.Second)
	check.Must(t, timer.Reset(time.Second), "an armed timer was not active")
	c.Advance(time.Second)
	got := (<-timer.C()).Sub(start)
	check.Must(t, got == 3*time.Second, "ticked at %v", got)
	check.Must(t, !timer.Stop(), "a timer that has fired was active")
}

// A timer with a duration of zero ticks without an advance.
func TestTimer_OfZeroTicks(t *testing.T) {
	c := leadertest.NewClock()
	<-c.NewTimer(0).C()
	<-c.NewTimer(-1).C()
	timer := c.NewTimer(time.Hour)
	timer.Reset(-1)
	<-timer.C()
}

// A timer is armed during an advance. Advance must not skip a timer that a tick arms.
func TestAdvance_ServesNewTimers(t *testing.T) {
	c := leadertest.NewClock()
	j := &journal{clock: c}
	a := newActor(c, func(a *actor) { j.add("tick"); a.next = time.Second }, time.Second)
	c.Advance(3500 * time.Millisecond)
	j.want(t, "1s tick", "2s tick", "3s tick")
	check.Must(t, c.Elapsed() == 3500*time.Millisecond, "%v", c.Elapsed())
	a.stop()
	c.Advance(time.Hour) // does not wait for an actor that has ended
	j.want(t)
}

// An assertion follows a tick. When Advance returns, the effects of the tick are complete.
func TestAdvance_ReturnsAtRest(t *testing.T) {
	c := leadertest.NewClock()
	for range 100 {
		count := 0
		a := newActor(c, func(a *actor) { count++ }, time.Second)
		c.Advance(time.Second)
		check.Must(t, count == 1, "looked before the tick was handled")
		a.stop()
	}
}

// wrapped is a clock as a test makes it to change one method: it hides the optional ones.
type wrapped struct{ leader.Clock }

// Advance also waits for candidates on the clock of a link, and on a clock that wraps that of the kit.
func TestAdvance_WaitsOnOtherClocks(t *testing.T) {
	c := leadertest.NewClock()
	link := leadertest.NewStore(c).Link("a").Clock()
	for name, clock := range map[string]leader.Clock{"link": link, "wrapped": wrapped{c}, "wrapped link": wrapped{link}} {
		for range 100 {
			count := 0
			a := newActor(clock, func(*actor) { count++ }, time.Second)
			c.Advance(time.Second)
			check.Must(t, count == 1, "%s: looked before the tick was handled", name)
			a.stop()
		}
	}
}

// The clock of a link has a watchdog where that of its store has one.
func TestLinkClock_Watchdog(t *testing.T) {
	none := backend.AfterFunc(leadertest.NewStore(leadertest.NewClock()).Link("a").Clock(), time.Second, func() {})
	check.Must(t, none == nil, "the fake clock has a watchdog")
	synctest.Test(t, func(t *testing.T) {
		begun, after := time.Now(), time.Duration(0)
		backend.AfterFunc(leadertest.NewStore(nil).Link("a").Clock(), time.Second, func() { after = time.Since(begun) })
		time.Sleep(time.Minute)
		synctest.Wait()
		check.Equal(t, after, time.Second, "it is called after %v")
	})
}

// SetWall moves the wall clock of all hosts, and that of a link only this one. Neither moves the clock itself.
func TestSetWall_MovesNoOtherClock(t *testing.T) {
	c := leadertest.NewClock()
	s := leadertest.NewStore(c)
	shown := func(clock leader.Clock, want time.Duration) {
		t.Helper()
		check.Equal(t, backend.Wall(clock).Sub(start), want, "the wall clock shows %v")
		check.Equal(t, clock.Now().Sub(start), c.Elapsed(), "the clock shows %v")
	}
	c.SetWall(24 * time.Hour)
	s.Link("b").SetWall(-25 * time.Hour)
	c.Advance(time.Minute)
	shown(c, 24*time.Hour+time.Minute)
	shown(s.Clock(), 24*time.Hour+time.Minute)
	shown(s.Link("a").Clock(), 24*time.Hour+time.Minute)
	shown(s.Link("b").Clock(), -time.Hour+time.Minute)
	c.SetWall(0)
	shown(c, time.Minute)
	shown(s.Link("b").Clock(), -25*time.Hour+time.Minute)
}

// Advance takes all that is due at one instant in the order of scheduling.
func TestAdvance_SchedulingOrder(t *testing.T) {
	for range 50 {
		c := leadertest.NewClock()
		j := &journal{clock: c}
		var actors []*actor
		for i := range 5 {
			a := newActor(c, func(a *actor) {
				j.add("actor %d", i)
				if a.next = time.Second; i == 2 {
					a.send(func() { j.add("its mail") })
				}
			}, time.Second)
			actors = append(actors, a)
		}
		c.Advance(2 * time.Second)
		j.want(t, "1s actor 0", "1s actor 1", "1s actor 2", "1s its mail", "1s actor 3", "1s actor 4",
			"2s actor 0", "2s actor 1", "2s actor 2", "2s its mail", "2s actor 3", "2s actor 4")
		for _, a := range actors {
			a.stop()
		}
	}
}

// Advance does not wait for the timers of workers.
func TestAdvance_IgnoresWorkerTimers(t *testing.T) {
	c := leadertest.NewClock()
	timer := c.NewTimer(time.Second)
	c.Advance(time.Hour)
	got := (<-timer.C()).Sub(start)
	check.Must(t, got == time.Second, "ticked at %v", got)
}

// Advance panics if a timer never comes to rest, and names its owner.
func TestAdvance_PanicsAndNamesCulprit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in a bubble, 30 s take no time
		c := leadertest.NewClock()
		timer := c.Unarmed()
		defer func() {
			said := fmt.Sprint(recover())
			for _, want := range []string{"Advance waited 30s", "TestAdvance_PanicsAndNames", "clock_test.go"} {
				check.That(t, strings.Contains(said, want), "%q is not in %q", want, said)
			}
			timer.Stop()
			c.Advance(time.Second)
		}()
		c.Advance(time.Second)
	})
}

// A clock is safe for concurrent use.
func TestClock_ConcurrentUse(t *testing.T) {
	c := leadertest.NewClock()
	var wg sync.WaitGroup
	for range 4 {
		a := newActor(c, func(a *actor) { a.next = time.Millisecond }, time.Millisecond)
		wg.Go(func() {
			for range 50 {
				c.Advance(time.Millisecond)
				a.send(func() {})
				c.Settle()
			}
		})
		defer a.stop()
	}
	wg.Wait()
}
