package machine

import (
	"errors"
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/record"
)

// GuardMachine brings one guard to the state that the machine wishes, and keeps it there. It is
// as plain a value as the machine, and steps like it.
//
// Every write of a guard machine is conditioned on the revision last seen, so it cannot
// replace a revision that the guard machine has not read. The guard machine writes only if
// that revision has no token, or a lesser one than its own. So the token of a guard only
// rises, whichever candidate writes it and however late, unless the guard is deleted.
type GuardMachine struct {
	GuardParams

	fit      bool // checked since the connection was last made
	known    bool // and read since then
	Desired  DesiredGuards
	Seen     record.GuardObservation // the newest revision known
	readAt   time.Time               // when seen was last confirmed
	needRead bool                    // a read is needed before anything is concluded
	past     int                     // reads in a row that returned older revisions
	Raised   bool                    // the guard was raised for the desired state, and has not been seen gone

	op           GuardOp
	opAt         time.Time
	opBy         time.Time // when the request is given up
	opLate       bool
	fails        int  // requests in a row that were not answered
	raiseFailing bool // the last raise was not answered; reads that are do not end the row
	losses       int  // rejections in a row
	retryAt      time.Time
}

// GuardParams holds the parameters of a guard machine. They never change.
type GuardParams struct {
	ID, Session string
	Election    string // the owner that the guard is to have
}

// guardOpKind is the kind of a request to a guard.
type guardOpKind uint8

// Requests to a guard.
const (
	GuardNone guardOpKind = iota
	GuardCheck
	GuardRead
	GuardRaise
)

// GuardOp is a request to the guard. There is one at a time.
type GuardOp struct {
	Kind     guardOpKind
	Revision uint64       // the condition of a raise
	Rec      record.Guard // guardRaise
}

// GuardInput is one event for the guard machine.
type GuardInput struct {
	Kind     guardInputKind
	Desired  DesiredGuards           // GuardInDesired
	Observed record.GuardObservation // GuardInRead
	Revision uint64                  // GuardInRaised: the revision that was acknowledged
	Err      error                   // of a reply
	Jitter   uint32
}

type guardInputKind uint8

// Inputs of a guard machine.
const (
	GuardInTick guardInputKind = iota
	GuardInDesired
	GuardInReconnected
	GuardInUnfit   // a check beside the request in flight found the guard not fit
	GuardInSuspect // a write of the term was rejected, and the guard found gone
	GuardInChecked // replies to the request in flight
	GuardInRead
	GuardInRaised // the last, see guardDriver.faults
)

// guardEffects holds the actions to take after a step.
type guardEffects struct {
	Fault  error
	Cancel bool // give up the request in flight; it still has to be answered
	Op     GuardOp
	Wake   time.Time
}

// The pace of a guard machine. Writers of earlier terms that write without a pause make a
// replicated stream reject a raise now and then although its own condition holds. So the
// guard machine tries again at once, many times, before it pauses.
const (
	raisePause  = 50 * time.Millisecond
	raisePauses = 5 * time.Second // at most
	raiseWait   = time.Second
	raiseRush   = 64
)

// Step handles one event and returns the actions to take. lease is the interval at which
// the guard machine reads a guard that stands.
func (r *GuardMachine) Step(now time.Time, lease time.Duration, in GuardInput) guardEffects {
	var fx guardEffects
	switch in.Kind {
	case GuardInTick:
	case GuardInDesired:
		if in.Desired.Token != r.Desired.Token {
			r.Raised = false
		}
		r.needRead = r.needRead || in.Desired.soon && !r.Desired.soon
		r.Desired = in.Desired
	case GuardInReconnected:
		r.fit, r.known, r.needRead = false, false, true
		r.fails, r.retryAt = 0, now
		r.giveUp(&fx)
	case GuardInUnfit:
		r.fit = false
	case GuardInSuspect:
		r.needRead = true
	case GuardInChecked, GuardInRead, GuardInRaised:
		r.answered(now, in, &fx)
	}
	r.judge(&fx)
	if r.op.Kind != GuardNone && !r.opLate && !now.Before(r.opBy) {
		r.giveUp(&fx)
	}
	kind, at := r.next(now, lease)
	if kind != GuardNone && !at.After(now) {
		r.send(now, kind, &fx)
		kind, at = r.next(now, lease)
	}
	switch {
	case r.op.Kind != GuardNone && !r.opLate:
		fx.Wake = r.opBy
	case kind != GuardNone:
		fx.Wake = at
	}
	return fx
}

func (r *GuardMachine) giveUp(fx *guardEffects) {
	if r.op.Kind != GuardNone && !r.opLate {
		r.opLate = true
		fx.Cancel = true
	}
}

// answered handles the reply to the request in flight.
func (r *GuardMachine) answered(now time.Time, in GuardInput, fx *guardEffects) {
	op := r.op
	r.op, r.opLate = GuardOp{}, false
	fx.Cancel = false
	var refused *backend.RefusedError
	switch {
	case errors.As(in.Err, &refused):
		// A replicated stream also rejects a write that is only too early. Sending the same
		// write again at once is then as good as a read. It is not if the revision is known to
		// be gone.
		r.losses++
		r.fails, r.raiseFailing = 0, false
		r.needRead = refused.Named || r.losses%4 == 0
		if r.losses > raiseRush {
			r.retryAt = now.Add(backOff(raisePause, raisePauses, r.losses-raiseRush, in.Jitter))
		}
		return
	case in.Err != nil:
		r.needRead = r.needRead || in.Kind != GuardInChecked
		r.raiseFailing = r.raiseFailing || in.Kind == GuardInRaised
		r.fails++
		r.retryAt = Later(now, r.opAt.Add(backOff(raisePause, raisePauses, r.fails, in.Jitter)))
		fx.Fault = in.Err
		return
	}
	if r.raiseFailing = r.raiseFailing && in.Kind == GuardInRead; !r.raiseFailing {
		r.fails = 0
	}
	switch in.Kind {
	case GuardInChecked:
		r.fit = true
	case GuardInRead:
		r.read(now, in.Observed, in.Jitter)
	case GuardInRaised:
		r.needRead, r.losses = false, 0
		r.Seen, r.readAt = record.GuardObservation{Revision: in.Revision, Kind: record.EntryRecord, Rec: op.Rec}, now
	case GuardInTick, GuardInDesired, GuardInReconnected, GuardInUnfit, GuardInSuspect:
	}
}

// stalest is the number of reads in a row that may return an older revision before the
// guard counts as made anew. Whether it was or not, a write decides.
const stalest = 3

// read handles the result of a read.
func (r *GuardMachine) read(now time.Time, s record.GuardObservation, jitter uint32) {
	if 0 < s.Revision && s.Revision < r.Seen.Revision && r.past < stalest {
		r.past++
		r.retryAt = now.Add(backOff(raisePause, raisePauses, 1, jitter))
		return // and read again
	}
	r.past = 0
	r.needRead, r.known = false, true
	r.Seen, r.readAt = s, now
}

// judge compares the guard as last seen with the desired state.
func (r *GuardMachine) judge(fx *guardEffects) {
	stood := r.Raised
	r.Raised = r.Desired.Token != 0 && r.Seen.RaisedBy(r.Session, r.Desired.Token)
	if stood && !r.Raised && r.Over() < r.Desired.Token {
		fx.Fault = fmt.Errorf("%w, and is raised again", backend.ErrGuardDeleted)
	}
	if r.Taken() && !r.needRead && r.op.Kind == GuardNone && fx.Fault == nil {
		fx.Fault = fmt.Errorf("%w: it stands for %q, and is left alone until it is deleted", backend.ErrGuardTaken, r.Seen.Rec.Election)
	}
}

// Over returns the token at which the guard stands, if not for the desired state; or 0.
func (r *GuardMachine) Over() uint64 {
	if r.Seen.Kind != record.EntryRecord || r.Raised || r.Taken() {
		return 0
	}
	return r.Seen.Rec.Token
}

// Taken reports whether the guard belongs to another election.
func (r *GuardMachine) Taken() bool {
	return r.Seen.Kind == record.EntryRecord && r.Seen.Rec.Election != r.Election
}

// Ready reports whether the guard can be raised, as far as is known.
func (r *GuardMachine) Ready() bool { return r.fit && r.known && !r.Taken() }

// next returns the next request to send, and when.
func (r *GuardMachine) next(now time.Time, lease time.Duration) (guardOpKind, time.Time) {
	soonest := Later(now, r.retryAt)
	switch {
	case r.op.Kind != GuardNone:
		return GuardNone, time.Time{}
	case !r.fit:
		return GuardCheck, soonest
	case r.needRead || !r.known:
		return GuardRead, soonest
	case r.Desired.Token == 0 && !r.Taken() && r.Over() <= record.LastToken:
		return GuardNone, time.Time{}
	case r.Raised, r.Taken(), r.Over() >= r.Desired.Token:
		return GuardRead, Later(soonest, r.readAt.Add(lease))
	default:
		return GuardRaise, soonest
	}
}

// send sends a request.
func (r *GuardMachine) send(now time.Time, kind guardOpKind, fx *guardEffects) {
	op := GuardOp{Kind: kind}
	if kind == GuardRaise {
		op.Revision = r.Seen.Revision
		op.Rec = record.Guard{Format: record.Format, Election: r.Election, Token: r.Desired.Token, ID: r.ID, Session: r.Session}
	}
	r.op, r.opAt, r.opBy = op, now, now.Add(raiseWait<<min(r.fails, 3))
	fx.Op = op
}

// GuardsReport is the combined state of a candidate's guards.
type GuardsReport struct {
	Fit      bool   // all can protect their streams; checked since the connection was last made
	RaisedAt uint64 // all stand at this token, raised by this session; 0: not all, or not at the same
	Over     uint64 // the greatest token found at one of them that was not raised for the desired state
}

// DesiredGuards is the state in which the candidate wants its guards.
type DesiredGuards struct {
	soon  bool   // a write that elects is on its way, so the guards are to be read
	Token uint64 // at which they are to stand, until further notice; 0: leave them alone
}

// desiredGuards returns the state in which the machine wants its guards. Only a leader, whose lease is
// valid by its own clock at every call of desiredGuards, and a candidate that has claimed a term and
// waits for its guards want them to stand at a token. So a leader that was fenced or deposed
// does not raise a deleted guard again.
func (m *Machine) desiredGuards() DesiredGuards {
	w := DesiredGuards{soon: m.flight.req.Kind == ReqWrite && m.flight.req.Rec.Phase == record.PhaseElect}
	if m.raising() || m.state == StateLeader {
		w.Token = m.term.token
	}
	return w
}

// guardsReported takes a report on the guards.
func (m *Machine) guardsReported(now time.Time, r GuardsReport, fx *Effects) {
	m.guards = r
	m.memory.count(record.KnownToken(r.Over))
	if m.state == StateLeader && r.Over >= m.term.token {
		// The session that raised it leads, or has led where this bucket's memory does
		// not reach. A new term needs a greater token.
		m.becomeFenced(now, time.Time{}, backend.ErrFenced, fx)
		m.reads.need()
	}
	m.begin(now, fx)
}
