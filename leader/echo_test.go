package leader_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// wokenClock counts how often candidates are handed mail.
type wokenClock struct {
	*leadertest.Clock
	woken atomic.Int32
}

type wokenTimer struct {
	leader.Timer
	clock *wokenClock
}

func (c *wokenClock) Unarmed() leader.Timer { return wokenTimer{c.Clock.Unarmed(), c} }

func (t wokenTimer) Wake() {
	t.clock.woken.Add(1)
	t.Timer.(interface{ Wake() }).Wake()
}

// The feed delivers each renewal to the leader, too. Only the acknowledgement wakes it, and one delivery in each lease, which
// shows the server's time. But while it has heard no answer to its requests each message counts.
func TestEcho_WakesNoLeader(t *testing.T) {
	clock := &wokenClock{Clock: leadertest.NewClock()}
	s := leadertest.NewStore(clock.Clock)
	c := check.Got(leader.Campaign(t.Context(), s.Link("a"), "e", leader.Config{ID: "a", Clock: clock}))(t)
	clock.Advance(3 * time.Second)
	check.Must(t, c.IsLeader(), "does not lead")
	const renewals = 10
	before := clock.woken.Load()
	clock.Advance(renewals * 2500 * time.Millisecond)
	check.Equal(t, clock.woken.Load()-before, renewals+1, "woken %d times by %d renewals", renewals)
	s.Link("a").LoseReplies(1)
	clock.Advance(2600 * time.Millisecond)
	check.Equal(t, c.Stats().Silent, 0, "silent for %v while the feed delivers")
	s.Link("a").Close()
	<-c.Done()
}
