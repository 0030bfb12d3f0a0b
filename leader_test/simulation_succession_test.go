package leader_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
)

// place is the place of a candidate in the queue, as its announcements show it.
type place struct {
	since     time.Duration // of its first announcement ever; -1: none
	ticket    int           // of the announcement that began its stand; 0: it does not stand
	known     bool          // the roster has it
	overtaken int           // how often, since
}

// win is a record that took the key.
type win struct {
	id    string
	token uint64
}

// follows draws the succession of a candidate.
func (s *simulation) follows(cfg *leader.Config) {
	if s.orderly {
		cfg.Queue = &leader.Queue{}
		return
	}
	if s.racing {
		return
	}
	switch s.rng.IntN(6) {
	case 0:
	case 1:
		cfg.Queue = &leader.Queue{AtOnce: true}
	case 2, 3:
		cfg.Queue = &leader.Queue{}
	default:
		cfg.Queue = &leader.Queue{Priority: s.rng.IntN(3), Preempt: s.chance(2)}
	}
	if s.chance(2) {
		cfg.TurnTimeout = s.between(s.lease/100, s.lease/8)
	}
}

// Announce records the announcements of a candidate.
func (t tap) Announce(ctx context.Context, election, session string, entry []byte, life time.Duration, reply func(uint64, error)) {
	l, s := t.life, t.life.sim
	l.scribe.await()
	s.mu.Lock()
	s.logf("%s announces %s", l.name, entry)
	s.tally["announcement"]++
	switch p := &l.place; {
	case entry == nil:
		*p = place{since: p.since}
	case p.ticket == 0:
		s.tickets++
		p.ticket = s.tickets
		if p.since < 0 {
			p.since = s.now()
		}
	}
	ticket := l.ticket
	s.mu.Unlock()
	l.holdUp(func() {
		t.Store.Announce(ctx, election, session, entry, life, func(revision uint64, err error) {
			s.mu.Lock()
			l.known = l.known || err == nil && ticket > 0 && ticket == l.ticket
			s.mu.Unlock()
			reply(revision, err)
		})
	})
}

// preempted reports whether a candidate of a higher priority that wants to lead has
// stood for a lease. Clocks deviate by a tenth. The lock is held.
func (s *simulation) preempted(l *life) bool {
	var low leader.Queue
	if q := l.cfg.Queue; q != nil {
		low = *q
	}
	return slices.ContainsFunc(s.lives, func(o *life) bool {
		high := o.cfg.Queue
		return high != nil && high.Preempt && high.Priority > low.Priority && o.since >= 0 && s.now()-o.since >= l.cfg.LeaseDuration*10/11
	})
}

// bids records that a waiting candidate sends a write to take the key. The lock is
// held.
func (s *simulation) bids(l *life, state string) {
	if l.known && (state == "elected" || state == "pending") {
		s.attempts++
	}
}

// takes records that the key was taken. In a queue without faults each vacancy costs
// one write, and no candidate that stays is overtaken twice. The lock is held.
func (s *simulation) takes(l *life, token uint64) {
	s.wins = append(s.wins, win{l.cfg.ID, token})
	won := l.place
	l.place = place{since: won.since}
	if !s.orderly {
		return
	}
	if s.attempts > 1 { // of candidates that wait in the queue
		s.failf("a vacancy cost %d writes", s.attempts)
	}
	s.attempts = 0
	for _, o := range s.lives {
		if o == l || !o.known || o.leaving > 0 || won.ticket != 0 && won.ticket < o.ticket {
			continue
		}
		s.tally["overtaken"]++
		if o.overtaken++; o.overtaken > 1 {
			s.failf("%s is overtaken twice, last by %s", o.name, l.name)
		}
	}
}

// took checks the result of a transfer from the leader with that token: the named candidate
// has the key. The lock is not held.
func (s *simulation) took(what string, of uint64, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally["a transfer that took"]++
	if s.witnessed && !slices.ContainsFunc(s.wins, func(w win) bool { return w.token > of && (w.id == to || to == "") }) {
		s.failf("%s has returned, and %s has not taken the key since %d", what, to, of)
	}
}

// transfers are the calls by which a leader names its successor.
func (s *simulation) transfers() []fault {
	return []fault{
		{"Term.TransferTo", 3, false, func(l *life) bool {
			leads, to := l.isLeading(), append(s.ids, "nobody")[s.rng.IntN(len(s.ids)+1)]
			ctx, cancel := context.WithCancel(context.Background())
			if s.chance(4) {
				s.later(s.between(0, s.lease), func() { s.begin(cancel) })
			}
			l.resigning()
			s.call(l.name+": Transfer to "+to, func() error { defer cancel(); return leadertest.Led(l).TransferTo(ctx, to) })
			return leads
		}},
		{"Roster", 1, false, func(*life) bool {
			store := s.link("operator").store()
			s.call("Roster", func() error { return check.Err(roster.Lookup(context.Background(), store, "e")) })
			return true
		}},
	}
}

// orderlyCalls are all that happens in a simulation without faults.
func (s *simulation) orderlyCalls() []fault {
	return slices.DeleteFunc(slices.Concat(s.applicationCalls(), s.ends()), func(p fault) bool {
		return p.name != "Campaign" && p.name != "Term.Resign" && p.name != "Candidate.Stop" && p.name != "the end of its context"
	})
}

// "In the queue nobody who stays is overtaken twice in the absence of faults", and a
// vacancy costs one write, whichever candidates resign, stop and start.
func TestQueue_KeepsOrderWithoutFaults(t *testing.T) {
	all := simulate(t, seeds(4), onKit(func(s *simulation) {
		s.orderly = true
		s.ids = []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}[:2+s.rng.IntN(11)]
	}))
	check.That(t, all.seeds < 50 || all.elections >= 4*all.seeds,
		"only %d elections in %d seeds", all.elections, all.seeds)
}
