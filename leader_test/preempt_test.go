package leader_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
)

// Preemptors that do not take the key that a leader gives up for them.

var (
	byPriority = leader.Config{Queue: &leader.Queue{}}
	racing     = leader.Config{Queue: &leader.Queue{AtOnce: true}}
	preemptor  = leader.Config{Queue: &leader.Queue{Priority: 10, Preempt: true}}
)

const defaultLease = 15 * time.Second

// low makes candidates of priority 0, of which the first leads.
func (k kit) low(n int, cfg leader.Config) (cs []*leader.Candidate) {
	k.Helper()
	for i := range n {
		c, _ := k.stand(fmt.Sprint("low", i), cfg)
		cs = append(cs, c)
		k.clock.Advance(time.Second)
	}
	return cs
}

// high makes a preemptor with a fault on its link.
func (k kit) high(id string, cfg leader.Config, fault func(*leadertest.Link)) *leader.Candidate {
	k.Helper()
	fault(k.store.Link(id))
	c, _ := k.stand(id, cfg)
	k.clock.Advance(time.Second)
	return c
}

// The writes of these preemptors vanish, or are denied.
func losesWrites(l *leadertest.Link) { l.LoseWrites(-1) }

func deniesWrites(l *leadertest.Link) { l.FailWrites(-1, leader.ErrPermission) }

// terms returns how many terms these candidates have had.
func terms(cs []*leader.Candidate) (n int) {
	for _, c := range cs {
		n += int(c.Stats().Elected)
	}
	return n
}

// hourly lets hours pass and returns how often the leadership changed in each.
func (k kit) hourly(hours int, cs ...*leader.Candidate) (changes []int) {
	k.Helper()
	for range hours {
		before := terms(cs)
		k.clock.Advance(time.Hour)
		changes = append(changes, terms(cs)-before)
	}
	return changes
}

// A preemptor whose writes vanish never learns that it cannot lead, so it stands for
// ever. Leaders wait 2, 4, 8 and so on leases between two handovers in vain, at most 256
// leases, which is 64 minutes.
func TestPreemption_VainGrowsRarer(t *testing.T) {
	proof.NotRaced(t)
	for _, low := range []leader.Config{byPriority, racing} {
		for preemptors := 2; preemptors <= 3; preemptors++ {
			t.Run(fmt.Sprintf("%+v/%d preemptors", low.Queue, preemptors), func(t *testing.T) {
				k := newKit(t)
				cs := k.low(3, low)
				for i := range preemptors {
					k.high(fmt.Sprint("high", i), preemptor, losesWrites)
				}
				// The first after 1 to 2 leases, then each after its wait and 2 leases
				// at most, in which the next preemptor announces itself.
				changes := k.hourly(proof.Size(2, 4), cs...)
				check.That(t, changes[0] <= 8 && slices.Max(changes[1:]) <= 1,
					"changes of the leadership in each hour: %v", changes)
			})
		}
	}
}

// Preemption in vain by new sessions grows rarer. A preemptor that restarts has a new
// session, which no leader has tried before.
func TestPreemption_VainNewSessions(t *testing.T) {
	proof.NotRaced(t)
	k := newKit(t)
	cs := k.low(2, byPriority)
	var changes []int
	for hour := range proof.Size(2, 4) {
		before := terms(cs)
		for n := range int(time.Hour / (3 * defaultLease)) { // three leases, of which the last is after its end
			var crowd []*leader.Candidate
			for i := range 3 {
				id := fmt.Sprintf("high %d.%d.%d", hour, n, i)
				k.store.Link(id).LoseWrites(-1)
				c, _ := k.stand(id, preemptor)
				crowd = append(crowd, c)
			}
			k.clock.Advance(3 * defaultLease)
			for i, c := range crowd {
				k.store.Link(fmt.Sprintf("high %d.%d.%d", hour, n, i)).Close()
				<-c.Done()
			}
		}
		changes = append(changes, terms(cs)-before)
	}
	check.That(t, changes[0] >= 2 && changes[0] <= 8 && slices.Max(changes[1:]) <= 1,
		"changes of the leadership in each hour: %v", changes)
}

// A leader with a new process does not know which handovers were in vain before, and
// tries once.
func TestPreemption_VainNewLeader(t *testing.T) {
	proof.NotRaced(t)
	k := newKit(t)
	cs := k.low(2, byPriority)
	for i := range 2 {
		k.high(fmt.Sprint("high", i), preemptor, losesWrites)
	}
	k.hourly(3)
	before := terms(cs)
	late, _ := k.stand("late", byPriority)
	k.clock.Advance(time.Second)
	for _, c := range cs {
		if c.IsLeader() {
			check.OK(k, leadertest.Led(c).TransferTo(t.Context(), "late"))
		}
	}
	k.clock.Advance(time.Hour)
	check.That(t, !late.IsLeader(), "it has never tried a preemptor")
	if n := terms(cs) + terms([]*leader.Candidate{late}) - before; n > 4 { // its own, the ones it tried, and one of each hour
		t.Errorf("%d changes of the leadership in an hour", n)
	}
}

// A preemptor that can write the key leads although others of a higher priority cannot:
// also where racing candidates take the key before its turn comes, so that it leads only
// if a leader names it.
func TestPreemption_AmongVainOnes(t *testing.T) {
	proof.NotRaced(t)
	stay := func(fault func(*leadertest.Link)) func(k kit, n int) {
		return func(k kit, n int) {
			if n == 0 {
				k.high("vain0", preemptor, fault)
				k.high("vain1", preemptor, fault)
			}
			k.clock.Advance(3 * defaultLease)
		}
	}
	for name, others := range map[string]func(k kit, n int){ // 3 leases of theirs
		"others stay":       stay(losesWrites),
		"others are denied": stay(deniesWrites),
		"others restart": func(k kit, n int) {
			id := fmt.Sprint("vain", n)
			c := k.high(id, preemptor, losesWrites)
			k.clock.Advance(3*defaultLease - time.Second)
			k.store.Link(id).Close()
			<-c.Done()
		},
	} {
		for _, low := range []leader.Config{byPriority, racing} {
			t.Run(fmt.Sprintf("%s/%+v", name, low.Queue), func(t *testing.T) {
				k := newKit(t)
				cs := k.low(2, low)
				others(k, 0)
				fine, _ := k.stand("fine", leader.Config{Queue: &leader.Queue{Priority: 5, Preempt: true}})
				for n := range 8 {
					others(k, n+1)
				}
				check.That(t, terms([]*leader.Candidate{fine}) != 0, "it did not lead within 24 leases")
				changes := k.hourly(proof.Size(1, 3), append(cs, fine)...)
				check.That(t, slices.Max(changes) <= 8, "changes of the leadership in each hour: %v", changes)
			})
		}
	}
}

// denied returns the IDs in the roster whose writes are denied.
func (k kit) denied() (ids []string) {
	k.Helper()
	all := check.Got(roster.Lookup(k.Context(), k.store, "e"))(k)
	for _, s := range all {
		if s.Denied {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// Preemptors whose writes are denied stay in the roster, after all others, and are tried as
// rarely as those whose writes vanish.
func TestPreemption_DeniedGrowsRarer(t *testing.T) {
	proof.NotRaced(t)
	k := newKit(t)
	cs := k.low(2, byPriority)
	for i := range 3 {
		k.high(fmt.Sprint("high", i), preemptor, deniesWrites)
	}
	changes := k.hourly(proof.Size(2, 4), cs...)
	check.That(t, changes[0] >= 2 && changes[0] <= 8 && slices.Max(changes[1:]) <= 1,
		"changes of the leadership in each hour: %v", changes)
	ids := k.roster()
	check.That(t, len(ids) == 4, "%v stand", ids)
}

// A leader hands over to no preemptor whose writes are denied, until eight leases have
// passed since the last one, or until the preemptor has reconnected.
func TestPreemption_DeniedIsPassedOver(t *testing.T) {
	for _, reconnects := range []bool{false, true} {
		t.Run(fmt.Sprintf("reconnects=%v", reconnects), func(t *testing.T) {
			k := newKit(t)
			k.low(2, byPriority)
			high := k.high("high", preemptor, deniesWrites)
			for n := 0; len(k.denied()) == 0 && n < 60; n++ {
				k.clock.Advance(time.Second)
			}
			ids := k.roster()
			check.Must(t, len(ids) == 2 && ids[1] == "high", "%v stand", ids)
			k.store.Link("high").Heal()
			wait := 8 * defaultLease
			if reconnects {
				k.clock.Advance(3 * defaultLease) // longer than a leader waits after one handover in vain
				k.store.Link("high").Reconnect()
				wait = 0
			}
			if k.clock.Advance(wait); high.IsLeader() || len(k.denied()) > 0 {
				t.Errorf("it leads: %v; denied are %v", high.IsLeader(), k.denied())
			}
			if k.clock.Advance(3 * defaultLease); !high.IsLeader() {
				t.Errorf("it does not lead, and %v stand", k.roster())
			}
		})
	}
}

// A candidate counts as denied for exactly eight leases after the denied write. Then it has
// its place again.
func TestDeniedCandidate_ForEightLeases(t *testing.T) { story(t) }

// A candidate that counts as denied may be named as the successor, and takes the key at once
// if it may write by then.
func TestDeniedCandidate_IsNamed(t *testing.T) { story(t) }

// When no candidate may write, the waiting ones stay in the roster, and one leads within a
// lease of the grant. Then it can hand over to each of the others.
func TestDeniedCandidates_All(t *testing.T) {
	k := newKit(t)
	cs := k.queue(3, leader.Config{})
	for i := range cs {
		deniesWrites(k.store.Link(fmt.Sprint("c", i)))
	}
	k.clock.Advance(10 * time.Minute)
	if ids, denied := k.roster(), k.denied(); len(ids) != 2 || len(denied) != 2 || cs[0].State() != leader.StateFenced {
		t.Errorf("%v stand, and %v are denied; the last leader is %v", ids, denied, cs[0].State())
	}
	for i := range cs {
		k.store.Link(fmt.Sprint("c", i)).Heal()
	}
	k.clock.Advance(defaultLease)
	for range 4 {
		ids := k.roster()
		check.Must(t, len(ids) == 2, "%v stand", ids)
		n := slices.IndexFunc(cs, (*leader.Candidate).IsLeader)
		check.Must(t, n >= 0, "no candidate leads")
		check.OK(k, leadertest.Led(cs[n]).TransferTo(t.Context(), ids[1]))
		k.clock.Advance(defaultLease)
	}
}

// If no other candidate takes it, a candidate that is denied tries for a free key as
// before.
func TestDeniedCandidate_TakesFreeKey(t *testing.T) { story(t) }

// A candidate that may not write the key of one seat counts as denied on all.
func TestDeniedCandidate_OfSeveralSeats(t *testing.T) { story(t) }
