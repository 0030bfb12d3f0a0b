package machine

import "github.com/natsleader/natsleader/internal/record"

// The last leader in the exploration: each term names the last one before it as the world has seen it,
// also after candidates that won the key and gave it up. Once the key was
// deleted none is known, but for a write that was under way.

// remembersLast reports whether the last leader is compared. A store that forgets, and a feed that lies,
// may hide one. So may a purge under a leader that raises its guards.
func (w *worldOf) remembersLast() bool {
	return !w.void && w.limits[forgeAny]+w.limits[rollBack] == 0 && (!w.guarded || w.limits[purge] == 0)
}

// bequeath notes who led last before the writer of an entry that is being stored.
func (w *worldOf) bequeath(s record.Observation) {
	was, wins := w.current, s.Rec.Phase == record.PhasePending || s.Rec.Phase == record.PhaseElect
	switch {
	case !w.remembersLast():
	case s.Kind != record.EntryRecord:
		w.ledLast = ""
	case s.Rec.Phase == record.PhaseLeading && !w.guarded:
		w.ledLast = s.Rec.ID
	case wins && (!was.Held() || was.Rec.Session != s.Rec.Session):
		if was.Held() && was.Rec.Phase != record.PhasePending {
			w.ledLast = was.Rec.ID // it was elected, and may have crashed before it learned that
		}
		for i := range w.parties {
			if p := &w.parties[i]; p.m.Session == s.Rec.Session && p.m.state != StateLeader { // or it is a write from before its term
				p.heirOf = w.ledLast
			}
		}
	}
}

// inherits checks whom a term names as the last leader before it. After a purge it may name none, or one
// from before the purge, in a record that was written before and stored after it.
func (w *worldOf) inherits(p *party, n Note) {
	if !w.remembersLast() {
		return
	}
	if last := n.Last.Unpack(); last.ID != p.heirOf && (last.ID != "" && p.heirOf != "" || w.limits[purge] == 0) {
		w.fail("%s is elected after %q, and names %q", p.m.Session, p.heirOf, last.ID)
	}
	p.heirOf = p.m.ID
	if w.current.Rec.Session == p.m.Session {
		w.ledLast = p.m.ID
	}
}

// forgetLast drops what is only shown, or is set again before it is looked at.
func (w *worldOf) forgetLast() {
	w.eachRecord(func(r *record.Record) { dropToken(&r.Last) })
	for i := range w.parties {
		p := &w.parties[i]
		dropToken(&p.m.past.last)
		if !p.up || !p.m.mayHoldKey() {
			p.m.past, p.heirOf = pastState{}, ""
		}
	}
}

// dropToken drops the token of a last leader.
func dropToken(p *record.PackedLast) {
	if *p == "" {
		return
	}
	l := p.Unpack()
	l.Token = 0
	*p = l.Pack()
}

// broken returns the invariant that does not hold, or an empty string.
func (p *pastState) broken() string {
	if p.led && p.last != "" {
		return "it has led, and keeps another last leader"
	}
	return ""
}
