package main

import (
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

// An item is a fault if a later owner has begun before, in whichever order they are reported.
func TestJudge_FindsTwoOwners(t *testing.T) {
	for name, k := range map[string]struct {
		owners string // of the items, in the order of the reports
		tokens []uint64
		at     []int64
		broken int
	}{
		"in turn":            {"aab", []uint64{1, 1, 2}, []int64{10, 20, 30}, 0},
		"reported late":      {"aba", []uint64{1, 2, 1}, []int64{10, 30, 20}, 0},
		"after a later one":  {"aba", []uint64{1, 2, 1}, []int64{10, 20, 30}, 1},
		"before an older":    {"ab", []uint64{1, 2}, []int64{20, 10}, 1},
		"one token for both": {"ab", []uint64{1, 1}, []int64{10, 20}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var j judge
			for i, owner := range k.owners {
				j.take(string(owner), 7, k.tokens[i], k.at[i])
			}
			check.Equal(t, len(j.broken), k.broken, "%d faults, want %d")
		})
	}
	var j judge
	j.take("a", 7, 1, 10)
	j.take("b", 7, 2, 25)
	j.take("a", 7, 3, 27)
	j.take("b", 7, 4, 90)
	check.Equal(t, j.rested("a", time.Unix(0, 0), time.Unix(0, 90)), 15, "%d, want %d")
}
