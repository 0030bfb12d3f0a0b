package leader_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// applicationCalls are the calls of an application.
func (s *simulation) applicationCalls() []fault {
	all := []fault{
		{"Campaign", 3, false, func(*life) bool { return s.again() }},
		{"Term.Resign", 3, false, func(l *life) bool {
			ctx, cancel := context.WithCancel(context.Background())
			if s.chance(3) {
				s.later(s.between(0, s.lease), func() { s.begin(cancel) })
			}
			leads := l.isLeading()
			l.resigning()
			s.call(l.name+": Resign", func() error { defer cancel(); return leadertest.Led(l).Resign(ctx) })
			return leads
		}},
		{"a request to hand over", 3, false, func(l *life) bool {
			token, session, open := l.anyTerm()
			if token == 0 {
				return false
			}
			p := s.petitioner()
			s.call("a request to "+l.name, func() error {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute/2) // the reply may be lost
				p.Ask(ctx, "e", petitionOf(session, token), func([]byte, error) { cancel() })
				return nil
			})
			return open
		}},
		{"Term.Proclaim", 2, false, func(l *life) bool {
			value := []byte(fmt.Sprint(s.now()))
			leads := l.isLeading()
			s.call(l.name+": Proclaim", func() error { return leadertest.Led(l).Proclaim(context.Background(), value) })
			return leads
		}},
		{"the end of a function of Go", 2, false, func(l *life) bool {
			s.mu.Lock()
			duty := l.duty
			s.mu.Unlock()
			if duty == nil {
				return false
			}
			s.call(l.name+": the end of its work", func() error { l.discharge(duty); return nil })
			return true
		}},
		{"a slow reader", 2, false, func(l *life) bool {
			l.deaf = s.now() + s.between(0, 10*s.lease)
			return true
		}},
		{"Lookup", 1, false, func(*life) bool {
			store := s.link("lookup").store()
			s.call("Lookup", func() error { return check.Err(leader.Lookup(context.Background(), store, "e")) })
			return true
		}},
	}
	if !s.racing {
		all = append(all, s.transfers()...)
	}
	return all
}

// anyTerm returns one of its terms, and whether the term is not over yet. 0: there was
// none.
func (l *life) anyTerm() (token uint64, session string, open bool) {
	l.sim.mu.Lock()
	defer l.sim.mu.Unlock()
	if len(l.tokens) == 0 {
		return 0, "", false
	}
	i := l.sim.rng.IntN(2 * len(l.tokens)) // the newest in half of the cases
	token = l.tokens[min(i, len(l.tokens)-1)]
	for text, who := range l.sim.sessions {
		if who == l {
			session = strings.Trim(text, `"`)
		}
	}
	return token, session, l.open && token == l.term.Token()
}

// petitioner records which leaders are asked to hand over.
type petitioner struct {
	backend.Store
	s *simulation
}

// Clock returns the true clock.
func (p petitioner) Clock() leader.Clock { return p.s.clock() }

func (s *simulation) petitioner() petitioner {
	return petitioner{s.link("operator").store().Backend(), s}
}

// Backend returns p.
func (p petitioner) Backend() backend.Store { return p }

func (p petitioner) Ask(ctx context.Context, key string, request []byte, reply func([]byte, error)) {
	var asked struct{ Token uint64 }
	err := json.Unmarshal(request, &asked)
	check.That(p.s, err == nil, "%v", err)
	p.s.mu.Lock()
	p.s.asked[asked.Token] = true
	p.s.mu.Unlock()
	p.Store.Ask(ctx, key, request, reply)
}

// ends are the ways in which an application ends a candidate.
func (s *simulation) ends() []fault {
	return []fault{
		{"Candidate.Stop", 1, false, func(l *life) bool {
			l.leaves()
			s.call(l.name+": Stop", func() error { return l.Stop() })
			return true
		}},
		{"Candidate.Stop, cut short", 1, false, func(l *life) bool {
			l.leaves()
			crash := func() { backend.Crash(l.Candidate) }
			if s.chance(2) {
				s.later(s.between(0, s.lease), func() { s.begin(crash) })
			} else {
				s.begin(crash)
			}
			s.call(l.name+": Stop, cut short", func() error { return l.Stop() })
			return true
		}},
		{"the end of its context", 1, false, func(l *life) bool {
			l.leaves()
			s.call(l.name+": end of its context", func() error { l.cancel(); return nil })
			return true
		}},
		{"no reader", 1, false, func(l *life) bool {
			l.deaf = 1 << 62
			return true
		}},
	}
}

// resigning records that it is about to be asked to resign.
func (l *life) resigning() {
	l.sim.mu.Lock()
	defer l.sim.mu.Unlock()
	l.resigns = true
}

// leaves records that it is about to be asked to stop.
func (l *life) leaves() {
	l.sim.pass(0) // everything that is due now comes first
	l.sim.mu.Lock()
	defer l.sim.mu.Unlock()
	l.leaving, l.unaware = l.sim.now(), l.heldUp()
}

// again starts one more candidate, if there are not enough. A candidate with the same
// ID may stand already.
func (s *simulation) again() bool {
	if len(s.standing()) > len(s.ids) || len(s.lives) >= 4*len(s.ids) {
		return false
	}
	s.stand(s.ids[s.rng.IntN(len(s.ids))])
	return true
}

// themes are the faults that must come together for the rarest mishaps. A rule of the
// protocol exists to prevent each of these mishaps. nil: any faults.
var themes = [][]string{
	nil, nil, nil, nil,
	{"Store.Erase", "Link.Cut", "a process stopped"},                      // an empty key behind a lease
	{"Store.Erase", "Link.ApplyLate", "Link.Freeze", "a process stopped"}, // and an old win that lands there
	{"Store.Delete", "a process killed", "a process stopped"},             // a short lease behind a long one
	{"Link.Freeze", "Link.Delay", "a process stopped"},                    // a confirmation that comes too late
	{"Link.Isolate", "Link.ApplyLate", "a process stopped"},               // reads are answered, writes are not
}

// guardThemes are the themes of candidates with guards.
var guardThemes = [][]string{
	nil, nil, nil,
	{"guard: Link.Freeze", "guard: Link.Delay", "Link.Cut", "Link.Freeze"},         // raised when the lease is over
	{"guard: Link.ApplyLate", "guard: Link.Delay", "a process stopped"},            // a raise that comes too late
	{"guard: Store.Delete", "guard: Link.Freeze", "Link.Cut", "a process stopped"}, // raised again by a former leader
	{"guard: Link.StaleReads", "guard: Link.LoseReplies", "guard: Store.Put"},      // raised, with unknown outcome
	{"guard: Link.Cut", "guard: Link.FailReads", "guard: Link.Refuse", "Link.Cut"}, // not raised in time
}

// outbreak draws the faults that happen often. There are few of them, so that all pairs
// come together in some seed.
func (s *simulation) outbreak() {
	if s.orderly {
		s.faults = s.orderlyCalls()
		return
	}
	s.faults = s.applicationCalls()
	var tickets []fault
	theme := themes[s.rng.IntN(len(themes))]
	if s.guarded && s.chance(2) {
		theme = guardThemes[s.rng.IntN(len(guardThemes))]
	}
	faults := slices.Concat(s.ends(), s.held(), s.crowded(), s.ground.faults())
	for _, p := range append(s.applicationCalls(), faults...) {
		if theme == nil || slices.Contains(theme, p.name) {
			tickets = append(tickets, slices.Repeat([]fault{p}, p.weight)...)
		}
	}
	// Each fault has its turn, too: by chance alone a rare one occurs in none of 200
	// seeds.
	s.faults = append(s.faults, slices.Repeat([]fault{faults[s.seed%uint64(len(faults))]}, 6)...)
	if tickets == nil {
		return
	}
	for range 2 + s.rng.IntN(5) {
		s.faults = append(s.faults, slices.Repeat([]fault{tickets[s.rng.IntN(len(tickets))]}, 6)...)
	}
}

// returned checks the calls: all have returned when the candidates have ended.
func (s *simulation) returned() {
	for _, c := range s.calls {
		select {
		case <-c.done:
			if c.err != nil && !slices.ContainsFunc(allowed, func(err error) bool { return errors.Is(c.err, err) }) {
				s.failf("%s returned %v", c.what, c.err)
			}
		default:
			s.failf("%s has not returned", c.what)
		}
	}
}

// allowed are the errors that calls may return.
var allowed = []error{
	leader.ErrNotLeader, leader.ErrNotReleased, leader.ErrStopped, leader.ErrValueTooLarge, leader.ErrUnreachable,
	leader.ErrNoBucket, leader.ErrNoLeader, leader.ErrNotSucceeded, leader.ErrNoRoster, leader.ErrRequestRefused, leader.ErrPermission, context.Canceled, context.DeadlineExceeded,
}

// request is how long it may take until a request is given up, and until it is tried
// again.
const request = 5 * time.Second

// bound is how long it may take at most, after the last fault, until a candidate leads
// for good. Requests under way land, and half an unknown lease later, after the longest
// pauses, a read finds their effects. A drain ends, and a candidate that resigned waits
// one lease. The record of a dead candidate keeps others out for an unknown lease, and
// the marker that replaces it when it expires for another. The first candidate that may
// take the key does so, and is pending for its time. All of this is by the slowest
// clock.
func (s *simulation) bound(unknown time.Duration) time.Duration {
	waits := unknown/2 + 3*2*max(request, s.lease) + s.drain + s.lease + 2*unknown + s.pending
	if s.amnesia {
		waits += 2 * unknown // the floor, and the next, when more turns out to be lost
	}
	if len(s.resources) > 0 {
		// An old request to a guard is given up, and tried again. A candidate that has
		// won the key meanwhile hands over, and waits one lease.
		waits += 3*request + 2*s.lease
	}
	if !s.racing {
		// The dead candidates and the named one have their turns. A candidate of a
		// higher priority stands for a lease once the roster is read, and drives
		// another out, twice.
		waits += 13*s.lease/8 + 2*(4*s.lease+s.drain)
	}
	return s.quiet() + waits*1000/900
}
