package record

import "github.com/natsleader/natsleader/internal/backend"

// EntryKind is the kind of an entry at a revision of the key.
type EntryKind uint8

// Kinds of entries.
const (
	EntryUnseen  EntryKind = iota // nothing is known yet
	EntryNothing                  // no message
	EntryMarker                   // deleted, purged or expired; perhaps with the lease of the record that was deleted
	EntryForeign                  // not a record of this package
	EntryRecord
)

// Observation is one revision of the key, decoded.
type Observation struct {
	Revision uint64
	Kind     EntryKind
	Rec      Record
	Created  int64 // server's time, Unix nanoseconds
}

// DecodeEntry decodes an entry.
func DecodeEntry(e backend.Entry) Observation {
	s := Observation{Revision: e.Revision, Kind: EntryNothing}
	if e.Revision == 0 {
		return s
	}
	if !e.Created.IsZero() {
		s.Created = e.Created.UnixNano()
	}
	rec, err := Decode(e.Value)
	switch {
	case err == nil && e.Marker && rec.Phase != PhaseReleased:
		// The key was deleted in place of the holder, and the holder may not have heard
		// of it. The holder's lease is kept: see earliestLead.
		s.Kind, s.Rec = EntryMarker, Record{Lease: rec.Lease, Token: KnownToken(max(rec.Token, rec.Least))}
	case err == nil:
		// A release counts as a release whether or not the key also counts as deleted.
		// Either no candidate has had the key since, or the condition of the next write
		// does not hold.
		s.Kind, s.Rec = EntryRecord, rec
	case e.Marker:
		s.Kind = EntryMarker
	default:
		s.Kind, s.Rec.Value = EntryForeign, foreignName(e.Value)
	}
	return s
}

// foreignName returns the part of a foreign value that can be shown. Processes of
// nats-kv-leader-elect store their bare name.
func foreignName(value []byte) string {
	if name := string(value); len(name) <= maxForeignName && plain(name) {
		return name
	}
	return ""
}

const maxForeignName = 64

// Same reports whether two observations of one revision show the same write.
func (s Observation) Same(o Observation) bool {
	return s.Kind == o.Kind && s.Rec.Session == o.Rec.Session && s.Rec.Counter == o.Rec.Counter
}

// Held reports whether a candidate holds the key for a time that is known.
func (s Observation) Held() bool { return s.Kind == EntryRecord && s.Rec.Phase != PhaseReleased }

// Began returns the server's time of the write that began the term, if later is a record
// of the same term, and 0 otherwise.
func (s Observation) Began(later Observation) int64 {
	switch {
	case s.Rec.TermToken(s.Revision) != later.Rec.TermToken(later.Revision):
		return 0
	case s.Rec.Phase == PhaseElect:
		return s.Created
	default:
		return s.Rec.Since
	}
}
