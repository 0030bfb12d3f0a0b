package leader

import (
	"fmt"
	"math"
	"time"
)

// The adversary of the simulation. In every fifth seed it forges messages of the feed,
// and all promises hold. In every sixteenth it also writes the key. Then no machine
// panics, breaks a promise to its own application, or is stopped by junk that has been
// deleted.

// anyJunk returns a record of a session that never was.
func (w *world) anyJunk() record {
	w.order++
	session := fmt.Sprintf("X%d", w.order)
	r := record{
		phase: phasePending + phase(w.rng.Uint32N(4)), id: session, session: session, counter: 1,
		lease: []time.Duration{1, time.Second, 10 * time.Second, time.Hour, maxRecordLease}[w.rng.Uint32N(5)],
	}
	token := []uint64{0, 1, 60, maxMinToken, lastToken - 1<<20, lastToken + 1, maxToken}[w.rng.Uint32N(7)]
	if r.phase == phasePending || r.phase == phaseElect {
		r.least = token
	} else {
		r.token = token
	}
	return r
}

// forge delivers a message that was never stored to a candidate.
func (n *node) forge() {
	w := n.w
	last := w.bucket.settings.LastRevision
	s := observation{revision: []uint64{1, last, last + 1, last + 2, math.MaxUint64}[w.rng.Uint32N(5)]}
	switch w.rng.Uint32N(6) {
	case 0:
		s.kind = entryMarker
	case 1:
		s = observationOfMarker(w.anyJunk())
		s.revision = last + 1
	case 2:
		s.kind = entryForeign
	default:
		s.kind, s.rec = entryRecord, w.anyJunk()
	}
	if n.feed != 0 {
		n.hand(n.life, input{kind: inHeard, observed: s})
	}
}

// putJunk writes the key.
func (w *world) putJunk() {
	s := observation{kind: entryRecord, rec: w.anyJunk()}
	switch w.rng.Uint32N(5) {
	case 0:
		n := w.nodes[w.rng.IntN(len(w.nodes))] // in its name
		s.rec.session, s.rec.counter = n.config.session, []uint64{1, n.m.writes.counter, n.m.writes.counter + 1, math.MaxUint64}[w.rng.Uint32N(4)]
	case 1:
		s = observationOfMarker(s.rec)
	case 2: // a copy of an entry that was stored before
		past := w.bucket.past
		if old := past[len(past)-1-w.rng.IntN(min(len(past), 8))]; old.kind == entryRecord {
			s = old
		}
	}
	w.put(s, "the adversary")
	w.junk = w.bucket.current.revision
}

// cleanUp deletes the junk that stands.
func (w *world) cleanUp() {
	if w.junk > 0 && w.bucket.current.revision == w.junk {
		w.put(observation{kind: entryMarker}, "operator")
	}
}
