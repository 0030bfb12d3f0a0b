package record

import (
	"encoding/json"

	"github.com/natsleader/natsleader/internal/backend"
)

// Guard is the value of a guard.
type Guard struct {
	Format   int    `json:"v"`
	Election string `json:"election"` // owner of the guard: bucket and election
	Token    uint64 `json:"token"`    // of the term that raised it
	ID       string `json:"id"`
	Session  string `json:"session"`
}

// Encode returns the record as JSON.
func (r Guard) Encode() []byte {
	r.Format = Format
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and numbers
	}
	return b
}

// maxGuardSize is more than the size of any guard of this package, which has an ID and
// names.
const maxGuardSize = 64 << 10

// GuardObservation is one revision of a guard, decoded.
type GuardObservation struct {
	Revision uint64
	Kind     EntryKind // entryUnseen, entryNothing, entryMarker, entryForeign or entryRecord
	Rec      Guard
}

// DecodeGuard decodes an entry at the key or subject of a guard.
func DecodeGuard(e backend.Entry) GuardObservation {
	s := GuardObservation{Revision: e.Revision, Kind: EntryForeign}
	switch {
	case e.Revision == 0:
		s.Kind = EntryNothing
	case e.Marker:
		s.Kind = EntryMarker
	case len(e.Value) > maxGuardSize:
	default:
		var r Guard
		if json.Unmarshal(e.Value, &r) == nil && r.Format >= Format && r.Session != "" && r.Election != "" && r.Token <= MaxToken {
			s.Kind, s.Rec = EntryRecord, r
		}
	}
	return s
}

// RaisedBy reports whether that term of that session wrote this revision of the guard.
func (s GuardObservation) RaisedBy(session string, token uint64) bool {
	return s.Kind == EntryRecord && s.Rec.Session == session && s.Rec.Token == token && token != 0
}

// Judge returns what the guard says of a term that has raised it at revision own, or later.
func (s GuardObservation) Judge(election, session string, token, own uint64) backend.GuardStatus {
	switch {
	case 0 < s.Revision && s.Revision < own:
		return backend.GuardOlder
	case s.RaisedBy(session, token):
		return backend.GuardStill
	case s.Kind == EntryRecord && s.Rec.Election != election:
		return backend.GuardTaken
	case s.Kind == EntryRecord && s.Rec.Token > token:
		return backend.GuardLater
	default:
		return backend.GuardNot
	}
}
