// Package contract states the contract between an election and its applications once, as
// checkers of what was seen of it. The exploration, the simulations, the bubbles, the
// torture and the demo feed them, with notes of the machine, with events, or with journals
// of processes.
//
//   - [Candidate] checks the events of one candidate.
//   - [Election] checks the terms of all candidates of one election with one another.
//   - [Guard] checks the writes to one guarded resource.
//
// A checker gets plain data and returns the violations. It has no goroutine, no lock and no
// clock: the caller passes the instants, and holds its own lock. After a violation it goes
// on with the newest data where that is possible, so that most mistakes are reported once.
//
// The caller may excuse a violation by its [Rule]. The contract holds for a store that
// remembers what it acknowledged, and only the caller knows when a test destroyed the
// store's memory.
//
// Its files:
//
//	contract.go   the rules of the contract with applications, which all checkers of tests share
//	candidate.go  the rules for the events of one candidate
//	election.go   the rules for the terms of all candidates of an election
//	guard.go      the rules for the writes to a guarded resource
package contract

import "fmt"

// Rule is one sentence of the contract.
type Rule uint8

// The rules for the events of one candidate.
const (
	// PendingFirst: Elected follows a Pending of its own.
	PendingFirst Rule = iota + 1
	// UntilAhead: the Until of a Pending has not passed when it is offered.
	UntilAhead
	// NotBeforeUntil: Elected is not offered before the Until of the last Pending.
	NotBeforeUntil
	// PendingToken: the token of a term is not less than the last Pending said.
	PendingToken
	// OneTerm: while a term is open, the candidate is neither Pending nor Elected.
	OneTerm
	// OwnTerm: a candidate is fenced in, deposed from and leads the term that is open.
	OwnTerm
	// FencedOnce: there is at most one Fenced for each Elected.
	FencedOnce
	// ContextFirst: the term's context has ended before Fenced or Deposed is offered.
	ContextFirst
	// SameCause: Fenced and Deposed have the cause with which the context ended.
	SameCause
	// OverStaysOver: a term that is over is not valid again.
	OverStaysOver
	// DeposedOnce: there is one Deposed for each Elected when the candidate has ended.
	DeposedOnce
	// NothingAfterEnd: nothing follows the end of a candidate.
	NothingAfterEnd
	// NotAfterStop: a candidate that was asked to stop is not elected.
	NotAfterStop
	// ObservedRises: the tokens of the leaders that a candidate or an observer names one
	// after the other on one seat do not fall.
	ObservedRises
	// PendingRises: the token of a Pending is not less than those of the candidate's earlier
	// terms and of the leaders that it has named, on one seat.
	PendingRises
)

// The rules for the terms of an election, and for the writes of leaders.
const (
	// OneLeader: no two terms of one seat are valid at one instant.
	OneLeader Rule = iota + 101
	// OneSeat: no candidate leads on two seats at one instant.
	OneSeat
	// SeatExists: a term is on one of the seats of the election.
	SeatExists
	// TokenUnique: no two terms of one seat have the same token.
	TokenUnique
	// TokensRise: a term has a greater token than all terms of the seat that began before,
	// and than those of all leaders that its candidate has named.
	TokensRise
	// MinToken: a token is greater than MinToken.
	MinToken
	// NoLateWrite: no write of a term is stored once a later term has begun.
	NoLateWrite
	// GuardRises: a guard is never raised to less than it was ever raised to.
	GuardRises
	// GuardMatches: an accepted write is of the term for which the guard stands.
	GuardMatches
	// WritesInOrder: no write of an earlier term follows one of a later term.
	WritesInOrder
)

var ruleNames = map[Rule]string{
	PendingFirst:    "Pending comes before Elected",
	UntilAhead:      "Until is not in the past",
	NotBeforeUntil:  "Elected comes not before its time",
	PendingToken:    "Pending names the least token",
	OneTerm:         "one term at a time",
	OwnTerm:         "events and claims are of the open term",
	FencedOnce:      "one Fenced at most",
	ContextFirst:    "the context ends first",
	SameCause:       "the cause is that of the context",
	OverStaysOver:   "a term that is over stays over",
	DeposedOnce:     "one Deposed for each Elected",
	NothingAfterEnd: "nothing after the end",
	NotAfterStop:    "no Elected after Stop",
	ObservedRises:   "the leaders that are named have rising tokens",
	PendingRises:    "Pending names no old token",
	OneLeader:       "two leaders",
	OneSeat:         "two seats",
	SeatExists:      "the seat exists",
	TokenUnique:     "the same token twice",
	TokensRise:      "tokens do not rise",
	MinToken:        "tokens are greater than MinToken",
	NoLateWrite:     "a write after a later term began",
	GuardRises:      "a guard fell",
	GuardMatches:    "written past the guard",
	WritesInOrder:   "an older term's write after a newer one's",
}

// String returns the rule, or what breaks it, in a few words. They begin the text of its
// violations.
func (r Rule) String() string {
	if name, ok := ruleNames[r]; ok {
		return name
	}
	return fmt.Sprintf("Rule(%d)", uint8(r))
}

// Violation is a rule that was broken.
type Violation struct {
	Rule Rule
	// First and Last are the instants at which OneLeader or OneSeat is known to have been
	// broken, and at all instants between.
	First, Last int64
	text        string
}

// String returns the rule, the candidates and the tokens.
func (v *Violation) String() string { return v.Rule.String() + ": " + v.text }

func broken(r Rule, format string, args ...any) *Violation {
	return &Violation{Rule: r, text: fmt.Sprintf(format, args...)}
}
