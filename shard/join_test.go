package shard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/seats"
	"github.com/natsleader/natsleader/shard"
)

// logs keeps what members log.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// count returns how many lines contain a text.
func (l *logs) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// member joins a group with a link of its own, until the test ends or stops it.
func member(t *testing.T, store *leadertest.Store, cfg shard.Config) (*shard.Member, *leadertest.Link) {
	t.Helper()
	link := store.Link(fmt.Sprintf("%s-%v", cfg.ID, time.Now().UnixNano()))
	cfg.LeaseDuration = lease
	m := check.Got(shard.Join(context.Background(), link, named, cfg))(t)
	t.Cleanup(func() { _ = m.Stop() })
	return m, link
}

// idle is work that lasts as long as its context.
func idle(lead context.Context, _ *shard.Shard) { <-lead.Done() }

// runs lets a member work on its shards.
func runs(m *shard.Member, work func(context.Context, *shard.Shard)) {
	go func() { _ = m.Serve(work) }()
}

// none is the work of a member that is to get no shards.
func none(t *testing.T) func(context.Context, *shard.Shard) {
	return func(_ context.Context, s *shard.Shard) { t.Errorf("the work on shard %d begins", s.Number()) }
}

// held is a shard whose work lasts until the test calls Release, or ends.
type held struct {
	*shard.Shard
	Release context.CancelFunc
}

// hold returns the shards that a member works on, as they begin.
func hold(t *testing.T, m *shard.Member) <-chan held {
	begun := make(chan held, 10)
	runs(m, func(_ context.Context, s *shard.Shard) {
		released, release := context.WithCancel(t.Context())
		begun <- held{s, release}
		<-released.Done()
	})
	return begun
}

// left waits until a member has left. The test fails if that takes longer.
func left(t *testing.T, m *shard.Member, within time.Duration) {
	t.Helper()
	select {
	case <-m.Done():
	case <-time.After(within + time.Nanosecond):
		t.Errorf("the member has not left within %v", within)
	}
}

// owned returns how many shards each process works on, by ID, and how many shards have no owner.
func (f *fleet) owned() (has map[string]int, without int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	has, without = map[string]int{}, f.shards
	for i := range f.ledger {
		for _, w := range f.ledger[i].works {
			if w.s.Context().Err() == nil {
				has[w.p.id]++
				without--
			}
		}
	}
	return has, without
}

// granted returns how many grants there were, and who has the newest of each shard.
func (f *fleet) granted() (grants int, to []*process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.ledger {
		to = append(to, e.by)
	}
	return f.begins, to
}

// grants returns how many grants there were.
func (f *fleet) grants() int {
	n, _ := f.granted()
	return n
}

// Join rejects settings that cannot work. The error names the setting, its bound, and what to do.
func TestJoin_RejectsSettings(t *testing.T) {
	long := strings.Repeat("x", 256)
	for name, c := range map[string]struct {
		group string
		cfg   shard.Config
		want  error
		text  string
	}{
		"no shards":       {named, shard.Config{}, leader.ErrInvalidConfig, "Shards is 0: set it from 1 to 100000"},
		"many shards":     {named, shard.Config{Shards: 100_001}, leader.ErrInvalidConfig, "Shards is 100001: set it from 1 to 100000"},
		"weight":          {named, shard.Config{Shards: 1, Weight: -1}, leader.ErrInvalidConfig, "Weight is -1: set it from 1 to 1000000, or 0 for the default"},
		"great weight":    {named, shard.Config{Shards: 1, Weight: 1_000_001}, leader.ErrInvalidConfig, "Weight is 1000001: set"},
		"most":            {named, shard.Config{Shards: 1, Most: -1}, leader.ErrInvalidConfig, "Most is -1: set 0 for any number"},
		"hold":            {named, shard.Config{Shards: 1, Hold: -1}, leader.ErrInvalidConfig, "Hold is -1ns: set it from 0 to"},
		"long hold":       {named, shard.Config{Shards: 1, Hold: group.MaxHold + 1}, leader.ErrInvalidConfig, "Hold is"},
		"value":           {named, shard.Config{Shards: 1, Value: make([]byte, 4097)}, leader.ErrValueTooLarge, "Value of 4097 bytes is more than 4096"},
		"long ID":         {named, shard.Config{Shards: 1, ID: long + "x"}, leader.ErrInvalidConfig, "ID of 257 bytes is more than 256"},
		"ID in key":       {named, shard.Config{Shards: 1, ID: strings.Repeat(".", 200)}, leader.ErrInvalidConfig, "make a key of 620 bytes, which is more than 512: shorten one of them"},
		"ID of control":   {named, shard.Config{Shards: 1, ID: "a\nb"}, leader.ErrInvalidConfig, "control character"},
		"no name":         {"", shard.Config{Shards: 1}, leader.ErrInvalidConfig, `the name of group "" may contain only`},
		"name":            {"my orders", shard.Config{Shards: 1}, leader.ErrInvalidConfig, `the name of group "my orders" may contain only letters`},
		"long name":       {long + long, shard.Config{Shards: 1}, leader.ErrInvalidConfig, "shorten one of them"},
		"stop in a drain": {named, shard.Config{Shards: 1, GracePeriod: 9 * time.Second, StopTimeout: 8 * time.Second}, leader.ErrInvalidConfig, "StopTimeout 8s is not more than GracePeriod 9s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := leadertest.NewStore(nil)
				m, err := shard.Join(t.Context(), store, c.group, c.cfg)
				check.Says(t, err, c.want, c.text)
				check.That(t, m == nil, "a member beside the error")
				time.Sleep(time.Minute)
				check.Equal(t, store.Requests().Total(), 0, "%d requests")
			})
		})
	}
	check.Is(t, check.Err(shard.Join(t.Context(), nil, named, shard.Config{Shards: 1})), leader.ErrInvalidConfig)
}

// Members without an ID choose different ones.
func TestJoin_ChoosesID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 8)
		f.start("")
		f.start("")
		time.Sleep(lease)
		check.Equal(t, f.uneven(), "", "%s")
		f.stop()
	})
}

// The cordon of the bucket does not concern the members of a group: theirs is shard.Drain.
func TestJoin_Cordoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		store.Put(wire.CordonKey, check.Got(record.EncodeCordon([]string{"a"}))(t))
		m, _ := member(t, store, shard.Config{Shards: 4, ID: "a"})
		time.Sleep(lease)
		for _, key := range []string{group.AssignerKey(named), group.MemberKey(named, "a")} {
			check.Equal(t, store.Leader(key).ID, "a", "%q leads "+key)
		}
		check.OK(t, m.Stop())
	})
}

// A member with another number of shards ends. Others go on.
func TestShardsDiffer_EndsTheMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 12)
		f.start("a")
		f.start("b")
		time.Sleep(lease)
		begins := f.grants()
		m, _ := member(t, f.store, shard.Config{Shards: 13, ID: "c"})
		check.Says(t, m.Serve(none(t)), shard.ErrShardsDiffer, "Shards is 13, and group orders has 12")
		time.Sleep(4 * lease)
		check.Equal(t, f.uneven(), "", "%s")
		check.Equal(t, f.grants(), begins, "%d grants")
		f.stop()
		f.store.Delete(group.RegistryKey(named)) // the pages have the number as well
		m, _ = member(t, f.store, shard.Config{Shards: 13, ID: "c"})
		left(t, m, time.Second)
		check.Says(t, m.Err(), shard.ErrShardsDiffer, "Shards is 13, and group orders has 12")
	})
}

// A group that this program does not know is left alone, and reported once. Junk is not, and what was deleted is nothing.
func TestUnknownGroup_IsLeftAlone(t *testing.T) {
	r := group.Registry{Layout: group.Layout{Shards: 4, PageSize: 500}, Base: 1, Members: []group.Session{{ID: "z", Token: 1}}}
	registry, page := group.RegistryKey(named), group.PageKey(named, 0)
	for name, c := range map[string]struct {
		key     string
		value   []byte
		deleted bool
		joins   bool
		line    string // "": none
	}{
		"another page size": {registry, r.Encode(), false, false, "orders.shard.map at revision 1: does not join the group: upgrade this program: pages of 500 shards, not 1000"},
		"later registry":    {registry, []byte(`{"v":2}`), false, false, "orders.shard.map at revision 1: does not join the group: upgrade this program: "},
		"later page":        {page, []byte(`{"v":2}`), false, false, "orders.shard.page.0 at revision 1: does not join the group: upgrade this program: "},
		"junk":              {registry, []byte("junk"), false, true, "orders.shard.map at revision 1: replaces a value that is no registry of a group: not written by a member of a group: "},
		"deleted":           {registry, []byte("junk"), true, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, l := leadertest.NewStore(nil), new(logs)
				revision := store.Put(c.key, c.value)
				if c.deleted {
					revision = store.Delete(c.key)
				}
				m, _ := member(t, store, shard.Config{Shards: 4, ID: "a", Logger: l.logger()})
				runs(m, idle)
				time.Sleep(4 * lease)
				check.Equal(t, store.Entry(registry).Revision > revision, c.joins, "there is a new registry: %v")
				check.Equal(t, m.Stats().Owned == 4, c.joins, "it has its shards: %v")
				if c.line == "" {
					check.Equal(t, l.count("msg=faulted"), 0, "%d faults")
				} else {
					check.Equal(t, l.count(c.line), 1, "it is logged %d times")
				}
				check.OK(t, m.Stop())
			})
		})
	}
}

// In an outage work that has ended is not reported as work that goes on, also not by a stop.
func TestOutage_IsNoWorkThatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(logs)
		m, link := member(t, leadertest.NewStore(nil), shard.Config{Shards: 4, ID: "a", Logger: l.logger()})
		runs(m, idle)
		time.Sleep(lease)
		link.Freeze()
		time.Sleep(4 * lease)
		check.Equal(t, l.count("not released"), 0, "it is logged %d times")
		link.Restore()
		time.Sleep(lease)
		check.Equal(t, m.Stats().Owned, 4, "it owns %d")
		link.Freeze()
		check.Is(t, m.Stop(), leader.ErrUnreachable)
		check.Equal(t, l.count("not released"), 0, "after a stop it is logged %d times")
	})
}

// A store of package seats is none for a group: two members of one ID would lead.
func TestJoin_RejectsSeats(t *testing.T) {
	_, err := shard.Join(t.Context(), seats.Of(leadertest.NewStore(nil), 2), named, shard.Config{Shards: 4})
	check.Says(t, err, leader.ErrInvalidConfig, "pass the bucket itself")
}

// A shard that waits for Serve has no events of its work, does not count as owned, and moves at once.
func TestServe_NotCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 4)
		m, _ := member(t, f.store, shard.Config{Shards: 4, ID: "a"})
		events := m.Events(t.Context())
		time.Sleep(lease)
		s := m.Stats()
		check.That(t, s.Owned == 0 && s.Granted == 4, "%d of %d", s.Owned, s.Granted)
		b := f.start("b")
		time.Sleep(time.Second)
		check.Equal(t, b.owns(), 2, "b owns %d")
		f.stop()
		check.OK(t, m.Stop())
		for e := range events {
			switch e.(type) {
			case shard.Started, shard.Revoked, shard.Released:
				t.Error(e)
			case shard.Granted, shard.Rebalanced, shard.Faulted:
			}
		}
	})
}

// A bucket that is restored from a backup lets no token fall, as long as the assigner remembers, as a member or from before.
func TestRollback_LetsNoTokenFall(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := settled(t, 3, 12)
			backup := f.store.Snapshot()
			for range 3 {
				d := f.start("d")
				time.Sleep(lease)
				d.leave()
				time.Sleep(lease)
			}
			for _, p := range f.live() {
				p.disturb(20 * lease)
			}
			a := f.assigner()
			f.store.Rollback(backup)
			if leaves {
				a.leave()
			}
			time.Sleep(4 * lease)
			check.Equal(t, f.uneven(), "", "%s")
			f.start("e")
			time.Sleep(4 * lease)
			check.Equal(t, f.uneven(), "", "%s")
			f.stop()
		})
	}
}

// A group with as many members as it can have takes no more.
func TestFullGroup_TakesNoMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, l := leadertest.NewStore(nil), new(logs)
		r := group.Registry{Layout: group.Layout{Shards: 4, PageSize: 1000}, Base: 1}
		for i := range group.MaxMembers {
			r.Members = append(r.Members, group.Session{ID: fmt.Sprint("m", i), Token: 1})
		}
		revision := store.Put(group.RegistryKey(named), r.Encode())
		_ = check.Got(leader.Campaign(t.Context(), store, group.AssignerKey(named), leader.Config{ID: "m0"}))(t)
		time.Sleep(time.Second)
		m, _ := member(t, store, shard.Config{Shards: 4, ID: "a", Logger: l.logger()})
		time.Sleep(lease)
		check.Equal(t, store.Entry(group.RegistryKey(named)).Revision, revision, "%d is the revision of the registry")
		check.OK(t, m.Stop())
		check.Equal(t, l.count("waits until another member has left: group orders has 2000 members, which is the most"), 1, "it is logged %d times")
	})
}

// A bucket that drops the map ends the member.
func TestBucketWithTTL_EndsTheMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := member(t, leadertest.NewStore(nil, leadertest.WithTTL(time.Hour)), shard.Config{Shards: 4, ID: "a"})
		time.AfterFunc(lease, func() { _ = m.Stop() })
		check.Says(t, m.Serve(none(t)), leader.ErrIncompatibleBucket, "a group needs a bucket without a TTL, and this one has 1h0m0s")
	})
}

// Of two members with one ID the second gets no shards while the first lives, and logs that. After a crash the next one
// waits for the lease only.
func TestTwoMembersOfOneID(t *testing.T) {
	for _, crash := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var log logs
			f := newFleet(t, 8)
			f.config = func(_ string, cfg *shard.Config) { cfg.Logger = log.logger() }
			first := f.start("a")
			time.Sleep(lease)
			const line = `level=WARN msg=faulted group=orders id=a err="waits for another member of the same ID`
			if crash {
				first.kill()
			}
			second := f.start("a")
			time.Sleep(2*lease + time.Second)
			check.Equal(t, log.count(line), map[bool]int{false: 1}[crash], "%d warnings after two leases")
			time.Sleep(time.Minute)
			if !crash {
				check.Equal(t, f.grants(), 8, "%d grants")
				check.Equal(t, log.count(line), 2, "%d warnings a minute later")
				first.leave()
				time.Sleep(2 * lease)
			} else {
				check.Equal(t, log.count(line), 0, "%d warnings")
			}
			_, to := f.granted()
			for i, p := range to {
				check.That(t, p == second, "shard %d was not granted to the second member", i)
			}
			f.stop()
		})
	}
}

// Pages and the registry that are deleted or replaced are made anew. No shard has two owners meanwhile, which the fleet
// checks, and the members share the shards again, also with a new one.
func TestDamage_IsRepaired(t *testing.T) {
	page, registry := group.PageKey(named, 0), group.RegistryKey(named)
	for name, do := range map[string]func(*fleet) error{
		"page deleted": func(f *fleet) error { f.store.Delete(page); return nil },
		"page purged":  func(f *fleet) error { return f.store.Purge(page) },
		"page of junk": func(f *fleet) error { f.store.Put(page, []byte("junk")); return nil },
		"page empty":   func(f *fleet) error { f.store.Put(page, nil); return nil },
		"page of others": func(f *fleet) error {
			f.store.Put(page, group.Layout{Shards: 7, PageSize: 1000}.EncodePage(0, 1, make([]group.Grant, 7)))
			return nil
		},
		"page erased":      func(f *fleet) error { return f.store.Erase(page) },
		"registry erased":  func(f *fleet) error { return f.store.Erase(registry) },
		"bucket wiped":     func(f *fleet) error { return f.store.Wipe() },
		"registry deleted": func(f *fleet) error { f.store.Delete(registry); return nil },
		"registry purged":  func(f *fleet) error { return f.store.Purge(registry) },
		"registry of junk": func(f *fleet) error { f.store.Put(registry, []byte(`{"v":1}`)); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log logs
				f := newFleet(t, 12, leadertest.WithoutPurgeProtection(), leadertest.WithLatency(oneWay))
				f.config = func(_ string, cfg *shard.Config) { cfg.Logger = log.logger() }
				for _, id := range []string{"a", "b", "c"} {
					f.start(id)
					time.Sleep(time.Second)
				}
				time.Sleep(lease)
				check.OK(t, do(f))
				time.Sleep(2 * lease)
				if strings.Contains(name, "erased") || strings.Contains(name, "wiped") { // the next read finds it
					time.Sleep(5 * lease)
				}
				check.Equal(t, f.uneven(), "", "after the damage: %s")
				f.start("d")
				time.Sleep(2 * lease)
				check.Equal(t, f.uneven(), "", "with one more: %s")
				n, logged := log.count(": replaces a value that is no"), strings.Contains(name, "junk") || strings.Contains(name, "others")
				check.That(t, (n > 0) == logged && n <= 3, "%d warnings", n)
				f.stop()
			})
		})
	}
}

// A page or a registry of a later format is left alone, and reported once. The members go on with what they have, and
// share the shards again when it is gone.
func TestLaterFormat_IsLeftAlone(t *testing.T) {
	for key, line := range map[string]string{
		group.PageKey(named, 0):  `: moves no shards: upgrade this program: `,
		group.RegistryKey(named): `: does not join the group: upgrade this program: `,
	} {
		synctest.Test(t, func(t *testing.T) {
			var log logs
			f := newFleet(t, 12, leadertest.WithLatency(oneWay))
			f.config = func(id string, cfg *shard.Config) { cfg.Logger = log.logger() }
			f.start("a")
			f.start("b")
			time.Sleep(lease)
			begins, good := f.grants(), f.store.Entry(key).Value
			revision := f.store.Put(key, []byte(`{"v":2}`))
			time.Sleep(2 * lease)
			f.start("c")
			time.Sleep(2 * lease)
			check.Equal(t, f.store.Entry(key).Revision, revision, "%d is the revision")
			check.Equal(t, f.grants(), begins, "%d grants")
			_, without := f.owned()
			check.Equal(t, without, 0, "%d without an owner")
			check.That(t, log.count(line) >= 1 && log.count(line) <= 3, "%d reports", log.count(line))
			f.store.Put(key, good)
			time.Sleep(3 * lease)
			check.Equal(t, f.uneven(), "", "%s")
			f.stop()
		})
	}
}

// A member that is back under its ID within Hold gets its shards back, and nothing else moves. After Hold they move.
func TestHold_KeepsThePlace(t *testing.T) {
	for _, c := range []struct {
		end  func(*process)
		down time.Duration
		back bool
	}{
		{(*process).leave, time.Second, true},
		{(*process).leave, 29 * time.Second, true},
		{(*process).leave, 40 * time.Second, false},
		{(*process).kill, time.Second, true},
		{(*process).kill, lease + 25*time.Second, true},
		{(*process).kill, lease + 40*time.Second, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, 12, leadertest.WithLatency(oneWay))
			f.config = func(_ string, cfg *shard.Config) { cfg.Hold = 30 * time.Second }
			for _, id := range []string{"a", "b", "c"} {
				f.start(id)
				time.Sleep(time.Second)
			}
			time.Sleep(lease)
			check.Equal(t, f.uneven(), "", "%s")
			begins, before := f.granted()
			p := f.live()[1]
			c.end(p)
			time.Sleep(c.down)
			if !c.back {
				check.Equal(t, f.grants()-begins, 4, "%d moves after Hold")
				check.Equal(t, f.uneven(), "", "%s")
			} else {
				check.Equal(t, f.grants()-begins, 0, "%d moves within Hold")
				f.start(p.id)
				time.Sleep(2 * lease)
				check.Equal(t, f.grants()-begins, 4, "%d grants")
				_, after := f.granted()
				for i, q := range after {
					check.Equal(t, q.id, before[i].id, "%s has shard %d", i)
				}
			}
			f.stop()
		})
	}
}

// Shares follow Weight, and Most bounds them. Shards for which there is no room have no owner until there is.
func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 12)
		f.config = func(id string, cfg *shard.Config) {
			switch id {
			case "heavy":
				cfg.Weight = 2
			case "few":
				cfg.Most = 3
			}
		}
		share := func(want map[string]int, without int) {
			t.Helper()
			time.Sleep(2 * lease)
			has, free := f.owned()
			check.Deep(t, has, want)
			check.Equal(t, free, without, "%d have no owner")
		}
		f.start("few")
		share(map[string]int{"few": 3}, 9)
		one := f.start("one")
		share(map[string]int{"few": 3, "one": 9}, 0)
		f.start("heavy")
		share(map[string]int{"few": 3, "one": 3, "heavy": 6}, 0)
		one.leave()
		share(map[string]int{"few": 3, "heavy": 9}, 0)
		f.stop()
	})
}

// Work that ends although its shard is still granted begins again after 5 s.
func TestBodyThatReturns_BeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(logs)
		m, _ := member(t, leadertest.NewStore(nil), shard.Config{Shards: 1, ID: "a", Logger: l.logger()})
		time.AfterFunc(31*time.Second, func() { _ = m.Stop() })
		var begins []time.Duration
		from, token := time.Now(), uint64(0)
		before := check.Ended()
		check.OK(t, m.Serve(func(lead context.Context, s *shard.Shard) {
			if len(begins) == 0 {
				from, token = time.Now(), s.Token()
			}
			check.Equal(t, s.Token(), token, "%d is the token")
			begins = append(begins, time.Since(from).Round(time.Second))
			check.Is(t, context.Cause(before), context.Canceled)
			if before = lead; len(begins) == 10 {
				<-lead.Done()
			}
		}))
		check.Equal(t, fmt.Sprint(begins), "[0s 5s 10s 15s 20s 25s 30s]", "%s")
		check.Equal(t, l.count("has returned within 5s, 3 times in a row"), 1, "%d warnings")
	})
}

// Work that returns after more than 5 s now and then is no fault, however often.
func TestBodyThatReturns_Later(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(logs)
		m, _ := member(t, leadertest.NewStore(nil), shard.Config{Shards: 1, ID: "a", Logger: l.logger()})
		time.AfterFunc(10*lease, func() { _ = m.Stop() })
		n := 0
		check.OK(t, m.Serve(func(context.Context, *shard.Shard) {
			if n++; n%3 == 0 {
				time.Sleep(5 * time.Second)
			}
		}))
		check.That(t, n > 6 && l.count("in a row") == 0, "%d calls, %d warnings", n, l.count("in a row"))
	})
}

// Work that does not end keeps its shard, and only that one, for the drain. Then others have it, and the log names it.
func TestBodyThatDoesNotEnd_IsGivenUp(t *testing.T) {
	for _, c := range []struct {
		name           string
		drain, expects time.Duration
	}{{"GracePeriod", 5 * time.Second, 5 * time.Second}, {"one lease", 0, lease}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log logs
				store := leadertest.NewStore(nil)
				hangs := make(chan struct{})
				m, _ := member(t, store, shard.Config{Shards: 8, ID: "a", GracePeriod: c.drain, Logger: log.logger()})
				var causes sync.Map
				runs(m, func(lead context.Context, s *shard.Shard) {
					<-lead.Done()
					causes.Store(s.Number(), context.Cause(lead))
					<-hangs
				})
				time.Sleep(lease)
				from := time.Now()
				other, _ := member(t, store, shard.Config{Shards: 8, ID: "b"})
				begun := hold(t, other)
				for range 4 {
					s := <-begun
					cause, _ := causes.Load(s.Number())
					check.Is(t, cause.(error), shard.ErrMoved)
					d := time.Since(from)
					check.That(t, d >= c.expects && d < c.expects+2*time.Second, "shard %d begins after %v", s.Number(), d)
					synctest.Wait()
					check.Equal(t, log.count(fmt.Sprintf("return from the function of Serve when the context of the shard has ended\" group=orders id=a shard=%d ", s.Number())), 1, "%d warnings of shard %d", s.Number())
				}
				go other.Stop() //nolint:errcheck // its work goes on
				close(hangs)
				check.OK(t, m.Stop())
				left(t, other, lease)
			})
		})
	}
}

// next returns the next shard that has begun. The test fails if none has.
func next(t *testing.T, begun <-chan held) held {
	t.Helper()
	select {
	case s := <-begun:
		return s
	default:
		t.Error("no shard has begun")
		return held{new(shard.Shard), func() {}}
	}
}

// A shard whose work goes on after the drain does not begin beside it in the same process. It has another owner, or none,
// until that work has ended.
func TestBodyThatDoesNotEnd_KeepsTheShardAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil, leadertest.WithLatency(oneWay)) // the assigner mends the page after its member has read it
		join := func(id string) (*shard.Member, <-chan held) {
			m, _ := member(t, store, shard.Config{Shards: 2, ID: id, GracePeriod: drain})
			begun := hold(t, m)
			time.Sleep(lease)
			return m, begun
		}
		a, as := join("a")
		first := map[int]held{}
		for range 2 {
			s := next(t, as)
			first[s.Number()] = s
		}
		is := func(what string, busy time.Duration, draining, granted, unowned int) {
			t.Helper()
			s := a.Stats()
			check.That(t, s.Busy.Round(time.Second) == busy && s.Draining == draining && s.Granted == granted && s.Owned == granted && s.Unowned == unowned && s.Moving == 0 && len(as) == 0, "%s: %+v", what, s)
		}
		b, bs := join("b")
		moved := next(t, bs)
		context.AfterFunc(moved.Context(), moved.Release)
		is("b has it", lease, 1, 1, 0)
		check.OK(t, b.Stop())
		time.Sleep(4*lease - time.Second)
		page, layout := store.Entry(group.PageKey(named, 0)), group.Layout{Shards: 2, PageSize: 1000}
		all := check.Got(layout.DecodePage(0, page.Value, page.Revision))(t)
		self := group.Session{ID: "a", Token: store.Holder(group.MemberKey(named, "a")).Token}
		all.Grants[moved.Number()] = group.Grant{Owner: self} // as by an assigner that does not know yet
		store.Put(group.PageKey(named, 0), layout.EncodePage(0, all.Base, all.Grants))
		time.Sleep(time.Second)
		is("b has left", 5*lease, 1, 1, 1)
		c, cs := join("c")
		again := next(t, cs)
		context.AfterFunc(again.Context(), again.Release)
		is("c has it", 6*lease, 1, 1, 0)
		check.That(t, again.Number() == moved.Number() && again.Token() > moved.Token(), "%d has %d", again.Number(), again.Token())
		check.OK(t, c.Stop())
		time.Sleep(time.Second)
		is("c has left", 6*lease+time.Second, 1, 1, 1)
		first[moved.Number()].Release()
		time.Sleep(time.Second)
		s := next(t, as)
		is("the work has ended", 0, 0, 2, 0)
		check.That(t, s.Number() == moved.Number() && s.Token() > again.Token(), "%d has %d", s.Number(), s.Token())
		check.Is(t, a.Stop(), leader.ErrNotReleased)
		check.Equal(t, a.Stats().Draining, 2, "%d drain after the end")
		first[1-moved.Number()].Release()
		synctest.Wait()
		check.Equal(t, a.Stats().Draining, 1, "%d drain after the end")
	})
}

// Work that does not end after the lease has expired keeps its own shard away from its member, and no others, and the
// member in the group.
func TestBodyThatDoesNotEnd_LosesItsTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, link := member(t, leadertest.NewStore(nil), shard.Config{Shards: 2, ID: "a", GracePeriod: 3 * lease, StopTimeout: time.Minute})
		begun := hold(t, m)
		time.Sleep(lease)
		var first held
		for range 2 {
			if s := next(t, begun); s.Number() == 0 {
				first = s
			} else {
				context.AfterFunc(s.Context(), s.Release)
			}
		}
		link.Cut()
		time.AfterFunc(2*lease, link.Restore)
		time.Sleep(8 * lease)
		check.Is(t, context.Cause(first.Context()), leader.ErrLeaseExpired)
		s := m.Stats()
		check.That(t, s.Owned == 1 && s.Granted == 1 && s.Draining == 1 && s.Unowned == 1 && s.Busy > 6*lease, "%+v", s)
		check.Equal(t, next(t, begun).Number(), 1, "shard %d has begun again")
		check.Equal(t, len(begun), 0, "%d more")
		first.Release()
		time.Sleep(time.Second)
		second := next(t, begun)
		check.That(t, second.Number() == 0 && second.Token() > first.Token(), "shard %d with token %d after %d", second.Number(), second.Token(), first.Token())
		check.Equal(t, m.Stats().Draining, 0, "%d drain")
		check.Is(t, m.Stop(), leader.ErrNotReleased)
	})
}

// After SIGTERM work that does not end keeps its shard, and only that one. The member is gone within StopTimeout.
func TestStop_WithWorkThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 8, leadertest.WithLatency(oneWay))
		hangs, hung := make(chan struct{}), new(atomic.Bool)
		m, _ := member(t, f.store, shard.Config{Shards: 8, ID: "a", StopTimeout: stop})
		runs(m, func(lead context.Context, _ *shard.Shard) {
			<-lead.Done()
			if !errors.Is(context.Cause(lead), shard.ErrMoved) && !hung.Swap(true) { // of those that it still has, one
				check.Is(t, context.Cause(lead), leader.ErrStopped)
				<-hangs
			}
		})
		time.Sleep(time.Second)
		f.start("b")
		time.Sleep(lease)
		from := time.Now()
		go m.Stop() //nolint:errcheck // it is awaited
		time.Sleep(time.Second)
		has, without := f.owned()
		check.That(t, has["b"] >= 7, "a second after the stop: %v, without an owner: %d", has, without)
		<-m.Done()
		check.That(t, time.Since(from) <= stop, "the member left after %v", time.Since(from))
		time.Sleep(2 * lease)
		check.Equal(t, f.uneven(), "", "%s")
		close(hangs)
		f.stop()
	})
}

// Stop returns at the end of StopTimeout, or of the drain before it, with an error, and the member has left.
func TestStop_Timeout(t *testing.T) {
	for _, cut := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m, link := member(t, leadertest.NewStore(nil), shard.Config{Shards: 4, ID: "a", StopTimeout: time.Second})
			runs(m, func(context.Context, *shard.Shard) {
				if !cut {
					<-t.Context().Done() // and not before
				}
			})
			time.Sleep(lease)
			if cut {
				link.Cut()
			}
			want, took := leader.ErrNotReleased, 750*time.Millisecond
			if cut {
				want, took = leader.ErrUnreachable, time.Second
			}
			from := time.Now()
			check.Is(t, m.Stop(), want)
			check.Equal(t, time.Since(from), took, "Stop took %v")
			left(t, m, 0)
			check.OK(t, m.Err())
			check.Is(t, m.Stop(), want)
			late := 0
			for events := m.Events(t.Context()); len(events) > 0; {
				if r, ok := (<-events).(shard.Released); ok && r.Late {
					late++
				}
			}
			check.Equal(t, late, map[bool]int{false: 4, true: 0}[cut], "the work on %d shards goes on")
		})
	}
}

// dies kills a process some time after its start, and waits until another has taken the key of its member.
func (p *process) dies() {
	time.Sleep(lease)
	p.kill()
	check.Soon(p.f.t, "another member takes the key of "+p.id, func() bool {
		return p.f.store.Holder(group.MemberKey(named, p.id)).ID != p.id
	}, func() { time.Sleep(time.Millisecond) })
}

// A member that leaves waits no longer than StopTimeout for the answer about the key of a dead member, which it has just
// taken.
func TestStop_LeavesTheKeyOfADeadMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 8, leadertest.WithLatency(oneWay))
		a := f.start("a")
		time.Sleep(time.Second)
		f.start("b").dies()
		a.link.Freeze() // the acknowledgement is on its way
		a.leave()
		from := time.Now()
		check.Is(t, a.member.Stop(), leader.ErrUnreachable)
		check.Equal(t, time.Since(from), 8*time.Second, "Stop took %v")
	})
}

// A member that leaves just when it has taken the key of a dead member gives the key up, so that others need not wait for
// a lease.
func TestStop_GivesUpTheKeyOfADeadMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 8, leadertest.WithLatency(oneWay))
		f.start("a")
		time.Sleep(time.Second)
		b := f.start("b")
		f.by("a").link.Delay(time.Second) // so that b is first, whose stop does not wait for the assigner's key
		f.start("dead").dies()
		check.Equal(t, f.store.Holder(group.MemberKey(named, "dead")).ID, "b", "%s has taken the key")
		b.leave() // the acknowledgement is on its way
		time.Sleep(time.Second)
		check.That(t, f.store.Holder(group.MemberKey(named, "dead")).ID != "b", "b keeps the key")
		f.by("a").link.Heal()
		f.stop()
	})
}

// With a context that has ended a member leaves at once, without shards.
func TestJoin_WithEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := check.Got(shard.Join(check.Ended(), leadertest.NewStore(nil), named, shard.Config{Shards: 4}))(t)
		check.OK(t, m.Serve(none(t)))
		left(t, m, 0)
	})
}

// A member ends with its connection.
func TestConnectionClosed_EndsTheMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, link := member(t, leadertest.NewStore(nil), shard.Config{Shards: 4, ID: "a"})
		time.AfterFunc(lease, link.Close)
		var n atomic.Int32
		check.Is(t, m.Serve(func(lead context.Context, _ *shard.Shard) {
			n.Add(1)
			<-lead.Done()
			check.Is(t, context.Cause(lead), leader.ErrConnectionClosed)
		}), leader.ErrConnectionClosed)
		check.Equal(t, n.Load(), 4, "%d shards")
	})
}

// The shard of a context is that of one derived from it, too.
func TestFrom(t *testing.T) {
	_, ok := shard.FromContext(t.Context())
	check.That(t, !ok, "a shard of no context")
	synctest.Test(t, func(t *testing.T) {
		m, _ := member(t, leadertest.NewStore(nil), shard.Config{Shards: 2, ID: "a"})
		var n atomic.Int32
		time.AfterFunc(time.Second, func() { _ = m.Stop() })
		check.OK(t, m.Serve(func(lead context.Context, s *shard.Shard) {
			n.Add(1)
			child, cancel := context.WithTimeout(context.WithoutCancel(lead), time.Second)
			defer cancel()
			for _, ctx := range []context.Context{lead, s.Context(), child} {
				got, ok := shard.FromContext(ctx)
				check.That(t, ok && got == s, "%v, %v for shard %d", got, ok, s.Number())
				_, ok = leader.FromContext(ctx)
				check.That(t, ok, "no term")
			}
		}))
		check.Equal(t, n.Load(), 2, "%d shards")
	})
}

// A process takes the keys of dead members, and not its own when its member steps down.
func TestStepDown_LeavesItsKeyFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, key := leadertest.NewStore(nil, leadertest.WithLatency(oneWay)), group.MemberKey(named, "a")
		m, _ := member(t, store, shard.Config{ID: "a", Shards: 8})
		time.Sleep(lease)
		token := store.Holder(key).Token
		_ = check.Got(leader.StepDown(t.Context(), store, key, leader.StepDownOptions{By: "me"}))(t)
		time.Sleep(time.Second / 2)
		h := store.Holder(key)
		check.That(t, h.State == leader.HolderReleased && h.Last.Token == token, "%v after %v", h, h.Last)
		time.Sleep(lease)
		check.Equal(t, m.Stats().Granted, 8, "%d shards are granted to it")
		check.OK(t, m.Stop())
	})
}

// The last that a member publishes is that it leaves, also if it is publishing something else. So its record says, also after
// another has taken its key.
func TestStop_IsNoDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2, leadertest.WithLatency(oneWay))
		f.start("a")
		time.Sleep(time.Second)
		b, page := f.start("b"), group.PageKey(named, 0)
		time.Sleep(lease)
		was := f.store.Entry(page).Revision
		check.OK(t, shard.Drain(t.Context(), f.store, named, "b"))
		check.Soon(t, "b is asked to leave", func() bool { return f.store.Entry(page).Revision != was },
			func() { time.Sleep(time.Millisecond / 10) })
		time.Sleep(oneWay + time.Millisecond/2) // b reports that it has stopped, and has no answer
		b.leave()
		time.Sleep(time.Second)
		h := check.Got(leader.Lookup(t.Context(), f.store, group.MemberKey(named, "b")))(t)
		check.That(t, h.State == leader.HolderReleased && group.HasLeft(h.Last.Value), "%v after %v", h, h.Last)
		f.stop()
	})
}

// A process that does not know its lease yet reads the records of the members every 30 s. It has to be a candidate in
// their elections, because the registry names it from its last run.
func TestHeir_ReadsByNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 8, leadertest.WithLatency(oneWay))
		f.start("a")
		time.Sleep(lease)
		f.by("a").kill()
		link := f.store.Link("again")
		link.FailSettings(1000, leader.ErrUnreachable)
		m := check.Got(shard.Join(context.Background(), link, named, shard.Config{ID: "a", Shards: 8}))(t)
		time.Sleep(time.Minute)
		n := link.Requests()
		check.That(t, n.Reads < 20, "%+v", n)
		check.OK(t, m.Stop())
	})
}

// Settings at their bounds work.
func TestJoin_AcceptsBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := shard.Config{Shards: 100_000, ID: "a", Weight: 1_000_000, Hold: group.MaxHold, Value: make([]byte, 4096)}
		m := check.Got(shard.Join(check.Ended(), leadertest.NewStore(nil), named, cfg))(t)
		left(t, m, 0)
	})
}

// Both elections of a member have its settings.
func TestJoin_SettingsOfElections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, l := leadertest.NewStore(nil, leadertest.WithMaxLease(time.Minute)), new(logs)
		link := store.Link("a")
		m := check.Got(shard.Join(context.Background(), link, named, shard.Config{
			Shards: 1, ID: "a", LeaseDuration: 30 * time.Second, RenewDeadline: 20 * time.Second, RenewInterval: 4 * time.Second,
			ForceReconnect: true, Logger: l.logger(),
		}))(t)
		began := time.Now()
		begun := hold(t, m)
		time.Sleep(17 * time.Second)
		for _, key := range []string{group.AssignerKey(named), group.MemberKey(named, "a")} {
			check.Equal(t, store.Leader(key).Lease, 30*time.Second, "%v is the lease of "+key)
			check.Equal(t, l.count("msg=elected election="+key+" "), 1, "%d lines of "+key)
		}
		s := next(t, begun)
		link.Cut()
		<-s.Context().Done()
		check.Is(t, context.Cause(s.Context()), leader.ErrLeaseExpired)
		check.Equal(t, time.Since(began), 36*time.Second, "the context ends after %v") // 20 s after the last renewal
		s.Release()
		link.Restore()
		time.Sleep(time.Minute)
		s = next(t, begun)
		link.Isolate()
		time.Sleep(time.Minute)
		check.OK(t, s.Context().Err()) // ForceReconnect has ended it
		s.Release()
		check.OK(t, m.Stop())
	})
}

// While the settings of the bucket cannot be read, the member asks again each second, and no more once it has them.
func TestBucketWithTTL_IsFoundLater(t *testing.T) {
	for _, ttl := range []time.Duration{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			store := leadertest.NewStore(nil, leadertest.WithTTL(ttl*time.Hour))
			link := store.Link("a")
			link.FailSettings(10, leader.ErrUnreachable)
			began := time.Now()
			m := check.Got(shard.Join(context.Background(), link, named, shard.Config{Shards: 4, ID: "a", LeaseDuration: lease}))(t)
			if ttl > 0 {
				left(t, m, time.Minute)
				check.Is(t, m.Err(), leader.ErrIncompatibleBucket)
				check.Equal(t, time.Since(began), 4*time.Second, "it has left after %v") // both elections ask, too
				return
			}
			time.Sleep(time.Minute)
			check.That(t, link.Requests().Settings <= 20, "%+v", link.Requests())
			check.OK(t, m.Stop())
		})
	}
}

// A member names as many shards as it can on which its work goes on. It stays a member that others understand.
func TestBodyThatDoesNotEnd_OnManyShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		m, _ := member(t, store, shard.Config{Shards: 1100, ID: "a", GracePeriod: time.Second, Logger: slog.New(slog.DiscardHandler)})
		hangs := make(chan struct{})
		runs(m, func(lead context.Context, _ *shard.Shard) {
			<-lead.Done()
			<-hangs
		})
		time.Sleep(2 * time.Second)
		check.OK(t, shard.Drain(t.Context(), store, named, "a"))
		time.Sleep(lease)
		v := check.Got(shard.Lookup(t.Context(), store, named))(t)
		check.That(t, len(v.Members) == 1 && len(v.Members[0].Late) == group.MaxLate && v.Members[0].Weight == 1, "%d", len(v.Members[0].Late))
		close(hangs)
		synctest.Wait()
		check.OK(t, m.Stop())
	})
}
