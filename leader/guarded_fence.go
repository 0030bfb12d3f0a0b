package leader

import (
	"context"
	"sync"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
)

// fence is the status of a term at one guard. It has the revision that all of the term's
// writers condition their writes on, and finds out the meaning of a rejection.
type fence struct {
	guard    Guard
	election string
	session  string
	token    uint64
	value    []byte          // of the guard, as the term raised it
	over     <-chan struct{} // closed when the term's context has ended
	suspect  func()          // reports to the candidate that the guard was found gone

	mu       sync.Mutex
	revision uint64        // of the guard, as the term raised it
	moved    chan struct{} // closed when that changes
	later    bool          // a later term was found to have raised the guard, which has not moved since
	way      *writeQueue
}

// fence returns the term's fence at a guard, or nil.
func (t *Term) fence(g Guard) *fence {
	if t == nil {
		return nil
	}
	for _, f := range t.fences {
		if f.guard == g {
			return f
		}
	}
	return nil
}

// current returns the revision to condition a write on, and a channel that is
// closed when there is another.
func (f *fence) current() (uint64, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.revision, f.moved
}

// move records a revision at which the guard was seen standing for the term. That
// revision is less than the one known if the answer was late, or if the stream was made
// anew and the guard raised again there.
func (f *fence) move(revision uint64, anew bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if revision > f.revision || anew {
		f.revision, f.later = revision, false
		close(f.moved)
		f.moved = make(chan struct{})
	}
}

// passed reports whether a later term was found to have raised the guard. No candidate
// lowers it again.
func (f *fence) passed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.later
}

// queue returns the write queue of the term, which all its writers share.
func (f *fence) queue(s *guardedStream) *writeQueue {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.way == nil {
		f.way = &writeQueue{s: s, f: f}
	}
	return f.way
}

// raisedAgain waits until the candidate has raised the guard again, after the guard was
// found changed since revision. It returns [ErrFenced] if that will not happen, because
// the term is over.
func (f *fence) raisedAgain(ctx context.Context, revision uint64) error {
	now, moved := f.current()
	if now != revision {
		return nil
	}
	f.suspect()
	again, cancel := deadline.Within(ctx, lookAgain)
	defer cancel()
	select {
	case <-moved:
	case <-f.over:
		return ErrFenced
	case <-again.Done(): // perhaps it has been raised before moved was taken, to the same revision
	}
	return nil
}

// lookAgain is how long a write waits for the guard to be raised again before it reads
// the guard.
const lookAgain = time.Second

// standing is the result of a read of the guard, for a term.
type standing uint8

const (
	standsStill standing = iota // raised by this term; the current revision may have changed
	standsOlder                 // the answer is older than the revision known
	standsNot                   // deleted, or overwritten, but not by a later term
	standsLater                 // a later term has raised it
	standsTaken                 // it is another election's
)

// judge compares the guard, as the stream's leader returned it, with the term's own
// revision, which it brings up to date.
func (f *fence) judge(e backend.Entry) standing {
	s := decodeGuard(e)
	own, _ := f.current()
	switch {
	case s.raisedBy(f.session, f.token):
		if s.revision < own {
			return standsOlder
		}
		f.move(s.revision, false)
		return standsStill
	case 0 < s.revision && s.revision < own:
		return standsOlder
	case s.kind == entryRecord && s.rec.Election != f.election:
		return standsTaken
	case s.kind == entryRecord && s.rec.Token > f.token:
		f.mu.Lock()
		f.later = true
		f.mu.Unlock()
		return standsLater
	default:
		return standsNot
	}
}
