package machine

import (
	"math"
	"time"

	"github.com/natsleader/natsleader/internal/record"
)

// The adversary in the world of the exploration: a client that may write the key, or
// publish on the subject of its feed.

const (
	// longJunk is a lease longer than any that the buckets of the exploration allow.
	longJunk = 9 * tick
	// shortJunk is over before its holder could renew it.
	shortJunk = time.Nanosecond
	// someToken is about as great as a token that is counted up from may be. It leaves
	// room for as many terms as there are in a trace.
	someToken = record.LastToken - 1<<20
)

// junk returns records that no candidate of this world has written, including the
// extremes of what can be read. Those in A's name carry the session of the A that lives.
func (w *worldOf) junk() []record.Observation {
	a := &w.parties[0].m
	stranger := func(r record.Record) record.Observation {
		r.ID, r.Session, r.Counter = "A", "A8", 1
		return record.Observation{Kind: record.EntryRecord, Rec: r}
	}
	forged := func(r record.Record) record.Observation {
		r.ID, r.Session = "A", a.Session
		return record.Observation{Kind: record.EntryRecord, Rec: r}
	}
	all := []record.Observation{
		stranger(record.Record{Phase: record.PhaseLeading, Lease: longJunk}),
		stranger(record.Record{Phase: record.PhaseLeading, Lease: shortJunk}),
		stranger(record.Record{Phase: record.PhaseLeading, Lease: 3 * tick, Token: record.MaxToken}),
		stranger(record.Record{Phase: record.PhaseLeading, Lease: 3 * tick, Token: someToken}),
		stranger(record.Record{Phase: record.PhaseReleased, Lease: tick, Token: record.MaxMinToken}),
		stranger(record.Record{Phase: record.PhasePending, Lease: longJunk, Least: record.MaxToken}),
		forged(record.Record{Phase: record.PhaseLeading, Lease: 3 * tick, Counter: math.MaxUint64}),
		forged(record.Record{Phase: record.PhaseReleased, Lease: 3 * tick, Counter: math.MaxUint64, Token: record.MaxToken}),
		forged(record.Record{Phase: record.PhaseLeading, Lease: longJunk, Counter: a.writes.counter}),
		observationOfMarker(record.Record{Lease: longJunk, Token: record.MaxToken}),
		forged(record.Record{Phase: record.PhaseElect, Lease: 3 * tick, Counter: a.writes.counter, Least: record.MaxToken}),
	}
	for _, b := range a.writes.sent { // what it has sent, as if each write had elected it
		if b.last > 0 {
			all = append(all, forged(record.Record{Phase: record.PhaseElect, Lease: 3 * tick, Counter: b.last, Least: b.token}))
		}
	}
	return all
}

// observationOfMarker returns what decodeEntry makes of a marker that carries a held record.
func observationOfMarker(r record.Record) record.Observation {
	return record.Observation{Kind: record.EntryMarker, Rec: record.Record{Lease: r.Lease, Token: record.KnownToken(max(r.Token, r.Least))}}
}

// forgeries returns messages that were never stored. They are of a session that never
// was, at the revision that comes next, unless they say otherwise. The first is a
// release.
func (w *worldOf) forgeries() []record.Observation {
	held := func(lease time.Duration) record.Observation {
		return record.Observation{Kind: record.EntryRecord, Rec: record.Record{Phase: record.PhaseLeading, ID: "A", Session: "A8", Counter: 1, Lease: lease}}
	}
	release, token, far, old := held(tick), held(3*tick), held(3*tick), held(longJunk)
	// Not of the session that another has held: the first of two would be believed.
	release.Rec.Phase, release.Rec.Session = record.PhaseReleased, "A7"
	token.Rec.Token = record.MaxToken
	far.Revision = math.MaxUint64
	old.Revision = max(w.current.Revision, 1)
	all := []record.Observation{
		release, held(shortJunk), held(longJunk), token, far, old, held(3 * tick),
		{Kind: record.EntryMarker},
		observationOfMarker(record.Record{Lease: shortJunk}),
		{Kind: record.EntryForeign},
	}
	for i := range all {
		if all[i].Revision == 0 {
			all[i].Revision = w.last + 1
		}
	}
	return all
}

// junkActions adds what the adversary may do to the key.
func (w *worldOf) junkActions(add adder) {
	add(w.may(force) && w.current.Held(), doForce, 0, 0)
	if w.may(junkRecord) {
		for n := range w.junk() {
			add(true, doJunk, 0, n)
		}
	}
}

// forgeActions adds the forged messages that a candidate may hear.
func (w *worldOf) forgeActions(i int, add adder) {
	if !w.parties[i].listening {
		return
	}
	add(w.may(forge), doForge, i, 0)
	if w.may(forgeAny) {
		for n := range w.forgeries() {
			add(true, doForge, i, n)
		}
	}
}

// chained checks that tokens never fall along the records of the key, of which rec becomes the next.
// The exception is junk in the name of the candidate that replaces it, because it belongs to no term.
func (w *worldOf) chained(rec record.Record) {
	c := w.current
	token := rec.TermToken(w.last + 1)
	if rec.Phase == record.PhaseElect && c.Kind == record.EntryRecord && c.Rec.Session != rec.Session && token <= c.Rec.TermToken(c.Revision) {
		w.fail("%s is elected with token %d over %s", rec.Session, token, describe(c))
	}
	if max(rec.Token, rec.Least) > record.MaxToken {
		w.fail("%s writes a token that no candidate can read: %s", rec.Session, describeRecord(rec))
	}
}

// marker reads a marker of a transcript, with the record that it carries.
func (s *script) marker(words []string) record.Observation {
	s.t.Helper()
	found := record.Observation{Kind: record.EntryMarker}
	if len(words) > 2 {
		found = observationOfMarker(s.sight(append(words[:1:1], words[2:]...)).Rec)
	}
	found.Revision, found.Created = s.number(words[0]), int64(s.last)
	return found
}
