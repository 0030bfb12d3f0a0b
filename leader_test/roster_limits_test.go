package leader_test

import (
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// A leader that leaves reads the roster at once, but does not go on asking for it if it
// cannot be read.
func TestLeavingLeader_RosterReads(t *testing.T) {
	k := newKit(t)
	cs := k.queue(2, leader.Config{})
	before := k.store.Requests().Views
	k.store.Link("c0").Cut()
	k.store.Link("c0").EndViews(leader.ErrUnreachable)
	result := make(chan error, 1)
	go func() { result <- leadertest.Resign(t.Context(), cs[0]) }()
	check.Soon(t, "c0 no longer leads", func() bool { return !cs[0].IsLeader() }, k.clock.Settle)
	k.clock.Advance(5 * time.Second)
	k.store.Link("c0").Restore()
	k.clock.Advance(20 * time.Second)
	check.OK(k, <-result)
	views := k.store.Requests().Views - before
	check.That(t, views <= 6, "%d views were asked for", views)
}

// The candidate's own clock ends the wait for the answer to an announcement.
func TestAnnouncement_TimesOut(t *testing.T) {
	k := newKit(t)
	cs := k.queue(2, leader.Config{LeaseDuration: 10 * time.Second})
	k.store.Link("c1").LoseAnnouncements(1)
	k.clock.Advance(20 * time.Second) // one announcement is lost
	k.clock.Advance(40 * time.Second)
	got := k.roster()
	check.That(t, len(got) == 1 && got[0] == cs[1].ID(), "%v stand", got)
}
