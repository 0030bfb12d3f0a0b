package group

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
)

// Worker is a member that shards can be granted to.
type Worker struct {
	Session Session
	Weight  int  // its share, relative to that of others
	Most    int  // how many shards it takes; 0: any number
	Leaves  bool // it takes none, and gives up those that it has
	// Late has the shards on which its process still works under an earlier grant, although others may own them. It takes
	// none of these.
	Late []int
}

// takes reports whether the worker takes shards.
func (w *Worker) takes() bool { return !w.Leaves && w.Weight > 0 }

// late reports whether the worker does not take this one.
func (w *Worker) late(shard int) bool { return slices.Contains(w.Late, shard) }

// Newest is the newest known term of a member.
type Newest struct {
	Session  Session
	Revision uint64 // of the record that shows it
	// Freed is that of the Assigner, of this term: it is asked for each shard of a map that was lost.
	Freed func(shard int, since uint64) bool
}

// Assigner spreads shards over workers.
type Assigner struct {
	Workers []Worker // in the order in which they have joined
	// Everyone has the newest known term of each member, also of those that take no shards. Roll is the revision of the
	// registry that names them: a later one may name more.
	Everyone []Newest
	Roll     uint64
	// Over and Freed are what the stored records show of a term, for a shard by its number. They may be late.
	Over  func(Session) bool
	Freed func(s Session, shard int, since uint64) bool
	// Held reports whether the shards of a term that is over wait for a later term of the same member.
	Held func(Session) bool
	// Asked has the members that an operator wants shards to be moved to, by the number of the shard.
	Asked map[int]string
	// Portion bounds how many shards have a worker after Assign: others wait, unless they come back to the member that had
	// them. 0: any number. See [ColdPortion].
	Portion int
	// Before has the owners before of the shards that Assign has granted anew.
	Before map[int]Session
	// Found is what Assign found, before it moved what was not asked for.
	Found Found
}

// Found is the state of a map.
type Found struct {
	Unowned int // shards without an owner whose term may go on
	Moving  int // shards that have one, and whose predecessor is not known to have stopped
	Uneven  int // shards that have to move from one worker to another until the spread is even
}

// Assign moves the shards that are asked for, and changes the grants so that they are spread evenly, with as few moves as
// that takes. It returns the shards that were granted anew, in order. What cannot be moved yet stays: a shard whose
// predecessor is not known to have stopped.
func (a *Assigner) Assign(grants []Grant) (moved []int) {
	late := make(map[int]bool) // shards that some worker does not take; they move only to have an owner
	for _, w := range a.Workers {
		for _, i := range w.Late {
			late[i] = true
		}
	}
	has := make([]int, len(a.Workers)) // how many each worker has
	due := make([]int, len(a.Workers)) // the same, with those that an earlier term of it had and that come back to it
	var loose, fresh []int             // shards without a worker, those that had one and those that did not
	free := 0                          // how many of them come back to no worker
	number, newest := make(map[Session]int, len(a.Workers)), make(map[string]int, len(a.Workers))
	for i, w := range a.Workers {
		number[w.Session], newest[w.Session.ID] = i, i
	}
	asked := make(map[int]bool) // that have moved
	for _, i := range slices.Sorted(maps.Keys(a.Asked)) {
		if w, ok := newest[a.Asked[i]]; ok && a.Workers[w].takes() && !a.Workers[w].late(i) && a.Move(i, &grants[i], a.Workers[w].Session) {
			asked[i] = true
			moved = append(moved, i)
		}
	}
	a.Found = Found{}
	of := workersOf(grants, number)
	for i, g := range grants {
		w, ok := of[i], of[i] >= 0
		switch {
		case !ok && (g.Owner == (Session{}) || a.Over(g.Owner)):
			a.Found.Unowned++
		case !a.settled(i, g):
			a.Found.Moving++
		}
		switch {
		case ok && (!a.Workers[w].late(i) || !a.settled(i, g)):
			has[w]++
			due[w]++
		case g.Owner == (Session{}):
			if a.settled(i, g) {
				fresh = append(fresh, i)
				free++
			}
		case ok || a.over(g.Owner) && !a.Held(g.Owner):
			loose = append(loose, i)
			if w, ok := newest[g.Owner.ID]; ok && !a.Workers[w].late(i) {
				due[w]++
			} else {
				free++
			}
		}
	}
	want := a.spread(due, free)
	for w, n := range has {
		a.Found.Uneven += max(0, n-want[w])
	}
	place := func(i, w int) {
		to := Session{} // if there is no such worker
		if w < len(has) {
			has[w]++
			to = a.Workers[w].Session
		}
		if to != grants[i].Owner {
			a.grant(i, &grants[i], to)
			moved = append(moved, i)
		}
	}
	from := draw(a.Workers, len(grants))
	surplus := func(i int) bool { return of[i] >= 0 && has[of[i]] > want[of[i]] }
	for _, i := range longestFirst(grants, from, surplus) {
		w := of[i]
		if !surplus(i) || asked[i] || !a.settled(i, grants[i]) {
			continue
		}
		if late[i] && (a.Workers[w].takes() || a.Workers[w].late(i)) { // it stays, or is loose already
			continue
		}
		has[w]--
		loose = append(loose, i)
	}
	loose = slices.DeleteFunc(loose, func(i int) bool { // a member that is back gets what it had
		w, ok := newest[grants[i].Owner.ID]
		if !ok || a.Workers[w].Session == grants[i].Owner || has[w] >= want[w] || a.Workers[w].late(i) {
			return false
		}
		place(i, w)
		return true
	})
	// The shards that were granted last go to the workers that joined last: in a rolling deployment these stay the longest.
	slices.SortStableFunc(loose, func(i, j int) int { return cmp.Compare(grants[j].Since, grants[i].Since) })
	room := want
	if a.Portion > 0 {
		room = ration(has, want, a.Portion)
	}
	first, last := 0, len(room)-1 // of the workers that have room
	for n, i := range append(loose, fresh...) {
		for first < len(room) && has[first] >= room[first] {
			first++
		}
		for last >= 0 && has[last] >= room[last] {
			last--
		}
		w := first
		switch {
		case late[i]:
			w = a.elsewhere(i, has, want)
		case first > last && a.Portion > 0:
			continue // it waits for the next portion
		case first <= last && n < len(loose):
			w = last
		}
		place(i, w)
	}
	slices.Sort(moved)
	return moved
}

// workersOf returns for each shard the number of the worker that owns it, or -1.
func workersOf(grants []Grant, number map[Session]int) []int {
	of := make([]int, len(grants))
	for i, g := range grants {
		if i > 0 && g.Owner == grants[i-1].Owner { // most are beside each other
			of[i] = of[i-1]
			continue
		}
		w, ok := number[g.Owner]
		if of[i] = w; !ok {
			of[i] = -1
		}
	}
	return of
}

// longestFirst returns the shards that may move in the order in which they are to: those first that were granted longest
// ago, so that no shard moves again before others have moved once. Those that were granted at once follow each other from
// a number on. If that number was always the same, one shard would go from each new member to the next. If each shard was
// drawn by itself, a page would have many short ranges.
func longestFirst(grants []Grant, from int, may func(shard int) bool) (shards []int) {
	for n := range grants {
		if i := (from + n) % len(grants); may(i) {
			shards = append(shards, i)
		}
	}
	slices.SortStableFunc(shards, func(i, j int) int { return cmp.Compare(grants[i].Since, grants[j].Since) })
	return shards
}

// draw returns a number below n that every assigner draws for these workers: by the ID of the one that joined last.
func draw(workers []Worker, n int) int {
	if len(workers) == 0 || n == 0 {
		return 0
	}
	x := uint64(0xcbf29ce484222325) // FNV-1a
	for _, c := range []byte(workers[len(workers)-1].Session.ID) {
		x = (x ^ uint64(c)) * 0x100000001b3
	}
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9 // as SplitMix64, because IDs often differ in their last byte alone
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int((x ^ x>>31) % uint64(n))
}

// elsewhere returns the worker that is to have a shard which not all take, perhaps beyond its share, or how many there are.
func (a *Assigner) elsewhere(shard int, has, want []int) int {
	best := len(has)
	for i := range a.Workers {
		w := &a.Workers[i]
		if w.takes() && !w.late(shard) && (w.Most <= 0 || has[i] < w.Most) && (best == len(has) || has[i]-want[i] < has[best]-want[best]) {
			best = i
		}
	}
	return best
}

// Pending reports whether a shard that is asked for may yet move: its member takes shards, and has not got it.
func (a *Assigner) Pending(shard int, g Grant) bool {
	for i := range a.Workers {
		if w := &a.Workers[i]; w.Session.ID == a.Asked[shard] {
			return w.takes() && g.Owner != w.Session
		}
	}
	return false
}

// Move grants one shard to a worker, if it can be moved, and reports whether it has.
func (a *Assigner) Move(shard int, g *Grant, to Session) bool {
	if g.Owner == to || !a.over(g.Owner) && !a.settled(shard, *g) {
		return false
	}
	a.grant(shard, g, to)
	return true
}

// grant grants a shard that may be moved.
func (a *Assigner) grant(shard int, g *Grant, to Session) {
	next := Grant{Owner: to}
	switch {
	case !a.settled(shard, *g): // then its owner is over, and never worked on it or does not any more
		next.Pred = g.Pred
	case g.Owner != (Session{}) && !a.over(g.Owner):
		next.Pred = g.Owner
	}
	if a.Before == nil {
		a.Before = make(map[int]Session)
	}
	a.Before[shard], *g = g.Owner, next
}

// settled reports whether no other term than the owner's works on a shard: the predecessor has stopped. Of a shard
// that has neither an owner nor a predecessor any term may be the predecessor, because its map may have been lost. So the
// registry has to be one from after the loss.
func (a *Assigner) settled(shard int, g Grant) bool {
	switch {
	case g.Pred != (Session{}):
		return a.Freed(g.Pred, shard, g.Since)
	case g.Owner != (Session{}):
		return true
	case a.Roll < g.Since:
		return false
	}
	for _, n := range a.Everyone {
		// A record from before the map was lost does not show that there is no later term.
		if n.Revision < g.Since || !n.Freed(shard, g.Since) {
			return false
		}
	}
	return true
}

// over reports whether a term is over. The zero Session is none.
func (a *Assigner) over(s Session) bool { return s != (Session{}) && a.Over(s) }

// spread returns how many shards each worker is to have, of those that they have and of some that are loose. Where
// the shares leave a choice, the worker that has more keeps more, and of two that have as many, the one that joined last.
func (a *Assigner) spread(has []int, loose int) []int {
	left := loose
	for _, n := range has {
		left += n
	}
	want := make([]int, len(has))
	deal(want, left, func(w int) bool {
		return a.Workers[w].takes() && (a.Workers[w].Most <= 0 || want[w] < a.Workers[w].Most)
	}, func(i, j int) int {
		l, r := (want[i]+1)*a.Workers[j].Weight, (want[j]+1)*a.Workers[i].Weight // (want+1)/weight, without fractions
		return cmp.Or(cmp.Compare(l, r), cmp.Compare(has[j]-want[j], has[i]-want[i]), cmp.Compare(j, i))
	})
	return want
}

// deal hands out some shards one by one, each to the first of the workers that have room, and counts them. The order of two
// workers may depend on their counts, and on nothing else that changes.
func deal(counts []int, shards int, room func(w int) bool, order func(i, j int) int) {
	q := queue{order: order}
	for w := range counts {
		if room(w) {
			q.next = append(q.next, w)
		}
	}
	heap.Init(&q)
	for ; shards > 0 && len(q.next) > 0; shards-- {
		w := q.next[0]
		if counts[w]++; room(w) {
			heap.Fix(&q, 0)
		} else {
			heap.Pop(&q)
		}
	}
}

// queue has the workers that have room, in the order in which they get one more shard.
type queue struct {
	next  []int
	order func(i, j int) int
}

func (q *queue) Less(x, y int) bool { return q.order(q.next[x], q.next[y]) < 0 }
func (q *queue) Len() int           { return len(q.next) }
func (q *queue) Swap(x, y int)      { q.next[x], q.next[y] = q.next[y], q.next[x] }
func (q *queue) Push(any)           {}
func (q *queue) Pop() any {
	q.next = q.next[:len(q.next)-1]
	return nil
}
