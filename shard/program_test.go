package shard_test

import (
	"errors"
	"fmt"
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

// Members of different programs are a fault of all of them, once while it lasts, also under the next assigner. It is logged and
// counted. A view shows the program of each.
func TestProgramsDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, log := leadertest.NewStore(nil, leadertest.WithLatency(oneWay)), new(logs)
		var all []*shard.Member
		start := func(id, program string) *shard.Member {
			m, _ := member(t, store, shard.Config{Shards: 8, ID: id, Program: program, Logger: log.logger()})
			runs(m, idle)
			all = append(all, m)
			time.Sleep(2 * time.Second)
			return m
		}
		faults := func() (got []string) {
			for _, m := range all {
				n := 0
				for e := range m.Events(check.Ended()) {
					if f, ok := e.(shard.Faulted); ok && errors.Is(f.Err, shard.ErrProgramsDiffer) {
						n++
					}
				}
				got = append(got, fmt.Sprint(m.ID(), " ", n))
			}
			return got
		}
		a := start("a", "example.com/billing")
		start("a2", "example.com/billing")
		check.Deep(t, faults(), []string{"a 0", "a2 0"})
		b := start("b", "example.com/mail")
		check.Deep(t, faults(), []string{"a 1", "a2 1", "b 1"})
		const text = `the members: shard: members of different programs: "example.com/billing" of member "a", "example.com/mail" of member "b": give each application a group of its own, or all the same Config.Program`
		check.Equal(t, log.count(fmt.Sprintf("err=%q", text)), 3, "%d lines")
		check.Equal(t, a.Stats().Election.Faults[nil], 1, "%d faults")
		v := check.Got(shard.Lookup(t.Context(), store, named))(t)
		check.Equal(t, fmt.Sprint(v.Members[0].Program, v.Members[1].Program, v.Members[2].Program), "example.com/billing"+"example.com/billing"+"example.com/mail", "%s")

		check.OK(t, a.Stop()) // it was the assigner
		all = all[1:]
		time.Sleep(2 * lease)
		check.Deep(t, faults(), []string{"a2 1", "b 1"})
		check.OK(t, b.Stop())
		all = all[:1]
		time.Sleep(2 * lease)
		check.Deep(t, faults(), []string{"a2 1"})
		start("b", "example.com/mail")
		check.Deep(t, faults(), []string{"a2 2", "b 1"})
		start("c", "example.com/shop") // it hears of the others first
		check.Deep(t, faults(), []string{"a2 3", "b 2", "c 2"})
		start("c2", "example.com/shop")
		check.Deep(t, faults(), []string{"a2 3", "b 2", "c 2", "c2 1"})
	})
}

// A new assigner publishes nothing before it has read the records of all members: it would say that their programs do not
// differ, and the fault would begin again.
func TestProgramsDiffer_NewAssigner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil, leadertest.WithLatency(oneWay))
		start := func(id, program string) (*shard.Member, *leadertest.Link) {
			m, link := member(t, store, shard.Config{Shards: 8, ID: id, Program: program})
			runs(m, idle)
			return m, link
		}
		a, _ := start("a", "example.com/billing")
		time.Sleep(time.Second)
		_, link := start("b", "example.com/mail")
		time.Sleep(time.Second)
		link.Cut() // or it becomes the assigner, and knows the programs from the one before
		check.OK(t, a.Stop())
		start("c", "example.com/billing")
		published := 0
		for range 1000 {
			time.Sleep(time.Millisecond)
			h := store.Leader(group.AssignerKey(named))
			if h.ID == "c" && len(h.Value) > 0 {
				check.Must(t, len(group.DecodePrograms(h.Value)) == 2, "%s", h.Value)
				published++
			}
		}
		check.That(t, published > 800, "it publishes for %d ms", published)
		link.Restore()
	})
}

// By default a member is of the main module of its program. One that publishes no program, as one of an earlier version, is of
// no other program.
func TestProgram_Default(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		m, _ := member(t, store, shard.Config{Shards: 2, ID: "a"})
		time.Sleep(time.Second)
		check.Equal(t, check.Got(shard.Lookup(t.Context(), store, named))(t).Members[0].Program, "github.com/natsleader/natsleader", "%s")
		l := group.Layout{Shards: 2, PageSize: 1000}
		p := check.Got(l.DecodeMember(store.Leader(group.MemberKey(named, "a")).Value, 1<<20))(t)
		check.Equal(t, p.Program, "github.com/natsleader/natsleader", "%s")
		check.OK(t, m.Stop())
		_, err := shard.Join(t.Context(), store, named, shard.Config{Shards: 2, ID: "a", Program: strings.Repeat("x", group.MaxProgram+1)})
		check.Says(t, err, leader.ErrInvalidConfig, "Program has 257 bytes, which is more than 256")
		_, err = shard.Join(t.Context(), store, named, shard.Config{Shards: 2, ID: "a", Program: "\xff"})
		check.Says(t, err, leader.ErrInvalidConfig, `Program "\xff" is not UTF-8`)
	})
}

// What a new assigner cannot read keeps it from publishing the revisions of the pages for a lease, and no longer.
func TestAssigner_PublishesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil, leadertest.WithLatency(oneWay))
		start := func(id string) *shard.Member {
			m, _ := member(t, store, shard.Config{Shards: 8, ID: id})
			runs(m, idle)
			return m
		}
		a := start("a")
		time.Sleep(time.Second)
		start("b")
		time.Sleep(time.Second)
		store.Put(group.PageKey(named, 0), []byte(`{"v":2}`)) // of a later format
		check.OK(t, a.Stop())
		published := func() bool {
			h := store.Leader(group.AssignerKey(named))
			return h.ID == "b" && len(h.Value) > 0
		}
		time.Sleep(lease - time.Second)
		check.That(t, !published(), "it publishes before it knows the members")
		time.Sleep(2 * time.Second)
		check.That(t, published(), "it publishes nothing: %+v", store.Leader(group.AssignerKey(named)))
	})
}
