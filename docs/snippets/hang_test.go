package snippets_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// One of three workers hangs. Another replica leads when the limit of the item, StallTimeout and
// GracePeriod are over, and the process that hangs does not lead again.
func TestCrewWithLimit_Hangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		store := leadertest.NewStore(nil)
		stand := func(id string) *leader.Candidate {
			c, err := leader.Campaign(ctx, store.Link(id), "jobs", leader.Config{
				ID: id, StallTimeout: 12 * time.Second, GracePeriod: 8 * time.Second,
			})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return c
		}
		a, b := stand("a"), stand("b")
		resolved, ended := make(chan struct{}), make(chan struct{})
		var items atomic.Int32
		go func() {
			defer close(ended)
			_ = eachTerm(a, func(lead context.Context, _ uint64) {
				crewWithLimit(lead, 3, 10500*time.Millisecond, func(context.Context) {
					if items.Add(1) == 7 {
						<-resolved
					}
					time.Sleep(time.Second)
				})
			})
		}()
		// The third round of items begins at 2 s, the limit is over at 12.5 s, and the other workers ask at 13 s.
		time.Sleep(13*time.Second + 12*time.Second + 8*time.Second - 1)
		synctest.Wait()
		if b.IsLeader() {
			t.Error("b leads too early")
		}
		time.Sleep(1 * time.Nanosecond)
		synctest.Wait()
		if !b.IsLeader() || a.Ping(t.Context()) == nil {
			t.Errorf("b leads: %t; a is alive: %v", b.IsLeader(), a.Ping(t.Context()))
		}
		time.Sleep(time.Hour)
		if a.IsLeader() {
			t.Error("a leads again")
		}
		cancel()
		close(resolved)
		<-ended
		<-b.Done()
	})
}
