package leadertest_test

import (
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// A leader that is asked to step down hands over in order. It drains, releases, and waits
// one lease before it campaigns again. The other candidate leads meanwhile.
func TestStepDown(t *testing.T) {
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock, leadertest.WithLatency(10*time.Millisecond))
	check.Is(t, store.StepDown("jobs"), leader.ErrNoLeader)
	of, a := campaignAs(t, clock, store, leader.Config{ID: "a", GracePeriod: time.Second})
	clock.Advance(time.Second)
	a.Expect(leadertest.Elected())
	_, b := campaign(t, clock, store, "b")
	clock.Advance(time.Second)
	first := a.Term()
	end, _ := leadertest.Work(first)
	check.OK(t, store.StepDown("jobs"))
	clock.Advance(20*time.Millisecond - 1) // to the store, and to the leader
	check.OK(t, leader.Err(first.Context()))
	clock.Advance(1)
	a.Expect(leadertest.Fenced(leader.ErrResigned))
	end()
	check.Soon(t, "the key is given up", func() bool { return of.State() == leader.StateCandidate }, clock.Settle)
	a.Expect(leadertest.Deposed(leader.ErrResigned))
	clock.Advance(50 * time.Millisecond)
	b.Expect(leadertest.Elected())
}

// A leader can refuse a request, and a cut link receives none.
func TestStepDown_DoesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		cfg   leader.Config
		fault func(*leadertest.Link)
	}{
		"refused": {cfg: leader.Config{ID: "a", RefuseRequests: true}, fault: func(*leadertest.Link) {}},
		"cut":     {cfg: leader.Config{ID: "a"}, fault: (*leadertest.Link).Cut},
	} {
		t.Run(name, func(t *testing.T) {
			clock := leadertest.NewClock()
			store := leadertest.NewStore(clock)
			_, a := campaignAs(t, clock, store, c.cfg)
			a.Expect(leadertest.Elected())
			c.fault(store.Link("a"))
			check.OK(t, store.StepDown("jobs"))
			clock.Advance(time.Second)
			check.Is(t, leader.Err(a.Term().Context()), nil)
		})
	}
}

// A leader that has waited one lease and was elected again can be asked again.
func TestStepDown_Twice(t *testing.T) {
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock)
	_, a := campaign(t, clock, store, "a")
	for range 3 {
		a.Expect(leadertest.Elected())
		check.OK(t, store.StepDown("jobs"))
		a.Expect(leadertest.Deposed(leader.ErrResigned))
		clock.Advance(16 * time.Second)
	}
}
