package leader_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// faulty is a leader on the link a, and a candidate on the link b that waits.
type faulty struct {
	kit
	empty leadertest.Snapshot
	leads *leader.Candidate
	a, b  *leadertest.Link
	end   chan struct{} // of work that ignores its context
}

func (f faulty) cordon(names ...string) {
	f.store.Put(wire.CordonKey, check.Got(record.EncodeCordon(names))(f))
}

// A fault lasts until a success shows that it is over. Where none comes because the request is not needed any more, it
// lasts for two minutes after it was last seen.
func TestStats_FaultsLast(t *testing.T) {
	var shown strings.Builder
	for _, one := range []struct {
		what        string
		mended      time.Duration
		begin, mend func(f faulty)
	}{
		{
			"the bucket is deleted, and made again after a minute", time.Minute,
			func(f faulty) { f.store.Drop() }, func(f faulty) { f.store.Recreate() },
		},
		{
			"the roster is deleted, and made again after a minute", time.Minute,
			func(f faulty) { f.store.DropRoster() }, func(f faulty) { f.store.RecreateRoster() },
		},
		{
			"both are cordoned for a minute", time.Minute,
			func(f faulty) { f.cordon("a", "b") }, func(f faulty) { f.cordon() },
		},
		{"the store loses all that was written", 0, func(f faulty) { f.store.Rollback(f.empty) }, nil},
		{"the key is overwritten", 0, func(f faulty) { f.store.Put("e", []byte("x")) }, nil},
		{
			"the work of a goes on for a minute, and its key is deleted", time.Minute,
			func(f faulty) {
				leadertest.Led(f.leads).Go(func(context.Context) { <-f.end })
				f.store.Delete("e")
			},
			func(f faulty) {
				for close(f.end); f.leads.Stats().Unreleased > 0; f.clock.Settle() {
					runtime.Gosched()
				}
			},
		},
		{
			"b may not read the settings for a minute", time.Minute,
			func(f faulty) {
				f.b.FailSettings(-1, leader.ErrPermission)
				f.b.Reconnect()
			},
			func(f faulty) { f.b.Heal() },
		},
		{
			"b may not write for a minute, and a takes the key", time.Minute,
			func(f faulty) {
				f.b.FailWrites(-1, leader.ErrPermission)
				f.store.Delete("e")
			},
			func(f faulty) { f.b.Heal() },
		},
		{
			"b may not write, and connects again after a minute", time.Minute,
			func(f faulty) {
				f.b.FailWrites(-1, leader.ErrPermission)
				f.store.Delete("e")
			},
			func(f faulty) { f.b.Reconnect() },
		},
		{
			"the bucket is full for a minute", time.Minute,
			func(f faulty) {
				f.a.FailWrites(-1, leader.ErrFull)
				f.b.FailWrites(-1, leader.ErrFull)
				f.store.Delete("e")
			},
			func(f faulty) {
				f.a.Heal()
				f.b.Heal()
			},
		},
		{
			"b finds no bucket, and hears of the next leader after ten seconds", 10 * time.Second,
			func(f faulty) {
				f.b.FailReads(-1, leader.ErrNoBucket)
				f.b.Reconnect()
			},
			func(f faulty) { f.store.Delete("e") },
		},
		{
			"b opens no feed for a minute", time.Minute,
			func(f faulty) {
				f.b.FailWatches(-1, leader.ErrPermission)
				f.b.EndFeeds(leader.ErrUnreachable)
			},
			func(f faulty) { f.b.Heal() },
		},
		{
			"the feed of b delivers nothing for two minutes", 2 * time.Minute,
			func(f faulty) { f.b.LoseFeed(-1) }, func(f faulty) { f.b.Heal() },
		},
	} {
		fmt.Fprintln(&shown, one.what)
		k := newKit(t)
		f := faulty{kit: k, empty: k.store.Snapshot(), a: k.store.Link("a"), b: k.store.Link("b"), end: make(chan struct{})}
		f.leads, _ = k.stand("a", leader.Config{Queue: &leader.Queue{}})
		k.clock.Settle()
		b, _ := k.stand("b", leader.Config{Queue: &leader.Queue{}})
		last := "[] and []"
		show := func(until time.Duration) {
			for ; k.clock.Elapsed() < until; k.clock.Advance(100 * time.Millisecond) {
				if now := fmt.Sprint(f.leads.Stats().Lasting, " and ", b.Stats().Lasting); now != last {
					fmt.Fprintf(&shown, "  %v: %v\n", k.clock.Elapsed(), now)
					last = now
				}
			}
		}
		k.clock.Advance(time.Second)
		one.begin(f)
		k.clock.Settle()
		show(one.mended)
		if one.mend != nil {
			one.mend(f)
			k.clock.Settle()
		}
		show(5 * time.Minute)
		k.store.Put("e", []byte("y"))
		k.clock.Settle()
		check.OK(t, b.Stop())
		check.Equal(t, len(b.Stats().Lasting), 0, one.what+": %d faults of b last after its end")
	}
	short := strings.NewReplacer("leader: ", "", "(BucketConfig.Roster or `natsleader bucket add --roster` makes one)", "(...)")
	check.Equal(t, short.Replace(shown.String()), faultsLast, "%s; want %s")
}

// The holder is set to another number of seats, until it has gone.
func TestStats_SeatsDiffer(t *testing.T) {
	k := newKit(t)
	k.mark = seated(2)
	a, _ := k.stand("a", leader.Config{})
	k.clock.Settle()
	k.mark = seated(1)
	b, _ := k.stand("b", leader.Config{})
	k.clock.Advance(time.Minute)
	check.Deep(t, b.Stats().Lasting, []error{leader.ErrSeatsDiffer})
	check.OK(t, a.Stop())
	k.clock.Advance(time.Minute)
	check.That(t, b.IsLeader() && len(b.Stats().Lasting) == 0, "%v, and these faults last: %v", b.State(), b.Stats().Lasting)
}

// faultsLast has the faults that last at a and at b, whenever they change.
const faultsLast = `the bucket is deleted, and made again after a minute
  2.6s: [the store did not answer] and []
  3.7s: [the store did not answer the bucket does not exist] and []
  7.6s: [the store did not answer the bucket does not exist] and [the bucket does not exist]
  1m0.1s: [] and [the bucket does not exist]
  1m0.8s: [the store has lost acknowledged writes] and [the bucket does not exist]
  1m4.4s: [the store has lost acknowledged writes] and [the store has lost acknowledged writes]
  1m15.8s: [] and []
the roster is deleted, and made again after a minute
  1s: [the store did not answer] and []
  3.5s: [the store did not answer the bucket keeps no roster (...)] and []
  19.8s: [the store did not answer the bucket keeps no roster (...)] and [the bucket keeps no roster (...)]
  1m3.5s: [] and [the bucket keeps no roster (...)]
  1m4.8s: [] and []
both are cordoned for a minute
  1s: [cordoned by an operator] and [cordoned by an operator]
  1m0s: [] and []
the store loses all that was written
  2.6s: [the store has lost acknowledged writes] and []
  7.6s: [the store has lost acknowledged writes] and [the store has lost acknowledged writes]
  17.6s: [] and []
the key is overwritten
  1s: [the key holds a foreign record] and [the key holds a foreign record]
  16s: [] and []
the work of a goes on for a minute, and its key is deleted
  16s: [not released] and []
  1m0s: [] and []
b may not read the settings for a minute
  1s: [] and [permission denied]
  1m3.5s: [] and []
b may not write for a minute, and a takes the key
  1s: [] and [permission denied]
  2m3s: [] and []
b may not write, and connects again after a minute
  1s: [] and [permission denied]
  1m0s: [] and []
the bucket is full for a minute
  1s: [there is no room for a write] and [there is no room for a write]
  1m1.2s: [] and []
b finds no bucket, and hears of the next leader after ten seconds
  1s: [] and [the bucket does not exist]
  25s: [] and []
  26.3s: [] and [the bucket does not exist]
b opens no feed for a minute
  1s: [] and [no feed, polling instead]
  1m1.9s: [] and []
the feed of b delivers nothing for two minutes
  22.6s: [] and [no feed, polling instead]
  2m0.1s: [] and []
`
