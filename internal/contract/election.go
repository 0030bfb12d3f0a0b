package contract

import (
	"fmt"
	"math"
)

// Term names one term of an election.
type Term struct {
	// Who is the candidate. A process that was started again is another candidate, also
	// with the same ID.
	Who   string
	Seat  int // from 1; 0: the election has no seats
	Token uint64
}

// String returns the candidate, the token, and the seat if it is not the first.
func (t Term) String() string {
	if t.Seat > 1 {
		return fmt.Sprintf("%s with token %d on seat %d", t.Who, t.Token, t.Seat)
	}
	return fmt.Sprintf("%s with token %d", t.Who, t.Token)
}

// Election checks the terms of an election with one another. Its zero value is an
// election without a term.
//
// Instants are numbers of one clock, or the numbers of the observations of one caller
// ([Election.Now]). A term is known to be valid at single instants, and so at all instants
// between: a term that is over stays over.
type Election struct {
	Seats    int    // of the election; 0: do not check
	MinToken uint64 // of all candidates

	terms    []*history
	index    map[Term]*history
	reported map[[2]Term]bool // pairs of terms
	now      int64            // number of the last observation
}

// history is what is known of a term.
type history struct {
	Term
	after, begun int64 // it began later than after, and not later than begun
	claimed      bool
	first, last  int64 // known to be valid from first to last
	over         bool
	fell         bool // it was reported that its token does not rise
}

// Elected reports that a term began later than one instant, and had begun by another. It
// checks the token and the seat of the term. A term may be reported again.
func (e *Election) Elected(t Term, after, by int64) (vs []*Violation) {
	if h := e.index[t]; h != nil {
		h.after, h.begun = max(h.after, after), min(h.begun, by)
		return e.rises(h)
	}
	if e.Seats > 0 && (t.Seat < 1 || t.Seat > e.Seats) {
		vs = append(vs, broken(SeatExists, "%v leads on seat %d of %d", t, t.Seat, e.Seats))
	}
	if t.Token <= e.MinToken {
		vs = append(vs, broken(MinToken, "%v, not greater than %d", t, e.MinToken))
	}
	for _, o := range e.terms {
		if o.Seat == t.Seat && o.Token == t.Token {
			vs = append(vs, broken(TokenUnique, "%v, and %v", o, t))
		}
	}
	h := &history{Term: t, after: after, begun: by}
	if e.index == nil {
		e.index = make(map[Term]*history)
	}
	e.index[t] = h
	e.terms = append(e.terms, h)
	return append(vs, e.rises(h)...)
}

// Leads reports that a term was valid at two instants, and so between them. It checks that
// no other term was, and that no term with a greater token had begun when the term was first
// seen. It returns each pair of terms once, with the overlap that is known by then. So a
// caller that needs the whole overlap reports each term once, with its first and last
// instant.
func (e *Election) Leads(t Term, from, to int64) (vs []*Violation) {
	h := e.index[t]
	if h == nil {
		vs = e.Elected(t, math.MinInt64, from)
		h = e.index[t]
	}
	if h.over {
		vs = append(vs, broken(OverStaysOver, "%v was over and is good again", t))
		h.over = false
	}
	if !h.claimed {
		h.claimed, h.first, h.last = true, from, to
		h.begun = min(h.begun, from)
		vs = append(vs, e.rises(h)...)
	}
	h.first, h.last = min(h.first, from), max(h.last, to)
	for _, o := range e.terms {
		if o == h || !o.claimed || o.last < h.first || h.last < o.first {
			continue
		}
		rule := OneLeader
		if o.Who == h.Who && o.Seat != h.Seat {
			rule = OneSeat
		} else if o.Seat != h.Seat {
			continue
		}
		pair := [2]Term{o.Term, h.Term}
		if e.reported[pair] || e.reported[[2]Term{h.Term, o.Term}] {
			continue
		}
		if e.reported == nil {
			e.reported = make(map[[2]Term]bool)
		}
		e.reported[pair] = true
		first, last := max(o.first, h.first), min(o.last, h.last)
		v := broken(rule, "%v, and %v", o, h)
		v.First, v.Last = first, last
		vs = append(vs, v)
	}
	return vs
}

// rises compares the token of a term with those of all others. The order of two terms is
// known if one had begun before the other did. If the one with the greater token had begun
// when the other was first seen to be valid, either the tokens have fallen, or the other
// went on.
func (e *Election) rises(h *history) []*Violation {
	if h.fell {
		return nil
	}
	for _, o := range e.terms {
		if o.Seat != h.Seat || o.Token == h.Token { // of which TokenUnique knows
			continue
		}
		first, second := o, h
		if o.Token < h.Token {
			first, second = h, o
		}
		// first has the greater token.
		if first.begun <= second.after || second.claimed && first.begun <= second.first && !second.fell {
			second.fell = true
			return []*Violation{broken(TokensRise, "%v, then %v", first, second)}
		}
	}
	return nil
}

// Over reports that a term was found not to be valid any more.
func (e *Election) Over(t Term) {
	if h := e.index[t]; h != nil {
		h.over = true
	}
}

// Stored checks a write of a term that was stored, and not before an instant: no term
// with a greater token had begun by then.
func (e *Election) Stored(t Term, from int64) *Violation {
	for _, o := range e.terms {
		if o.Seat == t.Seat && o.Token > t.Token && o.begun < from {
			return broken(NoLateWrite, "%d of %s had begun, and a write of %v was stored", o.Token, o.Who, t)
		}
	}
	return nil
}

// Now returns the number of a new observation, for a caller without a clock.
func (e *Election) Now() int64 {
	e.now++
	return e.now
}

// Sample looks at n terms, forwards and then backwards. So a term that is found valid both
// times was valid when those behind it were looked at. look returns the term, and whether it
// is valid at this moment; a zero Term is left out.
func (e *Election) Sample(n int, look func(i int) (Term, bool)) (vs []*Violation) {
	for i := range 2 * n {
		t, valid := look(min(i, 2*n-1-i))
		switch {
		case t == Term{}:
		case valid:
			now := e.Now()
			vs = append(vs, e.Leads(t, now, now)...)
		default:
			e.Over(t)
		}
	}
	return vs
}
