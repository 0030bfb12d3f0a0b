package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/checker"
	"github.com/natsleader/natsleader/internal/contract"
	"github.com/natsleader/natsleader/leader"
)

// The contract, checked at the very moment at which the candidates act. This code runs on
// their goroutines.

// offers checks an event that the candidate is about to offer, by the line of its log.
func (l *life) offers(kind string, values []slog.Value) {
	s := l.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.mute {
		return
	}
	text := logLine(kind, values...)
	s.logf("%s %s", l.name, text)
	l.told = append(l.told, text)
	s.tally["event "+kind]++
	l.offered(kind, values)
	switch kind {
	case "elected":
		s.elected(l, l.scribe.term)
	case "fenced":
		l.resignedOnRequest()
		s.tally["fenced: "+causeName(l.cause())]++
		if errors.Is(l.cause(), leader.ErrFenced) && !s.amnesia && !slices.ContainsFunc(s.resources, func(r *resource) bool { return r.forged }) {
			s.failf("%s is fenced by a guard, and it was the last to be elected", l.name)
		}
	case "deposed":
		l.resignedOnRequest()
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

// offered checks a line of the log by the contract.
func (l *life) offered(kind string, values []slog.Value) {
	e := contract.Event{Who: l.name, At: l.clock.Now()}
	switch kind {
	case "pending":
		e.Kind, e.Token, e.Until = contract.Pending, values[0].Uint64(), values[1].Time()
	case "elected":
		if e.Kind, e.Token = contract.Elected, values[0].Uint64(); l.leaving > 0 && !l.unaware {
			l.contract.Next(contract.Event{Kind: contract.Stopped})
		}
	case "fenced", "deposed":
		if e.Kind, e.Token = contract.Fenced, values[0].Uint64(); kind == "deposed" {
			e.Kind = contract.Deposed
		}
		if l.term != nil {
			e.Context, e.Left = checker.Ending(l.term), l.term.Remaining()
		}
		if e.Cause = e.Context; e.Cause == nil || e.Cause.Error() != values[1].String() {
			e.Cause = errors.New(values[1].String())
		}
	case "observed":
		if e.Kind = contract.Observed; values[0].String() != "" && len(values) == 2 { // neither pending nor foreign
			e.Token = values[1].Uint64()
		}
	case "faulted":
		e.Kind = contract.Faulted
	}
	l.sim.broken(l.contract.Next(e))
}

// broken fails the test for violations, except for those that a store without a memory
// excuses: two may lead, and tokens may fall unless guards remember them.
func (s *simulation) broken(vs ...*contract.Violation) {
	for _, v := range vs {
		if v == nil {
			continue
		}
		excused := false
		switch v.Rule { //nolint:exhaustive // nothing excuses the others
		case contract.OneLeader, contract.ObservedRises, contract.PendingRises: // Pending names a token before the guards do
			excused = s.amnesia
		case contract.TokensRise, contract.TokenUnique, contract.PendingToken:
			excused = s.amnesia && (len(s.resources) == 0 || slices.ContainsFunc(s.resources, func(r *resource) bool { return r.forgets }))
		}
		if !excused {
			s.failf("%v", v)
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

// resignedOnRequest checks the end of a term: a candidate does not resign by itself.
func (l *life) resignedOnRequest() {
	if l.term != nil && errors.Is(l.cause(), leader.ErrResigned) && !l.resigns && !l.sim.asked[l.term.Token()] && !l.sim.preempted(l) {
		l.sim.failf("%s resigns, and nobody has asked it to hand over that term", l.name)
	}
}

// elected checks the beginning of a term.
func (s *simulation) elected(l *life, term *leader.Term) {
	if term == nil {
		s.failf("%s offers Elected, and has no term", l.name)
		return
	}
	s.elections++
	l.serves(term)
	if l.term != nil && l.term != term && l.term.Context().Err() == nil {
		s.failf("%s is elected before the context of its term with token %d has ended", l.name, l.term.Token())
	}
	l.term, l.open = term, true
	l.tokens = append(l.tokens, term.Token())
	s.rules(l, term)
	s.succeeds(l, term)
	now := s.election.Now()
	s.broken(s.election.Elected(l.checker.Named(term), now, now)...)
	for _, o := range s.lives {
		if o != l && o.term != nil && o.term.Seat() == term.Seat() && !o.away && o.term.Context().Err() == nil && !s.amnesia {
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

// current returns the newest term.
func (l *life) current() *leader.Term {
	l.sim.mu.Lock()
	defer l.sim.mu.Unlock()
	return l.term
}

// leads calls the term itself, as the application does. The lock is held.
func (l *life) leads() bool {
	term, valid := l.look()
	if now := l.sim.election.Now(); valid {
		l.sim.broken(l.sim.election.Leads(term, now, now)...)
	} else {
		l.sim.election.Over(term)
	}
	return valid
}

// look returns the newest term, and whether it is valid.
func (l *life) look() (contract.Term, bool) {
	if l.term == nil {
		return contract.Term{}, false
	}
	return l.checker.Named(l.term), leader.Err(l.term.Context()) == nil
}

// alone checks that at most one candidate leads, by its own account.
func (s *simulation) alone() {
	s.broken(s.election.Sample(len(s.lives), func(i int) (contract.Term, bool) { return s.lives[i].look() })...)
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
			l.contract = contract.Candidate{}
			l.contract.Next(contract.Event{Kind: contract.Pending})
			l.offered("elected", []slog.Value{slog.Uint64Value(term.Token())})
			s.elected(l, term)
		}
		l.open = l.State() == leader.StateLeader || l.State() == leader.StateFenced
	}
	l.unaware = l.unaware && l.heldUp()
	if s.alone(); s.seats > 0 { // the goroutine of another seat may be at work
		return
	}
	alive := l.term != nil && l.term.Context().Err() == nil
	if leads := l.State() == leader.StateLeader; alive != leads && (leads || leader.Err(l.term.Context()) == nil) { // the State reads the clock
		s.failf("%s is %v, and its context is alive: %v", l.name, l.State(), alive)
	}
	if term, ok := l.Term(); ok != l.leads() || ok && term != l.term {
		s.failf("%s leads: %v; its last term is good: %v", l.name, ok, l.leads())
	}
	s.trusted(l)
	if h := l.Leader(); h.State == leader.HolderLeading {
		s.names(&l.names, l.name, h)
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
	if l.term != nil && !l.away && leader.Err(l.term.Context()) != nil && l.term.Context().Err() == nil {
		s.failf("%s: its lease is over, and its context is alive", l.name)
	}
}

// names checks the leader that a candidate or an observer names.
func (s *simulation) names(by *contract.Candidate, who string, h leader.Holder) {
	s.broken(by.Next(contract.Event{Kind: contract.Observed, Who: who, Token: h.Token}))
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
	drains := state == "leading" && l.State() == leader.StateFenced && (l.cfg.GracePeriod > 0 || l.loops > 0)
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
	s.ancestry.stored(l, e.Revision, e.Value)
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
