package leader_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// A fault lasts until a success shows that it is over. After a write of a candidate that waits, none may come: it lasts
// for two minutes. What shows no end does not last.
func TestStats_FaultsLast(t *testing.T) {
	var shown strings.Builder
	var empty leadertest.Snapshot
	for _, one := range []struct {
		what        string
		mended      time.Duration
		begin, mend func(k kit, a, b *leadertest.Link)
	}{
		{
			"the bucket is deleted, and made again after a minute", time.Minute,
			func(k kit, _, _ *leadertest.Link) { k.store.Drop() },
			func(k kit, _, _ *leadertest.Link) { k.store.Recreate() },
		},
		{
			"the store loses all that was written", 0,
			func(k kit, _, _ *leadertest.Link) { k.store.Rollback(empty) }, nil,
		},
		{"the key is overwritten", 0, func(k kit, _, _ *leadertest.Link) { k.store.Put("e", []byte("x")) }, nil},
		{
			"b may not read the settings for a minute", time.Minute,
			func(_ kit, _, b *leadertest.Link) {
				b.FailSettings(-1, leader.ErrPermission)
				b.Reconnect()
			},
			func(_ kit, _, b *leadertest.Link) { b.Heal() },
		},
		{
			"b may not write for a minute, and a takes the key", time.Minute, func(k kit, _, b *leadertest.Link) {
				b.FailWrites(-1, leader.ErrPermission)
				k.store.Delete("e")
			}, func(_ kit, _, b *leadertest.Link) { b.Heal() },
		},
		{
			"b may not write, and connects again after a minute", time.Minute, func(k kit, _, b *leadertest.Link) {
				b.FailWrites(-1, leader.ErrPermission)
				k.store.Delete("e")
			}, func(_ kit, _, b *leadertest.Link) { b.Reconnect() },
		},
		{
			"the bucket is full for a minute", time.Minute, func(k kit, a, b *leadertest.Link) {
				a.FailWrites(-1, leader.ErrFull)
				b.FailWrites(-1, leader.ErrFull)
				k.store.Delete("e")
			}, func(_ kit, a, b *leadertest.Link) {
				a.Heal()
				b.Heal()
			},
		},
		{
			"b opens no feed for a minute", time.Minute, func(_ kit, _, b *leadertest.Link) {
				b.FailWatches(-1, leader.ErrPermission)
				b.EndFeeds(leader.ErrUnreachable)
			}, func(_ kit, _, b *leadertest.Link) { b.Heal() },
		},
		{
			"the feed of b delivers nothing for two minutes", 2 * time.Minute,
			func(_ kit, _, b *leadertest.Link) { b.LoseFeed(-1) },
			func(_ kit, _, b *leadertest.Link) { b.Heal() },
		},
	} {
		fmt.Fprintln(&shown, one.what)
		k := newKit(t)
		empty = k.store.Snapshot()
		a, _ := k.stand("a", leader.Config{})
		k.clock.Settle()
		b, _ := k.stand("b", leader.Config{})
		last := "[] and []"
		show := func(until time.Duration) {
			for ; k.clock.Elapsed() < until; k.clock.Advance(100 * time.Millisecond) {
				if now := fmt.Sprint(a.Stats().Lasting, " and ", b.Stats().Lasting); now != last {
					fmt.Fprintf(&shown, "  %v: %v\n", k.clock.Elapsed(), now)
					last = now
				}
			}
		}
		k.clock.Advance(time.Second)
		one.begin(k, k.store.Link("a"), k.store.Link("b"))
		show(one.mended)
		if one.mend != nil {
			one.mend(k, k.store.Link("a"), k.store.Link("b"))
		}
		show(5 * time.Minute)
		check.OK(t, b.Stop())
		check.Equal(t, len(b.Stats().Lasting), 0, one.what+": %d faults of b last after its end")
	}
	check.Equal(t, shown.String(), faultsLast, "%s")
}

// faultsLast has the faults that last at a and at b, whenever they change.
const faultsLast = `the bucket is deleted, and made again after a minute
  2.5s: [leader: the store did not answer] and []
  3.4s: [leader: the store did not answer leader: the bucket does not exist] and []
  7.5s: [leader: the store did not answer leader: the bucket does not exist] and [leader: the bucket does not exist]
  1m0.1s: [] and [leader: the bucket does not exist]
  1m0.6s: [leader: the store has lost acknowledged writes] and [leader: the bucket does not exist]
  1m3.9s: [leader: the store has lost acknowledged writes] and []
  1m15.6s: [] and []
the store loses all that was written
  2.5s: [leader: the store has lost acknowledged writes] and []
  17.5s: [] and []
the key is overwritten
  1.1s: [leader: the key holds a foreign record] and [leader: the key holds a foreign record]
  16s: [] and []
b may not read the settings for a minute
  1.1s: [] and [leader: permission denied]
  1m2.9s: [] and []
b may not write for a minute, and a takes the key
  1.1s: [] and [leader: permission denied]
  2m2.9s: [] and []
b may not write, and connects again after a minute
  1.1s: [] and [leader: permission denied]
  1m0.1s: [] and []
the bucket is full for a minute
  1.1s: [leader: there is no room for a write] and [leader: there is no room for a write]
  1m1.2s: [] and []
b opens no feed for a minute
  1.1s: [] and [leader: no feed, polling instead]
  1m3s: [] and []
the feed of b delivers nothing for two minutes
  22.5s: [] and [leader: no feed, polling instead]
  2m2.5s: [] and []
`
