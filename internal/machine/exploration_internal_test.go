package machine

import (
	"flag"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/record"
)

var (
	exploreStates = flag.Int("states", proof.Raced(proof.Size(3000, 15_000), 20), "explore up to so many states of each scenario")
	exploreFaults = flag.Int("faults", 1, "let so many faults happen, of any kinds, in the scenarios that have one")
	exploreTrace  = flag.String("replay", "", "tell what happens in these actions of a scenario")
)

// packed is a situation, by the numbers of its parts.
type packed struct {
	parties [maxParties]uint32
	posts   [maxParties]uint32
	guard   uint32
	rest    uint32
}

// table gives each distinct value a number.
type table[T comparable] struct {
	seed   maphash.Seed
	index  map[uint64]uint32
	values []T
}

func newTable[T comparable]() *table[T] {
	return &table[T]{seed: maphash.MakeSeed(), index: make(map[uint64]uint32)}
}

// number returns the number of a value, which may be that of a near one.
func (t *table[T]) number(v *T, near uint32) uint32 {
	if int(near) < len(t.values) && t.values[near] == *v {
		return near
	}
	h := maphash.Comparable(t.seed, *v)
	for {
		n, ok := t.index[h]
		switch {
		case !ok:
			n = uint32(len(t.values))
			t.index[h] = n
			t.values = append(t.values, *v)
			return n
		case t.values[n] == *v:
			return n
		}
		h++
	}
}

// exploration visits every situation that can be reached, those that take fewer
// actions first.
type exploration struct {
	*scenario
	parties *table[party]
	posts   *table[post]
	guards  *table[guardKey]
	rests   *table[surroundings]
	seen    map[packed]struct{}
	order   []packed // as they were found
	parent  []uint32
	via     []action

	edges   int
	depth   int
	full    bool // nothing was left out
	broken  string
	trace   []action
	recover map[packed]uint8 // ticks until there is a leader, once all is well
	worst   uint8
}

// pack numbers the parts of a situation. Most are those of near, the situation before it.
func (e *exploration) pack(s *situation, near *packed) packed {
	var p packed
	for i := range e.times {
		p.parties[i] = e.parties.number(&s.parties[i], near.parties[i])
	}
	p.rest = e.rests.number(&s.surroundings, near.rest)
	if e.guarded {
		for i := range e.times {
			p.posts[i] = e.posts.number(&s.posts[i], near.posts[i])
		}
		p.guard = e.guards.number(&s.guard, near.guard)
	}
	return p
}

func (e *exploration) unpack(p packed, s *situation) {
	s.surroundings = e.rests.values[p.rest]
	for i := range e.times {
		s.parties[i] = e.parties.values[p.parties[i]]
	}
	if e.guarded {
		for i := range e.times {
			s.posts[i] = e.posts.values[p.posts[i]]
		}
		s.guard = e.guards.values[p.guard]
	}
}

func newExploration(sc *scenario) *exploration {
	return &exploration{
		scenario: sc, parties: newTable[party](), posts: newTable[post](), guards: newTable[guardKey](), rests: newTable[surroundings](),
		seen: make(map[packed]struct{}), recover: make(map[packed]uint8),
	}
}

// explore visits up to most states.
func (sc *scenario) explore(most int) *exploration {
	e := newExploration(sc)
	w := sc.start(nil)
	e.add(w, 0, action{})
	var from situation
	var actions []action
	levelEnd := 1
	for i := 0; i < len(e.order); i++ { //nolint:intrange // it grows
		if i == levelEnd {
			e.depth++
			levelEnd = len(e.order)
		}
		e.unpack(e.order[i], &from)
		w.situation = from
		if !e.recovers(w, i) {
			return e
		}
		w.situation = from
		actions = w.actions(actions[:0])
		for _, a := range actions {
			w.situation = from
			w.apply(a)
			e.edges++
			if w.broken != "" {
				e.broken = w.broken
				e.trace = append(e.way(i), a)
				return e
			}
			w.renumber()
			if len(e.order) < most {
				e.add(w, i, a)
			}
		}
		if len(e.order) >= most {
			return e
		}
	}
	e.full = true
	return e
}

func (e *exploration) add(w *worldOf, parent int, via action) {
	var near packed
	if len(e.order) > 0 {
		near = e.order[parent]
	}
	p := e.pack(&w.situation, &near)
	if _, ok := e.seen[p]; ok {
		return
	}
	e.seen[p] = struct{}{}
	e.order = append(e.order, p)
	e.parent = append(e.parent, uint32(parent))
	e.via = append(e.via, via)
}

// way returns the actions that lead to a state.
func (e *exploration) way(i int) []action {
	var trace []action
	for ; i != 0; i = int(e.parent[i]) {
		trace = append(trace, e.via[i])
	}
	slices.Reverse(trace)
	return trace
}

// recovers reports whether there is a leader within a bounded time if nothing goes wrong
// any more from here on.
func (e *exploration) recovers(w *worldOf, at int) bool {
	done := []action{{do: doCalm}}
	if w.apply(done[0]); w.broken != "" {
		e.broken, e.trace = w.broken, append(e.way(at), done...)
		return false
	}
	var path []packed
	var p packed
	ticks := uint8(0)
	for {
		w.renumber()
		p = e.pack(&w.situation, &p)
		if known, ok := e.recover[p]; ok {
			ticks = known
			break
		}
		path = append(path, p)
		var led bool
		done, led = w.settle(done)
		if led && w.broken == "" {
			e.recover[p] = 0
			path = path[:len(path)-1]
			break
		}
		if len(path) > int(e.bound()/tick) {
			w.fail("nobody leads %v after the last fault", e.bound())
		}
		if w.broken != "" {
			e.broken, e.trace = w.broken, append(e.way(at), done...)
			return false
		}
		done = append(done, action{})
		w.apply(action{})
	}
	if len(path)+int(ticks) > int(e.bound()/tick) {
		e.broken, e.trace = fmt.Sprintf("nobody leads %v after the last fault", e.bound()), append(e.way(at), done...)
		return false
	}
	for _, p := range slices.Backward(path) {
		ticks++
		e.recover[p] = ticks
	}
	e.worst = max(e.worst, ticks)
	return true
}

// bound returns how long an election may take after the last fault. It allows for a
// marker, a pending candidate that is gone, and pauses. Junk that is gone counts only
// where nothing bounds a lease, and then until its lease would have run out.
func (sc *scenario) bound() time.Duration {
	h := sc.ordinaryHorizon()
	if sc.settings.MaxLease == 0 && sc.settings.TTL == 0 {
		h = sc.horizon()
	}
	return 2*h + 2*tick
}

// calm ends all faults. A process that was down stays down, unless no process is left.
func (w *worldOf) calm() {
	w.left, w.budget, w.ghosts, w.past = [maxKinds]uint8{}, 0, [2]ghost{}, [2]record.Observation{}
	w.guard.ghosts, w.guard.past = [2]raiseGhost{}, [2]record.GuardObservation{}
	if w.junked {
		w.put(record.Observation{Kind: record.EntryMarker})
	}
	if w.bogus {
		w.putGuard(record.GuardObservation{Kind: record.EntryMarker}, false)
	}
	up := false
	for i := range w.times {
		p := &w.parties[i]
		if p.paused {
			w.pause(i, false)
		}
		p.frozen, p.cut = false, false
		if p.up && p.m.suspended {
			w.step(i, Input{Kind: InResume})
		}
		w.calmLoop(i)
		up = up || w.campaigns(i)
	}
	for k := range w.olds {
		w.olds[k].haunts, w.olds[k].hauntCond = false, 0
	}
	if !up && !w.oldIs(func(o *oldProcess) bool { return o.up }) {
		w.down(0, false)
		w.renumberSessions() // or its writes would seem to be those of the new process
		w.boot(0, false)
	}
}

// campaigns reports whether a candidate may lead in the end.
func (w *worldOf) campaigns(i int) bool {
	p := &w.parties[i]
	return p.up && !p.checker.Stopped() && !p.m.Observe
}

// settle lets all actions happen that are due, adds them to done, and reports whether
// there is a leader.
func (w *worldOf) settle(done []action) ([]action, bool) {
	for begin := len(done); len(done) < begin+100; {
		before := len(done)
		for i := range w.times {
			p, q := &w.parties[i], &w.posts[i]
			a := action{party: uint8(i)}
			switch {
			case !p.up:
				continue
			case p.told[0].Kind != record.EntryUnseen:
				a.do = doHear
			case p.m.flight.slot == slotWaits:
				a.do = doSlot
			case p.way == going:
				a.do = doArrive
			case p.way == answered:
				a.do = doDeliver
			case p.way == lost && p.m.flight.late:
				a.do = doFail
			case q.way == going:
				a.do = doGuardArrive
			case q.way == answered:
				a.do = doGuardDeliver
			case q.way == lost && q.opLate:
				a.do = doGuardFail
			case w.listed && w.toAnnounce(i):
				a.do = doAnnounce
			case w.listed && w.toWithdraw(i):
				a.do, a.arg = doAnnounce, 1
			case w.listed && w.toRank(i):
				a.do = doRank
			case w.due(i):
				a.do = doWake
			default:
				continue
			}
			done = append(done, a)
			if w.apply(a); w.broken != "" {
				return done, false
			}
		}
		if a, ok := w.settleOld(); ok && len(done) == before {
			done = append(done, a)
			if w.apply(a); w.broken != "" {
				return done, false
			}
		}
		if len(done) > before {
			continue
		}
		i := w.workToEnd()
		if w.led() || i < 0 {
			return done, w.led()
		}
		a := action{do: doRelease, party: uint8(i)}
		done = append(done, a)
		if w.apply(a); w.broken != "" {
			return done, false
		}
	}
	w.fail("the candidates never come to rest")
	return done, false
}

// led reports whether there is a leader that may write.
func (w *worldOf) led() bool {
	for i := range w.times {
		if w.parties[i].leads() && (!w.guarded || w.guard.ruled && w.guard.at.Revision == w.posts[i].stand.revision) {
			return true
		}
	}
	return w.oldIs((*oldProcess).leads)
}

// retell applies a trace, and describes each action and what the machines did.
func (sc *scenario) retell(trace []action, say func(format string, args ...any)) *worldOf {
	w := sc.start(say)
	for _, a := range trace {
		w.apply(a)
		if w.broken != "" {
			break
		}
		w.renumber()
	}
	return w
}

func (e *exploration) String() string {
	what := "to the end"
	if !e.full {
		what = "to a bound"
	}
	return fmt.Sprintf("%d states and %d edges %s, %d actions deep; %d states of a candidate; somebody leads after %d ticks at the latest",
		len(e.order), e.edges, what, e.depth, len(e.parties.values), e.worst)
}

// In these scenarios every promise is kept, whatever happens, and afterwards a candidate
// leads. Every state is checked once, which no random test can claim.
func TestExploration(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			if *exploreTrace != "" {
				sc.replay(t, *exploreTrace)
				return
			}
			if *exploreFaults > 1 && sc.total == 1 {
				more := *sc
				more.total, more.limits = uint8(*exploreFaults), maps.Clone(sc.limits)
				more.whole = false // its end is far with more faults
				for k := range more.limits {
					more.limits[k] = more.total
				}
				sc = &more
			}
			begin := time.Now()
			most := *exploreStates
			if sc.guarded || sc.listed || sc.old.processes > 0 {
				most /= 2 // each has twice as much in it
			}
			if sc.whole && !proof.Race {
				most = math.MaxInt
			}
			e := sc.explore(most)
			proof.Ran(len(e.order), "situations")
			proof.Ran(e.edges, "transitions")
			t.Logf("%s in %v", e, time.Since(begin).Round(time.Millisecond))
			if e.broken != "" {
				sc.retell(e.trace, t.Logf)
				t.Fatalf("%s; %v", e.broken, e.trace)
			}
			check.That(t, e.full || !sc.whole || proof.Race, "it was to be explored to the end")
		})
	}
}

// replay describes what happens in a trace, and fails if it breaks a promise.
func (sc *scenario) replay(t *testing.T, text string) {
	t.Helper()
	trace := check.Got(parseTrace(text))(t)
	w := sc.retell(trace, t.Logf)
	check.That(t, w.broken == "", "%v", w.broken)
}
