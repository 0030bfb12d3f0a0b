package leader

import (
	"context"
	"slices"
	"sync"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/natskv"
)

// lockOwner identifies the caller that asks for locks in this process: the Config.ID that the caller gave, or
// none. Callers without an ID, and those with the same, are one owner.
type lockOwner struct {
	id      string
	process any // a leadertest.Link stands for a process of its own; nil: this process
}

func ownerOf(id string, store backend.Store) lockOwner {
	if _, ok := store.(*natskv.Bucket); ok {
		return lockOwner{id: id}
	}
	return lockOwner{id, store}
}

// lockSessions are the sessions that this process asks for a lock with, or holds one with, by
// any Bucket. A record with one of them is a lock that only this process can unlock.
type lockSessions struct {
	mu  sync.Mutex // held for moments only
	all map[string]*acquisition
}

var ownLocks = lockSessions{all: make(map[string]*acquisition)}

func (l *lockSessions) add(a *acquisition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[a.session] = a
}

func (l *lockSessions) remove(session string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, session)
}

// has reports whether the session is one of the owner's. A lock whose context has ended is lost,
// although its session is removed a moment later.
func (l *lockSessions) has(session string, o lockOwner) bool {
	l.mu.Lock()
	a, ok := l.all[session]
	l.mu.Unlock()
	if !ok || a.owner != o {
		return false
	}
	t := a.term.Load()
	return t == nil || t.over() == nil
}

// lockLine is a line of calls of Acquire for one lock on one Bucket. The first of them tries for the key, and those behind it have no
// candidate yet: thousands would hear each record, and send a write each whenever the key is released, all but one in vain.
type lockLine struct {
	store    backend.Store
	election string
}

// place is that of one call in a line.
type place struct {
	line  lockLine
	owner lockOwner
	turn  chan struct{}   // closed when the call is the first
	own   chan *HeldError // the lock is held by the same owner
	a     *acquisition    // that tries; nil: it does not yet
}

// lockQueues are the lines of this process.
type lockQueues struct {
	mu  sync.Mutex // held for moments only
	all map[lockLine][]*place
}

var lockLines = lockQueues{all: make(map[lockLine][]*place)}

// wait returns a place when it is the first of its line. Otherwise it returns the error of ctx, or a *HeldError.
func (l *lockQueues) wait(ctx context.Context, line lockLine, o lockOwner) (*place, error) {
	p := &place{line: line, owner: o, turn: make(chan struct{}), own: make(chan *HeldError, 1)}
	l.mu.Lock()
	l.all[line] = append(l.all[line], p)
	first := l.all[line][0]
	if first == p {
		close(p.turn)
	}
	a := first.a
	l.mu.Unlock()
	if a != nil {
		l.observed(a)
	}
	select {
	case <-p.turn:
		return p, nil
	case held := <-p.own:
		l.leave(p)
		return nil, held
	case <-ctx.Done():
		return nil, l.explain(p, ctx.Err())
	}
}

// tries records that a call tries.
func (l *lockQueues) tries(a *acquisition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.place != nil {
		a.place.a = a
	}
}

// leave takes a call out of its line, if it is in one: it has its lock, or has given up, or keeps others waiting.
func (l *lockQueues) leave(p *place) {
	if p == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.all[p.line]
	i := slices.Index(line, p)
	if i < 0 {
		return
	}
	line = slices.Delete(line, i, i+1)
	if len(line) == 0 {
		delete(l.all, p.line)
		return
	}
	l.all[p.line] = line
	if i == 0 {
		close(line[0].turn)
	}
}

// observed ends the calls behind one that tries if their owner holds the lock.
func (l *lockQueues) observed(a *acquisition) {
	if a.place == nil {
		return
	}
	holder, session := a.c.Leader(), a.c.holderSession()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.all[a.place.line] {
		if p.a == nil && ownLocks.has(session, p.owner) {
			select {
			case p.own <- &HeldError{Election: a.c.election, Holder: holder, own: true}:
			default: // it ends already
			}
		}
	}
}

// explain takes a call out of its line, and adds the holder to the error of its context.
func (l *lockQueues) explain(p *place, err error) error {
	l.mu.Lock()
	first := l.all[p.line][0].a
	l.mu.Unlock()
	l.leave(p)
	if first != nil {
		if h := first.c.Leader(); h.held() {
			return &HeldError{Election: p.line.election, Holder: h, waited: err}
		}
	}
	return err
}

// waitsForItself reports whether other locks of the same owner hold all seats.
func (a *acquisition) waitsForItself() bool {
	seats := a.c.seats
	if seats == nil {
		seats = []*Candidate{a.c}
	}
	for _, c := range seats {
		if s := c.holderSession(); s == a.session || !ownLocks.has(s, a.owner) {
			return false
		}
	}
	return true
}

// holderSession returns the session of the holder, or the empty string.
func (c *Candidate) holderSession() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.holder.session
}
