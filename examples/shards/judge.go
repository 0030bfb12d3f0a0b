package main

import (
	"fmt"
	"math"
	"time"
)

// judge checks that no owner works on a shard once a later one has begun.
type judge struct {
	spans  [shards]map[uint64]span // by token
	items  int
	broken []string
}

// span is the time in which an owner has worked on a shard, in Unix ns.
type span struct {
	owner       string
	first, last int64
}

// take takes a report of an item. Those of a process that was frozen come late.
func (j *judge) take(owner string, number int, token uint64, at int64) {
	j.items++
	if j.spans[number] == nil {
		j.spans[number] = make(map[uint64]span)
	}
	now, known := j.spans[number][token]
	if !known {
		now = span{owner, at, at}
	}
	now.first, now.last = min(now.first, at), max(now.last, at)
	j.spans[number][token] = now
	for other, was := range j.spans[number] {
		if other < token && was.last >= now.first || other > token && was.first <= now.last || other == token && was.owner != owner {
			j.broken = append(j.broken, fmt.Sprintf("shard %d: %s with token %d and %s with token %d", number, was.owner, other, owner, token))
		}
	}
}

// rested returns the least time that the shards of a process rested which others began to work on in a period: from its last
// item to their first.
func (j *judge) rested(owner string, from, until time.Time) time.Duration {
	least := time.Duration(math.MaxInt64)
	for _, spans := range j.spans {
		for token, was := range spans {
			for other, then := range spans {
				if was.owner == owner && other > token && then.first > from.UnixNano() && then.first < until.UnixNano() {
					least = min(least, time.Duration(then.first-was.last))
				}
			}
		}
	}
	return least
}
