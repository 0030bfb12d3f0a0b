package leader_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// A candidate that wins, renews and hears others needs a stack of 8 kB, which Go grows by
// doubling. One large value that is passed by value on the way from the mailbox to the
// machine makes it 16 kB, for each of thousands. The race detector makes larger frames.
func TestStack_SmallForThousands(t *testing.T) {
	proof.NotRaced(t)
	const n, most = 500, 12 << 10
	clock := leadertest.NewClock()
	s := leadertest.NewStore(clock)
	all := make([]*leader.Candidate, n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range all {
		c := check.Got(leader.Campaign(t.Context(), s.Link("a"), fmt.Sprint("e.", i/2), leader.Config{Clock: clock}))(t)
		all[i] = c
	}
	clock.Advance(time.Minute)
	runtime.ReadMemStats(&after)
	if each := (after.StackInuse - before.StackInuse) / n; each > most {
		t.Errorf("the stack of a candidate takes %d bytes", each)
	} else {
		t.Logf("the stack of a candidate takes %d bytes", each)
	}
	s.Link("a").Close()
	for _, c := range all {
		<-c.Done()
	}
}
