package group

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

// A portion is the square of the time, rounded up, and at least one shard. After a second it is any number.
func TestColdPortion(t *testing.T) {
	for _, c := range []struct {
		shards int
		want   []int // each 100 ms
	}{
		{1, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		{5, []int{1, 1, 1, 1, 1, 2, 2, 3, 4, 5}},
		{100, []int{1, 1, 4, 9, 16, 25, 36, 49, 64, 81}},
		{100_000, []int{1, 1000, 4000, 9000, 16_000, 25_000, 36_000, 49_000, 64_000, 81_000}},
	} {
		at := time.Duration(0)
		for _, want := range c.want {
			for _, since := range []time.Duration{at, at + 100*time.Millisecond - 1} {
				n, next := ColdPortion(since, c.shards)
				check.That(t, n == want && next == at+100*time.Millisecond, "of %d shards after %v: %d until %v; want %d", c.shards, since, n, next, want)
			}
			at += 100 * time.Millisecond
		}
		n, next := ColdPortion(time.Second, c.shards)
		check.That(t, n == 0 && next == 0, "of %d shards after a second: %d until %v", c.shards, n, next)
	}
}

// A portion bounds how many shards have a worker, but for those that come back to their member. It goes to the workers with the
// smallest parts of their shares. Nothing moves because of it. When it is lifted, all is as even as without it.
func TestAssign_Portions(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 2000 {
		f, grants := newFleet(1+rng.IntN(6)), make([]Grant, 1+rng.IntN(60))
		for w := range f.Workers {
			f.Workers[w].Weight = 1 + rng.IntN(3)
		}
		gone, back := Session{"gone", 5}, Session{f.Workers[0].Session.ID, 4}
		f.standing[gone], f.standing[back] = Standing{Over: true}, Standing{Over: true}
		returns := 0
		for i := range grants {
			switch rng.IntN(4) {
			case 0:
				grants[i] = Grant{Owner: gone, Since: 1}
			case 1:
				grants[i] = Grant{Owner: back, Since: 1}
				returns++
			}
		}
		moves := make([]int, len(grants))
		for step, revision := 1, uint64(2); step <= 4; step, revision = step+1, revision+1 {
			f.Portion = len(grants)*step/4 + 1
			before := f.shares(grants)
			for _, i := range f.assign(grants, revision) {
				moves[i]++
			}
			shares, sum := f.shares(grants), 0
			for w, n := range shares {
				check.Must(t, n >= before[w], "%v became %v", before, shares)
				sum += n
			}
			check.Must(t, sum <= max(f.Portion, returns), "%d of %d shards have a worker; the portion is %d, and %d come back", sum, len(grants), f.Portion, returns)
			check.Must(t, sum >= min(f.Portion, len(grants)), "%d of %d shards have a worker; the portion is %d", sum, len(grants), f.Portion)
			if returns == 0 {
				for w := range shares {
					for v := range shares {
						check.Must(t, (shares[w]-1)*f.Workers[v].Weight <= (shares[v]+1)*f.Workers[w].Weight, "%+v have %v", f.Workers, shares)
					}
				}
			}
		}
		f.Portion = 0
		f.assign(grants, 10)
		check.Must(t, slices.Max(moves) == 1, "a shard moves %d times", slices.Max(moves))
		check.Must(t, f.Assign(grants) == nil, "it moves again")
	}
}

// The cost of handing out shards grows with their number and with that of the levels of a heap of the workers, but not with
// the product of shards and workers: the assigner of a full group does so in each of ten portions.
func TestDeal_Cost(t *testing.T) {
	const shards, workers, levels = 100_000, 2000, 11
	counts, compared := make([]int, workers), 0
	deal(counts, shards, func(int) bool { return true }, func(i, j int) int {
		compared++
		return counts[i] - counts[j]
	})
	check.That(t, slices.Min(counts) == shards/workers && slices.Max(counts) == shards/workers, "%v", counts)
	check.That(t, compared <= 2*levels*(shards+workers), "%d comparisons", compared)
}

// The shards of a portion are beside each other for each worker, so that a page has few ranges. What a portion has no room for
// keeps its place.
func TestAssign_PortionIsCompact(t *testing.T) {
	l := Layout{Shards: 1000, PageSize: 1000}
	f, grants := newFleet(10), make([]Grant, 1000)
	for step := range coldSteps + 1 {
		f.Portion, _ = ColdPortion(time.Duration(step)*coldStep, 1000)
		f.assign(grants, uint64(1+step))
	}
	size := len(l.EncodePage(0, 1, grants))
	check.That(t, size < 2300, "%d bytes", size)
	check.Equal(t, slices.Max(f.shares(grants)), 100, "%d shards")
}

// A group is cold while no worker has a shard, whoever else has one.
func TestAssigner_Cold(t *testing.T) {
	f := newFleet(2)
	grants := []Grant{{}, {Owner: Session{f.Workers[0].Session.ID, 4}}, {Owner: Session{"gone", 1}}}
	check.That(t, f.Cold(grants) && f.Cold(nil), "it is not cold")
	grants[0].Owner = f.Workers[1].Session
	check.That(t, !f.Cold(grants), "it is cold")
}
