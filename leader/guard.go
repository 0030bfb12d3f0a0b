package leader

import (
	"encoding/json"
	"fmt"

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
