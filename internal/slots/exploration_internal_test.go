package slots

import (
	"flag"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

var (
	faults = flag.Int("faults", 0, "let so many faults happen; 0: one, and two in the long proof")
	depth  = flag.Int("ticks", 0, "explore so many ticks; 0: 5 with one fault, 2 with two")
)

// explore visits every situation with so many faults up to a tick, and returns how many there are, with how many moves, and
// the first promise that is broken. From every situation it looks into a future without faults.
func explore(faults int8, most int64) (situations, moves int, broken string, how trace) {
	type step struct {
		from int
		name string
	}
	start, seed := newWorld(faults), maphash.MakeSeed()
	seen := map[uint64]struct{}{maphash.Comparable(seed, start): {}} // two situations of one hash are taken for one
	queue, steps := []world{start}, []step{{-1, ""}}
	told := func(n int, last string) (how trace) {
		for ; n > 0; n = steps[n].from {
			how = append(how, steps[n].name)
		}
		slices.Reverse(how)
		return append(how, last)
	}
	for n := 0; len(queue) > 0; n++ {
		w := queue[0]
		queue = queue[1:]
		if bad := w.calm(); bad != "" {
			return len(steps), moves, bad, told(n, "(all is well)")
		}
		for _, m := range w.moves(most) {
			next := w
			moves++
			if bad := m.do(&next); bad != "" {
				return len(steps), moves, bad, told(n, m.name)
			}
			h := maphash.Comparable(seed, next)
			if _, ok := seen[h]; !ok {
				seen[h] = struct{}{}
				queue, steps = append(queue, next), append(steps, step{n, m.name})
			}
		}
	}
	return len(steps), moves, "", nil
}

// No slot is yielded as new twice, or before its time, or is untold, and none fails to come, whatever the clocks show, in
// every situation that so many faults can cause.
func TestExploration(t *testing.T) {
	sizes := [][2]int{{1, proof.Raced(proof.Size(4, 5), 4)}, {2, proof.Raced(proof.Size(1, 2), 2)}}
	if *faults > 0 {
		sizes = [][2]int{{*faults, *depth}}
	}
	for _, s := range sizes {
		situations, moves, broken, how := explore(int8(s[0]), int64(s[1])) //nolint:gosec // small
		t.Logf("%d faults, %d ticks: %d situations, %d moves", s[0], s[1], situations, moves)
		proof.Ran(situations, "situations of schedules")
		check.That(t, broken == "", "%s, after %v", broken, how)
	}
}

// The same in random walks with more faults than all situations can be tried with.
func TestWalks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // so that a failure comes again
	for range proof.Raced(proof.Size(5000, 120_000), 20) {
		w, how := newWorld(5), trace{}
		for range 60 {
			moves := w.moves(12)
			if rng.IntN(4) > 0 { // faults are many
				moves = slices.DeleteFunc(moves, func(m move) bool { return m.fault })
			}
			if len(moves) == 0 {
				continue
			}
			m := moves[rng.IntN(len(moves))]
			how = append(how, m.name)
			bad := m.do(&w)
			if bad == "" {
				bad = w.calm()
			}
			check.Must(t, bad == "", "%s, after %v", bad, how)
		}
	}
}
