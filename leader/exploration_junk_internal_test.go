package leader

import (
	"math"
	"time"
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
	someToken = lastToken - 1<<20
)

// junk returns records that no candidate of this world has written, including the
// extremes of what can be read. Those in A's name carry the session of the A that lives.
func (w *worldOf) junk() []observation {
	a := &w.parties[0].m
	stranger := func(r record) observation {
		r.id, r.session, r.counter = "A", "A8", 1
		return observation{kind: entryRecord, rec: r}
	}
	forged := func(r record) observation {
		r.id, r.session = "A", a.session
		return observation{kind: entryRecord, rec: r}
	}
	all := []observation{
		stranger(record{phase: phaseLeading, lease: longJunk}),
		stranger(record{phase: phaseLeading, lease: shortJunk}),
		stranger(record{phase: phaseLeading, lease: 3 * tick, token: maxToken}),
		stranger(record{phase: phaseLeading, lease: 3 * tick, token: someToken}),
		stranger(record{phase: phaseReleased, lease: tick, token: maxMinToken}),
		stranger(record{phase: phasePending, lease: longJunk, least: maxToken}),
		forged(record{phase: phaseLeading, lease: 3 * tick, counter: math.MaxUint64}),
		forged(record{phase: phaseReleased, lease: 3 * tick, counter: math.MaxUint64, token: maxToken}),
		forged(record{phase: phaseLeading, lease: longJunk, counter: a.writes.counter}),
		observationOfMarker(record{lease: longJunk, token: maxToken}),
		forged(record{phase: phaseElect, lease: 3 * tick, counter: a.writes.counter, least: maxToken}),
	}
	for _, b := range a.writes.sent { // what it has sent, as if each write had elected it
		if b.last > 0 {
			all = append(all, forged(record{phase: phaseElect, lease: 3 * tick, counter: b.last, least: b.token}))
		}
	}
	return all
}

// observationOfMarker returns what decodeEntry makes of a marker that carries a held record.
func observationOfMarker(r record) observation {
	return observation{kind: entryMarker, rec: record{lease: r.lease, token: knownToken(max(r.token, r.least))}}
}

// forgeries returns messages that were never stored. They are of a session that never
// was, at the revision that comes next, unless they say otherwise. The first is a
// release.
func (w *worldOf) forgeries() []observation {
	held := func(lease time.Duration) observation {
		return observation{kind: entryRecord, rec: record{phase: phaseLeading, id: "A", session: "A8", counter: 1, lease: lease}}
	}
	release, token, far, old := held(tick), held(3*tick), held(3*tick), held(longJunk)
	// Not of the session that another has held: the first of two would be believed.
	release.rec.phase, release.rec.session = phaseReleased, "A7"
	token.rec.token = maxToken
	far.revision = math.MaxUint64
	old.revision = max(w.current.revision, 1)
	all := []observation{
		release, held(shortJunk), held(longJunk), token, far, old, held(3 * tick),
		{kind: entryMarker},
		observationOfMarker(record{lease: shortJunk}),
		{kind: entryForeign},
	}
	for i := range all {
		if all[i].revision == 0 {
			all[i].revision = w.last + 1
		}
	}
	return all
}

// forced is the marker that `step-down --force` puts in place of what is held.
func (w *worldOf) forced() observation { return observationOfMarker(w.current.rec) }

// junkActions adds what the adversary may do to the key.
func (w *worldOf) junkActions(add func(do verb, party, arg int)) {
	if w.may(force) && w.current.held() {
		add(doForce, 0, 0)
	}
	if w.may(junkRecord) {
		for n := range w.junk() {
			add(doJunk, 0, n)
		}
	}
}

// forgeActions adds the forged messages that a candidate may hear.
func (w *worldOf) forgeActions(i int, add func(do verb, party, arg int)) {
	if !w.parties[i].listening {
		return
	}
	if w.may(forge) {
		add(doForge, i, 0)
	}
	if w.may(forgeAny) {
		for n := range w.forgeries() {
			add(doForge, i, n)
		}
	}
}

// putJunk lets the adversary write.
func (w *worldOf) putJunk(n int) {
	w.spend(junkRecord)
	w.put(w.junk()[n])
	w.junked = true
}

// chained checks that tokens never fall along the records that stand. The exception is
// junk in the name of the candidate that replaces it, because it belongs to no term.
func (w *worldOf) chained(rec record) {
	c := w.current
	if rec.phase == phaseElect && c.kind == entryRecord && c.rec.session != rec.session && rec.least <= c.rec.termToken(c.revision) {
		w.fail("%s is elected with token %d over %s", rec.session, rec.least, describe(c))
	}
	if max(rec.token, rec.least) > maxToken {
		w.fail("%s writes a token that no candidate can read: %s", rec.session, describeRecord(rec))
	}
}

// marker reads a marker of a transcript, with the record that it carries.
func (s *script) marker(words []string) observation {
	s.t.Helper()
	found := observation{kind: entryMarker}
	if len(words) > 2 {
		found = observationOfMarker(s.sight(append(words[:1:1], words[2:]...)).rec)
	}
	found.revision, found.created = s.number(words[0]), int64(s.last)
	return found
}
