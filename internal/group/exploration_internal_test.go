package group

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/natsleader/natsleader/internal/check"
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

// tidy renumbers the world of an exploration, and takes one of those that differ only in the names of members and
// shards.
func (w *model) tidy() {
	w.renumber(strings.Contains(w.faults, "older"), strings.Contains(w.faults, "late view") && w.budget > 0, w.orphans() != 0)
	least := w.world
	for i := range w.orders[1:] {
		if r := w.orders[1+i].world(&w.world); bytes.Compare(r.bytes(), least.bytes()) < 0 {
			least = r
		}
	}
	w.world = least
}

// bytes returns a world byte by byte: it has fields of one byte only.
func (w *world) bytes() []byte { return unsafe.Slice((*byte)(unsafe.Pointer(w)), unsafe.Sizeof(*w)) }

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
	edges  int
}

func (e *exploration) add(parent int32) {
	e.tidy()
	if _, ok := e.seen[e.world]; ok {
		return
	}
	e.seen[e.world] = int32(len(e.order))
	e.order, e.parent = append(e.order, e.world), append(e.parent, parent)
}

// longest bounds how many ticks it takes until all is well.
const longest = 9

// recovers finds out whether all is well some ticks after a situation, if nothing fails and all that can happen
// happens.
func (e *exploration) recovers() bool {
	var way []world
	var ticks []uint8 // at the end of each of its steps
	for n := uint8(0); n <= longest; {
		e.tidy()
		from, a := e.world, action{}
		more, ok := e.well[from]
		if !ok {
			if a = e.next(); a.what != "tick" || !e.isWell() {
				way = append(way, from)
				e.do(a)
				if a.what == "tick" {
					n++
				}
				ticks = append(ticks, n)
				continue
			}
			e.well[from] = 0
		}
		all := n + more
		n = 0
		for i, w := range way {
			e.well[w] = all - n
			n = ticks[i]
		}
		return all <= longest
	}
	return false
}

// next returns what happens next if everything happens at once that needs no time and is no fault.
func (e *exploration) next() action {
	all := e.actions()
	i := slices.IndexFunc(all, func(a action) bool {
		switch a.what {
		case "restart", "reap", "campaign", "send", "arrive", "reply", "receive", "end", "start", "release", "store", "touch",
			"plan and store":
			return a.what != "store" || e.pending.revision == e.now.revision
		default:
			return false
		}
	})
	return all[max(0, i)] // the first one is a tick
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

// trace returns how a situation is reached, and how it breaks, with the names that members and shards have at first.
func (e *exploration) trace(i int32) string {
	var way []world
	for ; i > 0; i = e.parent[i] {
		way = append(way, e.order[i])
	}
	var steps []string
	w := e.model
	w.world, w.broken = e.order[0], ""
	step := func(is func(model) bool) {
		for _, a := range w.actions() {
			next := w
			if next.do(a); is(next) {
				w = next
				steps = append(steps, a.String())
				return
			}
		}
	}
	for _, to := range slices.Backward(way) {
		step(func(next model) bool {
			next.tidy()
			return next.world == to
		})
	}
	step(func(next model) bool { return next.broken != "" })
	return strings.Join(steps, ", ")
}

// explore visits up to most situations, and reports whether these are all.
func explore(t *testing.T, members, shards int, faults string, budget uint8, most int) *exploration {
	t.Helper()
	e := &exploration{
		model: model{size: members, shards: shards, faults: faults, orders: orders(members, shards)},
		seen:  make(map[world]int32), well: make(map[world]uint8),
	}
	for i := range members {
		e.members[i].up = true
	}
	e.now.revision, e.budget = 1, budget
	e.add(-1)
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
				t.Fatalf("%s: %s", e.broken, e.trace(i))
			}
			e.add(i)
		}
	}
	return e
}

// In each scenario that has an end, the long proof visits every situation: no shard has two owners, and each is owned
// again.
func TestExploration(t *testing.T) {
	for _, x := range []struct {
		members, shards int
		faults          string
		budget          uint8
		sample          int // situations
		all             int // 0: not known
	}{
		{2, 1, "", 0, 20_000, 35_300},
		{2, 1, "move", 1, 60_000, 301_987},
		{2, 1, "move", 2, 60_000, 0},
		{2, 1, "older", 0, 0, 66_108},
		{2, 1, "move, older", 2, 60_000, 0},
		{2, 1, "crash", 1, 10_000, 79_959},
		{2, 1, "lost", 1, 10_000, 222_553},
		{2, 1, "crash", 2, 0, 125_323},
		{2, 1, "lost", 2, 0, 592_918},
		{2, 1, "crash, lost", 2, 0, 647_035},
		{2, 1, "delete", 1, 10_000, 131_286},
		{2, 1, "delete", 2, 0, 262_248},
		{2, 1, "crash, delete", 2, 0, 294_269},
		{2, 1, "leave", 1, 10_000, 485_017},
		{2, 1, "plan", 1, 0, 137_265},
		{2, 1, "wipe", 1, 20_000, 259_013},
		{2, 1, "wipe, late view", 1, 0, 615_922},
		{2, 1, "wipe, late view", 2, 20_000, 0},
		{2, 1, "move, crash, lost, delete, leave", 2, 0, 0},
		{2, 2, "move", 1, 10_000, 0},
		{3, 1, "move", 1, 10_000, 0},
	} {
		most := x.all + 1
		if x.all == 0 {
			most = 150_000
		}
		if most = proof.Size(x.sample, most) / slowdown; most == 0 {
			continue
		}
		t.Run(fmt.Sprintf("%d members/%d shards/%d times/%s", x.members, x.shards, x.budget, x.faults), func(t *testing.T) {
			e := explore(t, x.members, x.shards, x.faults, x.budget, most)
			proof.Ran(len(e.order), "situations")
			proof.Ran(e.edges, "transitions")
			t.Log(len(e.order), "situations,", e.edges, "transitions")
			if proof.Long && slowdown == 1 && x.all != 0 {
				check.Equal(t, len(e.order), x.all, "%d situations, and perhaps more")
			}
		})
	}
}

// Random walks go where the exploration does not come: many faults of all kinds, in larger worlds.
func TestWalks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	walks := proof.Size(2000, 15_000) / slowdown
	for n := range walks {
		members, shards := 2+n%2, 1+n/2%2
		const faults = "move, crash, lost, leave, delete, older, plan, wipe, late view"
		e := &exploration{
			model: model{size: members, shards: shards, faults: faults, orders: orders(members, shards)},
			well:  make(map[world]uint8),
		}
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
