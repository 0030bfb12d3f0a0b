package leader_test

import (
	"slices"

	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/leader"
)

// ancestry is who led last, by the entries that the store has stored. The lock of the simulation is
// held. It is not known after an entry that is no candidate's, nor after a candidate whose log is held
// up: that may have led or not.
type ancestry struct {
	holder       string // session of the record that holds the key
	last, before past   // by the newest entry, and when its holder won the key
	of           map[uint64]past
	traceless    bool // keys may be emptied without a trace, and a term after that names none
}

// past is a leader of the past. Its zero value is none.
type past struct {
	id, value string
	token     uint64
	released  bool
	unknown   bool
}

// stored takes an entry of a candidate, or another one.
func (a *ancestry) stored(l *life, revision uint64, value []byte) {
	rec, err := record.Decode(value)
	if l == nil || err != nil { // or the feed alone has delivered it
		a.last.unknown, a.before.unknown = true, true
		return
	}
	led := slices.Contains(l.tokens, a.last.token) && a.holder == rec.Session
	now := past{id: rec.ID, value: rec.Value, token: rec.TermToken(revision)}
	switch rec.Phase {
	case record.PhasePending, record.PhaseElect:
		if led || a.holder != rec.Session {
			a.before = a.last
			a.before.unknown = a.last.unknown || l.mute
		}
		if a.holder != rec.Session {
			l.sim.inherits(l, rec, a.before)
		}
		a.holder, a.last = rec.Session, a.before
		if rec.Phase == record.PhaseElect {
			a.of[now.token], a.last = a.before, now // it may crash before it learns that
		}
	case record.PhaseLeading:
		a.last = now
	case record.PhaseReleased:
		if a.holder, a.last = "", a.before; led {
			a.last = past{id: rec.ID, value: rec.Value, token: rec.Token, released: true}
		}
		a.last.unknown = a.last.unknown || l.mute
	case record.PhaseNone:
	}
}

// inherits checks the value with which a candidate takes the key.
func (s *simulation) inherits(l *life, rec record.Record, last past) {
	if l.cfg.Inherit && last.id != "" && !last.unknown && !s.ancestry.traceless && rec.Value != last.value {
		s.failf("%s begins with %q after %+v", l.name, rec.Value, last)
	}
}

// succeeds checks the leader that a term names as the last one before it.
func (s *simulation) succeeds(l *life, term *leader.Term) {
	want, ok := s.ancestry.of[term.Token()]
	h := term.Previous()
	got := past{id: h.ID, value: string(h.Value), token: h.Token, released: h.State == leader.HolderReleased}
	if !ok || want.unknown || got == want || got == (past{}) && s.ancestry.traceless {
		if want.id != "" && got == want {
			s.tally["a term after a leader"]++
		}
		return
	}
	s.failf("%s is elected with token %d after %+v, and names %+v", l.name, term.Token(), want, got)
}
