package checker_test

import (
	"slices"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/checker"
	"github.com/natsleader/natsleader/internal/contract"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// elect returns a candidate that leads, with the events so far.
func elect(t *testing.T, clock *leadertest.Clock) (c *leader.Candidate, pending leader.Pending, elected leader.Elected) {
	t.Helper()
	c, err := leader.Campaign(t.Context(), leadertest.NewStore(clock).Link("a"), "e", leader.Config{ID: "a"})
	check.OK(t, err)
	clock.Advance(time.Minute)
	for e := range c.Events(t.Context()) {
		switch e := e.(type) {
		case leader.Pending:
			pending = e
		case leader.Elected:
			return c, pending, e
		case leader.Fenced, leader.Deposed, leader.Observed, leader.Faulted:
		}
	}
	t.Fatal("it is never elected")
	return c, pending, elected
}

// resign returns the event that ends the term.
func resign(t *testing.T, clock *leadertest.Clock, c *leader.Candidate) leader.Deposed {
	t.Helper()
	go func() { _ = leadertest.Resign(t.Context(), c) }()
	next, _ := backend.EventsOf(c)
	for {
		clock.Advance(time.Second)
		if e, _ := next(); e != nil {
			if d, ok := e.(leader.Deposed); ok {
				return d
			}
		}
	}
}

// The events of one candidate are distinguished from those of others.
func TestCandidate(t *testing.T) {
	clock := leadertest.NewClock()
	c, pending, elected := elect(t, clock)
	_, _, another := elect(t, clock)
	early := leader.Deposed{Term: elected.Term, Cause: leader.ErrResigned} // before the end
	observed := func(token uint64) leader.Observed {
		return leader.Observed{Holder: leader.Holder{State: leader.HolderLeading, Token: token}}
	}
	now := clock.Now()
	for _, k := range []struct {
		name   string
		rule   contract.Rule
		events []leader.Event
	}{
		{"a term", 0, []leader.Event{leader.Observed{}, pending, elected, leader.Faulted{}}},
		{"no Pending", contract.PendingFirst, []leader.Event{elected}},
		{"elected too early", contract.NotBeforeUntil, []leader.Event{leader.Pending{Until: now.Add(1)}, elected}},
		{"an earlier leader", contract.ObservedRises, []leader.Event{observed(5), observed(4)}},
		{"a context that is alive", contract.ContextFirst, []leader.Event{pending, elected, early}},
		{"fenced in a context that is alive", contract.ContextFirst, []leader.Event{pending, elected, leader.Fenced{Term: early.Term, Cause: early.Cause}}},
		{"another term with the same token", contract.OwnTerm, []leader.Event{pending, elected, leader.Deposed{Term: another.Term, Cause: leader.ErrResigned}}},
	} {
		t.Run(k.name, func(t *testing.T) {
			one := checker.Candidate{Name: "a"}
			var last *contract.Violation
			for _, e := range k.events {
				last = one.Next(e, now)
			}
			check.That(t, (last != nil || k.rule == 0) && (last == nil || last.Rule == k.rule),
				"breaks %v, want %v", last, k.rule)
		})
	}

	one := checker.Candidate{Name: "a"}
	one.Next(pending, now)
	one.Next(elected, now)
	v := one.End()
	check.That(t, v != nil && v.Rule == contract.DeposedOnce, "an end within the term: %v", v)
	one = checker.Candidate{Name: "a"}
	deposed := resign(t, clock, c)
	for _, e := range []leader.Event{pending, elected, deposed} {
		v := one.Next(e, clock.Now())
		check.That(t, v == nil, "%v: %v", e, v)
	}
	if v := one.End(); v != nil {
		t.Error(v)
	}
	one = checker.Candidate{Name: "a"}
	one.Next(pending, now)
	one.Next(elected, now)
	if v := one.Next(leader.Deposed{Term: elected.Term, Cause: leader.ErrPreempted}, now); v == nil || v.Rule != contract.SameCause {
		t.Errorf("another cause: %v", v)
	}
}

// Two terms that are valid at once are found, by their events and when they are asked.
func TestElection(t *testing.T) {
	clock := leadertest.NewClock()
	_, pending, first := elect(t, clock)
	_, _, second := elect(t, clock)
	var e checker.Election
	a, b := e.Candidate("a"), e.Candidate("a")
	check.That(t, a.Name != b.Name, "both are %s", a.Name)
	now := clock.Now()
	var got []contract.Rule
	for _, step := range []struct {
		of *checker.Candidate
		ev leader.Event
	}{{a, pending}, {a, first}, {b, pending}, {b, second}} {
		for _, v := range e.Next(step.of, step.ev, now) {
			got = append(got, v.Rule)
		}
	}
	want := []contract.Rule{contract.TokenUnique, contract.OneLeader}
	check.That(t, slices.Equal(got, want), "breaks %v, want %v", got, want)
	vs := e.Sample()
	check.That(t, len(vs) == 0, "once is enough: %v", vs)
}
