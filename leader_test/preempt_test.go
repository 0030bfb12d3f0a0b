package leader_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// Preemptors that do not take the key that a leader gives up for them.

var (
	byPriority = leader.Config{Queue: true}
	racing     = leader.Config{Roster: true}
	preemptor  = leader.Config{Queue: true, Priority: 10, Preempt: true}
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
	for _, low := range []leader.Config{byPriority, racing} {
		for preemptors := 2; preemptors <= 3; preemptors++ {
			t.Run(fmt.Sprintf("queue=%v/%d preemptors", low.Queue, preemptors), func(t *testing.T) {
				k := newKit(t)
				cs := k.low(3, low)
				for i := range preemptors {
					k.high(fmt.Sprint("high", i), preemptor, losesWrites)
				}
				// The first after 1 to 2 leases, then each after its wait and 2 leases
				// at most, in which the next preemptor announces itself.
				if changes := k.hourly(proof.Size(2, 4), cs...); changes[0] > 8 || slices.Max(changes[1:]) > 1 {
					t.Errorf("changes of the leadership in each hour: %v", changes)
				}
			})
		}
	}
}

// Preemption in vain by new sessions grows rarer. A preemptor that restarts has a new
// session, which no leader has tried before.
func TestPreemption_VainNewSessions(t *testing.T) {
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
	if changes[0] < 2 || changes[0] > 8 || slices.Max(changes[1:]) > 1 {
		t.Errorf("changes of the leadership in each hour: %v", changes)
	}
}

// A leader with a new process does not know which handovers were in vain before, and
// tries once.
func TestPreemption_VainNewLeader(t *testing.T) {
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
			k.ok(c.Transfer(t.Context(), "late"))
		}
	}
	k.clock.Advance(time.Hour)
	if late.IsLeader() {
		t.Error("it has never tried a preemptor")
	}
	if n := terms(cs) + terms([]*leader.Candidate{late}) - before; n > 4 { // its own, the ones it tried, and one of each hour
		t.Errorf("%d changes of the leadership in an hour", n)
	}
}

// A preemptor that can write the key leads although others of a higher priority cannot:
// also where racing candidates take the key before its turn comes, so that it leads only
// if a leader names it.
func TestPreemption_AmongVainOnes(t *testing.T) {
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
			t.Run(fmt.Sprintf("%s/queue=%v", name, low.Queue), func(t *testing.T) {
				k := newKit(t)
				cs := k.low(2, low)
				others(k, 0)
				cfg := preemptor
				cfg.Priority = 5
				fine, _ := k.stand("fine", cfg)
				for n := range 8 {
					others(k, n+1)
				}
				if terms([]*leader.Candidate{fine}) == 0 {
					t.Error("it did not lead within 24 leases")
				}
				if changes := k.hourly(proof.Size(1, 3), append(cs, fine)...); slices.Max(changes) > 8 {
					t.Errorf("changes of the leadership in each hour: %v", changes)
				}
			})
		}
	}
}

// A candidate that was denied a write of the key leaves the roster: no leader hands
// over to it, and no candidate waits for its turn.
func TestPreemption_DeniedLeavesRoster(t *testing.T) {
	k := newKit(t)
	cs := k.low(2, byPriority)
	for i := range 3 {
		k.high(fmt.Sprint("high", i), preemptor, deniesWrites)
	}
	changes := k.hourly(1, cs...)
	if ids := k.roster(); len(ids) != 1 || !strings.HasPrefix(ids[0], "low") || changes[0] > 2 {
		t.Errorf("%d changes of the leadership, and %v stand", changes[0], ids)
	}
}

// A candidate stands again when its connection was made anew, which may have changed its
// permissions.
func TestPreemption_DeniedReconnects(t *testing.T) {
	k := newKit(t)
	k.low(2, byPriority)
	high := k.high("high", preemptor, deniesWrites)
	k.clock.Advance(10 * time.Minute)
	if ids := k.roster(); slices.Contains(ids, "high") {
		t.Fatalf("%v stand", ids)
	}
	k.store.Link("high").Heal()
	k.store.Link("high").Reconnect()
	k.clock.Advance(3 * defaultLease)
	if !high.IsLeader() {
		t.Errorf("it does not lead, and %v stand", k.roster())
	}
}

// A permission that was granted without a reconnection is noticed after 256 leases.
func TestPreemption_DeniedForAWhile(t *testing.T) {
	k := newKit(t)
	k.low(2, byPriority)
	high := k.high("high", preemptor, deniesWrites)
	k.clock.Advance(10 * time.Minute)
	k.store.Link("high").Heal()
	k.clock.Advance(256 * defaultLease)
	if !high.IsLeader() {
		t.Errorf("it does not lead, and %v stand", k.roster())
	}
}

// If no other candidate takes it, a candidate that is denied tries for a free key as
// before.
func TestDeniedCandidate_TakesFreeKey(t *testing.T) {
	k := newKit(t)
	link := k.store.Link("a")
	link.FailWrites(-1, leader.ErrPermission)
	a, _ := k.stand("a", byPriority)
	k.clock.Advance(time.Minute)
	if ids := k.roster(); len(ids) != 0 {
		t.Errorf("%v stand", ids)
	}
	link.Heal()
	k.clock.Advance(defaultLease)
	if !a.IsLeader() {
		t.Error("it does not lead")
	}
}

// A candidate that may not write the key of one seat stands for none.
func TestDeniedCandidate_OfSeveralSeats(t *testing.T) {
	k := newKit(t)
	cfg := byPriority
	cfg.Seats = 2
	cs := k.low(3, cfg)
	k.clock.Advance(time.Minute)
	if ids := k.roster(); !slices.Equal(ids, []string{"low2"}) {
		t.Fatalf("%v stand", ids)
	}
	deniesWrites(k.store.Link("low2"))
	for _, c := range cs[:2] { // whichever seats they have
		k.ok(c.Resign(t.Context()))
		k.clock.Advance(5 * time.Second)
	}
	k.clock.Advance(time.Minute)
	if ids := k.roster(); slices.Contains(ids, "low2") {
		t.Errorf("%v stand", ids)
	}
	k.store.Link("low2").Heal()
	k.store.Link("low2").Reconnect()
	k.clock.Advance(time.Minute)
	if ids := k.roster(); !slices.Contains(ids, "low2") && !cs[2].IsLeader() {
		t.Errorf("%v stand", ids)
	}
}

// On a server a denied write shows as one without an answer. The preemptor that may not
// write the key pushes the leader out once, leaves the roster, and leads when it may.
func TestPreemption_DeniedByAServer(t *testing.T) {
	t.Parallel()
	full := func(name string) permUser { return permRoster(permAnnouncer(permList(name, "a", false), "a"), "a") }
	denied := full("high")
	denied.pub = slices.DeleteFunc(slices.Clone(denied.pub), func(s string) bool { return s == "$KV.E.a" })
	h := permServer(t, full("low0"), full("low1"), denied)
	tcpCreate(t, permJS(t, h, "admin"), leader.BucketConfig{MaxLease: time.Second, Storage: jetstream.MemoryStorage, Roster: true})
	el := tcpElectionOf(t, "a")
	stand := func(name string, cfg leader.Config) *tcpCandidate {
		cfg.ID = name
		return el.stand(tcpBucket(t, permJS(t, h, name)), cfg)
	}
	low := []*tcpCandidate{stand("low0", byPriority)}
	tcpEventually(t, "the first leads", low[0].IsLeader)
	low = append(low, stand("low1", byPriority))
	high := stand("high", preemptor)
	bucket := tcpBucket(t, permJS(t, h, "admin"))
	stands := func() bool {
		all, err := leader.Roster(t.Context(), bucket, "a")
		tcpOK(t, err)
		return slices.ContainsFunc(all, func(s leader.RosterEntry) bool { return s.ID == "high" })
	}
	tcpEventually(t, "it stands", stands)
	low[0].Expect(leadertest.Deposed(leader.ErrResigned))
	tcpEventually(t, "it is named in vain", func() bool { return low[0].IsLeader() || low[1].IsLeader() })
	tcpEventually(t, "it leaves the roster", func() bool { return !stands() })
	h.grant(t, full("high"))
	tcpEventually(t, "it leads", high.IsLeader)
}
