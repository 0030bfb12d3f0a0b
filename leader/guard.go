package leader

import (
	"fmt"
	"sync"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/record"
)

// Guard is a resource that only the leader may write: a fence.Bucket or a fence.Stream in NATS, or the result of
// Guard of a leadertest.Link. Only this module implements it. Guards are compared with ==. Before a term begins, the
// candidate raises its guards to the term's token. From then on they accept no write of an earlier term
// (docs/fencing.md).
type Guard interface {
	// String names the resource for people, such as "bucket orders".
	fmt.Stringer
	sealedGuard
}

// sealedGuard keeps the method that returns the backend out of the documentation.
type sealedGuard = backend.Sealed[backend.Guard]

// fence implements [backend.Fence]: the status of a term at one guard.
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
	shared   any           // made by the first call of Shared
}

func init() {
	backend.FenceOf = func(term, guard any) backend.Fence {
		t, _ := term.(*Term)
		g, _ := guard.(Guard)
		if f := t.fence(g); f != nil {
			return f
		}
		return nil
	}
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

// Current implements [backend.Fence].
func (f *fence) Current() (revision uint64, moved <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.revision, f.moved
}

// Move implements [backend.Fence]. The revision is less than the one known if the answer
// was late, or if the stream was made anew and the guard raised again there.
func (f *fence) Move(revision uint64, anew bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if revision > f.revision || anew {
		f.revision, f.later = revision, false
		close(f.moved)
		f.moved = make(chan struct{})
	}
}

// Judge implements [backend.Fence].
func (f *fence) Judge(e backend.Entry) backend.GuardStatus {
	s := record.DecodeGuard(e)
	own, _ := f.Current()
	found := s.Judge(f.election, f.session, f.token, own)
	switch found {
	case backend.GuardStill:
		f.Move(s.Revision, false)
	case backend.GuardLater:
		f.mu.Lock()
		f.later = true
		f.mu.Unlock()
	case backend.GuardOlder, backend.GuardTaken, backend.GuardNot:
	}
	return found
}

// Passed implements [backend.Fence].
func (f *fence) Passed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.later
}

// Suspect implements [backend.Fence].
func (f *fence) Suspect() { f.suspect() }

// Over implements [backend.Fence].
func (f *fence) Over() <-chan struct{} { return f.over }

// Value implements [backend.Fence].
func (f *fence) Value() []byte { return f.value }

// Shared implements [backend.Fence].
func (f *fence) Shared(create func() any) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shared == nil {
		f.shared = create()
	}
	return f.shared
}
