package leader_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// queue makes candidates that wait in a queue, a second apart. The first one leads.
func (k kit) queue(n int, cfg leader.Config) (cs []*leader.Candidate) {
	k.Helper()
	cfg.Queue = true
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
	all := check.Got(leader.Roster(k.Context(), k.store, "e"))(k)
	for _, s := range all {
		ids = append(ids, s.ID)
	}
	return ids
}

// The candidate that has waited longest follows, at once and with one write. A
// candidate that resigns goes to the end.
func TestQueue_FollowsInOrder(t *testing.T) {
	k := newKit(t)
	cs := k.queue(5, leader.Config{})
	for round := range 12 {
		got := k.roster()
		check.Must(t, len(got) == 4 && got[0] == fmt.Sprint("c", (round+1)%5), "round %d: %v stand", round, got)
		before := k.store.Requests().Writes
		check.OK(k, cs[round%5].Resign(t.Context()))
		k.clock.Advance(0)
		k.leads(cs[(round+1)%5], k.clock.Elapsed())
		writes := k.store.Requests().Writes - before
		check.That(t, writes == 2, "round %d: a handover took %d writes, want the release and one more", round, writes)
		k.clock.Advance(20 * time.Second)
	}
}

// Candidates that died in the queue cost a turn each, and the next candidate leads
// after them.
func TestQueue_DeadCostTheirTurn(t *testing.T) {
	k := newKit(t)
	cs := k.queue(10, leader.Config{TurnTimeout: 100 * time.Millisecond})
	for i := 1; i <= 5; i++ {
		k.store.Link(cs[i].ID()).Cut()
	}
	at := k.clock.Elapsed()
	before := k.store.Requests().Writes
	check.OK(k, cs[0].Resign(t.Context()))
	k.clock.Advance(499 * time.Millisecond)
	check.Must(t, !cs[6].IsLeader(), "it did not wait for its turn")
	k.clock.Advance(time.Millisecond)
	k.leads(cs[6], at+500*time.Millisecond)
	k.clock.Advance(time.Second)
	if writes := k.store.Requests().Writes - before; writes > 3 {
		t.Errorf("%d writes", writes) // the release, the one that elects, and a renewal with the new line
	}
}

// A leader that dies is followed by the first in line one lease after its last renewal.
func TestQueue_FollowsDeadLeader(t *testing.T) {
	k := newKit(t)
	cs := k.queue(4, leader.Config{})
	k.store.Link("c0").Cut()
	renewed, _ := cs[1].Leader()
	k.clock.AdvanceTo(renewed.Renewed.Add(15 * time.Second))
	k.leads(cs[1], k.clock.Elapsed())
}

// In a queue no candidate that stays is overtaken, however soon leaders resign.
func TestQueue_HastyLeaders(t *testing.T) {
	k := newKit(t)
	cs := k.queue(12, leader.Config{LeaseDuration: 10 * time.Second})
	for i := range 11 {
		check.OK(k, cs[i].Resign(t.Context()))
		k.clock.Advance(0)
		k.leads(cs[i+1], k.clock.Elapsed())
		k.clock.Advance(time.Duration(i) * time.Millisecond)
	}
}

// A candidate that stops leaves the roster, and no other candidate waits for it.
func TestQueue_StoppedLeaves(t *testing.T) {
	k := newKit(t)
	cs := k.queue(4, leader.Config{})
	check.OK(k, cs[1].Stop(t.Context()))
	k.clock.Advance(0)
	got := k.roster()
	check.That(t, slices.Equal(got, []string{"c2", "c3"}), "%v stand", got)
	at := k.clock.Elapsed()
	check.OK(k, cs[0].Stop(t.Context()))
	k.clock.Advance(0)
	k.leads(cs[2], at)
}

// The highest priority follows, and the longest waiting among equals.
func TestPriority_FollowsInOrder(t *testing.T) {
	k := newKit(t)
	stand := func(id string, priority int) *leader.Candidate {
		c, _ := k.stand(id, leader.Config{Queue: true, Priority: priority})
		k.clock.Advance(time.Second)
		return c
	}
	first := stand("first", 0)
	stand("low", -1)
	zero, high, same := stand("zero", 0), stand("high", 5), stand("same", 5)
	k.clock.Advance(10 * time.Second)
	got := k.roster()
	check.Must(t, slices.Equal(got, []string{"high", "same", "zero", "low"}), "%v stand", got)
	for _, next := range []*leader.Candidate{high, same, zero} { // a candidate that resigned waits
		at := k.clock.Elapsed()
		check.OK(k, first.Resign(t.Context()))
		k.clock.Advance(0)
		k.leads(next, at)
		first = next
		k.clock.Advance(time.Second)
	}
}

// With Preempt the leader hands over in order to a higher priority that has stood for a
// lease, and to none that comes and goes.
func TestPreempt(t *testing.T) {
	k := newKit(t)
	cfg := leader.Config{Queue: true, LeaseDuration: 10 * time.Second, DrainTimeout: 3 * time.Second}
	low, ws := k.stand("low", cfg)
	k.clock.Advance(time.Second)
	cfg.Priority, cfg.Preempt = 1, true
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
	waited := h.Since.Sub(clockStart.Add(since + cfg.DrainTimeout))
	check.That(t, high.IsLeader() && waited >= 10*time.Second && waited <= 20*time.Second,
		"%v after %v, which was to be one lease to two", h, waited)
	k.clock.Advance(time.Minute)
	hs.ExpectExactly(leadertest.Observed("low"), leadertest.Observed(""), leadertest.Pending(), leadertest.Elected())
}

// Transfer names the next leader, which leads at once, while the others wait.
func TestTransfer(t *testing.T) {
	k := newKit(t)
	cs := k.queue(4, leader.Config{TurnTimeout: 200 * time.Millisecond})
	k.stand("racer", leader.Config{}) // would be first without the name
	k.clock.Advance(5 * time.Second)
	at := k.clock.Elapsed()
	before := k.store.Requests().Writes
	check.OK(k, cs[0].Transfer(t.Context(), "c3"))
	k.clock.Settle()
	k.leads(cs[3], at)
	check.Equal(t, k.store.Requests().Writes-before, 2, "%d writes")
	k.clock.Advance(time.Second)
	if err := cs[3].Transfer(t.Context(), "stranger"); !errors.Is(err, leader.ErrRequestRefused) || !strings.Contains(err.Error(), notStanding) || !cs[3].IsLeader() {
		t.Errorf("to a stranger: %v", err)
	}
	check.Is(t, cs[1].Transfer(t.Context(), "c2"), leader.ErrNotLeader)
	check.Is(t, cs[3].Transfer(t.Context(), ""), leader.ErrInvalidConfig)
	if id, err := cs[3].TransferAny(t.Context()); err != nil || id != "c1" {
		t.Errorf("to anybody: %q, %v", id, err)
	}
}

// A named successor that is gone costs one turn, and the caller gets an error, which names the holder.
func TestTransfer_ToTheDead(t *testing.T) {
	for seat, by := range map[int]string{1: `"c1" leads with token`, 2: `"c2" leads on seat 2 with token`} {
		k := newKit(t)
		cs := k.queue(4, leader.Config{Seats: seat, TurnTimeout: 200 * time.Millisecond})
		k.store.Link("c3").Cut()
		at, from := k.clock.Elapsed(), cs[seat-1]
		result := make(chan error, 1)
		go func() { result <- from.Transfer(t.Context(), "c3") }()
		for from.IsLeader() {
			k.clock.Settle()
		}
		k.clock.Advance(time.Second)
		check.Says(t, <-result, leader.ErrNotSucceeded, by)
		h := check.Got(leader.Lookup(t.Context(), k.store, leader.SeatKey("e", seat)))(k)
		if got := h.Since.Sub(clockStart); h.ID != cs[seat].ID() || got != at+200*time.Millisecond {
			t.Errorf("%v since %v, want %s since %v", h, got, cs[seat].ID(), at+200*time.Millisecond)
		}
	}
}

// If its successor does not take over, a leader leads again after a few turns.
func TestQueue_LeaderReturns(t *testing.T) {
	k := newKit(t)
	cs := k.queue(2, leader.Config{TurnTimeout: 200 * time.Millisecond})
	k.store.Link("c1").Cut()
	at := k.clock.Elapsed()
	result := make(chan error, 1)
	go func() { result <- cs[0].Transfer(t.Context(), "c1") }()
	for cs[0].IsLeader() {
		k.clock.Settle()
	}
	k.clock.Advance(2 * time.Second)
	check.Is(t, <-result, leader.ErrNotSucceeded)
	k.leads(cs[0], at+1200*time.Millisecond)
}

// Without a roster a race works as before, and a leader can still name a successor.
func TestTransfer_WithoutRoster(t *testing.T) {
	k := newKit(t)
	a, _ := k.stand("a", leader.Config{})
	k.clock.Advance(time.Second)
	k.stand("b", leader.Config{})
	c, _ := k.stand("c", leader.Config{})
	k.clock.Advance(time.Second)
	check.OK(k, a.Transfer(t.Context(), "c"))
	k.clock.Settle()
	k.leads(c, 2*time.Second)
	check.Is(t, check.Err(c.TransferAny(t.Context())), leader.ErrNoRoster)
	check.Equal(t, k.store.Requests().Announcements, 0, "%d announcements")
}

// Several seats are filled in the order of one roster. Each candidate stands in it
// once, and no leader stands in it.
func TestSeats_FilledInOrder(t *testing.T) {
	k := newKit(t)
	cs := k.queue(7, leader.Config{Seats: 3, TurnTimeout: 100 * time.Millisecond})
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
		check.OK(k, cs[i].Resign(t.Context()))
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
	check.OK(k, cs[4].Transfer(t.Context(), "c1"))
	k.clock.Settle()
	if !cs[1].IsLeader() {
		t.Errorf("c1 was named, and %v lead", leaders())
	}
}

// Of several leaders, the one with the lowest priority gives way to a higher priority.
func TestPriority_OneSeatGivesWay(t *testing.T) {
	k := newKit(t)
	cfg := leader.Config{Queue: true, Seats: 3, LeaseDuration: 10 * time.Second}
	var cs []*leader.Candidate
	for i, priority := range []int{1, 0, 2} {
		cfg.Priority = priority
		c, _ := k.stand(fmt.Sprint("c", i), cfg)
		cs = append(cs, c)
		k.clock.Advance(time.Second)
	}
	cfg.Priority, cfg.Preempt = 5, true
	high, _ := k.stand("high", cfg)
	k.clock.Advance(time.Minute)
	check.That(t, high.IsLeader() && cs[0].IsLeader() && !cs[1].IsLeader() && cs[2].IsLeader(),
		"%v lead", high.Leaders())
	for _, i := range []int{0, 2} {
		s := cs[i].Stats()
		check.That(t, s.Elected == 1, "c%d led %d times, not once", i, s.Elected)
	}
}

// A Resign during a handover returns when the key is given up.
func TestResign_DuringTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t)
		cs := k.queue(3, leader.Config{DrainTimeout: 5 * time.Second})
		term, _ := cs[0].Term()
		transfer, resign := make(chan error, 1), make(chan error, 1)
		go func() { transfer <- cs[0].Transfer(t.Context(), "c2") }()
		synctest.Wait()
		go func() { resign <- cs[0].Resign(t.Context()) }()
		synctest.Wait()
		k.store.Link("c2").Cut()
		term.Release()
		check.OK(k, <-resign)
		k.clock.Advance(time.Second)
		check.Is(t, <-transfer, leader.ErrNotSucceeded)
	})
}

// TransferAny returns the candidate that took the key of the seat that was given up.
func TestTransferAny_OfASeat(t *testing.T) {
	k := newKit(t)
	cs := k.queue(4, leader.Config{Seats: 3})
	id, err := cs[2].TransferAny(t.Context())
	check.That(t, err == nil && id == "c3", "%q, %v", id, err)
}

// A rival that restarts again and again hides no rival that stays.
func TestPriority_FickleRival(t *testing.T) {
	k := newKit(t)
	cfg := leader.Config{Queue: true, LeaseDuration: 10 * time.Second}
	k.stand("low", cfg)
	k.clock.Advance(time.Second)
	cfg.Priority, cfg.Preempt = 1, true
	middle, _ := k.stand("middle", cfg)
	cfg.Priority = 2
	for i := range 6 {
		name := fmt.Sprint("fickle", i)
		c, _ := k.stand(name, cfg)
		k.clock.Advance(8 * time.Second)
		k.store.Link(name).Close()
		<-c.Done()
	}
	if !middle.IsLeader() {
		h, _ := middle.Leader()
		t.Errorf("%v", h)
	}
}

// In a bucket for small records, a leader goes on without publishing the line.
func TestLine_OversizedIsLeftOut(t *testing.T) {
	k := newKit(t, leadertest.WithMaxValue(300))
	cs := k.queue(12, leader.Config{})
	k.clock.Advance(time.Minute)
	check.Must(t, cs[0].IsLeader(), "it could not renew")
	at := k.clock.Elapsed()
	check.OK(k, cs[0].Resign(t.Context()))
	k.clock.Advance(10 * time.Second)
	h, err := leader.Lookup(t.Context(), k.store, "e")
	check.That(t, err == nil && h.Since.Sub(clockStart) == at, "%v since %v, %v", h, h.Since, err)
}

// A Resign that is cut off returns when its lease keeps no other candidate out any
// more.
func TestResign_CutOffReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKit(t)
		cs := k.queue(1, leader.Config{})
		k.store.Link("c0").Cut()
		resign, transfer := make(chan error, 1), make(chan error, 1)
		go func() { resign <- cs[0].Resign(t.Context()) }()
		synctest.Wait()
		k.clock.Advance(14*time.Second - 1) // it has renewed its lease of 15s a second ago
		synctest.Wait()
		select {
		case err := <-resign:
			t.Fatalf("it returned %v at %v", err, k.clock.Elapsed())
		default:
		}
		k.clock.Advance(1)
		check.OK(k, <-resign)
		k.store.Link("c0").Restore()
		k.clock.Advance(time.Minute)
		check.Must(t, cs[0].IsLeader(), "it does not lead again")
		k.store.Link("c0").Cut()
		go func() { transfer <- cs[0].Transfer(t.Context(), "other") }()
		synctest.Wait()
		k.clock.Advance(20 * time.Second)
		check.That(t, (<-transfer) != nil, "nobody has taken over")
	})
}
