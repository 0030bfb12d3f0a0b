package group

import (
	"container/heap"
	"slices"
	"time"
)

// alarm is when a shard is to be looked at.
type alarm struct {
	at    time.Time
	shard int
}

// alarms are a heap of them, with one for each shard at most.
type alarms struct {
	queue []alarm
	place map[int]int // by shard, in queue
}

// set sets the alarm of a shard.
func (a *alarms) set(shard int, at time.Time) {
	i, set := a.place[shard]
	if !set {
		heap.Push(a, alarm{at, shard})
		return
	}
	a.queue[i].at = at
	heap.Fix(a, i)
}

// due removes the alarms that are due, and returns their shards, in order.
func (a *alarms) due(now time.Time) (shards []int) {
	for next, ok := a.next(); ok && !now.Before(next.at); next, ok = a.next() {
		shards = append(shards, next.shard)
		a.drop()
	}
	slices.Sort(shards)
	return shards
}

// next returns the first alarm, or false.
func (a *alarms) next() (alarm, bool) {
	if len(a.queue) == 0 {
		return alarm{}, false
	}
	return a.queue[0], true
}

// drop removes the first alarm.
func (a *alarms) drop() { heap.Pop(a) }

func (a *alarms) Less(i, j int) bool { return a.queue[i].at.Before(a.queue[j].at) }
func (a *alarms) Len() int           { return len(a.queue) }

func (a *alarms) Swap(i, j int) {
	a.queue[i], a.queue[j] = a.queue[j], a.queue[i]
	a.place[a.queue[i].shard], a.place[a.queue[j].shard] = i, j
}

func (a *alarms) Push(x any) {
	next := x.(alarm) //nolint:forcetypeassert // set pushes no other
	a.place[next.shard] = len(a.queue)
	a.queue = append(a.queue, next)
}

func (a *alarms) Pop() any {
	last := len(a.queue) - 1
	delete(a.place, a.queue[last].shard)
	a.queue = a.queue[:last]
	return nil
}
