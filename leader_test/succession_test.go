package leader_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
	"github.com/natsleader/natsleader/seats"
)

// queue makes candidates that wait in a queue, a second apart. The first one leads.
func (k kit) queue(n int, cfg leader.Config) (cs []*leader.Candidate) {
	k.Helper()
	cfg.Queue = &leader.Queue{}
	for i := range n {
		c, _ := k.stand(fmt.Sprint("c", i), cfg)
		cs = append(cs, c)
		k.clock.Advance(time.Second)
	}
	k.clock.Advance(10 * time.Second)
	return cs
}

// leads fails unless that candidate leads, since that time.
func (k kit) leads(c *leader.Candidate, since time.Duration) {
	k.Helper()
	h := check.Got(leader.Lookup(k.Context(), k.store, "e"))(k)
	got := h.Since.Sub(clockStart)
	check.Must(k, c.IsLeader() && h.ID == c.ID() && got == since,
		"at %v %v, since %v; %s was to lead since %v", k.clock.Elapsed(), h, got, c.ID(), since)
}

// roster returns the IDs of the candidates that stand.
func (k kit) roster() (ids []string) {
	k.Helper()
	all := check.Got(roster.Lookup(k.Context(), k.store, "e"))(k)
	for _, s := range all {
		ids = append(ids, s.ID)
	}
	return ids
}

// The candidate that has waited longest follows, at once and with one write. A
// candidate that resigns goes to the end.
func TestQueue_FollowsInOrder(t *testing.T) { story(t) }

// Candidates that died in the queue cost a turn each, and the next candidate leads
// after them.
func TestQueue_DeadCostTheirTurn(t *testing.T) { story(t) }

// A leader that dies is followed by the first in line one lease after its last renewal.
func TestQueue_FollowsDeadLeader(t *testing.T) { story(t) }

// In a queue no candidate that stays is overtaken, however soon leaders resign.
func TestQueue_HastyLeaders(t *testing.T) { story(t) }

// A candidate that stops leaves the roster, and no other candidate waits for it.
func TestQueue_StoppedLeaves(t *testing.T) { story(t) }

// The highest priority follows, and the longest waiting among equals.
func TestPriority_FollowsInOrder(t *testing.T) { story(t) }

// With Preempt the leader hands over in order to a higher priority that has stood for a
// lease, and to none that comes and goes.
func TestPreempt(t *testing.T) {
	k := newKit(t)
	cfg := leader.Config{Queue: &leader.Queue{}, LeaseDuration: 10 * time.Second, GracePeriod: 3 * time.Second}
	low, ws := k.stand("low", cfg)
	k.clock.Advance(time.Second)
	end, _ := leadertest.Work(leadertest.Led(low))
	defer end()
	cfg.Queue = &leader.Queue{Priority: 1, Preempt: true}
	for range 5 { // each stands for less than a lease
		c, _ := k.stand("fickle", cfg)
		k.clock.Advance(9 * time.Second)
		k.store.Link("fickle").Close()
		<-c.Done()
		k.clock.Advance(time.Second)
	}
	k.clock.Advance(30 * time.Second) // their announcements lapse
	ws.ExpectExactly(leadertest.Pending(), leadertest.Elected())
	check.Must(t, low.IsLeader(), "it was pushed out by one that comes and goes")
	since := k.clock.Elapsed()
	high, hs := k.stand("high", cfg)
	k.clock.Advance(24 * time.Second)
	ws.Expect(leadertest.Fenced(leader.ErrResigned), leadertest.Deposed(leader.ErrResigned))
	h := check.Got(leader.Lookup(t.Context(), k.store, "e"))(k)
	waited := h.Since.Sub(clockStart.Add(since + cfg.GracePeriod))
	check.That(t, high.IsLeader() && waited >= 10*time.Second && waited <= 20*time.Second,
		"%v after %v, which was to be one lease to two", h, waited)
	k.clock.Advance(time.Minute)
	hs.ExpectExactly(leadertest.Observed("low"), leadertest.Observed(""), leadertest.Pending(), leadertest.Elected())
}

// Transfer names the next leader, which leads at once, while the others wait.
func TestTransfer(t *testing.T) { story(t) }

// A named successor that is gone costs one turn, and the caller gets an error, which names the holder.
func TestTransfer_ToTheDead(t *testing.T) {
	for seat, by := range map[int]string{1: `"c1" leads with token`, 2: `"c2" leads on seat 2 with token`} {
		k := newKit(t)
		k.mark = seated(seat)
		cs := k.queue(4, leader.Config{TurnTimeout: 200 * time.Millisecond})
		k.store.Link("c3").Cut()
		at, from := k.clock.Elapsed(), cs[seat-1]
		result := make(chan error, 1)
		go func() {
			_, err := leader.StepDown(t.Context(), k.store, seats.Key("e", seat), leader.StepDownOptions{To: "c3"})
			result <- err
		}()
		check.Soon(t, "the leader no longer leads", func() bool { return !from.IsLeader() }, k.clock.Settle)
		k.clock.Advance(time.Second)
		check.Says(t, <-result, leader.ErrNotSucceeded, by)
		h := check.Got(leader.Lookup(t.Context(), k.store, seats.Key("e", seat)))(k)
		if got := h.Since.Sub(clockStart); h.ID != cs[seat].ID() || got != at+200*time.Millisecond {
			t.Errorf("%v since %v, want %s since %v", h, got, cs[seat].ID(), at+200*time.Millisecond)
		}
	}
}

// If its successor does not take over, a leader leads again after a few turns.
func TestQueue_LeaderReturns(t *testing.T) { story(t) }

// Without a roster a race works as before, and a leader can still name a successor.
func TestTransfer_WithoutRoster(t *testing.T) { story(t) }

// Several seats are filled in the order of one roster. Each candidate stands in it
// once, and no leader stands in it.
func TestSeats_FilledInOrder(t *testing.T) {
	k := newKit(t)
	k.mark = seated(3)
	cs := k.queue(7, leader.Config{TurnTimeout: 100 * time.Millisecond})
	k.clock.Advance(20 * time.Second)
	leaders := func() (ids []string) {
		for _, h := range cs[6].Leaders() {
			ids = append(ids, h.ID)
		}
		slices.Sort(ids)
		return ids
	}
	if got, stand := leaders(), k.roster(); !slices.Equal(got, []string{"c0", "c1", "c2"}) || !slices.Equal(stand, []string{"c3", "c4", "c5", "c6"}) {
		t.Fatalf("%v lead, and %v stand", got, stand)
	}
	for i := range 3 { // the candidate that has waited longest follows on each seat, at once
		check.OK(k, leadertest.Resign(t.Context(), cs[i]))
		k.clock.Advance(0)
		if !cs[i+3].IsLeader() {
			t.Fatalf("c%d does not lead, but %v", i+3, leaders())
		}
		k.clock.Advance(3 * time.Second)
	}
	before := k.store.Requests()
	k.clock.Advance(15 * time.Second)
	after := k.store.Requests()
	check.That(t, after.Announcements-before.Announcements <= 5,
		"%d announcements of four candidates in a lease", after.Announcements-before.Announcements)
	check.Deep(t, k.roster(), []string{"c6", "c0", "c1", "c2"})
	check.OK(k, leadertest.Led(cs[4]).TransferTo(t.Context(), "c1"))
	k.clock.Settle()
	if !cs[1].IsLeader() {
		t.Errorf("c1 was named, and %v lead", leaders())
	}
}

// Of several leaders, the one with the lowest priority gives way to a higher priority.
func TestPriority_OneSeatGivesWay(t *testing.T) { story(t) }

// A Resign during a handover returns when the key is given up.
func TestResign_DuringTransfer(t *testing.T) { story(t) }

// A rival that restarts again and again hides no rival that stays.
func TestPriority_FickleRival(t *testing.T) { story(t) }

// In a bucket for small records, a leader goes on without publishing the line.
func TestLine_OversizedIsLeftOut(t *testing.T) { story(t) }

// A candidate that resigns while it is cut off campaigns again afterwards.
func TestResign_CutOff(t *testing.T) { story(t) }
