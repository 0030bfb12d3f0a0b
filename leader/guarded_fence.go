package leader

import (
	"context"
	"sync"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// fence is a term's standing at one guard: what all its writers condition their
// writes on, and how they find out what a refusal means.
type fence struct {
	guard    Guard
	election string
	session  string
	token    uint64
	value    []byte          // of the guard, as the term raised it
	over     <-chan struct{} // closed when the term's context has ended
	suspect  func()          // tells the candidate that the guard was found gone

	mu       sync.Mutex
	revision uint64        // of the guard, as the term raised it
	moved    chan struct{} // closed when that changes
	later    bool          // a later term was found to have raised the guard, which has not moved since
	way      *lane
}

// fence returns the term's standing at a guard, or nil.
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

// move takes a revision at which the guard was seen standing for the term. It is
// less than what is known where the answer was late, or the stream was made anew
// and the guard raised again there.
func (f *fence) move(revision uint64, anew bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if revision > f.revision || anew {
		f.revision, f.later = revision, false
		close(f.moved)
		f.moved = make(chan struct{})
	}
}

// passed reports whether a later term was found to have raised the guard, which
// nobody lowers again.
func (f *fence) passed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.later
}

// lane returns the way of the term's writes, which all its writers share.
func (f *fence) lane(s *guardedStream) *lane {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.way == nil {
		f.way = &lane{s: s, f: f}
	}
	return f.way
}

// raisedAgain waits until the candidate has raised a guard again that is not what
// it was at revision. It returns [ErrFenced] if nobody will, because the term is
// over.
func (f *fence) raisedAgain(ctx context.Context, revision uint64) error {
	now, moved := f.current()
	if now != revision {
		return nil
	}
	f.suspect()
	again, cancel := within(ctx, lookAgain)
	defer cancel()
	select {
	case <-moved:
	case <-f.over:
		return ErrFenced
	case <-again.Done(): // perhaps it has been raised before moved was taken, to the same revision
	}
	return nil
}

// lookAgain is how long a write waits for the guard to be raised again until it
// looks for itself.
const lookAgain = time.Second

// standing is what a look at the guard tells of a term.
type standing uint8

const (
	standsStill standing = iota // raised by this term; what is current may have changed
	standsOlder                 // the answer is older than what is known
	standsNot                   // deleted, or overwritten by somebody who is no later term
	standsLater                 // a later term has raised it
	standsTaken                 // it is another election's
)

// judge compares the guard as the stream's leader told it with the term's own
// revision, which it brings up to date.
func (f *fence) judge(e backend.Entry) standing {
	s := seesGuard(e)
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
	case s.what == whatRecord && s.rec.Election != f.election:
		return standsTaken
	case s.what == whatRecord && s.rec.Token > f.token:
		f.mu.Lock()
		f.later = true
		f.mu.Unlock()
		return standsLater
	default:
		return standsNot
	}
}
