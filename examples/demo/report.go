package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/natsleader/natsleader/examples/internal/timeline"
)

// tally has the outcomes of the faults, by kind.
type tally struct {
	kinds []kind // in the order in which they first happened
	stray []time.Duration
}

// kind is one row of the table.
type kind struct {
	name   string
	times  int
	first  outcome         // of the first time
	kept   int             // the leader went on
	vacant []time.Duration // without a leader, for each new term
}

// add notes the outcome of one fault.
func (t *tally) add(f fault, out outcome) {
	i := slices.IndexFunc(t.kinds, func(k kind) bool { return k.name == f.name })
	if i < 0 {
		i = len(t.kinds)
		t.kinds = append(t.kinds, kind{name: f.name, first: out})
	}
	k := &t.kinds[i]
	k.times++
	if out.led {
		k.vacant = append(k.vacant, out.vacant)
	} else if out.kept {
		k.kept++
	}
}

// unprovoked notes elections that no fault has caused.
func (t *tally) unprovoked(reigns []reign) {
	for _, r := range reigns {
		t.stray = append(t.stray, r.vacant)
	}
}

// report prints the table and the findings of the checker.
func (t *tally) report(tl *timeline.Timeline, check *electionChecker) {
	tl.Line(timeline.Plain, "")
	tl.Line(timeline.Bold, "%-16s %6s %9s %9s   %s", "", "", "", "", "seconds without a leader")
	tl.Line(timeline.Bold, "%-16s %6s %9s %9s   %8s %8s", "what happened", "times", "survived", "failovers", "median", "worst")
	for _, k := range t.kinds {
		t.row(tl, k)
	}
	if len(t.stray) > 0 {
		t.row(tl, kind{name: "nothing", times: len(t.stray), vacant: t.stray})
	}
	tl.Line(timeline.Plain, "")

	check.mu.Lock()
	terms, token, checks, violations := len(check.reigns), check.token, check.checks, check.violations
	check.mu.Unlock()
	facts := fmt.Sprintf("%d terms, tokens up to %d; looked for two leaders %d times", terms, token, checks)
	if violations > 0 {
		tl.Line(timeline.Alarm, "%s; %d checks FAILED", facts, violations)
		return
	}
	tl.Line(timeline.Good, "%s; all checks held", facts)
}

func (t *tally) row(tl *timeline.Timeline, k kind) {
	median, worst := "-", "-"
	if n := len(k.vacant); n > 0 {
		slices.Sort(k.vacant)
		median = fmt.Sprintf("%.3f", ((k.vacant[(n-1)/2] + k.vacant[n/2]) / 2).Seconds())
		worst = fmt.Sprintf("%.3f", k.vacant[n-1].Seconds())
	}
	tl.Line(timeline.Plain, "%-16s %6d %9d %9d   %8s %8s", k.name, k.times, k.kept, len(k.vacant), median, worst)
}
