package shard_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

const oneWay = 5 * time.Millisecond

// settled starts members, and waits until they are at rest.
func settled(t *testing.T, members, shards int) *fleet {
	f := newFleet(t, shards, leadertest.WithLatency(oneWay))
	for i := range members {
		f.start(string(rune('a' + i)))
		time.Sleep(time.Second)
	}
	time.Sleep(lease)
	check.Equal(t, f.uneven(), "", "after the start: %s")
	return f
}

// gaps calls do, lets some time pass, and returns how often shards began after do, and the longest time for which
// one had no work.
func (f *fleet) gaps(do func(), d time.Duration) (moves int, longest time.Duration) {
	f.mu.Lock()
	from, before := time.Now(), f.begins
	f.mu.Unlock()
	do()
	time.Sleep(d)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.ledger {
		if e.begun.Before(from) {
			continue
		}
		longest = max(longest, e.begun.Sub(e.ended))
	}
	return f.begins - before, longest
}

// When one of N+1 joins, at most ceil(M/(N+1)) shards move. A shard has no owner for the time of a write and a delivery
// after its work has ended, and for that in which the new owner begins to observe the old one, if the work ends sooner.
func TestNinthMember_TakesItsShare(t *testing.T) {
	for _, hangs := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			f := settled(t, 8, 64)
			for _, p := range f.live() {
				p.hangs = hangs
			}
			from, even := time.Now(), time.Duration(0)
			moves, gap := f.gaps(func() {
				ninth := f.start("i")
				for (f.uneven() != "" || ninth.owns() == 0) && even < lease {
					time.Sleep(oneWay)
					even = time.Since(from)
				}
				check.Equal(t, ninth.owns(), 7, "the ninth member has %d shards")
			}, lease)
			check.That(t, moves <= 8 && moves >= 7, "%d moves", moves)
			check.Equal(t, f.uneven(), "", "%s")
			t.Logf("a ninth member, work ends after %v: %d moves, even after %v, the longest gap is %v", hangs, moves, even, gap)
			check.That(t, gap <= 6*oneWay, "a gap of %v", gap)
			f.stop()
		})
	}
}

// cold lets members start cold, and returns how often work begins, how often at most on one shard, and when the first and
// the last begins for the first time.
func (f *fleet) cold(starts func()) (all, most int, first, last time.Duration) {
	f.starts()
	from := time.Now()
	starts()
	time.Sleep(3 * lease)
	check.Equal(f.t, f.uneven(), "", "%s")
	f.mu.Lock()
	for i := range f.ledger {
		d := f.ledger[i].first.Sub(from)
		if last = max(last, d); first == 0 || d < first {
			first = d
		}
		f.ledger[i].first = time.Time{}
	}
	f.mu.Unlock()
	all, most = f.starts()
	return all, most, first, last
}

// A group that starts cold grants its shards in portions for a second, while its members join. So most shards begin once, on
// the member that keeps them. The first shard waits for nothing.
func TestColdStart(t *testing.T) {
	const shards = 100
	at := func(each time.Duration) func(f *fleet, id string) {
		return func(f *fleet, id string) {
			for i := range 10 {
				f.start(fmt.Sprint(id, i))
				time.Sleep(each)
			}
		}
	}
	random := func(f *fleet, id string) {
		var joins []time.Duration
		for range 10 {
			joins = append(joins, time.Duration(f.rng.Int64N(int64(time.Second))))
		}
		slices.Sort(joins)
		for i, d := range joins {
			f.start(fmt.Sprint(id, i))
			if i+1 < len(joins) {
				time.Sleep(joins[i+1] - d)
			}
		}
	}
	for name, c := range map[string]struct {
		starts    func(f *fleet, id string)
		all, most int
	}{
		"at the same instant":     {at(0), shards, 1},
		"one each 100 ms":         {at(100 * time.Millisecond), 110, 2},
		"at random within 1 s":    {random, 110, 2},
		"a lone process":          {func(f *fleet, id string) { f.start(id) }, shards, 1},
		"one each 500 ms, in 5 s": {at(500 * time.Millisecond), 260, 7},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(proof.Raced(proof.Size(4, 50), 3)) {
				synctest.Test(t, func(t *testing.T) {
					f := newFleet(t, shards, leadertest.WithLatency(oneWay))
					f.rng = rand.New(rand.NewPCG(seed, 1))
					for _, again := range []string{"", ", and again after a stop of all, under the same IDs", ", and again under new IDs"} {
						all, most, first, last := f.cold(func() { c.starts(f, map[bool]string{true: "b", false: "a"}[again == ", and again under new IDs"]) })
						t.Logf("%s%s: %d starts, at most %d of one shard; the first after %v, all after %v", name, again, all, most, first, last)
						check.That(t, all <= c.all && most <= c.most, "%s: %d starts, at most %d of one shard", again, all, most)
						check.That(t, first <= 60*oneWay, "%s: the first work after %v", again, first) // as all have to register
						check.That(t, last-first <= time.Second+4*oneWay, "%s: the first work after %v, all work after %v", again, first, last)
						f.stop()
					}
				})
			}
		})
	}
}

// The portions of a cold start grow with the square of the time. A lone process has its first shard at once, and the last one
// after a second. What comes back to its member waits for nothing.
func TestColdStart_Portions(t *testing.T) {
	for _, c := range []struct {
		latency time.Duration
		want    string // in milliseconds, when each shard begins after the first one
	}{{0, "0 400 500 600 700 800 800 900 900 1000 "}, {oneWay, "0 0 0 0 0 0 0 0 0 0 "}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, 10, leadertest.WithLatency(c.latency))
			p := f.start("a")
			time.Sleep(2 * time.Second)
			if c.latency > 0 {
				p.leave()
				<-p.member.Done()
				f.start("a")
				time.Sleep(2 * time.Second)
			}
			f.mu.Lock()
			var at string
			for i := range f.ledger {
				at += fmt.Sprint(f.ledger[i].begun.Sub(f.ledger[0].begun).Milliseconds(), " ")
			}
			f.mu.Unlock()
			check.Equal(t, at, c.want, "%s")
			f.stop()
		})
	}
}

// A group whose members take no shards, because they are drained, starts cold when others join.
func TestColdStart_AfterADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 100, leadertest.WithLatency(oneWay))
		f.start("a")
		time.Sleep(150 * time.Millisecond) // it has the first shard
		check.OK(t, shard.Drain(t.Context(), f.store, named, "a"))
		time.Sleep(2 * time.Second)
		_, without := f.owned()
		check.Equal(t, without, 100, "%d shards have no owner")
		f.starts()
		for i := range 10 {
			f.start(fmt.Sprint("b", i))
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Second)
		worked, without := f.owned()
		check.That(t, without == 0 && worked["a"] == 0, "%v have shards, and %d have no owner", worked, without)
		all, most := f.starts()
		check.That(t, all <= 110 && most <= 2, "%d starts, at most %d of one shard", all, most)
		f.stop()
	})
}

// A group whose map was lost does not start cold: all shards begin again as soon as the members have received the new map.
func TestLostMap_IsNoColdStart(t *testing.T) {
	for name, lose := range map[string]func(f *fleet){
		"page":                         func(f *fleet) { f.store.Delete(group.PageKey(named, 0)) },
		"registry and page":            func(f *fleet) { f.store.Delete(group.RegistryKey(named)); f.store.Delete(group.PageKey(named, 0)) },
		"page, as the assigner leaves": func(f *fleet) { f.assigner().leave(); f.store.Put(group.PageKey(named, 0), []byte("junk")) },
		"page, as the assigner dies":   func(f *fleet) { f.assigner().kill(); f.store.Delete(group.PageKey(named, 0)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 40)
				for _, id := range []string{"a", "b", "c"} {
					f.start(id)
				}
				time.Sleep(lease)
				from := time.Now()
				lose(f)
				time.Sleep(5 * lease)
				check.Equal(t, f.uneven(), "", "%s")
				f.mu.Lock()
				first, last := f.ledger[0].begun, f.ledger[0].begun
				for i := range f.ledger {
					begun := f.ledger[i].begun
					if begun.Before(first) {
						first = begun
					}
					if begun.After(last) {
						last = begun
					}
				}
				f.mu.Unlock()
				check.That(t, !first.Before(from) && last.Equal(first), "the first after %v, the last after %v", first.Sub(from), last.Sub(from))
				f.stop()
			})
		})
	}
}

// A member that stops hands its shards over.
func TestMemberThatStops_HandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := settled(t, 8, 64)
		for _, assigner := range []bool{false, true} {
			p := f.live()[0]
			for _, q := range f.live() {
				if (q == f.assigner()) == assigner {
					p = q
				}
			}
			moves, gap := f.gaps(p.leave, lease)
			check.That(t, gap <= 20*oneWay, "a gap of %v", gap)
			t.Logf("%s stops, the assigner: %v: %d moves, the longest gap is %v", p.name, assigner, moves, gap)
			check.Equal(t, f.uneven(), "", "%s")
			check.That(t, moves <= 10, "%d moves", moves)
		}
		f.stop()
	})
}

// Where the work on one shard goes on after a member was to stop, its other shards move at once.
func TestMemberThatStops_WorkThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := settled(t, 4, 64)
		p := f.live()[1]
		p.hangs, p.once = drain/2, true
		moves, gap := f.gaps(p.leave, drain/5)
		check.That(t, moves == 15 && gap <= 20*oneWay, "while work hangs: %d moves, a gap of %v", moves, gap)
		moves, gap = f.gaps(func() {}, drain)
		check.That(t, moves == 1 && gap <= 20*oneWay, "afterwards: %d moves, a gap of %v", moves, gap)
		check.Equal(t, f.uneven(), "", "%s")
		f.stop()
	})
}

// A member that dies leaves its shards without an owner for a lease and two writes. The death of the assigner stops no
// shard of another.
func TestMemberThatDies_LosesItsShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := settled(t, 8, 64)
		for _, assigner := range []bool{false, true} {
			p := f.live()[0]
			for _, q := range f.live() {
				if (q == f.assigner()) == assigner {
					p = q
				}
			}
			moves, gap := f.gaps(p.kill, 3*lease)
			check.That(t, gap <= lease+20*oneWay, "a gap of %v", gap)
			t.Logf("%s dies, the assigner: %v: %d moves, the longest gap is %v", p.name, assigner, moves, gap)
			check.That(t, gap < lease+10*oneWay, "a gap of %v", gap)
			check.Equal(t, f.uneven(), "", "%s")
			check.That(t, moves <= 10, "%d moves", moves)
		}
		f.stop()
	})
}

// When the assigner and another member die at the same time, the shards of both begin elsewhere after one lease: others
// stood in the elections of both.
func TestTwoThatDie_LoseTheirShardsAfterOneLease(t *testing.T) {
	for _, n := range []int{5, 12} { // with 12, the next assigner is perhaps none of those others
		for i := 1; i < n; i += 3 {
			synctest.Test(t, func(t *testing.T) {
				f := settled(t, n, 60)
				live := f.live()
				check.Equal(t, f.assigner(), live[0], "the assigner is %v")
				moves, gap := f.gaps(func() {
					live[0].kill()
					live[i].kill()
				}, lease+10*oneWay)
				check.That(t, gap > lease-3*time.Second, "a gap of %v", gap)
				check.Equal(t, f.uneven(), "", "%s")
				t.Logf("%s and %s of %d die: %d moves, the longest gap is %v", live[0].name, live[i].name, n, moves, gap)
				f.stop()
			})
		}
	}
}

// Where all others miss how a member renews its lease until it dies, they wait one lease from when they learn of it.
func TestTwoThatDie_InAnOutageOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := settled(t, 5, 60)
		live := f.live()
		for _, p := range live[2:] {
			p.disturb(lease)
			p.link.Cut()
		}
		live[0].kill()
		const outage = 9 * time.Second
		time.Sleep(outage - time.Millisecond)
		check.Equal(t, live[1].owns(), 12, "it owns %d shards")
		live[1].kill()
		time.Sleep(time.Millisecond)
		for _, p := range live[2:] {
			p.link.Restore()
		}
		begun := f.grants()
		time.Sleep(lease)
		check.Equal(t, f.grants()-begun, 9, "%d grants") // those of a that b did not get
		time.Sleep(10 * oneWay)
		check.Equal(t, f.uneven(), "", "%s")
		f.stop()
	})
}

// In a rolling restart each member stops, and starts again under the same ID.
func TestRollingRestart(t *testing.T) {
	for _, down := range []time.Duration{200 * time.Millisecond, 3 * time.Second, 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			f := settled(t, 4, 64)
			moves, gap := f.gaps(func() {
				for _, p := range f.live() {
					p.leave()
					<-p.member.Done()
					time.Sleep(down)
					f.start(p.id)
					time.Sleep(5 * time.Second)
				}
			}, 3*lease)
			check.Equal(t, f.uneven(), "", "%s")
			t.Logf("a rolling restart of 4 members with 64 shards, each down for %v: %d moves, the longest gap is %v", down, moves, gap)
			check.That(t, moves <= 2*64 && gap <= 20*oneWay, "%d moves, a gap of %v", moves, gap)
			f.stop()
		})
	}
}

// starts returns how often work has begun since the last call, and how often on the shard on which it has most often.
func (f *fleet) starts() (all, most int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.ledger {
		all, most = all+f.ledger[i].count, max(most, f.ledger[i].count)
		f.ledger[i].count = 0
	}
	return all, most
}

// In a rolling deployment of ten members, each starts before the one that it replaces stops. No shard moves again and again.
// When all stop within 100 ms afterwards, few shards begin on a member that is about to stop.
func TestRollingDeployment(t *testing.T) {
	further, n := 0, proof.Raced(proof.Size(20, 100), 3)
	for seed := range uint64(n) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			f := newFleet(t, 100, leadertest.WithLatency(oneWay))
			for i := range 10 {
				f.start(fmt.Sprint("a", i))
			}
			time.Sleep(lease)
			f.starts()
			for i, p := range f.live() {
				f.start(fmt.Sprint("b", i))
				time.Sleep(3 * time.Second)
				p.leave()
				time.Sleep(time.Duration(1+rng.IntN(5000)) * time.Millisecond)
			}
			time.Sleep(lease)
			check.Equal(t, f.uneven(), "", "%s")
			all, most := f.starts()
			check.That(t, all <= 182 && most <= 5, "%d starts, %d of one shard", all, most)
			live := f.live()
			rng.Shuffle(len(live), func(i, j int) { live[i], live[j] = live[j], live[i] })
			for _, p := range live {
				p.leave()
				time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
			}
			time.Sleep(lease)
			more, _ := f.starts()
			further += more
			t.Logf("a rolling deployment of 10 members with 100 shards: %d starts, at most %d of one; then all stop: %d further starts", all, most, more)
			f.stop()
		})
	}
	mean := float64(further) / float64(n)
	t.Logf("when all stop, there are %.1f further starts on average", mean)
	const before, deviation = 26, 15 // the mean of 300 deployments was 23.6
	check.That(t, mean <= before+4*deviation/math.Sqrt(float64(n)), "%.1f further starts", mean)
}

// A member that restarts while others stand in its election, because it was the assigner, has its share soon.
func TestAssignerThatRestarts_IsSoonBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := settled(t, 5, 10)
		for i := 0; i < proof.Raced(proof.Size(100, 600), 3) && !t.Failed(); i++ { // in some, another stands down when it has just taken the key
			p := f.assigner()
			p.leave()
			<-p.member.Done()
			f.start(p.id)
			time.Sleep(time.Second)
			check.Equal(t, f.uneven(), "", "%s")
		}
		f.stop()
	})
}

// A member whose feeds lose the messages of a page reads it when it receives its revision from the assigner, however
// many pages the group has: after the next renewal, or, if none arrives, when the lease of the assigner seems to be
// over.
func TestLostMessageOfAPage_IsReadSoon(t *testing.T) {
	defer shard.SetPageSize(shard.SetPageSize(4))
	for _, c := range []struct {
		lose   func(*leadertest.Link)
		within time.Duration
	}{
		{func(l *leadertest.Link) { l.LoseFeed(12) }, lease / 2},
		{(*leadertest.Link).DeafFeeds, lease + 5*time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := settled(t, 3, 64) // a page is read by itself each 320 s
			live := f.live()
			c.lose(live[2].link)
			check.OK(t, shard.Drain(t.Context(), f.store, named, live[1].id))
			from := time.Now()
			for _, without := f.owned(); live[1].owns() > 0 || without > 0; _, without = f.owned() {
				if time.Since(from) > c.within {
					t.Fatalf("after %v: %s", c.within, f.uneven())
				}
				time.Sleep(time.Second / 10)
			}
			f.stop()
		})
	}
}

// Members that all stop, one after the other, and start again have their shards soon, although they stand in the elections
// of those that have gone before.
func TestAllRestart_HaveTheirShardsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 12)
		f.config = func(_ string, cfg *shard.Config) { cfg.Hold = 25 * time.Second }
		for range proof.Raced(proof.Size(60, 300), 3) {
			var all []*process
			for _, id := range []string{"a", "b", "c"} {
				all = append(all, f.start(id))
				time.Sleep(time.Second / 2)
			}
			time.Sleep(2 * time.Second)
			check.Must(t, f.uneven() == "", "after a start: %s", f.uneven())
			for _, p := range slices.Backward(all) { // the assigner is the last, or the first
				p.leave()
				<-p.member.Done()
			}
		}
	})
}

// At rest the cost does not depend on the number of shards.
func TestRest_CostsLittle(t *testing.T) {
	proof.NotRaced(t)
	for _, size := range [][2]int{{4, 16}, {8, 64}, {8, 640}, {24, 64}} {
		synctest.Test(t, func(t *testing.T) {
			f := settled(t, size[0], size[1])
			assigner := f.assigner()
			before := map[*process]leadertest.Requests{}
			for _, p := range f.live() {
				before[p] = p.link.Requests()
			}
			time.Sleep(10 * time.Minute)
			most, its := 0.0, 0.0
			for p, was := range before {
				each := float64(p.link.Requests().Total()-was.Total()) / 600
				if p == assigner {
					its = each
				} else {
					most = max(most, each)
				}
			}
			t.Logf("%d members, %d shards: %.3f requests/s at most, of the assigner %.3f", size[0], size[1], most, its)
			check.That(t, most <= 0.5 && its <= 1.5, "%.3f requests/s, of the assigner %.3f", most, its)
			f.stop()
		})
	}
}

// A feed whose opening is not answered is opened again: a member goes on to follow the map. So is a feed that has become
// deaf after some time at rest, as the assigner finds out when it reads the registry.
func TestFeedThatIsNotAnswered_IsOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := settled(t, 2, 64)
		b := f.live()[1]
		b.disturb(lease)
		b.link.Isolate()
		b.link.EndFeeds(leader.ErrUnreachable)
		time.Sleep(3 * time.Second)
		b.link.Restore()
		f.start("c")
		time.Sleep(lease)
		check.Equal(t, f.uneven(), "", "%s")
		time.Sleep(10 * lease)
		f.assigner().link.DeafFeeds()
		f.start("d")
		time.Sleep(2 * lease)
		check.Equal(t, f.uneven(), "", "%s")
		f.stop()
	})
}

// An operator deletes the registry and the page of a group, while a member misses that for some time. The registry that
// the others make anew does not name the member, so they do not wait for it.
func TestLostRegistryAndPage_TakeNoShardFromOneWhoMissesIt(t *testing.T) {
	for _, leaves := range []bool{false, true} { // the assigner
		synctest.Test(t, func(t *testing.T) {
			f := settled(t, 3, 12)
			f.live()[2].link.DeafFeeds()
			f.store.Delete(group.PageKey(named, 0))
			f.store.Delete(group.RegistryKey(named))
			if leaves {
				f.assigner().leave()
			}
			time.Sleep(10 * lease)
			check.Equal(t, f.uneven(), "", "%s")
			f.stop()
		})
	}
}

// A member that died before the registry was lost is in no registry. Its shards get another owner all the same.
func TestLostRegistry_DeadMemberLosesItsShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := settled(t, 4, 12)
		for _, p := range f.live() {
			p.kill()
		}
		f.store.Delete(group.RegistryKey(named))
		f.start("e")
		time.Sleep(3 * lease)
		check.Equal(t, f.uneven(), "", "%s")
		f.stop()
	})
}
