package leader

import (
	"errors"
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// promises is the history of one candidate as its application has heard it, as far as the
// next step has to fit it. The simulation and the exploration check every step of every
// machine against it.
type promises struct {
	pending bool // Pending was reported since the last term
	open    bool // a term is not deposed
	alive   bool // its context lives
	stopped bool // it is to stop
	// An election may come then at the earliest: when a PendingPeriod is over, or when no
	// lease that the store forgot can be running any more.
	notBefore time.Time
	void      bool // the store may have forgotten what it showed before
}

// keep returns the promise that a step broke, or an empty string. known is the revision
// that the candidate knew before.
func (p *promises) keep(m *machine, known uint64, now time.Time, in input, fx effects) string {
	if in.kind == inStop || in.kind == inAbandon {
		p.stopped = true
	}
	if broken := p.keepEvents(m, now, fx); broken != "" {
		return broken
	}
	switch {
	case p.alive != (m.state == StateLeader), p.open && m.state != StateLeader && m.state != StateFenced:
		return fmt.Sprintf("it is %v with its context alive: %v, its term open: %v", m.state, p.alive, p.open)
	case m.state != StateCandidate && !m.holds() && !fx.done:
		return fmt.Sprintf("it is %v and knows %s", m.state, describe(m.key.seen))
	case m.state == StateCandidate && m.holds() && m.leave.mode == staying && !fx.done:
		return "it holds the key and is but a candidate"
	case !p.void && in.kind == inRead && in.err == nil && in.observed.rec.session == m.session && in.observed.rec.counter <= m.writes.counter && in.observed.held() && m.key.seen.revision == in.observed.revision && m.key.seen.rec.session != m.session:
		return "it does not recognise its own record"
	case m.guarded && (m.state == StateLeader || m.raising()) && m.guards.over >= m.term.token:
		return fmt.Sprintf("it leads, or claims to, with token %d, and a guard stands at %d", m.term.token, m.guards.over)
	case m.suspended && m.state != StateCandidate:
		return fmt.Sprintf("it is barred and %v", m.state)
	case m.raising() && !now.Before(m.term.guardDeadline) && !fx.done:
		return "it goes on raising its guards"
	case fx.done && p.open:
		return "it ended with an open term"
	case !fx.wake.IsZero() && !fx.wake.After(now):
		return "it wakes in the past"
	case m.state == StateLeader && !fx.done && (fx.wake.IsZero() || fx.wake.After(m.term.leaseUntil)):
		return "it sleeps past the renew deadline"
	case !fx.done && fx.wake.IsZero() && m.flight.req.kind == reqNone:
		return "it sleeps for ever"
	case !toldOf(m.key.seen, known, in):
		return fmt.Sprintf("it knows of revision %d, which it was never told of", m.key.seen.revision)
	}
	if fx.request.kind == reqWrite {
		return p.keepWrite(m, now, fx.request)
	}
	return ""
}

// keepEvents checks that there is one Elected for each term and one Deposed for each
// Elected, and that the context has ended first.
func (p *promises) keepEvents(m *machine, now time.Time, fx effects) string {
	ended := fx.end != nil
	if ended {
		if !p.alive {
			return "it ended a context that is not alive"
		}
		p.alive = false
	}
	for _, n := range fx.notes {
		switch n.event {
		case notePending:
			if p.open {
				return "Pending while a term is open"
			}
			p.pending = true
			p.notBefore = later(p.notBefore, now.Add(m.bucket.times.pendingPeriod))
		case noteElected:
			if now.Before(p.notBefore) {
				return "Elected before its time"
			}
			p.notBefore = time.Time{}
			if n.token < m.term.elected || n.token <= m.minToken {
				return fmt.Sprintf("its token %d is less than the revision that elected it, or than MinToken", n.token)
			}
			if m.guarded && m.guards.stand != n.token {
				return "Elected before its guards stand"
			}
			if !p.pending || p.open {
				return "Elected without Pending, or in an open term"
			}
			p.pending, p.open, p.alive = false, true, true
		case noteFenced:
			if !p.open || p.alive || !ended {
				return "Fenced without a term, or before its context ended"
			}
		case noteDeposed:
			if !p.open || p.alive {
				return "Deposed without a term, or before its context ended"
			}
			p.open = false
		case noteFaulted:
			if errors.Is(n.err, ErrRegressed) {
				p.notBefore = later(p.notBefore, now.Add(m.unknownLease()))
			}
		case noteObserved:
		}
	}
	return ""
}

// toldOf reports whether the newest revision known is the one from before, or is in the
// input. So no write is ever conditioned on a guess.
func toldOf(s observation, known uint64, in input) bool {
	var refused *backend.RefusedError
	switch {
	case s.revision == known, s.kind == entryUnseen:
		return true
	case in.kind == inHeard, in.kind == inRead:
		return s.revision == in.observed.revision
	case in.kind == inWritten && in.err == nil:
		return s.revision == in.revision
	case errors.As(in.err, &refused):
		return refused.Named && s.revision == refused.Actual
	}
	return false
}

func (p *promises) keepWrite(m *machine, now time.Time, req request) string {
	switch {
	case req.revision != m.key.seen.revision || m.key.seen.kind == entryUnseen:
		return fmt.Sprintf("it writes on condition of %d and knows %s", req.revision, describe(m.key.seen))
	case req.rec.lease > max(m.bucket.bound, m.bucket.times.lease) && m.bucket.bound > 0:
		return fmt.Sprintf("it writes a lease of %v, and the bucket was never set to more than %v", req.rec.lease, m.bucket.bound)
	case max(req.rec.token, req.rec.least) > maxToken:
		return "it writes a token that cannot be read"
	case m.guarded && req.write.win && !m.guards.fit:
		return "it tries for the key, and its guards are not fit"
	case m.raising() && req.rec.phase != phaseLeading:
		return "it writes " + phaseNames[req.rec.phase] + " while it raises its guards"
	case m.suspended && req.rec.phase != phaseReleased:
		return "it writes " + phaseNames[req.rec.phase] + " while it is barred"
	case p.stopped && !m.term.draining && req.rec.phase != phaseReleased:
		return "it writes " + phaseNames[req.rec.phase] + " after stop"
	case req.rec.phase == phaseReleased && p.alive:
		return "it releases before its context ended"
	case req.rec.phase == phaseReleased && now.Before(m.renew.electFrom):
		return "it releases what it must not lead yet"
	}
	return ""
}
