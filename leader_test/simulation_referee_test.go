package leader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/leader"
)

// The promises, checked at the very moment at which the candidates act. This code runs
// on their goroutines.

// offers checks an event that the candidate is about to offer.
func (l *life) offers(text string) {
	s := l.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.mute {
		return
	}
	s.logf("%s %s", l.name, text)
	l.told = append(l.told, text)
	kind, _, _ := strings.Cut(text, ":")
	s.tally["event "+kind]++
	switch kind {
	case "pending":
		if l.open {
			s.failf("%s is pending within a term", l.name)
		}
	case "elected":
		s.elected(l, l.scribe.term)
	case "fenced":
		l.over(leader.Fenced{Term: l.term, Cause: l.cause()}, text)
		s.tally["fenced: "+causeName(l.cause())]++
		if errors.Is(l.cause(), leader.ErrFenced) && !s.amnesia && !slices.ContainsFunc(s.resources, func(r *resource) bool { return r.forged }) {
			s.failf("%s is fenced by a guard, and it was the last to be elected", l.name)
		}
	case "deposed":
		l.over(leader.Deposed{Term: l.term, Cause: l.cause()}, text)
		s.tally["deposed: "+causeName(l.cause())]++
		l.open = false
		switch cause := l.cause(); {
		case s.amnesia:
		case errors.Is(cause, leader.ErrRegressed):
			s.failf("%s says that the store went backwards", l.name)
		case s.witnessed && !l.robbed && (errors.Is(cause, leader.ErrPreempted) || errors.Is(cause, leader.ErrDeleted)):
			s.failf("%s is deposed, and nobody has touched its key: %v", l.name, cause)
		}
	}
}

// cause returns the cause with which the context of the newest term has ended; nil if
// it has not.
func (l *life) cause() error {
	if l.term == nil {
		return nil
	}
	return context.Cause(l.term.Context())
}

// over checks an event that ends a term: the context has ended, with that cause.
func (l *life) over(want leader.Event, text string) {
	if !l.open || l.term == nil || l.term.Err() == nil || l.cause() == nil || logged(want) != text {
		l.sim.failf("%s offers %q, and its context ended with %v", l.name, text, l.cause())
		return
	}
	if errors.Is(l.cause(), leader.ErrResigned) && !l.resigns && !l.sim.asked[l.term.Token()] && !l.sim.preempted(l) {
		l.sim.failf("%s resigns, and nobody has asked it to hand over that term", l.name)
	}
}

// elected checks the beginning of a term.
func (s *simulation) elected(l *life, term *leader.Term) {
	switch {
	case term == nil || l.open:
		s.failf("%s offers Elected and leads: %v; its last term is open: %v", l.name, term != nil, l.open)
		return
	case l.leaving > 0 && !l.unaware:
		s.failf("%s is elected after it was told to stop", l.name)
	}
	s.elections++
	l.term, l.open, l.expired = term, true, false
	l.tokens = append(l.tokens, term.Token())
	s.rules(l, term)
	if s.amnesia {
		return
	}
	if term.Token() <= max(s.top, s.least) {
		s.failf("%s is elected with token %d after one with %d", l.name, term.Token(), max(s.top, s.least))
	}
	s.top = term.Token()
	for _, o := range s.lives {
		if o != l && o.term != nil && !o.away && o.term.Context().Err() == nil {
			s.failf("%s is elected before the context of %s has ended", l.name, o.name)
		}
	}
	s.alone()
}

// isLeading is leads for the driver.
func (l *life) isLeading() bool {
	l.sim.mu.Lock()
	defer l.sim.mu.Unlock()
	return l.leads()
}

// current returns the newest term, and whether Deposed was not offered yet.
func (l *life) current() (term *leader.Term, open bool) {
	l.sim.mu.Lock()
	defer l.sim.mu.Unlock()
	return l.term, l.open
}

// leads calls the term itself, as the application does. A term that is over stays over.
// The lock is held.
func (l *life) leads() bool {
	switch {
	case l.term == nil:
		return false
	case l.term.Err() != nil:
		l.expired = true
	case l.expired:
		l.sim.failf("%s leads again with token %d, after that term was over", l.name, l.term.Token())
	}
	return !l.expired
}

// alone checks that at most one candidate leads, by its own account.
func (s *simulation) alone() {
	var leads *life
	for _, l := range s.lives {
		switch {
		case !l.leads():
		case leads == nil:
			leads = l
		case !s.amnesia:
			s.failf("two leaders: %s with token %d and %s with %d", leads.name, leads.term.Token(), l.name, l.term.Token())
		}
	}
}

// rests is called when the candidate has done all its work, and waits.
func (l *life) rests() {
	l.scribe.await()
	s := l.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.Candidate == nil {
		return
	}
	if l.mute { // its log does not report it
		if term, ok := l.Term(); ok && term != l.term {
			l.open = false
			s.elected(l, term)
		}
		l.open = l.State() == leader.StateLeader || l.State() == leader.StateFenced
	}
	l.unaware = l.unaware && l.heldUp()
	s.alone()
	alive := l.term != nil && l.term.Context().Err() == nil
	if leads := l.State() == leader.StateLeader; alive != leads && (leads || l.term.Err() == nil) { // the State reads the clock
		s.failf("%s is %v, and its context is alive: %v", l.name, l.State(), alive)
	}
	if term, ok := l.Term(); ok != l.leads() || ok && term != l.term {
		s.failf("%s leads: %v; its last term is good: %v", l.name, ok, l.leads())
	}
	s.trusted(l)
	if h, ok := l.Leader(); ok {
		s.names(&l.named, l.name, h)
	}
}

// trusted checks that a leader has a write in the store that was sent less than its
// RenewDeadline ago.
func (s *simulation) trusted(l *life) {
	if s.witnessed && l.leads() && !l.clock.Now().Before(l.good) {
		s.failf("%s leads at %v by its clock, with a write that is good until %v", l.name, l.clock.Now(), l.good)
	}
}

// overdue checks, at rest, that no context of a running process has outlived its lease.
func (s *simulation) overdue(l *life) {
	if l.term != nil && !l.away && l.term.Err() != nil && l.term.Context().Err() == nil {
		s.failf("%s: its lease is over, and its context is alive", l.name)
	}
}

// names checks the leader that a candidate or an observer names.
func (s *simulation) names(named *uint64, who string, h leader.Holder) {
	if h.Token < *named && !s.amnesia {
		s.failf("%s names %v after one with token %d", who, h, *named)
	}
	*named = max(*named, h.Token)
}

// writes checks a record that the candidate sends.
func (l *life) writes(value []byte, revision uint64) {
	s := l.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logf("%s writes on %d %s", l.name, revision, value)
	state := field(value, "state")
	if id := field(value, "id"); id != l.cfg.ID {
		s.failf("%s writes %s", l.name, value)
	}
	s.sessions[field(value, "session")] = l
	w := written{at: l.clock.Now()}
	if state == "elected" || state == "leading" {
		if w.good = l.cfg.RenewDeadline; w.good == 0 {
			w.good = l.cfg.LeaseDuration / 5 * 4
		}
	}
	l.written[field(value, "n")] = w
	s.bids(l, state)
	if l.Candidate == nil || l.unaware || l.leaving == 0 && !l.gone() {
		return
	}
	drains := state == "leading" && l.State() == leader.StateFenced && l.cfg.DrainTimeout > 0
	if l.gone() || state != "released" && !drains {
		s.failf("%s writes after it was told to stop: %s", l.name, value)
	}
}

// stored is called for a stored entry, before the store sends it to any client.
func (s *simulation) stored(e backend.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.sessions[field(e.Value, "session")]
	for _, o := range s.lives {
		o.robbed = o.robbed || o != l
	}
	if l == nil {
		s.logf("stored %d %q", e.Revision, e.Value)
		return
	}
	if field(e.Value, "state") == "elected" {
		l.robbed = false
	}
	if state := field(e.Value, "state"); state == "elected" || state == "pending" {
		least, err := strconv.ParseUint(field(e.Value, "least"), 10, 64)
		if err != nil {
			s.failf("stored %s: %v", e.Value, err)
		}
		s.takes(l, max(least, e.Revision))
	}
	n := field(e.Value, "n")
	s.logf("stored %d, number %s of %s", e.Revision, n, l.name)
	if l.leaving > 0 && field(e.Value, "state") == "released" {
		if l.released {
			s.failf("%s releases twice after it was told to stop", l.name)
		}
		l.released = true
	}
	if w := l.written[n]; w.good > 0 && w.at.Add(w.good).After(l.good) {
		l.good = w.at.Add(w.good)
	}
}

// failf reports a failure. The lock is held.
func (s *simulation) failf(format string, args ...any) {
	s.Helper()
	text := fmt.Sprintf(format, args...)
	s.logf("FAILED: %s", text)
	if s.failures++; s.failures <= 3 {
		s.Errorf("%v: %s", s.now(), text)
	}
}

// logf adds a line to the transcript, if there is one.
func (s *simulation) logf(format string, args ...any) {
	if s.trace != nil {
		s.trace(fmt.Sprintf("%12v ", s.now()) + fmt.Sprintf(format, args...))
	}
}
