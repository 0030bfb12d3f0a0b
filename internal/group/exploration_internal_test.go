package group

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/proof"
)

// renumber makes situations equal that differ only in the numbers of terms and revisions, or in what nothing
// asks for any more.
func (w *world) renumber(keep, views, orphans bool) {
	if w.pending.revision != w.now.revision {
		w.pending = shardMap{}
	}
	wanted := keep
	maps := []*shardMap{&w.now, &w.before, &w.pending}
	for i := range w.members {
		p, k := &w.members[i], &w.keys[i]
		for s := range p.seen.grants {
			if g := &p.seen.grants[s]; g.owner.token == 0 || g.owner.id != uint8(i) {
				*g = grant{}
			}
		}
		if p.sent.stale {
			p.sent.report = report{}
		}
		if p.ghost.stale || p.ghost.way != going {
			p.ghost = write{}
		}
		p.ghost.age = 0
		if !views {
			w.old[i] = key{}
		}
		w.old[i].age = 0
		if !orphans {
			k.at, w.old[i].at = 0, 0
		}
		if k.over {
			k.report, k.age, k.junk = report{}, lease, false
		}
		wanted = wanted || p.token != 0 && p.seen.revision < w.before.revision
		maps = append(maps, &p.seen)
	}
	if !wanted {
		w.before = shardMap{}
	}
	var tokens [maxMembers][]*uint8
	var revisions []*uint8
	for _, m := range maps {
		revisions = append(revisions, &m.revision)
		for s := range m.grants {
			g := &m.grants[s]
			revisions = append(revisions, &g.since)
			tokens[g.owner.id] = append(tokens[g.owner.id], &g.owner.token)
			tokens[g.pred.id] = append(tokens[g.pred.id], &g.pred.token)
		}
	}
	for i := range w.members {
		p, k := &w.members[i], &w.keys[i]
		old := &w.old[i]
		tokens[i] = append(tokens[i], &p.token, &k.token, &old.token)
		revisions = append(revisions, &p.sent.report.seen, &p.ghost.report.seen, &k.report.seen, &k.at, &old.report.seen, &old.at)
		for s := range p.work {
			revisions = append(revisions, &p.work[s].since)
		}
	}
	dense(revisions)
	for i := range tokens {
		dense(tokens[i])
	}
}

// tidy renumbers the world of an exploration.
func (w *model) tidy() {
	w.renumber(strings.Contains(w.faults, "older"), strings.Contains(w.faults, "late view") && w.budget > 0, w.orphans() != 0)
}

// dense numbers values from 1 in their order. 0 stays.
func dense(values []*uint8) {
	var used [256]uint8
	for _, v := range values {
		used[*v] = 1
	}
	n := uint8(0)
	for i := 1; i < len(used); i++ {
		n += used[i]
		used[i] = n
	}
	used[0] = 0
	for _, v := range values {
		*v = used[*v]
	}
}

// exploration visits every situation that can be reached.
type exploration struct {
	model
	seen   map[world]int32
	well   map[world]uint8 // in how many ticks all is well, without further faults
	order  []world
	parent []int32
	via    []action
	edges  int
}

func (e *exploration) add(parent int32, via action) {
	e.tidy()
	if _, ok := e.seen[e.world]; ok {
		return
	}
	e.seen[e.world] = int32(len(e.order))
	e.order, e.parent, e.via = append(e.order, e.world), append(e.parent, parent), append(e.via, via)
}

// longest bounds how many ticks it takes until all is well.
const longest = 9

// recovers finds out whether all is well some ticks after a situation, if nothing fails and all that can happen
// happens.
func (e *exploration) recovers() bool {
	var way []world
	for range longest {
		e.tidy()
		if n, ok := e.well[e.world]; ok {
			return e.reached(way, n)
		}
		way = append(way, e.world)
		e.hurry()
		if e.isWell() {
			return e.reached(way, 0)
		}
		e.do(action{what: "tick"})
	}
	return false
}

// reached notes that all is well n ticks after the end of a way.
func (e *exploration) reached(way []world, n uint8) bool {
	for _, w := range slices.Backward(way) {
		e.well[w] = n
		n++
	}
	return n <= longest
}

// hurry lets everything happen that needs no time and is no fault.
func (e *exploration) hurry() {
	for {
		all := e.actions()
		i := slices.IndexFunc(all, func(a action) bool {
			switch a.what {
			case "restart", "reap", "campaign", "send", "arrive", "reply", "receive", "end", "start", "release", "store", "touch", "plan and store":
				return a.what != "store" || e.pending.revision == e.now.revision
			default:
				return false
			}
		})
		if i < 0 {
			return
		}
		e.do(all[i])
	}
}

// isWell reports whether each shard is worked on, and evenly.
func (e *exploration) isWell() bool {
	least, most, sum, members := e.shards, 0, 0, 0
	for i := range e.size {
		if e.members[i].gone {
			continue
		}
		n := 0
		for s := range e.shards {
			if e.works(i, s) {
				n++
			}
		}
		least, most, sum, members = min(least, n), max(most, n), sum+n, members+1
	}
	return members == 0 || sum == e.shards && most-least <= 1
}

// trace returns how a situation is reached.
func (e *exploration) trace(i int32) string {
	var steps []string
	for ; i > 0; i = e.parent[i] {
		steps = append(steps, e.via[i].String())
	}
	slices.Reverse(steps)
	return strings.Join(steps, ", ")
}

// explore visits up to most situations, and reports whether these are all.
func explore(t *testing.T, members, shards int, faults string, budget uint8, most int) *exploration {
	t.Helper()
	e := &exploration{model: model{size: members, shards: shards, faults: faults}, seen: make(map[world]int32), well: make(map[world]uint8)}
	for i := range members {
		e.members[i].up = true
	}
	e.now.revision, e.budget = 1, budget
	e.add(-1, action{})
	for i := int32(0); int(i) < len(e.order) && len(e.order) < most; i++ {
		e.world = e.order[i]
		if !e.recovers() || e.broken != "" {
			t.Fatalf("within %d ticks there is no recovery, or %q: %s", longest, e.broken, e.trace(i))
		}
		e.world = e.order[i]
		for _, a := range e.actions() {
			e.world = e.order[i]
			e.do(a)
			e.edges++
			if e.broken != "" {
				t.Fatalf("%s: %s, then %v", e.broken, e.trace(i), a)
			}
			e.add(i, a)
		}
	}
	return e
}

func TestExploration(t *testing.T) {
	for _, x := range []struct {
		members, shards int
		faults          string
		budget          uint8
		most            int // situations
	}{
		{2, 1, "", 0, proof.Size(20_000, 80_000)},
		{2, 1, "move", 1, proof.Size(60_000, 80_000)},
		{2, 1, "move", 2, proof.Size(60_000, 80_000)},
		{2, 1, "move, older", 2, proof.Size(30_000, 80_000)},
		{2, 1, "crash", 1, proof.Size(10_000, 80_000)},
		{2, 1, "lost", 1, proof.Size(10_000, 80_000)},
		{2, 1, "delete", 1, proof.Size(10_000, 80_000)},
		{2, 1, "leave", 1, proof.Size(10_000, 80_000)},
		{2, 1, "wipe", 1, proof.Size(20_000, 80_000)},
		{2, 1, "wipe, late view", 2, proof.Size(20_000, 80_000)},
		{2, 2, "move", 1, proof.Size(10_000, 80_000)},
		{3, 1, "move", 1, proof.Size(10_000, 80_000)},
	} {
		t.Run(fmt.Sprint(x), func(t *testing.T) {
			e := explore(t, x.members, x.shards, x.faults, x.budget, x.most/slowdown)
			proof.Ran(len(e.order), "situations")
			proof.Ran(e.edges, "transitions")
			t.Log(len(e.order), e.edges)
		})
	}
}

// Random walks go where the exploration does not come: many faults of all kinds, in larger worlds.
func TestWalks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	walks := proof.Size(2000, 15_000) / slowdown
	for n := range walks {
		e := &exploration{model: model{size: 2 + n%2, shards: 1 + n/2%2, faults: "move, crash, lost, leave, delete, older, plan, wipe, late view"}, well: make(map[world]uint8)}
		for i := range e.size {
			e.members[i].up = true
		}
		e.now.revision, e.budget = 1, uint8(1+n%4)
		var steps []action
		for range 120 {
			all := e.actions()
			a := all[rng.IntN(len(all))]
			steps = append(steps, a)
			e.do(a)
			if e.broken != "" {
				t.Fatalf("%s: %v", e.broken, steps)
			}
			e.tidy()
		}
		if !e.recovers() || e.broken != "" {
			t.Fatalf("within %d ticks there is no recovery, or %q: %v", longest, e.broken, steps)
		}
	}
	proof.Ran(walks, "random walks")
}
