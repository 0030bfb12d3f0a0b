package metrics_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// A candidate of several seats counts as one: its counters go on from seat to seat.
func TestSeats_CountedTogether(t *testing.T) {
	k := newKit(t)
	k.seats = 3
	other := k.stand("b", leader.Config{})
	k.seats = 2
	a := k.stand("a", leader.Config{})
	k.add(a)
	k.show("is_leader", "transitions_total", "faults_total")
	check.OK(t, leadertest.Resign(t.Context(), a))
	check.OK(t, other.Stop())
	k.clock.Advance(15 * time.Second)
	k.show("is_leader", "transitions_total", "faults_total")
}

// Each candidate shows its seat and the leaders that it knows. Both numbers are 0 when
// nobody leads, and no series of an earlier leader is left.
func TestSeats_LeadersThatAreKnown(t *testing.T) {
	k := newKit(t)
	k.collector.LeaderIDs, k.seats = true, 2
	k.stand("a", leader.Config{})
	b := k.stand("b", leader.Config{})
	k.add(k.stand("c", leader.Config{}))
	k.clock.Advance(time.Second)
	k.show("leader_info", "leaders ", "seat")
	check.OK(t, b.Stop())
	k.clock.Advance(time.Second)
	k.show("leader_info", "leaders ", "seat")
	k.store.Link("a").Cut()
	k.store.Link("c").Cut()
	k.clock.Advance(time.Minute)
	k.show("leader_info", "leaders ", "seat")
}

// A candidate that has ended knows of no leader, however it ended. Otherwise the number of leaders
// would never fall to 0 again, and no alert would report that nobody leads.
func TestLeaders_EndWithTheCandidate(t *testing.T) {
	all := newKit(t)
	for _, seats := range []int{1, 2} {
		for _, closed := range []bool{false, true} {
			k := all.anew(fmt.Sprintf("%d seats, its connection is closed: %v", seats, closed))
			k.seats = seats
			k.stand("a", leader.Config{})
			if seats == 2 {
				k.stand("b", leader.Config{})
			}
			c := k.stand("c", leader.Config{})
			k.add(c)
			k.clock.Advance(time.Second)
			k.show("leaders ")
			if closed {
				k.store.Link("c").Close()
				<-c.Done()
			} else {
				check.OK(t, c.Stop())
			}
			k.show("leader_info", "leaders ")
		}
	}
}

// IDs become labels only where the program asks for them. They are cut, and are always UTF-8.
func TestLeaderIDs_OnlyOnRequest(t *testing.T) {
	k := newKit(t)
	k.stand(strings.Repeat("ä", 100), leader.Config{})
	k.add(k.stand("b", leader.Config{}))
	k.clock.Advance(time.Second)
	k.show("leader_info", "leaders ")
	k.collector.LeaderIDs = true
	k.show("leader_info", "leaders ")
}
