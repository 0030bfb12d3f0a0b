package leader_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// lasting returns the names of the faults that last, as Stats shows them.
func lasting(c *leader.Candidate) string {
	var names []string
	for _, err := range c.Stats().Lasting {
		names = append(names, causeName(err))
	}
	return strings.Join(names, ", ")
}

// While the bucket is away, all candidates show that, and none does within a second after the bucket is made again, also those
// that did not write since.
func TestLasting_BucketMadeAgain(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b := w.stand("a"), w.stand("b")
		w.at(time.Minute)
		w.deleteBucket()
		w.at(2 * time.Minute)
		for _, c := range []*candidate{a, b} {
			got := lasting(c.Candidate)
			check.That(t, strings.Contains(got, "no bucket"), "%s shows %q while the bucket is away", c.ID(), got)
		}
		w.sealed()
		time.Sleep(6 * time.Second) // the longest pause between two tries
		for _, c := range []*candidate{a, b} {
			got := lasting(c.Candidate)
			check.That(t, !strings.Contains(got, "no bucket"), "%s shows %q when the bucket is back", c.ID(), got)
		}
		w.at(4 * time.Minute)
		w.leads(a, b)
		check.Equal(t, lasting(a.Candidate)+lasting(b.Candidate), "", "%q lasts")
	})
}

// A store that has lost writes is a fault until a candidate has written again.
func TestLasting_Regressed(t *testing.T) {
	k := newKit(t)
	a, _ := k.stand("a", leader.Config{})
	b, _ := k.stand("b", leader.Config{})
	k.clock.Advance(time.Minute)
	k.store.Recreate()
	k.clock.Advance(30 * time.Second)
	check.That(t, a.IsLeader() != b.IsLeader(), "none leads")
	for _, c := range []*leader.Candidate{a, b} {
		check.Equal(t, c.Stats().Faults[leader.ErrRegressed], 1, "%d such faults")
		check.Equal(t, lasting(c), "", "%q lasts when one leads")
	}
}

// A foreign record is a fault for as long as it stands.
func TestLasting_Foreign(t *testing.T) {
	k := newKit(t)
	a, _ := k.stand("a", leader.Config{})
	b, _ := k.stand("b", leader.Config{})
	k.clock.Advance(time.Minute)
	for range 2 { // the second is no news
		k.store.Put("e", []byte("junk"))
		k.clock.Advance(5 * time.Second)
	}
	check.Equal(t, lasting(a)+" "+lasting(b), "foreign foreign", "%q lasts")
	k.clock.Advance(10 * time.Second)
	check.Equal(t, lasting(a)+lasting(b), "", "%q lasts after the key was taken")
}

// The store is full for all candidates, and has room again. One of them writes; the others show nothing any more, either.
func TestLasting_RoomForAnother(t *testing.T) {
	k := newKit(t)
	a, _ := k.stand("a", leader.Config{})
	b, _ := k.stand("b", leader.Config{})
	k.clock.Advance(time.Minute)
	k.store.Link("a").FailWrites(-1, leader.ErrFull)
	k.clock.Advance(14 * time.Second)
	check.Equal(t, lasting(a)+lasting(b), "full", "%q lasts")
	k.clock.Advance(30 * time.Second) // b takes the key
	check.That(t, b.IsLeader(), "b does not lead")
	check.Equal(t, lasting(a)+lasting(b), "", "%q lasts when b has written")
}

// A feed that does not deliver what is stored is a fault until it does.
func TestLasting_DeafFeed(t *testing.T) {
	k := newKit(t)
	k.stand("a", leader.Config{})
	b, _ := k.stand("b", leader.Config{})
	k.store.Link("b").LoseFeed(-1)
	k.clock.Advance(5 * time.Minute)
	check.Equal(t, lasting(b), "no feed", "%q lasts")
	k.store.Link("b").Heal()
	k.clock.Advance(5 * time.Minute)
	check.Equal(t, lasting(b), "", "%q lasts when it delivers")
}

// A guard that stands for another election is a fault until it is deleted, also of a candidate that raises it never.
func TestLasting_Guard(t *testing.T) {
	k := newKit(t)
	orders := leadertest.NewStore(k.clock, leadertest.WithoutPurgeProtection())
	other := kit{t, k.clock, leadertest.NewStore(k.clock), nil}
	x := check.Got(leader.Campaign(t.Context(), other.store.Link("x"), "other", leader.Config{ID: "x", Guards: []leader.Guard{orders.Link("x").Guard("guard")}}))(t)
	t.Cleanup(func() {
		other.store.Link("x").Close()
		<-x.Done()
	})
	k.clock.Advance(time.Minute)
	a, _ := k.stand("a", leader.Config{Guards: []leader.Guard{orders.Link("a").Guard("guard")}})
	b, _ := k.stand("b", leader.Config{Guards: []leader.Guard{orders.Link("b").Guard("guard")}})
	k.clock.Advance(time.Minute)
	check.Equal(t, lasting(a)+", "+lasting(b), "guard taken, guard taken", "%q lasts")
	check.OK(t, x.Stop())
	orders.Delete("guard")
	k.clock.Advance(time.Minute)
	check.That(t, a.IsLeader() != b.IsLeader(), "none leads")
	check.Equal(t, lasting(a)+lasting(b), "", "%q lasts when the guard is free")
}

// A write that was denied is a fault while no candidate makes another. When one leads, a candidate that waits writes nothing,
// so it cannot know whether it may.
func TestLasting_Denied(t *testing.T) {
	k := newKit(t)
	a, _ := k.stand("a", leader.Config{})
	k.clock.Advance(time.Minute)
	k.store.Link("a").FailWrites(-1, leader.ErrPermission)
	k.clock.Advance(14 * time.Second)
	check.Equal(t, lasting(a), "permission", "%q lasts")
	k.clock.Advance(time.Hour)
	check.Equal(t, lasting(a), "permission", "%q lasts after an hour")
	b, _ := k.stand("b", leader.Config{})
	k.clock.Advance(30 * time.Second)
	check.That(t, b.IsLeader(), "b does not lead")
	check.Equal(t, lasting(a)+lasting(b), "", "%q lasts when b has written")
	k.store.Link("a").Heal()
	check.OK(t, b.Stop())
	k.clock.Advance(30 * time.Second)
	check.That(t, a.IsLeader(), "a does not lead")
	check.Equal(t, lasting(a), "", "%q lasts of a leader")
}

// Settings that do not fit are a fault of a candidate that waits until others come. One that leads goes on with them.
func TestLasting_Misfit(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b := w.stand("a"), w.stand("b")
		w.at(time.Minute)
		led, waits := a, b
		if b.IsLeader() {
			led, waits = b, a
		}
		bound := func(d time.Duration) {
			conf := check.Got(w.ops.js.Stream(w.Context(), "KV_E"))(w).CachedInfo().Config
			conf.Metadata["natsleader.max_lease"] = d.String()
			check.Got(w.ops.js.UpdateStream(w.Context(), conf))(w)
		}
		bound(lease / 2)
		for _, c := range []*candidate{led, waits} {
			c.cut()
			time.Sleep(time.Second)
			c.open()
		}
		for _, at := range []time.Duration{2 * time.Minute, 10 * time.Minute} {
			w.at(at)
			check.Equal(t, lasting(led.Candidate), "", "%q lasts of the leader")
			check.Equal(t, lasting(waits.Candidate), "unfit", "%q lasts of the one that waits")
		}
		bound(lease)
		w.at(10*time.Minute + 31*time.Second)
		check.Equal(t, lasting(led.Candidate)+lasting(waits.Candidate), "", "%q lasts when they fit")
		check.That(t, led.IsLeader(), "it does not lead")
	})
}

// How long the servers are silent is shown by Silent, and the end of a candidate ends its faults.
func TestLasting_Outage(t *testing.T) {
	k := newKit(t)
	a, _ := k.stand("a", leader.Config{})
	k.clock.Advance(time.Minute)
	link := k.store.Link("a")
	link.Cut()
	k.clock.Advance(time.Minute)
	check.That(t, a.Stats().Silent > 0, "it is not silent")
	check.Equal(t, lasting(a), "", "%q lasts")
	link.Restore()
	k.clock.Advance(time.Minute)
	link.FailWrites(-1, leader.ErrFull)
	k.clock.Advance(14 * time.Second)
	check.Equal(t, lasting(a), "full", "%q lasts")
	link.Close()
	<-a.Done()
	check.Equal(t, lasting(a), "", "%q lasts after the end")
}

// cordon cordons candidates.
func (k kit) cordon(ids ...string) {
	k.store.Put(wire.CordonKey, check.Got(record.EncodeCordon(ids))(k.T))
}

// twoSeats makes a kit for an election with a spare seat.
func twoSeats(t *testing.T, opts ...leadertest.Option) kit {
	k := newKit(t, opts...)
	k.mark = seated(2)
	return k
}

// A read that was denied is over when one has succeeded, also where no candidate may take the key.
func TestLasting_CordonedRead(t *testing.T) {
	k := newKit(t)
	a, _ := k.stand("a", leader.Config{})
	b, _ := k.stand("b", leader.Config{})
	k.clock.Advance(time.Minute)
	check.That(t, a.IsLeader(), "a does not lead")
	k.cordon("b")
	k.clock.Advance(time.Second)
	check.OK(t, a.Stop())
	k.clock.Advance(time.Second)
	link := k.store.Link("b")
	link.FailReads(-1, leader.ErrPermission)
	link.Reconnect()
	k.clock.Advance(10 * time.Second)
	check.Equal(t, lasting(b), "permission", "%q lasts")
	link.Heal()
	k.clock.Advance(time.Hour)
	check.Equal(t, lasting(b), "", "%q lasts")
}

// A guard that could not be raised long ago is no fault of the candidate that is left, and is cordoned.
func TestLasting_CordonedGuard(t *testing.T) {
	k := newKit(t)
	orders := leadertest.NewStore(k.clock, leadertest.WithoutPurgeProtection())
	orders.Link("a").FailWrites(-1, leader.ErrPermission)
	a, _ := k.stand("a", leader.Config{Guards: []leader.Guard{orders.Link("a").Guard("guard")}})
	k.clock.Advance(10 * time.Second)
	check.Equal(t, lasting(a), "permission", "%q lasts")
	b, _ := k.stand("b", leader.Config{Guards: []leader.Guard{orders.Link("b").Guard("guard")}})
	k.clock.Advance(time.Minute)
	check.That(t, b.IsLeader(), "b does not lead")
	orders.Link("a").Heal()
	check.Equal(t, lasting(a), "", "%q lasts when b leads")
	k.clock.Advance(24 * time.Hour)
	check.Equal(t, lasting(a), "", "%q lasts a day later")
	k.cordon("a")
	k.clock.Advance(time.Second)
	check.OK(t, b.Stop())
	k.clock.Advance(time.Hour)
	check.Equal(t, lasting(a), "", "%q lasts")
}

// A stream whose settings make no bucket of elections is a fault of one that waits for as long as it is so, whatever the
// leader writes.
func TestLasting_StreamRefused(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b := w.stand("a"), w.stand("b")
		w.at(time.Minute)
		led, waits := a, b
		if b.IsLeader() {
			led, waits = b, a
		}
		conf := check.Got(w.ops.js.Stream(w.Context(), "KV_E"))(w).CachedInfo().Config
		conf.Metadata["natsleader.max_lease"] = "junk"
		check.Got(w.ops.js.UpdateStream(w.Context(), conf))(w)
		for _, c := range []*candidate{led, waits} {
			c.cut()
			time.Sleep(time.Second)
			c.open()
		}
		for range 100 {
			time.Sleep(15 * time.Second)
			check.Equal(w, lasting(waits.Candidate), "unfit", "%q lasts")
		}
	})
}

// A spare seat has no writes that could end a fault: reads that were denied are over with the next read.
func TestLasting_SpareSeatRead(t *testing.T) {
	k := twoSeats(t)
	a, _ := k.stand("a", leader.Config{})
	k.clock.Advance(time.Minute)
	link := k.store.Link("a")
	link.FailReads(-1, leader.ErrPermission)
	link.Reconnect()
	k.clock.Advance(30 * time.Second)
	check.Equal(t, lasting(a), "permission", "%q lasts")
	link.Heal()
	k.clock.Advance(time.Hour)
	check.That(t, a.IsLeader(), "it does not lead")
	check.Equal(t, lasting(a), "", "%q lasts an hour later")
}

// The same of a request for the settings.
func TestLasting_SpareSeatSettings(t *testing.T) {
	k := twoSeats(t)
	a, _ := k.stand("a", leader.Config{})
	k.clock.Advance(time.Minute)
	link := k.store.Link("a")
	link.FailSettings(-1, leader.ErrNoBucket)
	link.Reconnect()
	k.clock.Advance(30 * time.Second)
	check.Equal(t, lasting(a), "no bucket", "%q lasts")
	link.Heal()
	k.clock.Advance(time.Hour)
	check.Equal(t, lasting(a), "", "%q lasts an hour later")
}

// The same of a feed that was opened again.
func TestLasting_SpareSeatFeed(t *testing.T) {
	k := twoSeats(t)
	a, _ := k.stand("a", leader.Config{})
	b, _ := k.stand("b", leader.Config{})
	k.clock.Advance(time.Minute)
	check.That(t, a.IsLeader() && b.IsLeader(), "not both lead")
	k.store.Link("b").Close()
	k.clock.Advance(time.Minute)
	k.store.Link("a").EndFeeds(leader.ErrUnreachable)
	k.clock.Advance(time.Hour)
	check.That(t, a.IsLeader(), "it does not lead")
	check.Equal(t, lasting(a), "", "%q lasts an hour later")
}

// The same of a value that is no record, and was erased without a trace.
func TestLasting_SpareSeatForeign(t *testing.T) {
	k := twoSeats(t, leadertest.WithoutPurgeProtection())
	a, _ := k.stand("a", leader.Config{})
	k.clock.Advance(time.Minute)
	check.That(t, a.IsLeader(), "it does not lead")
	k.store.Put(wire.SeatKey("e", 2), []byte("junk"))
	k.clock.Advance(10 * time.Second) // it counts as held for 15 s
	check.Equal(t, lasting(a), "foreign", "%q lasts")
	check.OK(t, k.store.Erase(wire.SeatKey("e", 2)))
	k.clock.Advance(time.Hour)
	check.Equal(t, lasting(a), "", "%q lasts")
}

// A guard that was taken a day before is no fault while the next leader waits.
func TestLasting_GuardTakenLongAgo(t *testing.T) {
	k := newKit(t)
	orders := leadertest.NewStore(k.clock, leadertest.WithoutPurgeProtection())
	other := kit{t, k.clock, leadertest.NewStore(k.clock), nil}
	x := check.Got(leader.Campaign(t.Context(), other.store.Link("x"), "other", leader.Config{ID: "x", Guards: []leader.Guard{orders.Link("x").Guard("guard")}}))(t)
	t.Cleanup(func() {
		other.store.Link("x").Close()
		<-x.Done()
	})
	k.clock.Advance(time.Minute)
	a, _ := k.stand("a", leader.Config{PendingPeriod: 2 * time.Minute, Guards: []leader.Guard{orders.Link("a").Guard("guard")}})
	b, _ := k.stand("b", leader.Config{PendingPeriod: 2 * time.Minute, Guards: []leader.Guard{orders.Link("b").Guard("guard")}})
	k.clock.Advance(time.Minute)
	check.OK(t, x.Stop())
	orders.Delete("guard")
	k.clock.Advance(5 * time.Minute)
	waits, leads := a, b
	if a.IsLeader() {
		waits, leads = b, a
	}
	check.That(t, leads.IsLeader(), "none leads")
	check.Equal(t, lasting(a)+lasting(b), "", "%q lasts when the guard is free")
	k.clock.Advance(24 * time.Hour)
	_, _ = k.stand("c", leader.Config{PendingPeriod: 2 * time.Minute, Guards: []leader.Guard{orders.Link("c").Guard("guard")}})
	check.OK(t, leadertest.Resign(t.Context(), leads))
	for range 8 {
		k.clock.Advance(15 * time.Second)
		check.Equal(t, lasting(waits)+lasting(leads), "", "%q lasts")
	}
}

// Tokens that are exhausted are a fault for good, whatever writes the key.
func TestLasting_TokensExhausted(t *testing.T) {
	k := newKit(t)
	a, _ := k.stand("a", leader.Config{})
	k.clock.Advance(time.Second)
	k.store.Put("e", junkRecord("leading", "X", "15s", 1<<62, 1))
	k.clock.Advance(20 * time.Minute)
	b, _ := k.stand("b", leader.Config{})
	k.clock.Advance(20 * time.Minute)
	for i := range 4 {
		k.store.Put("e", junkRecord("leading", "X", "15s", 1<<62, uint64(2+i)))
		k.clock.Advance(5 * time.Minute)
	}
	for _, c := range []*leader.Candidate{a, b} {
		check.Deep(t, c.Stats().Lasting, []error{leader.ErrTokensExhausted})
	}
}

// The same where a guard has exhausted them.
func TestLasting_TokensExhaustedGuard(t *testing.T) {
	k, stores := guardedKit(t, 0, 1)
	guard := stores[0]
	a, _ := k.stand("a", guarding("a", guard))
	b, _ := k.stand("b", guarding("b", guard))
	k.clock.Advance(time.Second)
	value := fmt.Appendf(nil, `{"v":1,"election":"e","token":%d,"id":"junk","session":"X"}`, uint64(1)<<62)
	guard.Put(fence.DefaultGuardKey, value)
	for range 20 {
		k.clock.Advance(15 * time.Second)
		check.Equal(t, len(a.Stats().Lasting)+len(b.Stats().Lasting), 2, "%d last")
	}
}

// Settings that are refused are a fault of one that waits for as long as they are.
func TestLasting_SettingsOfOneThatWaits(t *testing.T) {
	k := newKit(t)
	k.stand("a", leader.Config{})
	b, _ := k.stand("b", leader.Config{})
	k.clock.Advance(time.Minute)
	link := k.store.Link("b")
	link.FailSettings(-1, leader.ErrIncompatibleBucket)
	link.Reconnect()
	k.clock.Advance(time.Minute)
	for range 20 {
		k.clock.Advance(15 * time.Second)
		check.Equal(t, len(b.Stats().Lasting), 1, "%d last")
	}
}

// The same of reads.
func TestLasting_ReadsOfOneThatWaits(t *testing.T) {
	k := newKit(t)
	k.stand("a", leader.Config{})
	b, _ := k.stand("b", leader.Config{})
	k.clock.Advance(time.Minute)
	link := k.store.Link("b")
	link.FailReads(-1, errors.New("other"))
	link.Reconnect()
	k.clock.Advance(time.Minute)
	for range 20 {
		k.clock.Advance(15 * time.Second)
		check.Equal(t, len(b.Stats().Lasting), 1, "%d last")
	}
}
