package contract_test

import (
	"errors"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/contract"
)

var (
	errResigned = errors.New("resigned")
	errExpired  = errors.New("expired")
	start       = time.Unix(1000, 0)
)

func pending(token uint64) contract.Event {
	return contract.Event{Kind: contract.Pending, Token: token, Until: start}
}

func elected(token uint64) contract.Event {
	return contract.Event{Kind: contract.Elected, Token: token, At: start}
}

// lost is a Fenced or a Deposed as it should be.
func lost(kind contract.Kind, token uint64) contract.Event {
	return contract.Event{Kind: kind, Token: token, Cause: errExpired, Context: errExpired}
}

func of(kind contract.Kind, token uint64) contract.Event {
	return contract.Event{Kind: kind, Token: token, Cause: errExpired}
}

// history is a history of one candidate. Its last event breaks the rule.
type history struct {
	name   string
	rule   contract.Rule // 0: none
	events []contract.Event
}

var (
	fenced  = lost(contract.Fenced, 5)
	deposed = lost(contract.Deposed, 5)
)

// late returns the event with some of the lease left.
func late(e contract.Event) contract.Event { e.Left = time.Second; return e }

// alive returns the event in a context that has not ended.
func alive(e contract.Event) contract.Event { e.Context = nil; return e }

// because returns the event with another cause than its context.
func because(e contract.Event, cause error) contract.Event { e.Cause = cause; return e }

// at returns the event that much later.
func at(e contract.Event, after time.Duration) contract.Event { e.At = start.Add(after); return e }

var histories = []history{
	{"a whole term", 0, []contract.Event{
		of(contract.Observed, 3), pending(4), elected(5), of(contract.Leads, 5), of(contract.Faulted, 0),
		of(contract.Over, 5), fenced, deposed, of(contract.Observed, 5), pending(6), elected(6), lost(contract.Deposed, 6), of(contract.Stopped, 0), of(contract.Ended, 0),
	}},
	{"a context whose end was reported", 0, []contract.Event{
		pending(5), elected(5), of(contract.Cancelled, 0), of(contract.Fenced, 5), of(contract.Deposed, 5),
	}},
	{"pending twice", 0, []contract.Event{pending(5), pending(7), elected(7)}},
	{"pending with its own token again", 0, []contract.Event{pending(5), elected(5), deposed, pending(5), elected(6)}},
	{"pending, and in vain", 0, []contract.Event{pending(5), of(contract.Stopped, 0), of(contract.Ended, 0)}},
	{"later than Until", 0, []contract.Event{pending(5), at(elected(5), time.Second)}},

	{"leaders of two seats", 0, []contract.Event{
		of(contract.Observed, 5), {Kind: contract.Observed, Seat: 2, Token: 3}, pending(3), {Kind: contract.Pending, Seat: 3, Token: 2, Until: start}, {Kind: contract.Elected, Seat: 3, Token: 4},
	}},

	{"no Pending", contract.PendingFirst, []contract.Event{elected(5)}},
	{"one Pending for two terms", contract.PendingFirst, []contract.Event{pending(5), elected(5), deposed, elected(6)}},
	{"pending until then", 0, []contract.Event{at(pending(5), 0)}},
	{"pending until a while ago", contract.UntilAhead, []contract.Event{at(pending(5), 1)}},
	{"earlier than Until", contract.NotBeforeUntil, []contract.Event{pending(5), at(elected(5), -1)}},
	{"a token less than that of Pending", contract.PendingToken, []contract.Event{pending(6), elected(5)}},
	{"pending within a term", contract.OneTerm, []contract.Event{pending(5), elected(5), pending(6)}},
	{"pending while fenced", contract.OneTerm, []contract.Event{pending(5), elected(5), fenced, pending(6)}},
	{"elected within a term", contract.OneTerm, []contract.Event{pending(5), elected(5), elected(6)}},
	{"fenced without a term", contract.OwnTerm, []contract.Event{pending(5), fenced}},
	{"fenced in another's term", contract.OwnTerm, []contract.Event{pending(4), elected(4), fenced}},
	{"deposed without a term", contract.OwnTerm, []contract.Event{deposed}},
	{"deposed from another's term", contract.OwnTerm, []contract.Event{pending(4), elected(4), deposed}},
	{"deposed twice", contract.OwnTerm, []contract.Event{pending(5), elected(5), deposed, deposed}},
	{"a claim without a term", contract.OwnTerm, []contract.Event{pending(5), of(contract.Leads, 5)}},
	{"a claim to another's term", contract.OwnTerm, []contract.Event{pending(5), elected(5), of(contract.Leads, 6)}},
	{"a claim after the loss", contract.OwnTerm, []contract.Event{pending(5), elected(5), deposed, of(contract.Leads, 5)}},
	{"a context that ends twice", contract.OwnTerm, []contract.Event{pending(5), elected(5), of(contract.Cancelled, 0), of(contract.Cancelled, 0)}},
	{"a context that ends before it began", contract.OwnTerm, []contract.Event{pending(5), of(contract.Cancelled, 0)}},
	{"fenced twice", contract.FencedOnce, []contract.Event{pending(5), elected(5), fenced, fenced}},
	{"fenced in a context that is alive", contract.ContextFirst, []contract.Event{pending(5), elected(5), alive(fenced)}},
	{"deposed in a context that is alive", contract.ContextFirst, []contract.Event{pending(5), elected(5), alive(deposed)}},
	{"fenced with another cause", contract.SameCause, []contract.Event{pending(5), elected(5), because(fenced, errResigned)}},
	{"deposed without a cause", contract.SameCause, []contract.Event{pending(5), elected(5), because(deposed, nil)}},
	{"deposed with another cause than fenced", contract.SameCause, []contract.Event{
		pending(5), elected(5), fenced, {Kind: contract.Deposed, Token: 5, Cause: errResigned, Context: errResigned},
	}},
	{"deposed with another cause than was reported", contract.SameCause, []contract.Event{
		pending(5), elected(5), of(contract.Cancelled, 0), because(of(contract.Deposed, 5), errResigned),
	}},
	{"fenced before the lease ended", contract.OverStaysOver, []contract.Event{pending(5), elected(5), late(fenced)}},
	{"a claim after the end", contract.OverStaysOver, []contract.Event{pending(5), elected(5), of(contract.Over, 5), of(contract.Leads, 5)}},
	{"a claim after the context ended", contract.OverStaysOver, []contract.Event{pending(5), elected(5), fenced, of(contract.Leads, 5)}},
	{"an end within a term", contract.DeposedOnce, []contract.Event{pending(5), elected(5), of(contract.Ended, 0)}},
	{"an end while fenced", contract.DeposedOnce, []contract.Event{pending(5), elected(5), fenced, of(contract.Ended, 0)}},
	{"something after the end", contract.NothingAfterEnd, []contract.Event{of(contract.Ended, 0), of(contract.Observed, 0)}},
	{"elected after Stop", contract.NotAfterStop, []contract.Event{pending(5), of(contract.Stopped, 0), elected(5)}},
	{"elected again after Stop", contract.NotAfterStop, []contract.Event{pending(5), elected(5), of(contract.Stopped, 0), deposed, pending(6), elected(6)}},
	{"a token that it has seen", contract.TokensRise, []contract.Event{pending(4), of(contract.Observed, 5), elected(5)}},
	{"pending with a token that it has seen", contract.PendingRises, []contract.Event{of(contract.Observed, 5), pending(4)}},
	{"pending with a token before its own", contract.PendingRises, []contract.Event{pending(5), elected(5), deposed, pending(4)}},
	{"an earlier leader observed", contract.ObservedRises, []contract.Event{of(contract.Observed, 5), of(contract.Observed, 0), of(contract.Observed, 4)}},
	{"an earlier leader of the second seat observed", contract.ObservedRises, []contract.Event{
		of(contract.Observed, 7), {Kind: contract.Observed, Seat: 2, Token: 5}, {Kind: contract.Observed, Seat: 2, Token: 4},
	}},
	{"a leader before its own term observed", contract.ObservedRises, []contract.Event{pending(5), elected(5), deposed, of(contract.Observed, 4)}},
}

// The last event of each history breaks its rule, and no other event breaks any.
func TestCandidate(t *testing.T) {
	for _, h := range histories {
		t.Run(h.name, func(t *testing.T) {
			var c contract.Candidate
			for i, e := range h.events {
				e.Who = "a"
				v := c.Next(e)
				switch last := i == len(h.events)-1; {
				case v == nil && (!last || h.rule == 0):
				case v == nil:
					t.Errorf("breaks no rule, want %v", h.rule)
				case !last || v.Rule != h.rule:
					t.Errorf("event %d, %v: %v", i, e.Kind, v)
				}
			}
		})
	}
}

// After a violation the checker goes on with the newest term.
func TestCandidate_GoesOn(t *testing.T) {
	var c contract.Candidate
	for i, e := range []contract.Event{pending(4), elected(4), elected(5), of(contract.Leads, 5), deposed, pending(6), elected(6)} {
		v := c.Next(e)
		check.That(t, (v != nil) == (i == 2), "event %d: %v", i, v)
	}
	if !c.Open() || !c.Alive() || c.Stopped() {
		t.Errorf("open: %v, alive: %v, stopped: %v", c.Open(), c.Alive(), c.Stopped())
	}
}
