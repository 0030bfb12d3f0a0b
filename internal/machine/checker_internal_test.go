package machine

import (
	"errors"
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/contract"
	"github.com/natsleader/natsleader/internal/record"
)

// checker checks one machine step by step: the contract with the application, by the notes,
// and what only the machine can know. The exploration, the random walks and the fuzz tests
// check every step of every machine.
type checker struct {
	contract.Candidate
	// An election may come then at the earliest: when a PendingPeriod is over, or when no
	// lease that the store forgot can be running any more.
	notBefore time.Time
	works     bool // the work of the last term goes on, and its end is awaited
	// A candidate that gave up its key, and was not asked to, takes none before restsUntil.
	restsUntil    time.Time
	leaves, asked bool // it gives the key up; that was asked for
	// The last write keeps others out until then, unless it released the key.
	keepsOutUntil time.Time
	void          bool // the store may have forgotten what it showed before
	// The feed may have delivered another entry of a revision first. Then a candidate reads again before
	// it recognises its own record.
	forged bool
	// The tokens and instants of the notes are those of the world. The exploration
	// renumbers them, and so cannot compare those of two steps.
	exact bool
}

// check returns the rule that a step broke, or an empty string.
func (p *checker) check(m *Machine, before view, now time.Time, in Input, fx Effects) string {
	if in.Kind == InStop || in.Kind == InAbandon {
		p.Next(contract.Event{Kind: contract.Stopped})
	}
	if in.Works && p.Alive() {
		p.works = true
	}
	if (in.Kind == InDrained || in.Kind == InWorked) && in.Term == m.term.number {
		p.works = false
	}
	if broken := p.checkEvents(m, now, fx); broken != "" {
		return broken
	}
	p.works = p.works || in.Kind == InLoop && m.state == StateLeader
	p.checkLeaving(m, now, in)
	switch {
	case p.works != m.work.going:
		return fmt.Sprintf("the work of its term goes on: %v, and it knows: %v", p.works, m.work.going)
	case p.Alive() != (m.state == StateLeader), p.Open() && m.state != StateLeader && m.state != StateFenced:
		return fmt.Sprintf("it is %v with its context alive: %v, its term open: %v", m.state, p.Alive(), p.Open())
	case m.state != StateCandidate && !m.holds() && !fx.done:
		return fmt.Sprintf("it is %v and knows %s", m.state, describe(m.key.seen))
	case m.state == StateCandidate && m.holds() && m.leave.mode == Staying && !fx.done:
		return "it holds the key and is but a candidate"
	case !p.void && !p.forged && in.Kind == InRead && in.Err == nil && in.Observed.Rec.Session == m.Session && in.Observed.Rec.Counter <= m.writes.counter && in.Observed.Held() && m.key.seen.Revision == in.Observed.Revision && m.key.seen.Rec.Session != m.Session:
		return "it does not recognise its own record"
	case m.Guarded && (m.state == StateLeader || m.raising()) && m.guards.Over >= m.term.token:
		return fmt.Sprintf("it leads, or claims to, with token %d, and a guard stands at %d", m.term.token, m.guards.Over)
	case m.term.draining && !now.Before(m.term.drainBy):
		return "it drains on after its time"
	case m.work.going && !m.work.awaited:
		return "it waits for the end of work, and nothing awaits that"
	case m.state == StateLeader && m.work.idle && !m.work.going && m.leave.mode == Staying && !fx.done:
		return "it leads, and its application takes no term"
	case m.leave.mode == Stopping && !m.term.draining && !fx.done && !now.Before(p.keepsOutUntil):
		return "it goes on stopping, and no write of it keeps others out"
	case m.suspended && m.state != StateCandidate:
		return fmt.Sprintf("it is barred and %v", m.state)
	case m.raising() && !now.Before(m.term.guardDeadline) && !fx.done:
		return "it goes on raising its guards"
	case !fx.Wake.IsZero() && !fx.Wake.After(now):
		return "it wakes in the past"
	case m.state == StateLeader && !fx.done && (fx.Wake.IsZero() || fx.Wake.After(m.term.leaseUntil)):
		return "it sleeps past the renew deadline"
	case !fx.done && fx.Wake.IsZero() && m.flight.slot == slotNone:
		return "it sleeps for ever"
	case !toldOf(m.key.seen, before.revision, in):
		return fmt.Sprintf("it knows of revision %d, which it was never told of", m.key.seen.Revision)
	}
	if broken := before.checkShown(m, fx); broken != "" {
		return broken
	}
	if fx.Request.Kind == ReqWrite {
		if fx.Request.Rec.Phase != record.PhaseReleased {
			p.keepsOutUntil = now.Add(fx.Request.Rec.Lease)
		}
		return p.checkWrite(m, now, fx.Request)
	}
	return ""
}

// view is what a machine knew and showed before a step.
type view struct {
	revision uint64       // the newest that it knew
	reported holderReport // the application sees another holder once this has changed
	holder   holderReport // what the application would see if it looked now
}

func (m *Machine) view() view {
	s, h := &m.key.seen, holderReport{Kind: m.reported.Kind}
	switch h.Kind {
	case record.EntryForeign:
		if m.Observe || m.KVElect {
			h.value = s.Rec.Value
		}
	case record.EntryRecord:
		h.id, h.session, h.value, h.pending = s.Rec.ID, s.Rec.Session, s.Rec.Value, s.Rec.Phase == record.PhasePending
		if !h.pending {
			h.token = s.Rec.TermToken(s.Revision)
		}
	case record.EntryUnseen, record.EntryNothing, record.EntryMarker:
	}
	if h.pending || h.Kind == record.EntryNothing {
		h.last = s.Leader(s.Created)
	}
	return view{s.Revision, m.reported, h}
}

// checkShown checks that the application sees each change of the holder and of the last leader, and that
// an observer is notified of each, once, until it is to stop.
func (v view) checkShown(m *Machine, fx Effects) string {
	now, noted := m.view(), 0
	for _, n := range fx.Notes {
		if n.Event == NoteObserved {
			noted++
		}
	}
	switch changed := now.holder != v.holder; {
	case changed != (now.reported != v.reported):
		return fmt.Sprintf("the holder has changed: %v, and the application sees %+v, then %+v", changed, v.reported, now.reported)
	case m.Observe && m.leave.mode != Stopping && changed != (noted == 1), noted > 1:
		return fmt.Sprintf("the holder has changed: %v, and the observer is notified %d times", changed, noted)
	}
	return ""
}

// checkLeaving notes until when a candidate that has given up its key is to take none.
func (p *checker) checkLeaving(m *Machine, now time.Time, in Input) {
	leaves := m.leave.mode == resigning
	switch {
	case m.holds():
		p.restsUntil = time.Time{}
	case p.leaves && !leaves && !p.asked && m.leave.mode == Staying:
		p.restsUntil = now.Add(m.bucket.times.Lease)
	}
	if leaves && !p.leaves {
		p.asked = in.Kind == InResign || in.Kind == InRoster
	}
	p.leaves = leaves
}

// checkEvents hands the effects that the application notices to the contract, and checks
// what the machine promises beyond it.
func (p *checker) checkEvents(m *Machine, now time.Time, fx Effects) string {
	if fx.End != nil {
		if v := p.Next(contract.Event{Kind: contract.Cancelled, Who: m.Session, Cause: fx.End}); v != nil {
			return v.String()
		}
	}
	for _, n := range fx.Notes {
		switch n.Event {
		case NotePending:
			p.notBefore = Later(p.notBefore, now.Add(m.bucket.times.PendingPeriod))
		case NoteElected:
			if now.Before(p.notBefore) {
				return "Elected before its time"
			}
			p.notBefore = time.Time{}
			switch {
			case p.works:
				return "Elected while the work of the last term goes on"
			case m.work.idle:
				return "Elected, and its application takes no term"
			}
			p.works = m.work.loops
			if n.Token < m.term.elected || n.Token <= m.MinToken {
				return fmt.Sprintf("its token %d is less than the revision that elected it, or than MinToken", n.Token)
			}
			if n.Token > record.LastToken+1 {
				return fmt.Sprintf("its token %d is greater than any that candidates ask for", n.Token)
			}
			if m.Guarded && m.guards.RaisedAt != n.Token {
				return "Elected before its guards stand"
			}
		case NoteFenced:
			if fx.End == nil {
				return "Fenced later than its context ended"
			}
		case NoteFaulted:
			if errors.Is(n.Err, backend.ErrRegressed) {
				p.notBefore = Later(p.notBefore, now.Add(m.unknownLease()))
			}
		case NoteDeposed, NoteObserved:
		}
		if v := p.Next(p.event(m, now, n)); v != nil {
			return v.String()
		}
	}
	if fx.done {
		if v := p.Next(contract.Event{Kind: contract.Ended, Who: m.Session}); v != nil {
			return v.String()
		}
	}
	return ""
}

// event returns a note in the words of the contract.
func (p *checker) event(m *Machine, now time.Time, n Note) contract.Event {
	kind := [...]contract.Kind{
		NotePending: contract.Pending, NoteElected: contract.Elected, NoteFenced: contract.Fenced,
		NoteDeposed: contract.Deposed, NoteObserved: contract.Observed, NoteFaulted: contract.Faulted,
	}[n.Event]
	e := contract.Event{Kind: kind, Who: m.Session, Cause: n.Err}
	if p.exact {
		e.Token, e.At = n.Token, now
		if n.Event == NotePending {
			e.Until = n.Until
			if p.void {
				e.Token = 0 // an adversary's token may be forgotten with its record
			}
		}
	}
	return e
}

// toldOf reports whether the newest revision known is the one from before, or is in the
// input. So no write is ever conditioned on a guess.
func toldOf(s record.Observation, known uint64, in Input) bool {
	var refused *backend.RefusedError
	switch {
	case s.Revision == known, s.Kind == record.EntryUnseen:
		return true
	case in.Kind == InHeard, in.Kind == InRead:
		return s.Revision == in.Observed.Revision
	case in.Kind == InWritten && in.Err == nil:
		return s.Revision == in.Revision
	case errors.As(in.Err, &refused):
		return refused.Named && s.Revision == refused.Actual
	}
	return false
}

// checkWrite checks a write that the machine requests.
func (p *checker) checkWrite(m *Machine, now time.Time, req Request) string {
	switch {
	case req.Revision != m.key.seen.Revision || m.key.seen.Kind == record.EntryUnseen:
		return fmt.Sprintf("it writes on condition of %d and knows %s", req.Revision, describe(m.key.seen))
	case req.Rec.Lease > max(m.bucket.bound, m.bucket.times.Lease) && m.bucket.bound > 0:
		return fmt.Sprintf("it writes a lease of %v, and the bucket was never set to more than %v", req.Rec.Lease, m.bucket.bound)
	case max(req.Rec.Token, req.Rec.Least) > record.MaxToken:
		return "it writes a token that cannot be read"
	case m.Guarded && req.write.win && !m.guards.Fit:
		return "it tries for the key, and its guards are not fit"
	case m.raising() && req.Rec.Phase != record.PhaseLeading:
		return "it writes " + record.PhaseNames[req.Rec.Phase] + " while it raises its guards"
	case m.work.going && m.state == StateFenced && req.Rec.Phase != record.PhaseLeading:
		return "it writes " + record.PhaseNames[req.Rec.Phase] + " while it drains"
	case m.work.idle && m.state == StateFenced && req.Rec.Phase != record.PhaseLeading:
		return "it writes " + record.PhaseNames[req.Rec.Phase] + " in place of a term that nobody takes"
	case (m.work.going || m.work.idle) && req.write.win:
		return "it tries for the key while its work goes on, or nobody works"
	case m.work.going && m.state != StateLeader && m.state != StateFenced && req.Rec.Phase != record.PhaseReleased:
		return "it writes " + record.PhaseNames[req.Rec.Phase] + " while its work goes on after the term"
	case req.write.win && now.Before(p.restsUntil):
		return "it tries for the key, and has given it up unasked less than a lease ago"
	case m.suspended && req.Rec.Phase != record.PhaseReleased:
		return "it writes " + record.PhaseNames[req.Rec.Phase] + " while it is barred"
	case p.Stopped() && !m.term.draining && req.Rec.Phase != record.PhaseReleased:
		return "it writes " + record.PhaseNames[req.Rec.Phase] + " after stop"
	case req.Rec.Phase == record.PhaseReleased && p.Alive():
		return "it releases before its context ended"
	case req.Rec.Phase == record.PhaseReleased && now.Before(m.renew.electFrom):
		return "it releases what it must not lead yet"
	}
	return ""
}
