package backend

import (
	"sync"
	"time"
)

// Window bounds the requests that are in flight to one bucket on one connection. A request takes a slot
// before it is sent, and waits in line for one if none is free. So requests of thousands of
// candidates wait here, where waiting costs nothing, and not at the server, where their time
// runs out.
//
// The number of slots follows the server: it grows with prompt replies while requests wait,
// and is halved by a late one. A nil Window has any number of slots. A Window calls a [Waiter]
// without a lock of its own.
type Window struct {
	least, most int

	mu       sync.Mutex // held for moments only
	size     int
	flying   [ranks]int // slots that are taken, by rank
	lines    [ranks]line
	cleared  uint64        // how often Clear was called
	shrunk   uint64        // how often the window has become smaller
	fastest  time.Duration // the round trip of the last prompt replies at their best; 0: not known
	reported bool          // that requests wait for too long, since a leader last waited
	members  int           // candidates that use the bucket
	joined   int           // with a phase
}

// NewWindow returns a window that begins with the least number of slots and never has more
// than most.
func NewWindow(least, most int) *Window { return &Window{least: least, most: most, size: least} }

// Rank is the importance of a request. A request of a higher rank takes a slot before those
// of a lower one that wait. Reads take at most half of the slots and writes of candidates
// three quarters: requests that a server does not answer must not keep leaders from renewing.
// Those of leaders may take all.
type Rank uint8

// The ranks, the least important first.
const (
	RankRead    Rank = iota // of a candidate that does not hold the key
	RankTake                // a write of such a candidate
	RankHolder              // of a candidate that leads
	RankOverdue             // of a leader that has missed a renewal
	ranks
	// RankShared is that of a request which the candidates share, so that it needs no slot.
	RankShared = ranks
)

// share returns how many slots requests up to a rank may take.
func (w *Window) share(r Rank) int { return max(1, w.size*(int(min(r, RankHolder))+2)/4) }

// Waiter gets slots.
type Waiter interface {
	// Granted is called when the waiter has a slot for which it had to wait. It must not
	// block, and must not call the window.
	Granted()
}

// Place is the place of one waiter in a window. It has at most one slot. Its methods are those
// of the window. A zero Place is ready for use.
type Place struct {
	waiter     Waiter
	rank       Rank
	state      placeState
	cleared    uint64    // Window.cleared when the slot was taken
	shrunk     uint64    // Window.shrunk when the slot was taken
	since      time.Time // when it began to wait
	prev, next *Place    // in line
}

type placeState uint8

const (
	placeIdle placeState = iota
	placeWaits
	placeHas
)

// Reply is how a request ended. A zero Reply says nothing about the server: the request was not
// sent, or the server does not answer it for another reason than load.
type Reply struct {
	Took  time.Duration
	Limit time.Duration // how long a leader of the election waits for a reply
	Lost  bool          // given up, although the server was to answer at once
}

const (
	// slow is the round trip from which a reply may be a sign of load. It is shorter where
	// leaders wait for less than twice as long. A link may take as long without any load, so the
	// round trip must also be twice that of the fastest replies.
	slow = 300 * time.Millisecond
	// After memory replies the fastest one before them is largely forgotten, because a link may have
	// become slow.
	memory = 1 << 16
)

// isLate reports whether a reply is a sign of load. The window is locked.
func (w *Window) isLate(r Reply) bool {
	if !r.Lost {
		switch {
		case w.fastest == 0 || r.Took < w.fastest:
			w.fastest = r.Took
		default:
			w.fastest += (r.Took - w.fastest) / memory
		}
	}
	normal := 2 * w.fastest
	if !r.Lost {
		normal = max(normal, min(slow, r.Limit/2))
	}
	return r.Took > normal
}

// Phases is how many phases of their interval the renewals of one bucket are spread over.
// Fewer would come in larger bursts. More would cost a wake-up and a system call for each
// renewal.
const Phases = 16

// Join counts a candidate that begins to use the bucket, and returns its phase, from 1 to
// [Phases]. It returns 0, for none, if there are few candidates.
func (w *Window) Join() (phase int) {
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.members++; w.members <= Phases {
		return 0
	}
	w.joined++
	return w.joined%Phases + 1
}

// Leave counts a candidate that ends, and gives back what p has.
func (w *Window) Leave(p *Place) {
	if w == nil {
		return
	}
	w.Return(p, Reply{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.members--
}

// Take reports whether p has a slot now. If not, p waits, and by is called later. A place that
// waits keeps its turn, or goes to the end of another line if its rank has changed.
func (w *Window) Take(p *Place, r Rank, by Waiter, now time.Time) bool {
	if w == nil {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch p.state {
	case placeHas:
		return true
	case placeWaits:
		if r == p.rank {
			return false
		}
		w.lines[p.rank].remove(p)
	case placeIdle:
		p.since = now
	}
	p.rank, p.waiter = r, by
	if w.free(r) {
		w.grant(p)
		return true
	}
	p.state = placeWaits
	w.lines[r].add(p)
	return false
}

// free reports whether a request of that rank may be sent. The requests up to a rank count no more
// than their share: when the window shrinks, they may have more slots than that, which must not
// keep leaders from renewing. RankShared is above them all, and always free. The window is locked.
func (w *Window) free(r Rank) bool {
	taken := 0
	for i, n := range w.flying {
		share := w.share(Rank(i))
		if taken += n; Rank(i) >= r && taken >= share {
			return false
		}
		taken = min(taken, share)
	}
	return true
}

func (w *Window) grant(p *Place) {
	p.state, p.cleared, p.shrunk = placeHas, w.cleared, w.shrunk
	if p.rank != RankShared {
		w.flying[p.rank]++
	}
}

// Return gives back the slot of p, if it has one, with what the reply says about the server. A
// place that waits leaves the line.
func (w *Window) Return(p *Place, r Reply) {
	if w == nil {
		return
	}
	w.mu.Lock()
	switch p.state {
	case placeHas:
		if p.rank != RankShared {
			if p.cleared == w.cleared {
				w.flying[p.rank]--
			}
			w.adapt(p, r)
		}
	case placeWaits:
		w.lines[p.rank].remove(p)
	case placeIdle:
	}
	p.state, p.waiter = placeIdle, nil
	w.serve()
}

// Clear makes room for as many requests as there are slots: those in flight count no longer. The
// server has denied one of them at least, and does not reply to it. It has read the others from
// the connection, and may reply.
func (w *Window) Clear() {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.flying = [ranks]int{}
	w.cleared++
	w.serve()
}

// serve gives the slots that are free to those that wait. The window is locked, and serve unlocks
// it.
func (w *Window) serve() {
	var granted []Waiter
	for next := w.first(); next != nil; next = w.first() {
		w.lines[next.rank].remove(next)
		w.grant(next)
		granted = append(granted, next.waiter)
	}
	w.reported = w.reported && (w.lines[RankHolder].head != nil || w.lines[RankOverdue].head != nil)
	w.mu.Unlock()
	for _, by := range granted {
		by.Granted()
	}
}

// adapt changes the number of slots. Replies to requests that were sent before the window
// became smaller say nothing new. The window is locked.
func (w *Window) adapt(p *Place, r Reply) {
	if r == (Reply{}) {
		return
	}
	switch late := w.isLate(r); {
	case late && p.shrunk == w.shrunk:
		w.size = max(w.size/2, w.least)
		w.shrunk++
	case !late && !r.Lost && w.waits():
		w.size = min(w.size+1, w.most)
	}
}

// Has reports whether p has a slot.
func (w *Window) Has(p *Place) bool {
	if w == nil {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return p.state == placeHas
}

// first returns the place that gets a slot next, or nil. The window is locked.
func (w *Window) first() *Place {
	for r := ranks; r > 0; r-- {
		if p := w.lines[r-1].head; p != nil && w.free(r-1) {
			return p
		}
	}
	return nil
}

// waits reports whether a place waits. The window is locked.
func (w *Window) waits() bool {
	for _, l := range w.lines {
		if l.head != nil {
			return true
		}
	}
	return false
}

// Waiting returns how many places wait, and how long the oldest of those at the head of a line has
// waited. A place without a time counts, and has no age.
func (w *Window) Waiting(now time.Time) (n int, oldest time.Duration) {
	if w == nil {
		return 0, 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.lines {
		n += l.len
		if l.head != nil && !l.head.since.IsZero() {
			oldest = max(oldest, now.Sub(l.head.since))
		}
	}
	return n, oldest
}

// Used returns how many slots are taken.
func (w *Window) Used() (n int) {
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, taken := range w.flying {
		n += taken
	}
	return n
}

// Report reports whether it is news that leaders wait for too long. It is news once, until no
// leader waits.
func (w *Window) Report() bool {
	if w == nil {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	news := !w.reported
	w.reported = true
	return news
}

// line is a list of places in the order in which they came.
type line struct {
	head, tail *Place
	len        int
}

func (l *line) add(p *Place) {
	if p.prev = l.tail; p.prev != nil {
		p.prev.next = p
	} else {
		l.head = p
	}
	l.tail = p
	l.len++
}

func (l *line) remove(p *Place) {
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		l.head = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	} else {
		l.tail = p.prev
	}
	p.prev, p.next = nil, nil
	l.len--
}
