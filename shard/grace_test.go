package shard_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// Grace of a shard lives through an orderly end while the shard is kept for its work, and ends at once after a loss. The next
// owner never begins before it has ended.
func TestGrace_Ends(t *testing.T) {
	const ms = time.Millisecond
	var expires atomic.Int64 // the lease of a link that was lost
	move := func(ctx context.Context, store *leadertest.Store, _ *shard.Member, _ *leadertest.Link) error {
		return shard.Move(ctx, store, named, 0, "b")
	}
	stop := func(_ context.Context, _ *leadertest.Store, m *shard.Member, _ *leadertest.Link) error {
		go m.Stop() //nolint:errcheck // perhaps its work goes on
		return nil
	}
	for name, c := range map[string]struct {
		grace, bound time.Duration // GracePeriod and StopTimeout
		item         time.Duration // how long it goes on after the end of the context
		end          func(context.Context, *leadertest.Store, *shard.Member, *leadertest.Link) error
		ended        error         // the cause of the context of the shard
		lives        time.Duration // after the end of the context
		want         error         // the cause of Grace; nil: it lives when the item has ended
		next         time.Duration // the next owner begins that long after the end of the context; 0: later
	}{
		"move":           {grace: 10 * time.Second, item: 3 * time.Second, end: move, ended: shard.ErrMoved, lives: 3 * time.Second, next: 3 * time.Second},
		"move/long item": {grace: 2 * time.Second, item: 10 * time.Second, end: move, ended: shard.ErrMoved, lives: 2 * time.Second, want: leader.ErrNotReleased, next: 2 * time.Second},
		"move/one lease": {item: 20 * time.Second, end: move, ended: shard.ErrMoved, lives: lease, want: leader.ErrNotReleased, next: lease},
		"move/link lost": {
			grace: 20 * time.Second, item: 20 * time.Second, ended: shard.ErrMoved, want: leader.ErrLeaseExpired,
			end: func(ctx context.Context, store *leadertest.Store, m *shard.Member, l *leadertest.Link) error {
				time.AfterFunc(time.Second, func() {
					l.Freeze()
					expires.Store(time.Now().Add(m.Stats().Election.Remaining).UnixNano())
				})
				return shard.Move(ctx, store, named, 0, "b")
			},
		},
		"stop":             {grace: 3 * time.Second, item: 2 * time.Second, end: stop, ended: leader.ErrStopped, lives: 2 * time.Second, next: 2 * time.Second},
		"stop/long item":   {grace: 3 * time.Second, item: 10 * time.Second, end: stop, ended: leader.ErrStopped, lives: 3 * time.Second, want: leader.ErrNotReleased, next: 3 * time.Second},
		"stop/StopTimeout": {bound: time.Second, item: 10 * time.Second, end: stop, ended: leader.ErrStopped, lives: 750 * ms, want: leader.ErrNotReleased, next: 750 * ms},
		"resigned": {
			grace: 3 * time.Second, item: 2 * time.Second, ended: leader.ErrResigned, lives: 2 * time.Second,
			end: func(ctx context.Context, store *leadertest.Store, _ *shard.Member, _ *leadertest.Link) error {
				return check.Err(leader.StepDown(ctx, store, group.MemberKey(named, "a"), leader.StepDownOptions{By: "me"}))
			},
		},
		"link lost": {
			grace: 10 * time.Second, item: 20 * time.Second, ended: leader.ErrLeaseExpired, want: leader.ErrLeaseExpired,
			end: func(_ context.Context, _ *leadertest.Store, _ *shard.Member, l *leadertest.Link) error {
				l.Freeze()
				return nil
			},
		},
		"connection closed": {
			grace: 10 * time.Second, item: 20 * time.Second, ended: leader.ErrConnectionClosed, want: leader.ErrConnectionClosed,
			end: func(_ context.Context, _ *leadertest.Store, _ *shard.Member, l *leadertest.Link) error {
				l.Close()
				return nil
			},
		},
	} {
		for _, asked := range []bool{false, true} { // before the end, so that it has to end by itself; or after it alone
			t.Run(fmt.Sprintf("%s/asked=%v", name, asked), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := leadertest.NewStore(nil)
					a, link := member(t, store, shard.Config{Shards: 1, ID: "a", GracePeriod: c.grace, StopTimeout: c.bound})
					var from, next time.Time
					var grace context.Context
					var begun atomic.Bool
					var derived atomic.Pointer[context.Context]
					runs(a, func(lead context.Context, _ *shard.Shard) {
						if begun.Swap(true) { // after a loss it has the shard again, if b has not
							<-lead.Done()
							return
						}
						if asked {
							grace = leader.Grace(lead)
						}
						<-lead.Done()
						from = time.Now()
						check.Is(t, context.Cause(lead), c.ended)
						if !asked {
							grace = leader.Grace(lead)
						}
						ctx, cancel := context.WithTimeout(grace, time.Hour)
						defer cancel()
						derived.Store(&ctx)
						done := ctx.Done()
						select {
						case <-done:
							lives := c.lives
							if name == "move/link lost" {
								lives = time.Unix(0, expires.Load()).Sub(from)
								check.That(t, lives > time.Second && lives < 15*time.Second, "it is to live for %v", lives)
							}
							check.Equal(t, time.Since(from), lives, "it ends after %v")
							check.That(t, c.want != nil, "it ends with %v", context.Cause(ctx))
							check.Is(t, context.Cause(ctx), c.want)
							time.Sleep(c.item - time.Since(from))
						case <-time.After(c.item):
							check.OK(t, grace.Err())
							check.That(t, c.want == nil, "it lives after %v", c.item)
						}
					})
					time.Sleep(time.Second)
					b, _ := member(t, store, shard.Config{Shards: 1, ID: "b", Most: 1})
					runs(b, func(lead context.Context, s *shard.Shard) {
						next = time.Now()
						ctx := derived.Load()
						check.That(t, ctx == nil || (*ctx).Err() != nil, "the Grace before is alive")
						<-lead.Done()
					})
					time.Sleep(time.Second)
					check.OK(t, c.end(t.Context(), store, a, link))
					time.Sleep(4 * lease)
					synctest.Wait()
					check.Must(t, grace != nil, "the context of the shard has not ended")
					check.That(t, !next.IsZero(), "b does not begin")
					check.That(t, c.next == 0 || next.Equal(from.Add(c.next)), "b begins after %v, not %v", next.Sub(from), c.next)
					check.Is(t, grace.Err(), context.Canceled)
					want := c.want
					if want == nil {
						want = c.ended // its work has returned
					}
					check.Is(t, context.Cause(grace), want)
				})
			})
		}
	}
}
