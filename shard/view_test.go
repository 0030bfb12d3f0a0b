package shard_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// shown returns a view as a text: how many shards each member has in each state, and what is said of the members.
func shown(v shard.View) string {
	count, lines := make(map[string]int), []string{}
	for i, o := range v.Owners {
		text := o.State.String()
		if o.ID != "" {
			text = o.ID + " " + text
		}
		if o.From != "" {
			text += " for " + o.From
		}
		if o.ID != "" && (o.Value != nil) != (o.State != shard.OwnerIsGone) || o.ID != "" && o.Token == 0 {
			text += fmt.Sprintf(" with value %q and token %d of %d", o.Value, o.Token, i)
		}
		count[text]++
	}
	for text, n := range count {
		lines = append(lines, fmt.Sprint(n, " ", text))
	}
	slices.Sort(lines)
	for _, m := range v.Members {
		text := fmt.Sprintf("%s has %d, %v", m.ID, m.Shards, m.Holder.State)
		if m.Leaves && m.Holder.State == leader.HolderLeading {
			text += ", leaves"
		}
		if m.Drained {
			text += ", drained"
		}
		if len(m.Late) > 0 {
			text += fmt.Sprintf(", works on %v", m.Late)
		}
		lines = append(lines, text)
	}
	return strings.Join(lines, "; ")
}

// viewed returns a fleet whose members publish a value, and a function that looks up what the store shows.
func viewed(t *testing.T, shards int) (*fleet, func() string) {
	f := newFleet(t, shards, leadertest.WithLatency(oneWay))
	f.config = func(id string, cfg *shard.Config) { cfg.Value = []byte("addr of " + id) }
	return f, func() string {
		t.Helper()
		v := check.Got(shard.Lookup(t.Context(), f.store, named))(t)
		check.Equal(t, v.Assigner.ID, f.store.Leader(group.AssignerKey(named)).ID, "the assigner is %s")
		for i, o := range v.Owners {
			check.That(t, o.Value == nil || string(o.Value) == "addr of "+o.ID, "%d has the value %q of %s", i, o.Value, o.ID)
		}
		return shown(v)
	}
}

// Lookup reads which members own the shards, with the values that the members publish.
func TestLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, look := viewed(t, 12)
		_, err := shard.Lookup(t.Context(), f.store, named)
		check.Is(t, err, shard.ErrNoGroup)
		a := f.start("a")
		time.Sleep(2 * time.Second)
		f.mu.Lock()
		a.hangs = time.Second
		f.mu.Unlock()
		b := f.start("b")
		time.Sleep(time.Second / 2)
		check.Equal(t, look(), "6 a works; 6 b waits for a; a has 6, leading; b has 6, leading", "%s")
		time.Sleep(time.Second)
		check.Equal(t, look(), "6 a works; 6 b works; a has 6, leading; b has 6, leading", "%s")
		a.leave()
		time.Sleep(time.Second / 2)
		check.Equal(t, look(), "6 b waits for a; 6 b works; a has 0, leading, leaves; b has 12, leading", "%s")
		time.Sleep(lease)
		check.Equal(t, look(), "12 b works; b has 12, leading", "%s")
		b.kill()
		c := f.start("c")
		time.Sleep(lease + time.Second)
		check.Equal(t, look(), "12 c works; c has 12, leading", "%s")
		f.mu.Lock()
		c.hangs = lease
		f.mu.Unlock()
		check.OK(t, shard.Drain(t.Context(), f.store, named, "c"))
		time.Sleep(time.Second / 2)
		check.Equal(t, look(), "12 none for c; c has 0, leading, drained", "%s")
		time.Sleep(time.Second)
		check.Equal(t, look(), "12 none for c; c has 0, leading, drained", "%s")
		time.Sleep(drain)
		check.Equal(t, look(), "12 none; c has 0, leading, drained, works on [0 1 2 3 4 5 6 7 8 9 10 11]", "%s")
		time.Sleep(lease)
		check.Equal(t, look(), "12 none; c has 0, leading, drained", "%s")
		f.store.Put(group.RegistryKey(named), []byte("junk"))
		_, err = shard.Lookup(t.Context(), f.store, named)
		check.Says(t, err, leader.ErrForeignRecord, "the registry of group orders is not written by a member of a group")
		link := f.store.Link("cut")
		link.Cut()
		_, err = shard.Lookup(t.Context(), link, named)
		check.Is(t, err, leader.ErrUnreachable)
		_, err = shard.Lookup(t.Context(), f.store, "my orders")
		check.Is(t, err, leader.ErrInvalidConfig)
		f.stop()
	})
}

// Observe reports each change, and that a member has lost its lease before the others know.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := viewed(t, 8)
		_, err := shard.Observe(t.Context(), f.store, "my orders")
		check.Is(t, err, leader.ErrInvalidConfig)
		link := f.store.Link("observer")
		views := check.Got(shard.Observe(t.Context(), link, named))(t)
		var newest string
		next := func(want string) {
			t.Helper()
			synctest.Wait()
			for {
				select {
				case v, open := <-views:
					newest = shown(v)
					check.Must(t, open, "the channel is closed")
					synctest.Wait()
					continue
				default:
				}
				break
			}
			check.Equal(t, newest, want, "%s")
		}
		next("")
		f.start("a")
		time.Sleep(2 * time.Second)
		next("8 a works; a has 8, leading")
		b := f.start("b")
		time.Sleep(time.Second)
		next("4 a works; 4 b works; a has 4, leading; b has 4, leading")
		later := check.Got(shard.Observe(t.Context(), f.store.Link("later"), named))(t)
		check.Equal(t, shown(<-later), newest, "%s is first for a later observer")
		link.Cut()
		b.kill()
		time.Sleep(time.Second)
		link.Restore()
		time.Sleep(lease - 2*time.Second)
		next("4 a works; 4 b works; a has 4, leading; b has 4, leading")
		time.Sleep(2 * time.Second)
		next("8 a works; a has 8, leading")
		f.stop()
		next("8 a gone; a has 8, none")
		link.Close()
		synctest.Wait()
		_, open := <-views
		check.That(t, !open, "the channel is open")
	})
}

// Shards whose owner has not called Serve for a lease are granted and not begun, from when the fault is reported until the
// work begins, or the shards move to another member.
func TestView_NotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		views := check.Got(shard.Observe(t.Context(), store.Link("observer"), named))(t)
		var newest string
		var members []*shard.Member
		shows := func(want string, idle ...*shard.Member) {
			t.Helper()
			synctest.Wait()
			for len(members) > 0 {
				select {
				case v := <-views:
					newest = shown(v)
					synctest.Wait()
					continue
				default:
				}
				break
			}
			check.Equal(t, shown(check.Got(shard.Lookup(t.Context(), store, named))(t)), want, "Lookup: %s")
			check.Equal(t, newest, want, "Observe: %s")
			for _, m := range members {
				if err := m.Ping(t.Context()); slices.Contains(idle, m) {
					check.Says(t, err, shard.ErrNotBegun, " shards: call Member.Serve")
				} else {
					check.OK(t, err)
				}
			}
		}
		join := func(id string) *shard.Member {
			m, _ := member(t, store, shard.Config{Shards: 4, ID: id, Value: []byte(id)})
			members = append(members, m)
			return m
		}
		a := join("a")
		time.Sleep(lease - 1)
		shows("4 a works; a has 4, leading")
		time.Sleep(time.Nanosecond)
		shows("4 a granted; a has 4, leading", a)
		b := join("b")
		runs(b, idle)
		time.Sleep(lease - 1)
		shows("2 a granted; 2 b works; a has 2, leading; b has 2, leading", a)
		check.OK(t, shard.Drain(t.Context(), store, named, "a"))
		time.Sleep(time.Nanosecond)
		shows("4 b works; a has 0, leading, drained; b has 4, leading")
		check.OK(t, shard.Undrain(t.Context(), store, named, "a"))
		time.Sleep(lease - 1)
		shows("2 a works; 2 b works; a has 2, leading; b has 2, leading")
		time.Sleep(time.Nanosecond)
		shows("2 a granted; 2 b works; a has 2, leading; b has 2, leading", a)
		check.OK(t, b.Stop())
		members = members[:1]
		synctest.Wait()
		shows("4 a granted; a has 4, leading", a)
		runs(a, idle)
		shows("4 a works; a has 4, leading")
	})
}

// A view has the shards of a page that was lost, without owners.
func TestObserve_LostPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, look := viewed(t, 1001)
		f.start("a")
		time.Sleep(2 * lease)
		check.Equal(t, look(), "1001 a works; a has 1001, leading", "%s")
		f.stop()
		f.store.Delete(group.PageKey(named, 1))
		check.Equal(t, look(), "1 none; 1000 a gone; a has 1000, released", "%s")
	})
}

// An observer reports that there is no group, then nothing until all is known, and nothing at rest.
func TestObserve_ReportsChangesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := viewed(t, 8)
		link := f.store.Link("observer")
		views := check.Got(shard.Observe(t.Context(), link, named))(t)
		first := check.Comes(t, "a view of no group", views)
		check.That(t, len(first.Owners) == 0 && len(first.Members) == 0, "%+v", first)
		f.start("a")
		f.start("b")
		time.Sleep(lease)
		const want = "4 a works; 4 b works; a has 4, leading; b has 4, leading"
		for _, key := range []string{group.RegistryKey(named), group.PageKey(named, 0), group.MemberKey(named, "b"), group.AssignerKey(named)} {
			ctx, cancel := context.WithCancel(t.Context())
			began := time.Now()
			slow := check.Got(shard.Observe(ctx, lens{Link: f.store.Link("slow"), key: key, later: 2 * time.Second}, named))(t)
			check.Equal(t, shown(check.Comes(t, "the first view", slow)), want, "%s is first, with a slow read of "+key)
			check.That(t, time.Since(began) < 5*time.Second, "it comes after %v", time.Since(began))
			cancel()
		}
		for len(first.Owners) == 0 || shown(first) != want {
			first = check.Comes(t, "a view of the group", views)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		check.That(t, !check.Now(views), "a view although nothing has changed")
		f.store.Delete(group.RegistryKey(named))
		for _, p := range f.live() {
			p.link.Freeze()
			p.disturb(lease)
		}
		last := check.Comes(t, "a view without the group", views)
		check.That(t, len(last.Owners) == 0 && last.Assigner.ID == f.store.Leader(group.AssignerKey(named)).ID, "%+v", last)
		for _, p := range f.live() {
			p.link.Restore()
		}
		f.stop()
	})
}
