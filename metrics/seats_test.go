package metrics_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// A candidate of several seats counts as one: its counters go on from seat to seat.
func TestSeats_CountedTogether(t *testing.T) {
	k := newKit(t)
	other := k.stand("b", leader.Config{Seats: 3})
	a := k.stand("a", leader.Config{Seats: 2})
	k.add(a)
	k.expect(`
		is_leader 1
		transitions_total{cause="none",to="leader"} 1
		transitions_total{cause="none",to="pending"} 1
		faults_total{kind="seats"} 1`, "is_leader", "transitions_total", "faults_total")
	check.OK(t, a.Resign(t.Context()))
	check.OK(t, other.Stop(t.Context()))
	k.clock.Advance(15 * time.Second)
	k.expect(`
		is_leader 1
		transitions_total{cause="none",to="leader"} 2
		transitions_total{cause="none",to="pending"} 2
		transitions_total{cause="resigned",to="candidate"} 1
		faults_total{kind="seats"} 1`, "is_leader", "transitions_total", "faults_total")
}

// Each candidate shows its seat and the leaders that it knows. Both numbers are 0 when
// nobody leads, and no series of an earlier leader is left.
func TestSeats_LeadersThatAreKnown(t *testing.T) {
	k := newKit(t)
	k.collector.LeaderIDs = true
	k.stand("a", leader.Config{Seats: 2})
	b := k.stand("b", leader.Config{Seats: 2})
	k.add(k.stand("c", leader.Config{Seats: 2}))
	k.clock.Advance(time.Second)
	k.expect(`
		leader_info{id="a",seat="1"} 1
		leader_info{id="b",seat="2"} 1
		leaders 2
		seat 0
		seats 2`, "leader_info", "leaders ", "seat")
	check.OK(t, b.Stop(t.Context()))
	k.clock.Advance(time.Second)
	k.expect(`
		leader_info{id="a",seat="1"} 1
		leader_info{id="c",seat="2"} 1
		leaders 2
		seat 2
		seats 2`, "leader_info", "leaders ", "seat")
	k.store.Link("a").Cut()
	k.store.Link("c").Cut()
	k.clock.Advance(time.Minute)
	k.expect(`
		leaders 0
		seat 0
		seats 2`, "leader_info", "leaders ", "seat")
}

// A candidate that has ended knows of no leader, however it ended. Otherwise the number of leaders
// would never fall to 0 again, and no alert would report that nobody leads.
func TestLeaders_EndWithTheCandidate(t *testing.T) {
	for name, end := range map[string]func(kit, *leader.Candidate){
		"stopped": func(k kit, c *leader.Candidate) {
			err := c.Stop(k.Context())
			check.That(k, err == nil, "%v", err)
		},
		"its connection is closed": func(k kit, c *leader.Candidate) {
			k.store.Link("c").Close()
			<-c.Done()
		},
	} {
		for _, seats := range []int{1, 2} {
			t.Run(fmt.Sprint(name, ", seats ", seats), func(t *testing.T) {
				k := newKit(t)
				k.collector.LeaderIDs = true
				k.stand("a", leader.Config{Seats: seats})
				if seats == 2 {
					k.stand("b", leader.Config{Seats: seats})
				}
				c := k.stand("c", leader.Config{Seats: seats})
				k.add(c)
				k.clock.Advance(time.Second)
				k.expect(fmt.Sprint("leaders ", seats), "leaders ")
				end(k, c)
				k.expect("leaders 0", "leader_info", "leaders ")
			})
		}
	}
}

// IDs become labels only where the program asks for them. They are cut, and are always UTF-8.
func TestLeaderIDs_OnlyOnRequest(t *testing.T) {
	k := newKit(t)
	k.stand(strings.Repeat("ä", 100), leader.Config{})
	k.add(k.stand("b", leader.Config{}))
	k.clock.Advance(time.Second)
	k.expect(`leaders 1`, "leader_info", "leaders ")
	k.collector.LeaderIDs = true
	k.expect(`
		leader_info{id="`+strings.Repeat("ä", 30)+`…",seat="1"} 1
		leaders 1`, "leader_info", "leaders ")
}
