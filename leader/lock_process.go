package leader

import (
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

// lockLine is a line of calls of Acquire for one lock on one Bucket. The first of them tries for the key, and those behind it do
// not: thousands of them would send a write each whenever it is released, and all but one in vain.
type lockLine struct {
	store    backend.Store
	election string
}

// lockQueues are the lines of this process.
type lockQueues struct {
	mu  sync.Mutex // held for moments only
	all map[lockLine][]*acquisition
}

var lockLines = lockQueues{all: make(map[lockLine][]*acquisition)}

// join lets a call wait in line.
func (l *lockQueues) join(a *acquisition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[a.line] = append(l.all[a.line], a)
	l.all[a.line][0].admit()
}

// leave takes a call out of its line, if it is in one: it has its lock, or has given up.
func (l *lockQueues) leave(a *acquisition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := slices.DeleteFunc(l.all[a.line], func(other *acquisition) bool { return other == a })
	if len(line) == 0 {
		delete(l.all, a.line)
		return
	}
	l.all[a.line] = line
	line[0].admit()
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
