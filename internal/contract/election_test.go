package contract_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/contract"
)

var (
	a3 = contract.Term{Who: "a", Token: 3}
	b5 = contract.Term{Who: "b", Token: 5}
	c7 = contract.Term{Who: "c", Token: 7}
)

// on returns the term on another seat.
func on(seat int, t contract.Term) contract.Term { t.Seat = seat; return t }

// two is an election with two seats.
func two() *contract.Election { return &contract.Election{Seats: 2} }

// elections are histories of an election, with the rules that they break in the end.
var elections = []struct {
	name  string
	rules []contract.Rule
	run   func(e *contract.Election) []*contract.Violation
}{
	{"one after another", nil, func(e *contract.Election) []*contract.Violation {
		return slices.Concat(e.Elected(a3, 0, 10), e.Leads(a3, 11, 20), e.Elected(b5, 0, 21), e.Leads(b5, 21, 30), e.Leads(b5, 40, 50), e.Elected(c7, 0, 60))
	}},
	{"late news of a term that is over", nil, func(e *contract.Election) []*contract.Violation {
		return slices.Concat(e.Elected(b5, 0, 10), e.Leads(b5, 10, 20), e.Elected(a3, 0, 30))
	}},
	{"late news of a term that was never valid", nil, func(e *contract.Election) []*contract.Violation {
		return slices.Concat(e.Leads(a3, 10, 20), e.Elected(b5, 0, 15), e.Leads(a3, 16, 30))
	}},
	{"two seats", nil, func(*contract.Election) []*contract.Violation {
		e := two()
		return slices.Concat(e.Leads(on(1, a3), 10, 20), e.Leads(on(2, b5), 10, 20), e.Leads(on(1, b5), 21, 30), e.Leads(on(2, c7), 21, 30))
	}},
	{"a term found over", nil, func(e *contract.Election) []*contract.Violation {
		e.Over(a3) // not known yet
		vs := slices.Concat(e.Leads(a3, 10, 20), e.Leads(b5, 21, 30))
		e.Over(a3)
		return vs
	}},

	{"two at once", []contract.Rule{contract.OneLeader}, func(e *contract.Election) []*contract.Violation {
		return slices.Concat(e.Leads(a3, 10, 20), e.Leads(b5, 19, 30))
	}},
	{"two at once, of one candidate", []contract.Rule{contract.OneLeader}, func(e *contract.Election) []*contract.Violation {
		return slices.Concat(e.Leads(a3, 10, 20), e.Leads(contract.Term{Who: "a", Token: 5}, 19, 30))
	}},
	{"one within the other", []contract.Rule{contract.OneLeader}, func(e *contract.Election) []*contract.Violation {
		return slices.Concat(e.Leads(a3, 10, 50), e.Leads(b5, 20, 30))
	}},
	{"one around the other", []contract.Rule{contract.OneLeader}, func(e *contract.Election) []*contract.Violation {
		return slices.Concat(e.Leads(a3, 10, 12), e.Leads(b5, 13, 14), e.Leads(a3, 15, 16))
	}},
	{"at the same instant", []contract.Rule{contract.OneLeader}, func(e *contract.Election) []*contract.Violation {
		return slices.Concat(e.Leads(a3, 10, 20), e.Leads(b5, 20, 30))
	}},
	{"two at once, seen often", []contract.Rule{contract.OneLeader}, func(e *contract.Election) []*contract.Violation {
		return slices.Concat(e.Leads(a3, 10, 20), e.Leads(b5, 19, 30), e.Leads(a3, 21, 40), e.Leads(b5, 31, 50))
	}},
	{"three at once", []contract.Rule{contract.OneLeader, contract.OneLeader, contract.OneLeader}, func(e *contract.Election) []*contract.Violation {
		return slices.Concat(e.Leads(a3, 10, 20), e.Leads(b5, 19, 30), e.Leads(c7, 20, 30))
	}},
	{"two at once on the second seat", []contract.Rule{contract.OneLeader}, func(*contract.Election) []*contract.Violation {
		e := two()
		return slices.Concat(e.Leads(on(2, a3), 10, 20), e.Leads(on(1, b5), 10, 20), e.Leads(on(2, c7), 20, 30))
	}},
	{"two seats of one candidate", []contract.Rule{contract.OneSeat}, func(*contract.Election) []*contract.Violation {
		e := two()
		return slices.Concat(e.Leads(on(1, a3), 10, 20), e.Leads(on(2, a3), 20, 30))
	}},
	{"a third seat of two", []contract.Rule{contract.SeatExists}, func(*contract.Election) []*contract.Violation {
		return two().Elected(on(3, a3), 0, 10)
	}},
	{"a seat 0 of two", []contract.Rule{contract.SeatExists}, func(*contract.Election) []*contract.Violation {
		return two().Elected(a3, 0, 10)
	}},
	{"the same token twice", []contract.Rule{contract.TokenUnique}, func(e *contract.Election) []*contract.Violation {
		return slices.Concat(e.Elected(a3, 0, 10), e.Elected(contract.Term{Who: "b", Token: 3}, 0, 20))
	}},
	{"a term that is reported twice", nil, func(e *contract.Election) []*contract.Violation {
		return slices.Concat(e.Leads(a3, 10, 20), e.Elected(a3, 0, 30))
	}},
	{"a lower token that began later", []contract.Rule{contract.TokensRise}, func(e *contract.Election) []*contract.Violation {
		return slices.Concat(e.Elected(b5, 0, 10), e.Elected(a3, 10, 20), e.Leads(a3, 20, 20))
	}},
	{"a lower token that began later, reported first", []contract.Rule{contract.TokensRise}, func(e *contract.Election) []*contract.Violation {
		return slices.Concat(e.Elected(a3, 10, 20), e.Elected(b5, 0, 10))
	}},
	{"a lower token that is reported again, as later", []contract.Rule{contract.TokensRise}, func(e *contract.Election) []*contract.Violation {
		return slices.Concat(e.Elected(a3, 0, 20), e.Elected(b5, 0, 10), e.Elected(a3, 15, 20))
	}},
	{"a lower token later", []contract.Rule{contract.TokensRise}, func(e *contract.Election) []*contract.Violation {
		return slices.Concat(e.Leads(b5, 10, 20), e.Leads(a3, 30, 40))
	}},
	{"a lower token after a term that was never seen valid", []contract.Rule{contract.TokensRise}, func(e *contract.Election) []*contract.Violation {
		return slices.Concat(e.Elected(b5, 0, 10), e.Elected(a3, 0, 20), e.Leads(a3, 20, 20))
	}},
	{"a token falls two terms later", []contract.Rule{contract.TokensRise}, func(e *contract.Election) []*contract.Violation {
		return slices.Concat(e.Leads(b5, 10, 20), e.Leads(c7, 30, 40), e.Leads(contract.Term{Who: "a", Token: 6}, 50, 60))
	}},
	{"a token of MinToken", []contract.Rule{contract.MinToken}, func(*contract.Election) []*contract.Violation {
		e := &contract.Election{MinToken: 3}
		return slices.Concat(e.Elected(a3, 0, 10), e.Elected(b5, 0, 20))
	}},
	{"a term that comes to life again", []contract.Rule{contract.OverStaysOver}, func(e *contract.Election) []*contract.Violation {
		vs := e.Leads(a3, 10, 20)
		e.Over(a3)
		return append(vs, e.Leads(a3, 30, 40)...)
	}},
	{"a write after a later term began", []contract.Rule{contract.NoLateWrite}, func(e *contract.Election) []*contract.Violation {
		return append(e.Elected(b5, 0, 10), e.Stored(a3, 11))
	}},
	{"writes that may have come before", nil, func(e *contract.Election) []*contract.Violation {
		vs := e.Elected(b5, 0, 10)
		for _, v := range []*contract.Violation{e.Stored(a3, 10), e.Stored(b5, 11), e.Stored(c7, 12), e.Stored(on(2, a3), 13)} {
			if v != nil {
				vs = append(vs, v)
			}
		}
		return vs
	}},
}

func TestElection(t *testing.T) {
	for _, h := range elections {
		t.Run(h.name, func(t *testing.T) {
			same(t, h.run(&contract.Election{}), h.rules)
		})
	}
}

// same fails the test unless these rules are broken, in this order.
func same(t *testing.T, vs []*contract.Violation, want []contract.Rule) {
	t.Helper()
	var got []contract.Rule
	for _, v := range vs {
		got = append(got, v.Rule)
	}
	check.That(t, slices.Equal(got, want), "breaks %v, want %v", vs, want)
}

// A violation of two leaders has the time for which both are known to have led.
func TestElection_SaysHowLong(t *testing.T) {
	var e contract.Election
	vs := slices.Concat(e.Leads(a3, 10, 50), e.Leads(b5, 20, 30))
	check.Must(t, len(vs) == 1 && vs[0].First == 20 && vs[0].Last == 30, "%+v", vs)
	for _, part := range []string{"two leaders: ", "a with token 3", "b with token 5"} {
		if !strings.Contains(vs[0].String(), part) {
			t.Errorf("%q does not say %q", vs[0].String(), part)
		}
	}
}

// A sample finds two terms only if both were valid at one moment.
func TestElection_Sample(t *testing.T) {
	terms := []contract.Term{a3, b5}
	for _, k := range []struct {
		name  string
		valid []string // at the four looks, in the order a, b, b, a
		rules []contract.Rule
	}{
		{"one leads", []string{"yes", "no", "no", "yes"}, nil},
		{"both lead", []string{"yes", "yes", "yes", "yes"}, []contract.Rule{contract.OneLeader}},
		{"the second ends meanwhile", []string{"yes", "yes", "no", "yes"}, []contract.Rule{contract.OneLeader}},
		{"the first ends meanwhile", []string{"yes", "yes", "yes", "no"}, nil},
		{"the second begins meanwhile", []string{"no", "none", "yes", "no"}, nil},
		{"one comes to life again", []string{"no", "none", "none", "yes"}, []contract.Rule{contract.OverStaysOver}},
	} {
		t.Run(k.name, func(t *testing.T) {
			var e contract.Election
			now := e.Now()
			vs := append(e.Leads(a3, now, now), e.Elected(b5, 0, e.Now())...)
			looks := 0
			vs = append(vs, e.Sample(2, func(i int) (contract.Term, bool) {
				now := k.valid[looks]
				looks++
				if now == "none" {
					return contract.Term{}, false
				}
				return terms[i], now == "yes"
			})...)
			same(t, vs, k.rules)
			check.Equal(t, looks, 4, "%d looks")
		})
	}
}
