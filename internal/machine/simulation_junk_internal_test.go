package machine

import (
	"fmt"
	"math"
	"time"

	"github.com/natsleader/natsleader/internal/record"
)

// The adversary of the simulation. In every fifth seed it forges messages of the feed,
// and all promises hold. In every sixteenth it also writes the key. Then no machine
// panics, breaks a promise to its own application, or is stopped by junk that has been
// deleted.

// anyJunk returns a record of a session that never was.
func (w *world) anyJunk() record.Record {
	w.order++
	session := fmt.Sprintf("X%d", w.order)
	r := record.Record{
		Phase: record.PhasePending + record.Phase(w.rng.Uint32N(4)), ID: session, Session: session, Counter: 1,
		Lease: []time.Duration{1, time.Second, 10 * time.Second, time.Hour, record.MaxLease}[w.rng.Uint32N(5)],
	}
	token := []uint64{0, 1, 60, record.MaxMinToken, record.LastToken - 1<<20, record.LastToken + 1, record.MaxToken}[w.rng.Uint32N(7)]
	if r.Phase == record.PhasePending || r.Phase == record.PhaseElect {
		r.Least = token
	} else {
		r.Token = token
	}
	return r
}

// forge delivers a message that was never stored to a candidate.
func (n *node) forge() {
	w := n.w
	last := w.bucket.settings.LastRevision
	s := record.Observation{Revision: []uint64{1, last, last + 1, last + 2, math.MaxUint64}[w.rng.Uint32N(5)]}
	switch w.rng.Uint32N(6) {
	case 0:
		s.Kind = record.EntryMarker
	case 1:
		s = observationOfMarker(w.anyJunk())
		s.Revision = last + 1
	case 2:
		s.Kind = record.EntryForeign
	default:
		s.Kind, s.Rec = record.EntryRecord, w.anyJunk()
	}
	if n.feed != 0 {
		n.hand(n.life, Input{Kind: InHeard, Observed: s})
	}
}

// putJunk writes the key.
func (w *world) putJunk() {
	s := record.Observation{Kind: record.EntryRecord, Rec: w.anyJunk()}
	switch w.rng.Uint32N(5) {
	case 0:
		n := w.nodes[w.rng.IntN(len(w.nodes))] // in its name
		s.Rec.Session, s.Rec.Counter = n.config.Session, []uint64{1, n.m.writes.counter, n.m.writes.counter + 1, math.MaxUint64}[w.rng.Uint32N(4)]
	case 1:
		s = observationOfMarker(s.Rec)
	case 2: // a copy of an entry that was stored before
		past := w.bucket.past
		if old := past[len(past)-1-w.rng.IntN(min(len(past), 8))]; old.Kind == record.EntryRecord {
			s = old
		}
	}
	w.put(s, "the adversary")
	w.junk = w.bucket.current.Revision
}

// cleanUp deletes the junk that stands.
func (w *world) cleanUp() {
	if w.junk > 0 && w.bucket.current.Revision == w.junk {
		w.put(record.Observation{Kind: record.EntryMarker}, "operator")
	}
}
