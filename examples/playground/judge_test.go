package main

import (
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
)

// The judge finds each broken promise in reports that break it, and nothing in those that do not.
func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		told string // what is heard
		want string // in what is broken; empty: nothing is
	}{
		"one after the other":              {"a elected 1 10; a leads 1 11-20; a wrote 1 15; b elected 2 22; b leads 2 22-30; b wrote 2 23", ""},
		"a report of the end comes late":   {"a elected 1 10; b elected 2 22; b leads 2 22-30; a leads 1 11-20", ""},
		"two leaders":                      {"a elected 1 10; a leads 1 11-20; b elected 2 19; b leads 2 19-30", "two leaders"},
		"a token that does not rise":       {"a elected 2 10; a leads 2 11-20; b elected 1 22; b leads 1 22-30", "token"},
		"a write of the leader before":     {"a elected 1 10; b elected 2 22; a wrote 1 25", "write"},
		"such a write that is heard first": {"a elected 1 10; a wrote 1 25; b elected 2 22", "write"},
		"a rule of one candidate":          {"a violated 1 10 it blinked", "a: it blinked"},
	} {
		t.Run(name, func(t *testing.T) {
			var j judge
			all := strings.Split(c.told, "; ")
			for _, step := range all {
				h := reported(t, step)
				j.heard(h.name, h.report)
			}
			got := strings.Join(j.broken, "\n")
			check.That(t, (c.want == "") == (got == "") && strings.Contains(got, c.want), "broken: %q, not %q", got, c.want)
			if j.checks != len(all) && !strings.Contains(c.told, violated) {
				t.Errorf("%d checks of %d reports", j.checks, len(all))
			}
		})
	}
}
