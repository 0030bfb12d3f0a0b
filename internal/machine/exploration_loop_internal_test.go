package machine

import (
	"slices"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

// The work of the applications in the exploration. It goes on for any time, whatever happens
// to the term, and a loop may be left at any time.

// loopActions adds what the application of a candidate may do.
func (w *worldOf) loopActions(i int, add adder) {
	p := &w.parties[i]
	add(w.gos && p.leads() && !p.checker.works && !p.begun, doGo, i, 0)
	add(w.may(stall) && p.m.work.going, doStall, i, 0)
	if !w.loops || p.checker.Stopped() && !p.checker.works {
		return
	}
	add(p.checker.works, doWorked, i, 0)
	add(p.m.work.idle, doLoop, i, 0)
	add(!p.m.work.idle && w.may(breakOff), doNoLoop, i, 0)
}

// overworks reports whether the work of a term goes on that does not lead.
func (w *worldOf) overworks(i int) bool {
	p := &w.parties[i]
	return p.up && p.checker.works && !p.leads()
}

// workToEnd returns a candidate whose work has to end before any can lead, or -1. There is one if all
// candidates work on after their terms. Otherwise one of the others has to lead beside such work.
func (w *worldOf) workToEnd() int {
	if w.oldIs(func(o *oldProcess) bool { return o.up }) {
		return -1
	}
	at := -1
	for i := range w.times {
		switch {
		case !w.campaigns(i):
		case !w.overworks(i):
			return -1
		case at < 0:
			at = i
		}
	}
	return at
}

// calmLoop ends the work that goes on after its term when the faults end, and lets the application
// take terms. A term may be lost later, by a fault of which its candidate learns then: see workToEnd.
func (w *worldOf) calmLoop(i int) {
	p := &w.parties[i]
	if w.overworks(i) {
		w.step(i, Input{Kind: InDrained, Term: p.m.term.number})
	}
	if p.up && p.m.work.idle {
		w.step(i, Input{Kind: InLoop})
	}
}

// A leads, its key is deleted, and it learns of that after the last fault. Its work goes on then. If B is
// gone, A leads again once that work has ended. Otherwise B leads, and A's work goes on.
func TestCalm_TermLostLater(t *testing.T) {
	const lost = "A.arrive A.deliver A.arrive A.deliver remove"
	for _, name := range []string{"drain", "loops"} {
		for faults, leads := range map[string]int{lost: 1, lost + " B.crash": 0} {
			at := slices.IndexFunc(scenarios, func(sc *scenario) bool { return sc.name == name })
			e := newExploration(scenarios[at])
			w := e.retell(check.Got(parseTrace(faults))(t), t.Logf)
			e.recovers(w, 0)
			works := w.parties[0].checker.works || w.parties[0].begun
			check.That(t, e.broken == "" && w.parties[leads].leads() && works,
				"%s, %s: %s; want %s to lead, and A to work", name, faults, e.broken, partyNames[leads])
		}
	}
}

// breaking has the kinds of promised, and that a loop is left.
var breaking = append(slices.Clone(promised), breakOff)

var loopScenarios = []*scenario{
	{name: "loops", loops: true, settings: tight, times: equal, limits: upTo(1, breaking...), total: 1},
	{name: "loops, drain", loops: true, settings: tight, times: []Durations{ticks(3, 2, 0, 4), ticks(3, 2, 0, 1)}, limits: upTo(1, breaking...), total: 1},
	{name: "loops, pending", loops: true, settings: tight, times: []Durations{ticks(3, 2, 2, 0), ticks(3, 2, 0, 0)}, limits: upTo(1, breaking...), total: 1},
	{name: "loops, frozen", loops: true, settings: tight, times: equal, limits: upTo(2, freeze, cutOff, loseFeed, applyLate, loseReply), total: 3, from: aLeads},
	{name: "loops, ordinary", loops: true, settings: expiring, times: equal, limits: upTo(1, append(breaking, purge)...), total: 1},
	{name: "loops, gated", loops: true, gated: true, settings: tight, times: equal, limits: upTo(1, breaking...), total: 1},
	{name: "loops, guarded", loops: true, guarded: true, settings: tight, times: equal, limits: upTo(1, append(troubled, breakOff)...), total: 1},
	{
		name: "loops, queue", loops: true, listed: true, orders: lined, settings: tight, times: inTurn(1, short, short),
		limits: upTo(1, append(breaking, transfer)...), total: 1,
	},
	// A works with the second write by which it tried to win. The first one arrives late.
	{
		name: "loops, late win", loops: true, settings: expiring, times: equal, limits: upTo(1, purge, loseFeed), total: 2,
		from: "A.arrive A.deliver A.fail.1 tick A.wake A.arrive A.deliver A.arrive A.deliver" + strings.Repeat(" tick A.wake A.arrive A.deliver", 4) +
			" B.arrive B.deliver",
	},
	{name: "loops, out of time", loops: true, settings: tight, times: []Durations{ticks(3, 2, 0, 1), ticks(3, 2, 0, 1)}, limits: upTo(1, cutOff, freeze), total: 1, from: aLeads},
	// A candidate that was asked to resign is back after five turns, and any other after a lease.
	{
		name: "loops, resigned", loops: true, settings: backend.Settings{PurgeProtected: true, MaxLease: 7 * tick},
		times:  inTurn(1, ticks(7, 6, 0, 0), ticks(7, 6, 0, 0)),
		limits: upTo(2, resign, breakOff, loseReply, applyLate), total: 3, from: aLeads,
	},
	{name: "stalled", works: true, settings: tight, times: equal, limits: upTo(2, stall, release, resign, stop, late, loseReply, applyLate), total: 3, from: aLeads},
	{name: "stalled, loops", loops: true, settings: tight, times: equal, limits: upTo(1, stall, breakOff, freeze, cutOff, loseFeed, late, loseReply, loseRequest, resign, stop), total: 3, from: aLeads},
	{name: "loops, broken off", loops: true, settings: tight, times: equal, limits: upTo(2, breakOff, resign, late, loseReply), total: 3},
}

// The work of a term begins and ends at any time, as by Term.Go.
var goScenarios = []*scenario{
	{name: "go", gos: true, settings: tight, times: equal, limits: upTo(1, promised...), total: 1},
	{name: "go, drain", gos: true, settings: tight, times: []Durations{ticks(3, 2, 0, 4), ticks(3, 2, 0, 1)}, limits: upTo(1, promised...), total: 1},
	{name: "go, loops", gos: true, loops: true, settings: tight, times: equal, limits: upTo(1, breaking...), total: 1},
	{name: "go, frozen", gos: true, settings: tight, times: equal, limits: upTo(2, freeze, cutOff, loseFeed, applyLate, loseReply, resign, stop), total: 3, from: aLeads},
	{name: "go, ordinary", gos: true, settings: expiring, times: equal, limits: upTo(1, append(breaking, purge)...), total: 1},
	{name: "go, guarded", gos: true, guarded: true, settings: tight, times: equal, limits: upTo(1, troubled...), total: 1},
}

var loopEndless = []*scenario{
	{name: "loops", loops: true, settings: tight, times: equal, limits: upTo(unlimited, breaking...)},
	{name: "loops, ordinary", loops: true, settings: expiring, times: []Durations{ticks(3, 2, 2, 4), ticks(3, 2, 0, 2)}, limits: upTo(unlimited, append(breaking, purge)...)},
	{name: "stalled", works: true, settings: tight, times: equal, limits: upTo(unlimited, append(promised, stall)...)},
	{name: "loops, guarded", loops: true, guarded: true, settings: tight, times: equal, limits: upTo(unlimited, append(troubled, breakOff)...)},
}
