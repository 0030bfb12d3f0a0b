package leader_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/contract"
	"github.com/natsleader/natsleader/leader"
)

// watched is one candidate whose events are checked, as they are read.
type watched struct {
	contract.Candidate
	name  string
	exact bool         // each event is read at the instant at which it was offered
	term  *leader.Term // the newest
}

// next returns the rule that an event breaks. now is the candidate's time when the event is
// read.
func (w *watched) next(e leader.Event, now time.Time) *contract.Violation {
	in := contract.Event{Who: w.name, At: now}
	switch e := e.(type) {
	case leader.Pending:
		if in.Kind, in.Token, in.Until = contract.Pending, e.Token, e.Until; !w.exact {
			in.At = time.Time{}
		}
	case leader.Elected:
		in.Kind, in.Seat, in.Token, w.term = contract.Elected, e.Term.Seat(), e.Term.Token(), e.Term
	case leader.Fenced:
		in = w.lost(in, contract.Fenced, e.Term, e.Cause)
	case leader.Deposed:
		in = w.lost(in, contract.Deposed, e.Term, e.Cause)
	case leader.Observed:
		if in.Kind, in.Seat = contract.Observed, e.Holder.Seat; e.Holder.Leads() {
			in.Token = e.Holder.Token
		}
	case leader.Faulted:
		in.Kind = contract.Faulted
	}
	return w.Next(in)
}

// lost adds what is known of the term that has ended.
func (w *watched) lost(in contract.Event, kind contract.Kind, term *leader.Term, cause error) contract.Event {
	in.Kind, in.Cause, in.Context, in.Left = kind, cause, ending(term), term.Remaining()
	if term == w.term {
		in.Token = term.Token()
	}
	return in
}

// ending returns the cause with which a term has ended: nil while its context is alive, or
// the term valid.
func ending(term *leader.Term) error {
	if cause := context.Cause(term.Context()); cause == nil || cause == term.Err() { //nolint:errorlint // the same, not a like one
		return cause
	}
	return term.Err()
}

// end returns the rule that is broken if nothing follows.
func (w *watched) end() *contract.Violation {
	return w.Next(contract.Event{Kind: contract.Ended, Who: w.name})
}

// checker knows the newest terms of one election, of all candidates.
type checker struct {
	mu       sync.Mutex
	election contract.Election
	names    map[string]int // how many candidates have had an ID
	terms    []ledTerm
}

// ledTerm is a term and its name.
type ledTerm struct {
	contract.Term
	is *leader.Term
}

// watch begins to check a candidate.
func (k *checker) watch(id string) *watched {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.names == nil {
		k.names = make(map[string]int)
	}
	name := id
	if k.names[id]++; k.names[id] > 1 {
		name = fmt.Sprintf("%s (%d)", id, k.names[id])
	}
	return &watched{name: name, exact: true}
}

// next checks an event, and that at most one term is valid and at most one context alive.
// Time stands still in a bubble until the event is read.
func (k *checker) next(t *testing.T, at time.Duration, w *watched, e leader.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	broken := []*contract.Violation{w.next(e, time.Now())}
	if e, ok := e.(leader.Elected); ok {
		term := contract.Term{Who: w.name, Seat: e.Term.Seat(), Token: e.Term.Token()}
		broken = append(broken, k.election.Elected(term, 0, k.election.Now())...)
		k.terms = append(k.terms, ledTerm{term, e.Term})
		k.terms = k.terms[max(0, len(k.terms)-64):] // those before are long over
	}
	broken = append(broken, k.election.Sample(len(k.terms), func(i int) (contract.Term, bool) {
		term := k.terms[i].is
		return k.terms[i].Term, term.Err() == nil || term.Context().Err() == nil
	})...)
	report(t, at, broken...)
}

// end checks that nothing is missing after the last event.
func (k *checker) end(t *testing.T, at time.Duration, w *watched) {
	k.mu.Lock()
	defer k.mu.Unlock()
	report(t, at, w.end())
}

// report fails the test for each violation.
func report(t *testing.T, at time.Duration, broken ...*contract.Violation) {
	for _, v := range broken {
		if v != nil {
			t.Errorf("%v: %v", at, v)
		}
	}
}
