package main

import (
	"strings"
	"testing"
)

// The judge finds each broken promise in reports that break it, and nothing in those that do not.
func TestJudge(t *testing.T) {
	leads := func(token uint64, from, to int64) report {
		return report{State: "leader", Token: token, From: from, To: to}
	}
	type heard struct {
		name string
		report
	}
	for name, c := range map[string]struct {
		heard []heard
		want  string // in what is broken; empty: nothing is
	}{
		"one after the other": {[]heard{
			{"a", report{Event: elected, Token: 1, At: 10}},
			{"a", leads(1, 11, 20)},
			{"a", report{Event: wrote, Token: 1, From: 15}},
			{"b", report{Event: elected, Token: 2, At: 22}},
			{"b", leads(2, 22, 30)},
			{"b", report{Event: wrote, Token: 2, From: 23}},
		}, ""},
		"a report of the end comes late": {[]heard{
			{"a", report{Event: elected, Token: 1, At: 10}}, {"b", report{Event: elected, Token: 2, At: 22}}, {"b", leads(2, 22, 30)}, {"a", leads(1, 11, 20)},
		}, ""},
		"two leaders": {[]heard{
			{"a", report{Event: elected, Token: 1, At: 10}},
			{"a", leads(1, 11, 20)},
			{"b", report{Event: elected, Token: 2, At: 19}},
			{"b", leads(2, 19, 30)},
		}, "two leaders"},
		"a token that does not rise": {[]heard{
			{"a", report{Event: elected, Token: 2, At: 10}},
			{"a", leads(2, 11, 20)},
			{"b", report{Event: elected, Token: 1, At: 22}},
			{"b", leads(1, 22, 30)},
		}, "token"},
		"a write of the leader before": {[]heard{
			{"a", report{Event: elected, Token: 1, At: 10}},
			{"b", report{Event: elected, Token: 2, At: 22}},
			{"a", report{Event: wrote, Token: 1, From: 25}},
		}, "write"},
		"a write of the leader before, heard of first": {[]heard{
			{"a", report{Event: elected, Token: 1, At: 10}},
			{"a", report{Event: wrote, Token: 1, From: 25}},
			{"b", report{Event: elected, Token: 2, At: 22}},
		}, "write"},
		"a rule of one candidate": {[]heard{{"a", report{Event: violated, Text: "it blinked"}}}, "a: it blinked"},
	} {
		t.Run(name, func(t *testing.T) {
			var j judge
			for _, h := range c.heard {
				j.heard(h.name, h.report)
			}
			got := strings.Join(j.broken, "\n")
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("broken: %q, not %q", got, c.want)
			}
			if c.heard[0].Event != violated && j.checks != len(c.heard) {
				t.Errorf("%d checks of %d reports", j.checks, len(c.heard))
			}
		})
	}
}
