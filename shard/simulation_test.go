package shard_test

import (
	"errors"
	"flag"
	"fmt"
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

var (
	simulations = flag.Int("simulations", 0, "how many seeds to simulate; 0: as many as the size of the tests says")
	onlySeed    = flag.Uint64("simulation", 0, "simulate this seed alone, and print what happens")
)

// simulation is a fleet with faults.
type simulation struct {
	*fleet
	rng   *rand.Rand
	tally map[string]int
	fresh int // new IDs
	pages int
	// deletes lets an operator delete keys, operates ask for moves.
	deletes, registry, operates bool
}

func (s *simulation) chance(n int) bool { return s.rng.IntN(n) == 0 }

func (s *simulation) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.rng.Int64N(int64(most-least)))
}

// heal ends a fault of a link after some time. Most are short of a lease, some are longer than two.
func (s *simulation) heal(p *process, end func()) {
	d := s.between(0, lease)
	if s.chance(3) {
		d = s.between(lease, 5*lease/2)
	}
	p.disturb(d + lease)
	time.AfterFunc(d, func() {
		p.f.mu.Lock()
		p.f.say("%s is healed", p.name)
		p.f.mu.Unlock()
		end()
	})
}

// again starts a process after some time in place of one that ends, under its ID or another.
func (s *simulation) again(p *process) {
	id := p.id
	if s.chance(3) {
		s.fresh++
		id = fmt.Sprintf("n%d", s.fresh)
	}
	d := s.between(0, time.Second)
	if s.chance(2) {
		d = s.between(0, 2*lease)
	}
	dead := p.dead
	go func() {
		if !dead {
			<-p.member.Done()
		}
		time.Sleep(d)
		s.start(id)
	}()
}

// faults are what happens to a process.
func (s *simulation) faults() map[string]func(p *process) {
	return map[string]func(p *process){
		"a kill": func(p *process) { p.kill(); s.again(p) },
		"a stop": func(p *process) { p.leave(); s.again(p) },
		"a cut":  func(p *process) { p.link.Cut(); s.heal(p, p.link.Restore) },
		"a freeze": func(p *process) {
			p.link.Freeze()
			s.heal(p, []func(){p.link.Thaw, p.link.Restore}[s.rng.IntN(2)])
		},
		"isolation":       func(p *process) { p.link.Isolate(); s.heal(p, p.link.Restore) },
		"a slow link":     func(p *process) { p.link.Delay(s.between(0, 3*time.Second)); s.heal(p, p.link.Heal) },
		"a slow feed":     func(p *process) { p.link.DelayFeed(s.between(0, 2*lease)); s.heal(p, p.link.Heal) },
		"a reconnection":  func(p *process) { p.disturb(lease); p.link.Reconnect() },
		"lost writes":     func(p *process) { p.disturb(lease); p.link.LoseWrites(1 + s.rng.IntN(4)) },
		"lost replies":    func(p *process) { p.disturb(lease); p.link.LoseReplies(1 + s.rng.IntN(4)) },
		"late writes":     func(p *process) { p.disturb(2 * lease); p.link.ApplyLate(1+s.rng.IntN(4), s.between(0, 2*lease)) },
		"refused writes":  func(p *process) { p.disturb(lease); p.link.Refuse(1+s.rng.IntN(4), s.chance(2)) },
		"failed writes":   func(p *process) { p.disturb(lease); p.link.FailWrites(1+s.rng.IntN(4), leader.ErrUnreachable) },
		"a lossy feed":    func(p *process) { p.disturb(lease); p.link.LoseFeed(1 + s.rng.IntN(8)) },
		"deaf feeds":      func(p *process) { p.disturb(3 * lease); p.link.DeafFeeds() },
		"ended feeds":     func(p *process) { p.disturb(lease); p.link.EndFeeds(leader.ErrUnreachable) },
		"failed watches":  func(p *process) { p.disturb(lease); p.link.FailWatches(1+s.rng.IntN(4), leader.ErrUnreachable) },
		"failed reads":    func(p *process) { p.disturb(lease); p.link.FailReads(1+s.rng.IntN(8), leader.ErrUnreachable) },
		"lost reads":      func(p *process) { p.disturb(lease); p.link.LoseReads(1 + s.rng.IntN(8)) },
		"stale reads":     func(p *process) { p.disturb(lease); p.link.StaleReads(1 + s.rng.IntN(8)) },
		"work that hangs": func(p *process) { s.hang(p) },
		"work that ends early": func(p *process) {
			s.mu.Lock()
			defer s.mu.Unlock()
			p.early = s.between(0, time.Second)
			time.AfterFunc(lease, func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				p.early = 0
			})
		},
	}
}

// delete deletes a key of the group, as an operator may.
func (s *simulation) delete(p *process) {
	keys := []string{group.MemberKey(named, p.id), group.AssignerKey(named), group.PageKey(named, 0)}
	if s.registry { // and not the page: see TestLostRegistryAndPage_TakeNoShardFromOneWhoMissesIt
		keys[2] = group.RegistryKey(named)
	}
	key := keys[s.rng.IntN(len(keys))]
	s.mu.Lock()
	s.say("%s is deleted", key)
	s.mu.Unlock()
	for _, p := range s.live() {
		p.disturb(2 * lease)
	}
	if s.tally["delete "+key]++; s.chance(3) {
		s.store.Put(key, []byte("junk"))
		return
	}
	s.store.Delete(key)
}

// operate lets an operator ask for something that concerns a process.
func (s *simulation) operate(p *process) {
	i, what := s.rng.IntN(s.shards), []string{"move", "drain", "undrain"}[s.rng.IntN(3)]
	s.mu.Lock()
	s.say("an operator asks: %s %s, or %d to it", what, p.id, i)
	s.mu.Unlock()
	var err error
	switch what {
	case "move":
		err = shard.Move(s.t.Context(), s.store, named, i, p.id)
	case "drain":
		err = shard.Drain(s.t.Context(), s.store, named, p.id)
	case "undrain":
		err = shard.Undrain(s.t.Context(), s.store, named, p.id)
	}
	if err == nil {
		s.tally[what]++
	}
}

// undrain lets all members take shards again, also those that are joining.
func (s *simulation) undrain() {
	for _, p := range s.live() {
		err := shard.ErrNoMember
		for range 60 {
			if err = shard.Undrain(s.t.Context(), s.store, named, p.id); !errors.Is(err, shard.ErrNoMember) {
				break
			}
			time.Sleep(time.Second)
		}
		check.OK(s.t, err)
	}
}

// settings gives members weights and bounds by their IDs, and the group a time for which shards wait.
func settings(seed uint64) func(id string, cfg *shard.Config) {
	return func(id string, cfg *shard.Config) {
		n := int(seed/4) + int(id[len(id)-1])
		cfg.Weight = 1 + n%3
		if n%4 == 0 {
			cfg.Most = 5
		}
		cfg.Hold = time.Duration(seed%4) * lease / 6
	}
}

// hang lets the work of a process go on after the end of its context, for some time.
func (s *simulation) hang(p *process) {
	d := s.between(0, drain)
	if s.chance(4) {
		d = s.between(drain, 3*drain)
	}
	s.mu.Lock()
	p.hangs = d
	s.mu.Unlock()
	time.AfterFunc(s.between(0, 2*lease), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		p.hangs = 0
	})
}

// strike lets something happen to a process.
func (s *simulation) strike(p *process) {
	all := s.faults()
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	name := names[s.rng.IntN(len(names))]
	if s.chance(4) {
		name = []string{"a kill", "a stop"}[s.rng.IntN(2)]
	}
	s.mu.Lock()
	s.say("%s: %s", p.name, name)
	s.mu.Unlock()
	s.tally[name]++
	all[name](p)
}

// run simulates a fleet of some members: its start, faults, rest and end.
func (s *simulation) run(members int) {
	defer s.watch()()
	for i := range members {
		s.start(string(rune('a' + i)))
		time.Sleep(s.between(0, time.Second))
	}
	for range 10 + s.rng.IntN(20) {
		time.Sleep(s.between(0, lease/2))
		live := s.live()
		if len(live) == 0 {
			continue
		}
		if s.chance(4) {
			if p := s.assigner(); p != nil {
				s.tally["the assigner"]++
				s.strike(p)
				continue
			}
		}
		if s.operates && s.chance(3) {
			s.operate(live[s.rng.IntN(len(live))])
			continue
		}
		if s.deletes && s.chance(5) {
			s.delete(live[s.rng.IntN(len(live))])
			continue
		}
		s.strike(live[s.rng.IntN(len(live))])
		if live = s.live(); s.chance(5) && len(live) > 0 {
			s.strike(live[s.rng.IntN(len(live))])
		}
	}
	// The last faults end, and processes that are to start again do. Messages that are late arrive.
	time.Sleep(3 * drain)
	for _, p := range s.live() {
		p.link.Heal()
		s.mu.Lock()
		p.hangs = 0
		s.mu.Unlock()
	}
	for range 300 {
		if len(s.live()) == members && s.quiet() {
			break
		}
		time.Sleep(time.Second)
	}
	for _, p := range s.live() {
		p.link.Heal()
	}
	s.mu.Lock()
	s.say("the faults have ended")
	s.mu.Unlock()
	if s.operates {
		s.undrain()
	}
	s.recover()
	s.rest()
	s.stop()
}

// quiet reports whether no process ends or is disturbed.
func (s *simulation) quiet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.procs {
		if p.dead || !p.stopped.IsZero() || p.ill.After(time.Now()) {
			return false
		}
	}
	return true
}

// recover checks that each shard is owned within three leases, and that all are spread evenly.
func (s *simulation) recover() {
	from := time.Now()
	for s.uneven() != "" {
		if time.Since(from) > 3*lease {
			s.mu.Lock()
			defer s.mu.Unlock()
			return
		}
		time.Sleep(time.Second / 4)
	}
}

// rest checks that nothing moves at rest, and that it costs little.
func (s *simulation) rest() {
	if text := s.uneven(); text != "" {
		s.mu.Lock()
		s.fail("three leases after the last fault: %s", text)
		s.mu.Unlock()
		return
	}
	time.Sleep(2 * time.Minute) // until each key was read: so long can a feed be deaf
	before, assigner := map[*process]leadertest.Requests{}, s.assigner()
	for _, p := range s.live() {
		before[p] = p.link.Requests()
	}
	s.mu.Lock()
	begins := s.begins
	s.mu.Unlock()
	const span = 4 * lease
	time.Sleep(span)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begins != begins {
		s.fail("at rest %d shards moved", s.begins-begins)
	}
	for p, was := range before {
		most := 0.5
		if p == assigner {
			most++
		}
		s.mu.Unlock()
		now := p.link.Requests()
		s.mu.Lock()
		// The span has one more of some, settings are read again, and all pages may be read in it.
		if n := now.Total() - was.Total(); float64(n) > most*span.Seconds()+4+float64(s.pages) {
			s.fail("at rest %s sends %d requests in %v: %+v after %+v", p.name, n, span, now, was)
		}
	}
}

// No two members own a shard at once, tokens rise, and work that moves between healthy members ends before it begins
// again, whatever happens to processes and links. When the faults have ceased, each shard is owned, all are spread
// evenly, nothing moves, and it costs little.
func TestWhateverHappens_OneOwner(t *testing.T) { simulate(t, 30, 50, false, false) }

// The same holds when an operator deletes the keys of the group, or writes something else over them.
func TestWhateverIsDeleted_OneOwner(t *testing.T) { simulate(t, 10, 40, true, false) }

// The same holds when members have weights, bounds and Hold, and operators move shards and drain members.
func TestWhateverIsAsked_OneOwner(t *testing.T) { simulate(t, 10, 40, false, true) }

func simulate(t *testing.T, sample, full int, deletes, operates bool) {
	n := uint64(*simulations)
	if n == 0 {
		n = uint64(proof.Raced(proof.Size(sample, full), 3))
	}
	first := uint64(1)
	if *onlySeed != 0 {
		first, n = *onlySeed, 1
	}
	tally, begins := map[string]int{}, 0
	seed := first
	defer func() {
		if seed < first+n {
			t.Logf("repeat it with: go test ./shard -run '^%s$' -simulation %d -v", t.Name(), seed)
		}
	}()
	for ; seed < first+n; seed++ {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 31))
			small := rng.IntN(2)
			defer shard.SetPageSize(shard.SetPageSize([]int{1000, 10}[small]))
			s := &simulation{
				fleet: newFleet(t, 64, leadertest.WithLatency(time.Duration(rng.IntN(3))*time.Millisecond)), rng: rng, tally: tally,
				pages: 1 + 6*small, deletes: deletes, registry: rng.IntN(2) == 0,
			}
			if s.operates = operates; operates {
				s.config = settings(seed)
			}
			if *onlySeed != 0 {
				s.trace = func(line string) { t.Log(line) }
			}
			s.run(8)
			begins += s.begins
		})
	}
	t.Log(begins, "grants", tally)
	proof.Ran(int(n), "simulated seeds of shards")
	check.That(t, begins > 64*int(n), "only %d grants", begins)
}
