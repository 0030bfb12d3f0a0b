package contract_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/contract"
)

var guards = []struct {
	name  string
	rules []contract.Rule
	run   func(g *contract.Guard) []*contract.Violation
}{
	{"each writes after it has raised the guard", nil, func(g *contract.Guard) []*contract.Violation {
		return slices.Concat(raise(g, a3), g.Write(a3), g.Write(a3), raise(g, b5), g.Write(b5))
	}},
	{"raised again", nil, func(g *contract.Guard) []*contract.Violation {
		vs := raise(g, a3)
		g.Overwrite(0)
		return slices.Concat(vs, raise(g, a3), g.Write(a3))
	}},
	{"in order, without a guard", nil, func(g *contract.Guard) []*contract.Violation {
		return some(g.Order(a3), g.Order(a3), g.Order(b5))
	}},
	{"a guard that falls", []contract.Rule{contract.GuardRises}, func(g *contract.Guard) []*contract.Violation {
		return append(raise(g, b5), raise(g, a3)...)
	}},
	{"a guard that is deleted and falls", []contract.Rule{contract.GuardRises}, func(g *contract.Guard) []*contract.Violation {
		vs := raise(g, b5)
		g.Overwrite(0)
		return append(vs, raise(g, a3)...)
	}},
	{"a guard that was overwritten falls", []contract.Rule{contract.GuardRises}, func(g *contract.Guard) []*contract.Violation {
		g.Overwrite(5)
		return raise(g, a3)
	}},
	{"a guard that was overwritten and deleted", nil, func(g *contract.Guard) []*contract.Violation {
		g.Overwrite(5)
		g.Overwrite(0)
		return append(raise(g, a3), g.Write(a3)...)
	}},
	{"past the guard", []contract.Rule{contract.GuardMatches}, func(g *contract.Guard) []*contract.Violation {
		return slices.Concat(raise(g, a3), raise(g, b5), g.Write(a3))
	}},
	{"before the guard was raised", []contract.Rule{contract.GuardMatches}, func(g *contract.Guard) []*contract.Violation {
		return slices.Concat(raise(g, a3), g.Write(b5))
	}},
	{"while the guard is deleted", []contract.Rule{contract.GuardMatches}, func(g *contract.Guard) []*contract.Violation {
		vs := raise(g, a3)
		g.Overwrite(0)
		return append(vs, g.Write(a3)...)
	}},
	{"an older term's", []contract.Rule{contract.WritesInOrder}, func(g *contract.Guard) []*contract.Violation {
		return some(g.Order(b5), g.Order(a3))
	}},
	{"an older term's, past the guard", []contract.Rule{contract.WritesInOrder, contract.GuardMatches}, func(g *contract.Guard) []*contract.Violation {
		return slices.Concat(raise(g, b5), g.Write(b5), g.Write(a3))
	}},
}

func some(vs ...*contract.Violation) []*contract.Violation {
	return slices.DeleteFunc(vs, func(v *contract.Violation) bool { return v == nil })
}

func raise(g *contract.Guard, t contract.Term) []*contract.Violation { return some(g.Raise(t)) }

func TestGuard(t *testing.T) {
	for _, h := range guards {
		t.Run(h.name, func(t *testing.T) { same(t, h.run(&contract.Guard{}), h.rules) })
	}
}

// Each rule has a name, and a history that breaks it.
func TestRules_HaveHistories(t *testing.T) {
	broken := make(map[contract.Rule]bool)
	for _, h := range histories {
		broken[h.rule] = true
	}
	for _, h := range elections {
		for _, r := range h.rules {
			broken[r] = true
		}
	}
	for _, h := range guards {
		for _, r := range h.rules {
			broken[r] = true
		}
	}
	first, second := contract.PendingFirst, contract.OneLeader
	for _, last := range []contract.Rule{contract.ObservedRises, contract.WritesInOrder} {
		for r := first; r <= last; r++ {
			check.That(t, broken[r] && !strings.HasPrefix(r.String(), "Rule("),
				"%v: broken by a history: %v", r, broken[r])
		}
		first = second
	}
	got := (contract.WritesInOrder + 1).String()
	check.That(t, strings.HasPrefix(got, "Rule("), "a rule after the last: %s", got)
}
