package shard_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// owner returns the ID of the member to which a shard is granted.
func owner(t *testing.T, f *fleet, n int) string {
	t.Helper()
	return check.Got(shard.Lookup(t.Context(), f.store, named))(t).Owners[n].ID
}

// ownedBy returns a shard that is granted to a member.
func ownedBy(t *testing.T, f *fleet, id string) int {
	t.Helper()
	for n, o := range check.Got(shard.Lookup(t.Context(), f.store, named))(t).Owners {
		if o.ID == id {
			return n
		}
	}
	t.Fatalf("%s has no shard", id)
	return 0
}

// asked returns what operators have asked for and is not done.
func asked(t *testing.T, f *fleet) (drained []string, moves int) {
	t.Helper()
	r := check.Got(group.DecodeRegistry(f.store.Entry(group.RegistryKey(named)).Value))(t)
	return r.Drained, len(r.Asked)
}

// A shard moves to the member that is asked for when its work has ended, and another one comes back for it. A request that
// cannot be met is dropped.
func TestMove_Exchanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 8, leadertest.WithLatency(oneWay))
		check.Is(t, shard.Move(t.Context(), f.store, named, 0, "a"), shard.ErrNoGroup)
		a := f.start("a")
		time.Sleep(time.Second)
		b := f.start("b")
		time.Sleep(time.Second)
		check.Is(t, shard.Move(t.Context(), f.store, named, 0, "c"), shard.ErrNoMember)
		check.Says(t, shard.Move(t.Context(), f.store, named, 8, "a"), leader.ErrInvalidConfig, "shard 8 of group orders: choose one from 0 to 7")
		check.Is(t, shard.Move(t.Context(), f.store, named, -1, "a"), leader.ErrInvalidConfig)
		n := ownedBy(t, f, "a")
		begins := f.grants()
		f.mu.Lock()
		a.hangs = time.Second
		f.mu.Unlock()
		check.OK(t, shard.Move(t.Context(), f.store, named, n, "b"))
		time.Sleep(time.Second / 2)
		check.Equal(t, owner(t, f, n), "b", "%s owns it")
		time.Sleep(3 * time.Second)
		check.Equal(t, f.grants()-begins, 2, "%d moves")
		check.Equal(t, f.uneven(), "", "%s")
		check.Equal(t, b.owns(), 4, "b owns %d")
		time.Sleep(4 * lease)
		check.Equal(t, f.grants()-begins, 2, "%d moves at rest")
		check.Equal(t, owner(t, f, n), "b", "%s owns it")

		check.OK(t, shard.Drain(t.Context(), f.store, named, "b"))
		time.Sleep(time.Second)
		a.link.FailWrites(1, leader.ErrUnreachable)                  // of the registry
		check.OK(t, shard.Move(t.Context(), f.store, named, n, "b")) // b takes none
		time.Sleep(2 * time.Second)
		_, moves := asked(t, f)
		check.Equal(t, moves, 0, "%d requests are kept")
		check.Equal(t, owner(t, f, n), "a", "%s owns it")
		f.stop()
	})
}

// A drained member has no shards, also in its next term, until it is undrained or its process has ended.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 8, leadertest.WithLatency(oneWay))
		f.config = func(_ string, cfg *shard.Config) { cfg.Hold = 30 * time.Second }
		check.Is(t, shard.Drain(t.Context(), f.store, named, "a"), shard.ErrNoGroup)
		a := f.start("a")
		time.Sleep(time.Second)
		b := f.start("b")
		time.Sleep(time.Second)
		has := func(p *process, want int) {
			t.Helper()
			time.Sleep(time.Second)
			check.Equal(t, p.owns(), want, "it owns %d")
			_, without := f.owned()
			check.Equal(t, without, 0, "%d shards without an owner")
		}
		has(b, 4)
		check.Is(t, shard.Drain(t.Context(), f.store, named, "c"), shard.ErrNoMember)
		a.link.FailWrites(1, leader.ErrUnreachable) // of the page
		for range 2 {
			check.OK(t, shard.Drain(t.Context(), f.store, named, "b"))
			time.Sleep(time.Second)
			has(b, 0)
		}
		check.OK(t, shard.Undrain(t.Context(), f.store, named, "b"))
		has(b, 4)
		check.OK(t, shard.Drain(t.Context(), f.store, named, "b"))
		has(b, 0)
		b.link.Cut()
		time.Sleep(lease - time.Second) // its term is over, and the registry still has it
		a.link.Cut()                    // so that the assigner does not remove b before it is back
		b.link.Restore()
		time.Sleep(lease / 3)
		a.link.Restore()
		time.Sleep(lease)
		has(b, 0)
		b.link.Cut()
		time.Sleep(lease - time.Second) // its term is over, and nobody has its key
		check.OK(t, shard.Undrain(t.Context(), f.store, named, "b"))
		b.link.Restore()
		time.Sleep(lease)
		has(b, 4)
		check.OK(t, shard.Drain(t.Context(), f.store, named, "b"))
		has(b, 0)
		b.link.Cut()
		time.Sleep(2 * lease)
		check.Is(t, shard.Undrain(t.Context(), f.store, named, "b"), shard.ErrNoMember)
		b.link.Restore()
		time.Sleep(lease)
		has(b, 0)
		drained, _ := asked(t, f)
		check.Deep(t, drained, []string{"b"})
		a.link.Cut() // so that the assigner does not remove b before it is back
		b.leave()
		time.Sleep(time.Second)
		b = f.start("b")
		time.Sleep(time.Second)
		a.link.Restore()
		has(b, 4)
		drained, _ = asked(t, f)
		check.Equal(t, len(drained), 0, "%d members are drained")

		// The mark of a member that is gone goes, too.
		check.OK(t, shard.Drain(t.Context(), f.store, named, "b"))
		b.kill()
		time.Sleep(4 * lease)
		drained, _ = asked(t, f)
		check.Equal(t, len(drained), 0, "%d members are drained")

		// Nothing waits for a member that is drained after its death.
		b = f.start("b")
		has(b, 4)
		b.kill()
		time.Sleep(lease + time.Second)
		check.Equal(t, a.owns(), 4, "a owns %d, and the others wait")
		check.OK(t, shard.Drain(t.Context(), f.store, named, "b"))
		has(a, 8)
		f.stop()
	})
}

// While the registry cannot be read, Hold may end: the assigner rests until it can. (An assigner that wakes without end lets
// no time pass in the bubble, so the test would not end.)
func TestHold_EndsWithoutRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 8, leadertest.WithLatency(oneWay))
		f.config = func(_ string, cfg *shard.Config) { cfg.Hold = 30 * time.Second }
		a := f.start("a")
		time.Sleep(time.Second)
		b := f.start("b")
		time.Sleep(time.Second)
		b.kill()
		time.Sleep(lease + 5*time.Second)
		registry := f.store.Entry(group.RegistryKey(named)).Value
		f.store.Put(group.RegistryKey(named), []byte(`{"v":2}`))
		time.Sleep(30 * time.Second)
		check.Equal(t, a.owns(), 4, "a owns %d without a registry")
		f.store.Put(group.RegistryKey(named), registry)
		time.Sleep(time.Second)
		check.Equal(t, a.owns(), 8, "a owns %d")
		f.stop()
	})
}

// Shards wait for a process that is back, but not longer than one lease if it cannot register.
func TestHold_EndsWithoutRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 8, leadertest.WithLatency(oneWay))
		f.config = func(_ string, cfg *shard.Config) { cfg.Hold = time.Minute }
		a := f.start("a")
		time.Sleep(time.Second)
		b := f.start("b")
		time.Sleep(time.Second)
		value := f.store.Holder(group.MemberKey(named, "b")).Value
		b.kill()
		time.Sleep(lease + 5*time.Second)
		c := check.Got(leader.Campaign(t.Context(), f.store, group.MemberKey(named, "b"), leader.Config{ID: "b", Value: value}))(t)
		time.Sleep(lease)
		check.Equal(t, a.owns(), 4, "a owns %d")
		time.Sleep(2 * time.Second)
		check.Equal(t, a.owns(), 8, "a owns %d")
		check.OK(t, c.Stop())
		f.stop()
	})
}

// A request that another write was ahead of is tried again, and one that fails is an error. To drain a member twice is to drain
// it once.
func TestDrain_IsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2)
		a := f.start("a")
		time.Sleep(2 * time.Second) // the second shard is granted after 0.8 s
		link := f.store.Link("operator")
		link.Refuse(2, true)
		check.OK(t, shard.Drain(t.Context(), link, named, "a"))
		check.Equal(t, link.Requests().Writes, 3, "%d writes")
		check.OK(t, shard.Drain(t.Context(), link, named, "a"))
		drained, _ := asked(t, f)
		check.Deep(t, drained, []string{"a"})
		link.FailWrites(1, leader.ErrPermission)
		check.Is(t, shard.Undrain(t.Context(), link, named, "a"), leader.ErrPermission)
		link.FailReads(1, leader.ErrPermission)
		check.Is(t, shard.Undrain(t.Context(), link, named, "a"), leader.ErrPermission)
		time.Sleep(time.Second)
		s := a.member.Stats()
		check.That(t, s.Owned == 0 && s.Unowned == 2 && s.SinceRebalance == 2200*time.Millisecond, "%+v", s)
		check.Deep(t, s.Moves, map[shard.Reason]int{shard.ReasonUnowned: 2}) // none has moved to another member
		check.OK(t, shard.Undrain(t.Context(), link, named, "a"))
		time.Sleep(time.Second)
		check.Deep(t, a.member.Stats().Moves, map[shard.Reason]int{shard.ReasonUnowned: 4})
		var rebalanced []string
		for e := range a.member.Events(check.Ended()) {
			if r, ok := e.(shard.Rebalanced); ok {
				rebalanced = append(rebalanced, r.String())
			}
		}
		check.Deep(t, rebalanced, slices.Repeat([]string{"rebalanced unowned=1"}, 4)) // it starts cold again, as no other member takes shards
		f.stop()
	})
}

// If another write of the map was ahead of the assigner's, it makes its plan again when it receives that one, and does not pause.
func TestDrain_BesideAnotherWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 8, leadertest.WithLatency(oneWay))
		f.start("a")
		time.Sleep(time.Second)
		b := f.start("b")
		time.Sleep(time.Second)
		check.Equal(t, b.owns(), 4, "it owns %d")
		key := group.PageKey(named, 0)
		time.AfterFunc(4*oneWay+oneWay/2, func() { // the assigner's write is under way
			f.store.Put(key, f.store.Entry(key).Value)
		})
		check.OK(t, shard.Drain(t.Context(), f.store, named, "b"))
		begun := time.Now()
		for b.owns() > 0 {
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		check.That(t, time.Since(begun) < 10*oneWay, "it is drained after %v", time.Since(begun))
		f.stop()
	})
}

// A shard that was asked for has moved because of that, and the one that comes back for it to spread the shards evenly.
func TestMove_HasItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 4)
		a := f.start("a")
		time.Sleep(time.Second)
		f.start("b")
		time.Sleep(time.Second)
		check.OK(t, shard.Move(t.Context(), f.store, named, ownedBy(t, f, "a"), "b"))
		time.Sleep(time.Second)
		check.Deep(t, a.member.Stats().Moves, map[shard.Reason]int{shard.ReasonUnowned: 4, shard.ReasonUneven: 3, shard.ReasonAsked: 1})
		f.stop()
	})
}

// Operators can ask for a thousand shards at once. One more is refused, and changes nothing.
func TestMove_TooManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		r := group.Registry{Layout: group.Layout{Shards: 2000, PageSize: 1000}, Base: 1, Members: []group.Session{{ID: "a", Token: 1}}, Asked: map[int]string{}}
		for i := range group.MaxAsked - 1 {
			r.Asked[i] = "a"
		}
		store.Put(group.RegistryKey(named), r.Encode())
		check.OK(t, shard.Move(t.Context(), store, named, group.MaxAsked-1, "a"))
		revision := store.Entry(group.RegistryKey(named)).Revision
		check.Says(t, shard.Move(t.Context(), store, named, group.MaxAsked, "a"), leader.ErrRequestRefused, "1000 shards of group orders are to move already: wait until some have moved")
		check.Equal(t, store.Entry(group.RegistryKey(named)).Revision, revision, "%d is the revision")
	})
}
