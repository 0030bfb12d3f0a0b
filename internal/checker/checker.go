// Package checker hands what an application sees of its candidates to package contract:
// their events, and their terms when they are asked. It has no goroutine, no lock and no
// clock.
package checker

import (
	"context"
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/contract"
	"github.com/natsleader/natsleader/leader"
)

// Candidate checks the events of one candidate as they are read. Its zero value is a
// candidate without a name.
type Candidate struct {
	contract.Candidate
	Name  string
	Exact bool         // each event is read at the instant at which it was offered
	Term  *leader.Term // the newest
}

// Next returns the rule that an event breaks, or nil. now is the candidate's time when the
// event is read.
func (c *Candidate) Next(e leader.Event, now time.Time) *contract.Violation {
	in := contract.Event{Who: c.Name, At: now}
	switch e := e.(type) {
	case leader.Pending:
		if in.Kind, in.Seat, in.Token, in.Until = contract.Pending, e.Seat, e.Token, e.Until; !c.Exact {
			in.At = time.Time{}
		}
	case leader.Elected:
		in.Kind, in.Seat, in.Token, c.Term = contract.Elected, e.Term.Seat(), e.Term.Token(), e.Term
	case leader.Fenced:
		in.Kind, in.Cause = contract.Fenced, e.Cause
		c.lost(&in, e.Term)
	case leader.Deposed:
		in.Kind, in.Cause = contract.Deposed, e.Cause
		c.lost(&in, e.Term)
	case leader.Observed:
		if in.Kind, in.Seat = contract.Observed, e.Holder.Seat; e.Holder.State == leader.HolderLeading {
			in.Token = e.Holder.Token
		}
	case leader.Faulted:
		in.Kind = contract.Faulted
	}
	return c.Candidate.Next(in)
}

// lost adds what a term says of its end.
func (c *Candidate) lost(in *contract.Event, term *leader.Term) {
	in.Context, in.Left = Ending(term), term.Remaining()
	if term == c.Term {
		in.Token = term.Token()
	}
}

// Ending returns the cause with which a term has ended. It is nil while the term's context
// is alive, and while the term is valid.
func Ending(term *leader.Term) error {
	if cause := context.Cause(term.Context()); cause == nil || cause == leader.Err(term.Context()) { //nolint:errorlint // the same, not a like one
		return cause
	}
	return leader.Err(term.Context())
}

// End returns the rule that is broken if the candidate offers no further event, or nil.
func (c *Candidate) End() *contract.Violation {
	return c.Candidate.Next(contract.Event{Kind: contract.Ended, Who: c.Name})
}

// Named returns the name of a term of this candidate.
func (c *Candidate) Named(term *leader.Term) contract.Term {
	return contract.Term{Who: c.Name, Seat: term.Seat(), Token: term.Token()}
}

// Election checks the candidates of one election by their events, and their newest terms
// with one another. Its zero value is an election without a candidate.
type Election struct {
	// Contexts says that a context ends at the very instant at which the lease does, as in
	// a bubble. Then no two may be alive. Elsewhere only the terms themselves are asked,
	// because a timer may be late.
	Contexts bool

	contract contract.Election
	names    map[string]int // how many candidates have had an ID
	terms    []led          // the newest
}

type led struct {
	name contract.Term
	term *leader.Term
}

// compared is how many terms are compared with one another. Those before are long over.
const compared = 64

// Candidate begins to check a candidate.
func (e *Election) Candidate(id string) *Candidate {
	if e.names == nil {
		e.names = make(map[string]int)
	}
	name := id
	if e.names[id]++; e.names[id] > 1 {
		name = fmt.Sprintf("%s (%d)", id, e.names[id])
	}
	return &Candidate{Name: name, Exact: e.Contexts}
}

// Next returns the rules that an event of a candidate breaks, as [Candidate.Next] does,
// and those that the terms break.
func (e *Election) Next(c *Candidate, ev leader.Event, now time.Time) (vs []*contract.Violation) {
	if v := c.Next(ev, now); v != nil {
		vs = append(vs, v)
	}
	if ev, ok := ev.(leader.Elected); ok {
		name := c.Named(ev.Term)
		vs = append(vs, e.contract.Elected(name, 0, e.contract.Now())...)
		e.terms = append(e.terms, led{name, ev.Term})
		e.terms = e.terms[max(0, len(e.terms)-compared):]
	}
	return append(vs, e.Sample()...)
}

// Sample asks the terms whether they are valid, and returns the rules that they break.
func (e *Election) Sample() []*contract.Violation {
	return e.contract.Sample(len(e.terms), func(i int) (contract.Term, bool) {
		term := e.terms[i].term
		return e.terms[i].name, leader.Err(term.Context()) == nil || e.Contexts && term.Context().Err() == nil
	})
}
