package inspect

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// The remaining lease follows from the server's clock, also if the clock of this host is ahead.
func TestServerClock_RemainingLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x facts.ElectionStatus
		x.Entry.Revision = 7
		x.Holder = leader.Holder{ID: "a", Lease: 15 * time.Second, Renewed: time.Now().Add(-2 * time.Hour)}
		c := NewServerClock(x.Holder.Renewed.Add(10*time.Second), 0)
		time.Sleep(time.Second)
		if got := x.Remaining(c.Now()); x.At(c.Now()) != facts.Leading || got != 4*time.Second {
			t.Errorf("%s, %v left", x.At(c.Now()), got)
		}
	})
}

// The server's time goes on while this host is suspended.
func TestServerClock_HostSleeps(t *testing.T) {
	clock, slept := passed, time.Duration(0)
	passed = func() time.Duration { return clock() + slept }
	defer func() { passed = clock }()
	synctest.Test(t, func(t *testing.T) {
		server := time.Unix(1000, 0)
		c := NewServerClock(server.Add(-2*time.Second), 2*time.Second)
		slept = time.Hour
		time.Sleep(time.Second)
		expect.Equal(t, c.Now().Sub(server), time.Hour+time.Second, "the server's time has gone on by %v")
	})
}
