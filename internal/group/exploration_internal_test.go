package group

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

// renumber makes situations equal that differ only in the numbers of terms and revisions, or in what nothing
// asks for any more. With keep the map before the newest one stays, with views the records before the newest ones.
func (w *world) renumber(keep, views, orphans bool) {
	if w.pending.revision != w.now.revision {
		w.pending = shardMap{}
	}
	wanted := keep
	for i := range w.members {
		p, k, old := &w.members[i], &w.keys[i], &w.old[i]
		for s := range p.seen.grants {
			g, work := &p.seen.grants[s], &p.work[s]
			if g.owner.token == 0 || g.owner.id != uint8(i) {
				*g = grant{}
			}
			if work.since != 0 && !work.stops || g.pred.token != 0 && w.over(g.pred) {
				g.pred = session{} // the member does not wait for it any more: a term that is over stays so
			}
		}
		if !p.sends {
			p.sent = report{}
		}
		if !views {
			*old = key{}
		}
		for _, k := range []*key{k, old} {
			switch {
			case !orphans:
				k.at = 0
			case !k.over: // how new the record is counts only beside the map that it shows to have been seen
				k.at = k.report.seen
			}
		}
		wanted = wanted || p.token != 0 && p.seen.revision < w.before.revision
	}
	if !wanted {
		w.before = shardMap{}
	}
	if !orphans {
		w.listed = [maxMembers]bool{}
	}
	for s := range w.before.grants { // they matter to members that have not seen them
		g := &w.before.grants[s]
		p := &w.members[g.owner.id]
		if g.owner.token == 0 || g.owner.token != p.token || !keep && p.seen.revision >= w.before.revision {
			*g = grant{}
		}
	}
	var tokens [maxMembers][]*uint8
	var room [maxMembers][20]*uint8
	for i := range tokens {
		tokens[i] = room[i][:0]
	}
	revisions := make([]*uint8, 0, 40)
	for _, m := range []*shardMap{&w.now, &w.before, &w.pending} {
		revisions = append(revisions, &m.revision)
		for s := range m.grants {
			g := &m.grants[s]
			if g.pred.token != 0 && g.owner.token != 0 && !views && w.over(g.pred) {
				g.pred = session{} // a shard with an owner is settled with such a predecessor as without one
			}
			revisions = append(revisions, &g.since)
			tokens[g.owner.id] = append(tokens[g.owner.id], &g.owner.token)
			tokens[g.pred.id] = append(tokens[g.pred.id], &g.pred.token)
		}
	}
	seen := make([]*uint8, 0, 20)
	for i := range w.members {
		p, k := &w.members[i], &w.keys[i]
		old := &w.old[i]
		for s := range p.seen.grants {
			g := &p.seen.grants[s]
			revisions = append(revisions, &g.since, &p.work[s].since)
			tokens[g.owner.id] = append(tokens[g.owner.id], &g.owner.token)
			tokens[g.pred.id] = append(tokens[g.pred.id], &g.pred.token)
		}
		seen = append(seen, &p.seen.revision, &p.sent.seen, &k.report.seen, &k.at, &old.report.seen, &old.at)
	}
	dense(revisions, seen)
	for i := range w.members {
		if p := &w.members[i]; p.sent == w.keys[i].report { // the write changes nothing
			p.sends, p.sent = false, report{}
		}
		if w.old[i] == w.keys[i] {
			w.old[i] = key{}
		}
	}
	for i := range tokens {
		least := w.keys[i].token
		if views && w.old[i].token != 0 {
			least = w.old[i].token
		}
		for _, t := range tokens[i] {
			if *t != 0 && *t < least {
				*t = 1 // all terms before the newest one that a record shows are over, and nothing else is asked of them
			}
		}
		dense(append(tokens[i], &w.members[i].token, &w.keys[i].token, &w.old[i].token), nil)
	}
}

// over reports whether a term is over.
func (w *world) over(s session) bool {
	k := &w.keys[s.id]
	return s.token < k.token || k.over
}

// tidy renumbers the world of an exploration, and takes one of those that differ only in the names of members and
// shards.
func (w *model) tidy() {
	w.renumber(w.may("older"), w.may("late view") && w.budget > 0, w.orphans() != 0)
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

// dense numbers values from 1 in their order. 0 stays. Each of the others is compared with these values only. It
// becomes the greatest of these that is not greater.
func dense(values, others []*uint8) {
	var used [256]uint8
	for _, v := range values {
		used[*v] = 1
	}
	used[0] = 0
	n := uint8(0)
	for i := range used {
		n += used[i]
		used[i] = n
	}
	for _, v := range values {
		*v = used[*v]
	}
	for _, v := range others {
		*v = used[*v]
	}
}

// print is the fingerprint of a world.
type print [16]byte

func (w *world) print() print {
	sum := sha256.Sum256(w.bytes())
	return print(sum[:])
}

// exploration visits every situation that can be reached.
type exploration struct {
	model
	begin world
	trail map[print]print // has the situations that were reached, each with the one before
	queue []world         // those of them that are to be visited
	well  map[print]bool  // has situations from which all is well later, without further faults
	edges int
}

func newExploration(members, shards int, faults string, budget uint8) *exploration {
	e := &exploration{
		model: model{size: members, shards: shards, faults: faults, orders: orders(members, shards)},
		trail: make(map[print]print), well: make(map[print]bool),
	}
	e.now.revision, e.budget = 1, budget
	e.begin = e.world
	return e
}

func (e *exploration) add(from print) {
	e.tidy()
	id := e.print()
	if _, ok := e.trail[id]; !ok {
		e.trail[id] = from
		e.queue = append(e.queue, e.world)
	}
}

// longest bounds how many steps it takes until all is well.
const longest = 100

// recovers finds out whether all is well some steps after a situation, if nothing fails and all that can happen
// happens.
func (e *exploration) recovers() bool {
	var way []print
	for len(way) < longest {
		e.tidy()
		id := e.print()
		if !e.well[id] {
			way = append(way, id)
			if a, ok := e.next(); ok {
				e.do(a)
				continue
			}
			if !e.isWell() {
				return false
			}
		}
		for _, id := range way {
			e.well[id] = true
		}
		return true
	}
	return false
}

// next returns what happens next if nothing fails, and whether there is something.
func (e *exploration) next() (action, bool) {
	all := e.actions()
	i := slices.IndexFunc(all, func(a action) bool {
		switch a.what {
		case "arrive", "reap", "campaign", "send", "receive", "end", "release", "touch", "plan and store":
			return true
		case "end term":
			return e.keys[a.i].junk // its renewal is refused
		default:
			return a.what == "store" && e.pending.revision == e.now.revision
		}
	})
	if i < 0 {
		return action{}, false
	}
	return all[i], true
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
func (e *exploration) trace(id print) string {
	var way []print
	for ; e.trail[id] != id; id = e.trail[id] {
		way = append(way, id)
	}
	var steps []string
	w := e.model
	w.world, w.broken = e.begin, ""
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
			return next.print() == to
		})
	}
	step(func(next model) bool { return next.broken != "" })
	return strings.Join(steps, ", ")
}

// explore visits up to most situations.
func explore(t *testing.T, members, shards int, faults string, budget uint8, most int) *exploration {
	t.Helper()
	e := newExploration(members, shards, faults, budget)
	e.add(e.print())
	for ; len(e.queue) != 0 && len(e.trail) < most; e.queue = e.queue[1:] {
		from := e.queue[0]
		id := from.print()
		if e.world = from; !e.recovers() || e.broken != "" {
			t.Fatalf("within %d steps there is no recovery, or %q: %s", longest, e.broken, e.trace(id))
		}
		e.world = from
		for _, a := range e.actions() {
			e.world = from
			e.do(a)
			e.edges++
			if e.broken != "" {
				t.Fatalf("%s: %s", e.broken, e.trace(id))
			}
			e.add(id)
		}
	}
	return e
}

var whole = flag.Bool("whole", false, "with the build tag prove: explore the large scenarios to their ends, too")

// With -whole every situation of each scenario is visited: no shard has two owners, and each is owned
// again.
func TestExploration(t *testing.T) {
	for _, x := range []struct {
		members, shards int
		faults          string
		budget          uint8
		sample          int // situations
		long            int // in the long proof; 0: all
		all             int
	}{
		{2, 1, "move, delete, leave", 2, 20_000, 0, 38_021},
		{2, 1, "move, older", 2, 5_000, 0, 14_778},
		{2, 1, "wipe, late view", 2, 10_000, 0, 11_490},
		{2, 1, "wipe, late roll", 2, 10_000, 0, 3_043},
		{2, 1, "move, delete, leave, plan, wipe, late view", 2, 5_000, 50_000, 144_014},
		{2, 2, "", 0, 5_000, 0, 61_606},
		{2, 2, "delete", 1, 0, 50_000, 150_604},
		{2, 2, "move", 1, 5_000, 50_000, 293_864},
		{2, 2, "move, delete, leave", 1, 0, 50_000, 894_715},
		{3, 1, "move, delete, leave", 1, 5_000, 50_000, 109_912},
		{3, 1, "move, delete, leave", 2, 0, 50_000, 938_447},
		{2, 2, "move, delete, leave", 2, 0, 50_000, 4_690_111},
	} {
		most := math.MaxInt
		if x.long != 0 && !*whole {
			most = x.long
		}
		if most = proof.Size(x.sample, most); most == 0 {
			continue
		}
		most = proof.Raced(most, 20)
		t.Run(fmt.Sprintf("%d members/%d shards/%d times/%s", x.members, x.shards, x.budget, x.faults), func(t *testing.T) {
			e := explore(t, x.members, x.shards, x.faults, x.budget, most)
			proof.Ran(len(e.trail), "situations")
			proof.Ran(e.edges, "transitions")
			t.Log(len(e.trail), "situations,", e.edges, "transitions,", len(e.queue), "not visited")
			if len(e.queue) == 0 {
				check.Equal(t, len(e.trail), x.all, "%d situations")
			}
		})
	}
}

// Random walks go where the exploration does not come: many faults of all kinds, in larger worlds.
func TestWalks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	walks := proof.Raced(proof.Size(2000, 15_000), 20)
	for n := range walks {
		members, shards := 2+n%2, 1+n/2%2
		const faults = "move, leave, delete, older, plan, wipe, late view, late roll"
		e := newExploration(members, shards, faults, uint8(1+n%4))
		var steps []action
		for range 120 {
			all := e.actions()
			if len(all) == 0 { // everybody has left
				break
			}
			a := all[rng.IntN(len(all))]
			steps = append(steps, a)
			e.do(a)
			if e.broken != "" {
				t.Fatalf("%s: %v", e.broken, steps)
			}
			e.tidy()
		}
		if !e.recovers() || e.broken != "" {
			t.Fatalf("within %d steps there is no recovery, or %q: %v", longest, e.broken, steps)
		}
	}
	proof.Ran(walks, "random walks")
}
