package leader_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/natsleader/natsleader/leader"
)

// newSimulation draws the settings that are the same on every ground.
func newSimulation(t *testing.T, seed uint64, trace func(string)) *simulation {
	t.Helper()
	s := &simulation{T: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 3)), trace: trace, sessions: make(map[string]*life), tally: make(map[string]int), asked: make(map[uint64]bool)}
	s.ids = []string{"a", "b", "c", "d"}[:2+s.rng.IntN(3)]
	s.lease = []time.Duration{2, 6, 10, 15}[s.rng.IntN(4)] * time.Second
	s.tight, s.uniform = s.chance(4), s.chance(2)
	s.pending = s.between(s.lease/10, s.lease)
	s.drain = s.between(s.lease/10, 2*s.lease)
	s.pace = s.between(s.lease/10, 2*s.lease)
	s.lazy = s.chance(50)
	s.racing = s.chance(4)
	return s
}

// run injects faults for a while, lets the candidates recover, and stops them. All of
// them have ended when it returns.
func (s *simulation) run(unknown time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.outbreak()
	for i := range 1 + s.rng.IntN(2) {
		s.observe(ctx, fmt.Sprint("observer ", i))
	}
	for _, id := range s.ids {
		s.later(s.between(0, s.lease), func() { s.stand(id) })
	}
	until := s.lease * time.Duration(3+s.rng.IntN(8))
	if s.lazy {
		until *= 8
	}
	for s.now() < until && s.failures == 0 {
		s.toil()
		s.wait(s.between(0, s.pace))
		s.trouble()
	}
	s.actions = nil
	s.calmed = true
	s.logf("all is calm from now on")
	s.rest()
	s.letGo()
	s.calm()
	s.pass(0)
	s.relieve()
	switch {
	case s.failures > 0:
	case s.seats > 0:
		s.fill(unknown)
	default:
		s.recover(unknown)
	}
	s.stop()
	cancel()
	s.wait(0)
	for _, o := range s.lookers {
		if _, ok := <-o.holders; ok {
			s.failf("%s goes on after the end of its context", o.name)
		}
	}
}

// recover waits until a candidate leads for good, and checks that all agree on it.
func (s *simulation) recover(unknown time.Duration) {
	if len(s.standing()) == 0 {
		s.stand(s.ids[0])
	}
	began, bound, enough := s.now(), s.bound(unknown), (unknown+2*request)*1000/900
	if !s.racing {
		enough = max(enough, 6*s.lease*1000/900) // a higher priority must have appeared by then
	}
	var first *life
	var term *leader.Term
	same := func(l *life) bool { return l.current() == term }
	since := began
	for s.now()-since < enough || s.now() < began+s.quiet() || first == nil {
		s.wait(s.lease / 4)
		s.relieve()
		var leads *life
		for _, l := range s.standing() {
			if l.isLeading() {
				leads = l
			}
		}
		if leads == nil || leads != first || !same(leads) {
			first, since = leads, s.now()
			if leads != nil {
				term = leads.current()
			}
			if since-began > bound {
				s.failf("nobody leads for good %v after the last fault; the bound is %v", since-began, bound)
				return
			}
		}
	}
	s.slowest = float64(since-began) / float64(bound)
	s.agree(first)
	s.heeded(first)
	s.frugal()
}

// fill waits until all seats are taken for good.
func (s *simulation) fill(unknown time.Duration) {
	for len(s.standing()) < s.seats {
		s.stand(s.ids[0])
	}
	for until := s.now() + s.bound(unknown); s.now() < until; {
		s.wait(s.lease / 4)
		s.relieve() // a term that ended since then, or else its candidate waits for the work
	}
	leads := 0
	for _, l := range s.standing() {
		if l.isLeading() {
			leads++
		}
	}
	if before := s.elections; leads != s.seats {
		s.failf("%d lead on %d seats after the last fault", leads, s.seats)
	} else if s.wait(10 * s.lease); s.elections != before {
		s.failf("%d elections when all seats were taken", s.elections-before)
	}
}

// frugal checks that a waiting candidate has one goroutine, and an observer two.
func (s *simulation) frugal() {
	want := 2*len(s.lookers) + int(s.ticks.Load()) + s.looping()
	for _, l := range s.lives {
		if !l.gone() {
			want++
		}
	}
	for _, c := range s.calls {
		select {
		case <-c.done:
		default:
			want++
		}
	}
	if s.goroutines == 0 || runtime.NumGoroutine() <= s.goroutines+want {
		return
	}
	if got := goroutines(); got > want { // the runtime's own come and go
		s.failf("%d goroutines run, want %d", got, want)
	}
}

// agree checks that all name the leader.
func (s *simulation) agree(first *life) {
	s.call("Lookup", func() error {
		h, err := leader.Lookup(context.Background(), s.link("lookup").store(), "e")
		if err == nil {
			s.agrees(first, "Lookup", h)
		}
		return err
	})
	s.wait(s.lease / 4)
	for _, l := range s.standing() {
		s.agrees(first, l.name, l.Leader())
	}
	for _, o := range s.lookers {
		// An observer whose feeds were deaf too often polls, less often than a short lease ends.
		for i := 0; i < 16 && o.last.State != leader.HolderLeading; i++ {
			s.wait(s.lease / 4)
		}
		s.agrees(first, o.name, o.last)
	}
}

func (s *simulation) agrees(first *life, who string, h leader.Holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.State != leader.HolderLeading || h.ID != first.ID() || h.Token != first.term.Token() {
		s.failf("%s leads with token %d, and to %s %v", first.name, first.term.Token(), who, h)
	}
}

// stop stops all candidates, and checks that nothing of them is left.
func (s *simulation) stop() {
	all := slices.Clone(s.lives)
	s.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, l := range all {
		switch {
		case l.killed: // its remains have to end all the same
			l.closed = true
			l.link.close()
			if s.pass(0); !l.gone() {
				s.begin(l.clock.resume)
			}
		case l.leaving == 0 && !l.closed:
			l.leaves()
			s.call(l.name+": Stop", func() error { return l.Stop() })
			if s.chance(2) {
				s.wait(s.between(0, s.lease))
			}
		}
	}
	s.relieve()
	s.wait(max(s.drain, s.lease)*1000/900 + 2*s.lease)
	s.relieve()
	for _, l := range all {
		l.deaf = 0
		if !l.gone() {
			s.failf("%s has not ended", l.name)
			l.link.close()
		}
	}
	s.wait(s.lease)
	for _, l := range all {
		if !l.ended {
			s.failf("%s: the events do not end", l.name)
		}
		if l.IsLeader() {
			s.failf("%s leads after its end", l.name)
		}
	}
	if n := s.looping(); n > 0 {
		s.failf("%d loops over terms have not ended", n)
	}
	s.returned()
}
