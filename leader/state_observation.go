package leader

import "github.com/natsleader/natsleader/internal/backend"

// entryKind is the kind of an entry at a revision of the key.
type entryKind uint8

const (
	entryUnseen  entryKind = iota // nothing is known yet
	entryNothing                  // no message
	entryMarker                   // deleted, purged or expired; perhaps with the lease of the record that was deleted
	entryForeign                  // not a record of this package
	entryRecord
)

// observation is one revision of the key, decoded.
type observation struct {
	revision uint64
	kind     entryKind
	rec      record
	created  int64 // server's time, Unix nanoseconds
}

// decodeEntry decodes an entry.
func decodeEntry(e backend.Entry) observation {
	s := observation{revision: e.Revision, kind: entryNothing}
	if e.Revision == 0 {
		return s
	}
	if !e.Created.IsZero() {
		s.created = e.Created.UnixNano()
	}
	rec, err := decodeRecord(e.Value)
	switch {
	case err == nil && e.Marker && rec.phase != phaseReleased:
		// The key was deleted in place of the holder, and the holder may not have heard
		// of it. The holder's lease is kept: see earliestLead.
		s.kind, s.rec = entryMarker, record{lease: rec.lease, token: knownToken(max(rec.token, rec.least))}
	case err == nil:
		// A release counts as a release whether or not the key also counts as deleted.
		// Either no candidate has had the key since, or the condition of the next write
		// does not hold.
		s.kind, s.rec = entryRecord, rec
	case e.Marker:
		s.kind = entryMarker
	default:
		s.kind, s.rec.value = entryForeign, foreignName(e.Value)
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

// same reports whether two observations of one revision show the same write.
func (s observation) same(o observation) bool {
	return s.kind == o.kind && s.rec.session == o.rec.session && s.rec.counter == o.rec.counter
}

// held reports whether a candidate holds the key for a time that is known.
func (s observation) held() bool { return s.kind == entryRecord && s.rec.phase != phaseReleased }

// began returns the server's time of the write that began the term, if later is a record
// of the same term, and 0 otherwise.
func (s observation) began(later observation) int64 {
	switch {
	case s.rec.termToken(s.revision) != later.rec.termToken(later.revision):
		return 0
	case s.rec.phase == phaseElect:
		return s.created
	default:
		return s.rec.since
	}
}
