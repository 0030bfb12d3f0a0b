package group

import (
	"cmp"
	"slices"
	"time"
)

// A group starts cold when no worker has a shard. Its members then join within a short time, as when all processes of an
// application are started at once. If the first one got all shards, most of them would move once for each of the others.
const (
	coldSteps = 10
	coldStep  = 100 * time.Millisecond
)

// ColdPortion returns how many shards of a group may have a worker at a time after its cold start, and how long after the
// start more may. 0: any number. It is the square of the time, because the members that join late find more shards then:
// the portion of each is smaller than the share that it keeps. The first shard waits for nothing.
func ColdPortion(since time.Duration, shards int) (portion int, next time.Duration) {
	step := int(since / coldStep)
	if step >= coldSteps {
		return 0, 0
	}
	return max(1, (shards*step*step+coldSteps*coldSteps-1)/(coldSteps*coldSteps)), time.Duration(step+1) * coldStep
}

// ration returns how many shards each worker is to have if not more than a portion of all have a worker, of those that it
// has and those that it is to have. The next one goes to the worker that has the smallest part of its share.
func ration(has, want []int, portion int) []int {
	room, left := slices.Clone(has), portion
	for _, n := range has {
		left -= n
	}
	deal(room, left, func(w int) bool { return room[w] < want[w] }, func(i, j int) int {
		return cmp.Or(cmp.Compare(room[i]*want[j], room[j]*want[i]), cmp.Compare(i, j))
	})
	return room
}

// Cold reports whether no worker has a shard.
func (a *Assigner) Cold(grants []Grant) bool {
	isWorker := make(map[Session]bool, len(a.Workers))
	for i := range a.Workers {
		isWorker[a.Workers[i].Session] = true
	}
	for i := range grants {
		if isWorker[grants[i].Owner] {
			return false
		}
	}
	return true
}
