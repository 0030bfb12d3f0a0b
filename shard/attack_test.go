package shard_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/shard"
)

// by returns the live process of a member.
func (f *fleet) by(id string) *process {
	for _, p := range f.live() {
		if p.id == id {
			return p
		}
	}
	f.t.Fatalf("no %s", id)
	return nil
}

// The registry drops a member by a prune that is applied late: after the member has begun another term and was granted
// shards, because nothing has changed the registry meanwhile. The loss of the page alone then gives its shards away at once.
func TestPruneThatIsLate_DropsNoMemberThatIsBack(t *testing.T) {
	for pass := range 5 { // writes of the assigner before the prune
		synctest.Test(t, func(t *testing.T) {
			f := settled(t, 3, 12)
			a := f.assigner()
			c := f.by("c")
			if a == c {
				t.Fatal("c is the assigner")
			}
			a.disturb(4 * lease)
			if pass > 0 {
				a.link.PassWrites(pass)
			}
			a.link.ApplyLate(1, 12*time.Second)
			c.leave()
			<-c.member.Done()
			time.Sleep(100 * time.Millisecond)
			c = f.start("c")
			for range 250 { // until the registry has dropped c although it is granted shards
				time.Sleep(50 * time.Millisecond)
				e := f.store.Entry(group.RegistryKey(named))
				r, err := group.DecodeRegistry(e.Value)
				if err == nil && len(r.Members) == 2 {
					t.Logf("pass %d: dropped at %v: %+v", pass, time.Since(f.from), r.Members)
					break
				}
				if time.Since(f.from) > 10*time.Second+18*time.Second {
					c.link.DeafFeeds()
				}
			}
			c.disturb(4 * lease)
			c.link.DeafFeeds()
			f.store.Delete(group.PageKey(named, 0))
			time.Sleep(4 * lease)
			f.stop()
		})
	}
}

// A member has the base of a registry that was lost, while it is a member of the next one, whose feed it has missed and
// which it cannot read: the reply to its registration was lost. A shard that another had with the new base moves to it.
func TestOldBase_LetsNoTokenFall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := settled(t, 3, 12)
		b := f.by("b")
		if f.assigner() == b {
			t.Fatal("b is the assigner")
		}
		for _, p := range f.live() {
			p.disturb(20 * lease)
			if p != b {
				p.link.LoseFeed(map[bool]int{true: 3, false: 2}[p == f.assigner()])
			}
		}
		b.link.LoseReplies(1)
		f.store.Delete(group.RegistryKey(named))
		time.Sleep(oneWay + oneWay/2)
		b.link.DeafFeeds()
		time.Sleep(100 * time.Millisecond)
		b.link.FailReads(100000, errNoReply)
		b.link.EndFeeds(errNoReply)
		time.Sleep(50 * time.Second)
		r, err := group.DecodeRegistry(f.store.Entry(group.RegistryKey(named)).Value)
		t.Logf("%+v %v", r.Members, err)
		b.link.LoseFeed(2)
		d := f.start("d")
		time.Sleep(10 * time.Second)
		d.leave()
		<-d.member.Done()
		time.Sleep(10 * time.Second)
		b.link.Heal()
		time.Sleep(lease)
		f.stop()
	})
}

var errNoReply = errors.New("no reply")

// A page is deleted, and one member does not notice for some time. The next assigner first reads a registry from before that
// member, and gives away nothing that it works on.
func TestStaleRegistry_LacksNoOwner(t *testing.T) {
	for stale := range 4 { // reads; the next assigner reads the page, too
		synctest.Test(t, func(t *testing.T) {
			f := settled(t, 3, 12)
			f.by("c").link.DeafFeeds()
			f.store.Delete(group.PageKey(named, 0))
			time.Sleep(100 * time.Millisecond)
			f.by("b").link.StaleReads(1 + stale)
			f.assigner().leave()
			time.Sleep(4 * lease)
			check.Equal(t, f.uneven(), "", "%s")
			f.stop()
		})
	}
}

// Members that are gone go from the registry: one that has left while shards have no owner because no member has room for
// them, and one that died and had no shards.
func TestRegistry_KeepsNoMemberThatIsGone(t *testing.T) {
	for shards, end := range map[int]func(*process){12: (*process).leave, 1: (*process).kill} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, shards)
			f.config = func(_ string, cfg *shard.Config) { cfg.Most = 2 }
			f.start("a")
			time.Sleep(time.Second)
			b := f.start("b")
			time.Sleep(lease)
			end(b)
			time.Sleep(2 * lease)
			r := check.Got(group.DecodeRegistry(f.store.Entry(group.RegistryKey(named)).Value))(t)
			check.Equal(t, len(r.Members), 1, "%d members of a group with %d shards", shards)
			f.stop()
		})
	}
}

// A registry names members whose IDs no process can have in this group, because their keys would be too long.
func TestImpossibleMember_IsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := settled(t, 3, 12)
		key := group.RegistryKey(named)
		r := check.Got(group.DecodeRegistry(f.store.Entry(key).Value))(t)
		r.Members = append([]group.Session{{ID: strings.Repeat("=", 250), Token: 5}}, r.Members...)
		f.store.Put(key, r.Encode())
		check.Equal(t, len(check.Got(shard.Lookup(t.Context(), f.store, named))(t).Members), 3, "%d members are shown")
		f.start("d")
		time.Sleep(lease)
		check.Equal(t, f.uneven(), "", "%s")
		check.Equal(t, len(check.Got(group.DecodeRegistry(f.store.Entry(key).Value))(t).Members), 4, "%d members")
		f.stop()
	})
}
