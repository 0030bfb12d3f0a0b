package leader

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/natsleader/natsleader/internal/backend"
)

// Guard is a candidate's access to a resource that only the leader may write. One key of
// the resource is the guard. The resource conditions every write of the leader on the
// guard's revision. A fence.Bucket and a fence.Stream are guards in NATS, a
// leadertest.Guard is one in memory.
//
// Before a term begins the candidate has raised each of its guards: it has written the
// term's token there, on the condition that the guard is as the candidate found it. So
// the write can never replace a greater token. From then on the revision of that write
// stands for the term. See [Term.Fence].
//
// Guards are compared with ==. Only this module implements them.
type Guard interface {
	// String names the resource for people, such as "bucket orders".
	fmt.Stringer
	// Backend is for this module; applications do not call it. It returns nil for a guard
	// that was not opened.
	Backend() backend.Guard
}

// guardRecord is the value of a guard.
type guardRecord struct {
	Format   int    `json:"v"`
	Election string `json:"election"` // owner of the guard: bucket and election
	Token    uint64 `json:"token"`    // of the term that raised it
	ID       string `json:"id"`
	Session  string `json:"session"`
}

func (r guardRecord) encode() []byte {
	r.Format = recordFormat
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers
	}
	return b
}

// maxGuardSize is more than the size of any guard of this package, which has an ID and
// names.
const maxGuardSize = 64 << 10

// guardObservation is one revision of a guard, decoded.
type guardObservation struct {
	revision uint64
	kind     entryKind // entryUnseen, entryNothing, entryMarker, entryForeign or entryRecord
	rec      guardRecord
}

func decodeGuard(e backend.Entry) guardObservation {
	s := guardObservation{revision: e.Revision, kind: entryForeign}
	switch {
	case e.Revision == 0:
		s.kind = entryNothing
	case e.Marker:
		s.kind = entryMarker
	case len(e.Value) > maxGuardSize:
	default:
		var r guardRecord
		if json.Unmarshal(e.Value, &r) == nil && r.Format >= recordFormat && r.Session != "" && r.Election != "" && r.Token <= maxToken {
			s.kind, s.rec = entryRecord, r
		}
	}
	return s
}

// raisedBy reports whether that term of that session wrote this revision of the guard.
func (s guardObservation) raisedBy(session string, token uint64) bool {
	return s.kind == entryRecord && s.rec.Session == session && s.rec.Token == token && token != 0
}

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
	s := decodeGuard(e)
	own, _ := f.Current()
	switch {
	case s.raisedBy(f.session, f.token):
		if s.revision < own {
			return backend.GuardOlder
		}
		f.Move(s.revision, false)
		return backend.GuardStill
	case 0 < s.revision && s.revision < own:
		return backend.GuardOlder
	case s.kind == entryRecord && s.rec.Election != f.election:
		return backend.GuardTaken
	case s.kind == entryRecord && s.rec.Token > f.token:
		f.mu.Lock()
		f.later = true
		f.mu.Unlock()
		return backend.GuardLater
	default:
		return backend.GuardNot
	}
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
