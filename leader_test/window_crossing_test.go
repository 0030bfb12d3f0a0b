package leader_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// crossing is a clock that calls a function once, at the next time that it is read. A candidate reads
// its clock at the beginning of a step, so the call comes between its mail and its next wish.
type crossing struct {
	leader.Clock
	next atomic.Pointer[func()]
}

func (c *crossing) Now() time.Time {
	if f := c.next.Swap(nil); f != nil {
		(*f)()
	}
	return c.Clock.Now()
}

// A candidate that waits for a slot to read gets it by mail, in the same moment in which it learns
// something else. It uses the slot for what is due then, or gives it back. It never uses the slot
// twice, although the mail is still to come.
func TestWindow_SlotCrosses(t *testing.T) {
	for name, k := range map[string]struct {
		happens func(holder, waiting *leader.Candidate)
		leads   bool
	}{
		"with a release, so that it writes in place of the read": {
			func(holder, _ *leader.Candidate) {
				_ = leadertest.Led(holder).Resign(withoutWaiting())
			}, true,
		},
		"with a renewal, so that nothing is due": {
			func(_, _ *leader.Candidate) {}, false, // the holder renews each 3s
		},
		"with its end": {
			func(_, waiting *leader.Candidate) {
				backend.Crash(waiting)
			}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t)
			holder, _ := c.stand("a", leader.Config{})
			c.clock.Advance(time.Second)
			clock := &crossing{Clock: c.clock}
			waiting, err := leader.Campaign(t.Context(), narrow{c.link.Backend(), clock, c.window, &c.lines}, "e", leader.Config{ID: "b"})
			check.OK(c, err)
			c.cs = append(c.cs, waiting)
			c.clock.Advance(5 * time.Second)
			var other backend.Place
			check.Must(t, c.window.Take(&other, backend.RankHolder, nil, c.clock.Now()), "the slot is not free")
			c.link.LoseFeed(100)
			c.clock.Advance(8 * time.Second) // the feed is silent for half a lease, so it is to read the key
			c.link.LoseFeed(0)
			n, _ := c.window.Waiting(c.clock.Now())
			check.Must(t, n == 1, "%d wait for the slot", n)
			crosses := func() { c.window.Return(&other, backend.Reply{}) }
			clock.next.Store(&crosses)
			k.happens(holder, waiting)
			c.clock.Advance(3 * time.Second)
			check.Must(t, clock.next.Load() == nil, "the candidate has made no step")
			c.clock.Advance(time.Second)
			check.That(t, waiting.IsLeader() == k.leads, "leads: %v", waiting.IsLeader())
			if n, _ := c.window.Waiting(c.clock.Now()); n != 0 || !c.window.Take(&other, backend.RankRead, nil, c.clock.Now()) {
				t.Errorf("%d wait, or a slot is taken", n)
			}
		})
	}
}

// slowWaiter is a waiter to which the window reports its slot slowly. Those behind it wait for their
// reports.
type slowWaiter struct{ called, goesOn chan struct{} }

func (w slowWaiter) Granted() {
	close(w.called)
	<-w.goesOn
}

// The report of a slot comes so late that the candidate has used the slot and waits for the next
// one. The candidate does not believe the report.
func TestWindow_LateReportOfSlot(t *testing.T) {
	c := newCrowd(t)
	c.window = backend.NewWindow(1, 2)
	holder, _ := c.stand("a", leader.Config{})
	c.clock.Advance(time.Second)
	waiting := c.join("e", leader.Config{ID: "b"})
	c.clock.Advance(5 * time.Second)
	var first, second backend.Place
	check.Must(t, c.window.Take(&first, backend.RankHolder, nil, c.clock.Now()), "the slot is not free")
	c.link.LoseFeed(100)
	c.clock.Advance(8 * time.Second) // the feed is silent for half a lease, so the candidate is to read the key
	c.link.LoseFeed(0)
	slow := slowWaiter{make(chan struct{}), make(chan struct{})}
	check.Must(t, !c.window.Take(&second, backend.RankHolder, slow, c.clock.Now()), "a slot is free")
	reported := make(chan struct{})
	go func() {
		c.window.Return(&first, backend.Reply{Took: 1, Limit: time.Second}) // prompt, so there are two slots now
		close(reported)
	}()
	<-slow.called
	_ = leadertest.Led(holder).Resign(withoutWaiting())
	c.clock.Advance(time.Second)
	check.Must(t, waiting.IsLeader(), "the candidate has not used its slot")
	check.Must(t, c.window.Take(&first, backend.RankHolder, nil, c.clock.Now()), "the candidate has kept its slot")
	c.clock.Advance(3 * time.Second) // it is to renew its lease
	writes := len(c.lines.writes)
	close(slow.goesOn)
	<-reported
	c.clock.Advance(time.Second)
	n, _ := c.window.Waiting(c.clock.Now())
	check.That(t, n == 1 && len(c.lines.writes) == writes,
		"%d wait, and %d writes were sent without a slot", n, len(c.lines.writes)-writes)
	c.window.Return(&first, backend.Reply{})
	c.clock.Advance(time.Minute)
	s := waiting.Stats()
	check.That(t, s.Elected == 1 && waiting.IsLeader(), "elected %d times, leads: %v", s.Elected, waiting.IsLeader())
}
