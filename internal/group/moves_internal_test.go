package group

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
)

// Tests of which shards move, and to which worker. assign_internal_test.go has those of how many do.

// evolve calls visit after each change of random groups of equal workers, with the grants and the workers before, and what
// moved. One worker joins or one is gone at a time.
func evolve(visit func(f *fleet, before []Grant, workers []Worker, grants []Grant, moved []int)) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		f, grants := newFleet(0), make([]Grant, 1+rng.IntN(60))
		for revision := uint64(1); revision < 500; revision += 1 + rng.Uint64N(40) {
			before, workers := slices.Clone(grants), slices.Clone(f.Workers)
			if n := len(f.Workers); n < 2 || n < 9 && rng.IntN(2) == 0 {
				f.join(Worker{Weight: 1})
			} else {
				f.leave(rng.IntN(n))
			}
			visit(f, before, workers, grants, f.assign(grants, revision))
		}
	}
}

// A worker that has too many shards gives up those that were granted longest ago.
func TestAssign_LongestAgoMoves(t *testing.T) {
	moves := 0
	evolve(func(f *fleet, before []Grant, _ []Worker, grants []Grant, moved []int) {
		for w := range f.Workers {
			s := f.Workers[w].Session
			for _, i := range moved {
				for n, g := range before {
					if before[i].Owner == s && g.Owner == s && grants[n] == g {
						check.Must(t, before[i].Since <= g.Since, "%v moves and not %v", before[i], g)
						moves++
					}
				}
			}
		}
	})
	check.That(t, moves > 10_000, "only %d pairs", moves)
}

// Of the shards of a worker that is gone, those that were granted later go to workers that joined later.
func TestAssign_LatestGoToTheLast(t *testing.T) {
	pairs := 0
	evolve(func(f *fleet, before []Grant, workers []Worker, grants []Grant, moved []int) {
		number := make(map[Session]int)
		for w := range f.Workers {
			number[f.Workers[w].Session] = w
		}
		if len(workers) < len(f.Workers) {
			return
		}
		for _, i := range moved {
			for _, j := range moved {
				if before[i].Since < before[j].Since {
					check.Must(t, number[grants[i].Owner] <= number[grants[j].Owner], "%v became %v, and %v became %v", before[i], grants[i], before[j], grants[j])
					pairs++
				}
			}
		}
	})
	check.That(t, pairs > 10_000, "only %d pairs", pairs)
}

// Of workers that had as many shards, one that joined later has no fewer afterwards.
func TestAssign_TheLastKeepsOneMore(t *testing.T) {
	pairs := 0
	evolve(func(f *fleet, before []Grant, _ []Worker, grants []Grant, _ []int) {
		had, has := f.shares(before), f.shares(grants)
		for j := range has {
			for i := range j {
				if had[i] == had[j] {
					check.Must(t, has[i] <= has[j], "from %v to %v", had, has)
					pairs += has[j] - has[i]
				}
			}
		}
	})
	check.That(t, pairs > 1000, "only %d pairs", pairs)
}

// Assigners that have read the same map, and know the same workers, agree. Nothing moves once all is even.
func TestAssign_AssignersAgree(t *testing.T) {
	evolve(func(f *fleet, before []Grant, _ []Worker, grants []Grant, moved []int) {
		l := Layout{Shards: len(before), PageSize: 1000}
		read, err := l.DecodePage(0, l.EncodePage(0, 1, before), 1<<20)
		check.OK(t, err)
		other := &Assigner{Workers: f.Workers, Over: f.Over, Freed: f.Freed, Held: f.Held, Roll: f.Roll}
		check.Must(t, slices.Equal(other.Assign(read.Grants), moved), "another moves others than %v", moved)
		for i := range grants {
			check.Must(t, read.Grants[i].Owner == grants[i].Owner, "another grants %d to %v, not to %v", i, read.Grants[i].Owner, grants[i].Owner)
		}
		check.Must(t, f.Assign(grants) == nil, "it moves again")
	})
}

// rolling replaces each of the workers once: a new one joins, and the one that has been there longest leaves. It returns how
// often each shard moves.
func (f *fleet) rolling(grants []Grant, rng *rand.Rand, revision *uint64) (moves []int) {
	moves = make([]int, len(grants))
	assign := func() {
		*revision += 1 + rng.Uint64N(50)
		for _, i := range f.assign(grants, *revision) {
			moves[i]++
		}
	}
	for range len(f.Workers) {
		f.join(Worker{Weight: 1})
		assign()
		f.Workers[0].Leaves = true
		assign()
		f.leave(0)
	}
	return moves
}

// In a rolling deployment each shard moves about twice, and no shard moves again and again. A new member gets its share, and
// the shards of the member that leaves are spread.
func TestAssign_RollingDeployments(t *testing.T) {
	for _, c := range []struct{ shards, members, moves, most int }{{64, 8, 112, 4}, {100, 7, 168, 6}, {100, 10, 180, 5}, {300, 20, 560, 4}, {1000, 10, 1810, 7}} {
		most := make(map[int]int)
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 9))
			f, grants, revision := newFleet(0), make([]Grant, c.shards), 1+rng.Uint64N(1000)
			f.name = fmt.Sprint(seed, "-")
			for range c.members { // at once, or one by one
				if f.join(Worker{Weight: 1}); seed%2 == 0 {
					f.assign(grants, revision)
					revision++
				}
			}
			f.assign(grants, revision)
			for range 3 {
				moves, sum := f.rolling(grants, rng, &revision), 0
				for _, n := range moves {
					sum += n
				}
				check.Equal(t, sum, c.moves, "%d moves")
				check.That(t, slices.Max(moves) <= c.most, "seed %d: one shard moves %d times", seed, slices.Max(moves))
				most[slices.Max(moves)]++
			}
		}
		t.Log(c.shards, "shards,", c.members, "members: the most moves of one shard, and in how many deployments:", fmt.Sprint(most))
	}
}

// After rolling deployments, a page still has few ranges.
func TestPage_AfterRollingDeployments(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	f, grants, revision := newFleet(10), make([]Grant, 1000), uint64(1)
	f.assign(grants, revision)
	l := Layout{Shards: 1000, PageSize: 1000}
	for range 5 {
		f.rolling(grants, rng, &revision)
		size := len(l.EncodePage(0, 1, grants))
		t.Log("a page of 1,000 shards has", size, "bytes")
		check.That(t, size < 4500, "%d bytes", size)
	}
}

// BenchmarkAssign measures the plan of an assigner by what has happened.
func BenchmarkAssign(b *testing.B) {
	for _, size := range []struct{ shards, workers int }{{1000, 10}, {100_000, 100}} {
		stored := make([]Grant, size.shards)
		newFleet(size.workers).assign(stored, 1)
		for _, event := range []string{"cold start", "nothing", "join", "leave"} {
			b.Run(fmt.Sprintf("%d shards/%s", size.shards, event), func(b *testing.B) {
				f, grants := newFleet(size.workers), make([]Grant, size.shards)
				switch event {
				case "join":
					f.join(Worker{Weight: 1})
				case "leave":
					f.Workers[0].Leaves = true
				}
				for b.Loop() {
					if clear(grants); event != "cold start" {
						copy(grants, stored)
					}
					f.Assign(grants)
				}
			})
		}
	}
}
