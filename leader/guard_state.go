package leader

import (
	"errors"
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"

	"github.com/natsleader/natsleader/internal/record"
)

// guardMachine brings one guard to the state that the machine wishes, and keeps it there. It is
// as plain a value as the machine, and steps like it.
//
// Every write of a guard machine is conditioned on the revision last seen, so it cannot
// replace a revision that the guard machine has not read. The guard machine writes only if
// that revision has no token, or a lesser one than its own. So the token of a guard only
// rises, whichever candidate writes it and however late, unless the guard is deleted.
type guardMachine struct {
	guardParams

	fit      bool // checked since the connection was last made
	known    bool // and read since then
	wish     guardsWish
	seen     record.GuardObservation // the newest revision known
	readAt   time.Time               // when seen was last confirmed
	needRead bool                    // a read is needed before anything is concluded
	past     int                     // reads in a row that returned older revisions
	stands   bool                    // the guard was raised for the wish, and has not been seen gone

	op           guardOp
	opAt         time.Time
	opBy         time.Time // when the request is given up
	opLate       bool
	fails        int  // requests in a row that were not answered
	raiseFailing bool // the last raise was not answered; reads that are do not end the row
	losses       int  // rejections in a row
	retryAt      time.Time
}

// guardParams holds the parameters of a guard machine. They never change.
type guardParams struct {
	id, session string
	election    string // the owner that the guard is to have
}

// guardOpKind is the kind of a request to a guard.
type guardOpKind uint8

const (
	guardNone guardOpKind = iota
	guardCheck
	guardRead
	guardRaise
)

// guardOp is a request to the guard. There is one at a time.
type guardOp struct {
	kind     guardOpKind
	revision uint64       // the condition of a raise
	rec      record.Guard // guardRaise
}

// guardInput is one event for the guard machine.
type guardInput struct {
	kind     guardInputKind
	wish     guardsWish              // guardInWish
	observed record.GuardObservation // guardInRead
	revision uint64                  // guardInRaised: the revision that was acknowledged
	err      error                   // of a reply
	dice     uint32
}

type guardInputKind uint8

const (
	guardInTick guardInputKind = iota
	guardInWish
	guardInReconnected
	guardInUnfit   // a check beside the request in flight found the guard not fit
	guardInSuspect // a write of the term was rejected, and the guard found gone
	guardInChecked // replies to the request in flight
	guardInRead
	guardInRaised // the last, see guardDriver.reported
)

// guardEffects holds the actions to take after a step.
type guardEffects struct {
	fault  error
	cancel bool // give up the request in flight; it still has to be answered
	op     guardOp
	wake   time.Time
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

// step handles one event and returns the actions to take. lease is the interval at which
// the guard machine reads a guard that stands.
func (r *guardMachine) step(now time.Time, lease time.Duration, in guardInput) guardEffects {
	var fx guardEffects
	switch in.kind {
	case guardInTick:
	case guardInWish:
		if in.wish.token != r.wish.token {
			r.stands = false
		}
		r.needRead = r.needRead || in.wish.soon && !r.wish.soon
		r.wish = in.wish
	case guardInReconnected:
		r.fit, r.known, r.needRead = false, false, true
		r.fails, r.retryAt = 0, now
		r.giveUp(&fx)
	case guardInUnfit:
		r.fit = false
	case guardInSuspect:
		r.needRead = true
	case guardInChecked, guardInRead, guardInRaised:
		r.answered(now, in, &fx)
	}
	r.judge(&fx)
	if r.op.kind != guardNone && !r.opLate && !now.Before(r.opBy) {
		r.giveUp(&fx)
	}
	kind, at := r.next(now, lease)
	if kind != guardNone && !at.After(now) {
		r.send(now, kind, &fx)
		kind, at = r.next(now, lease)
	}
	switch {
	case r.op.kind != guardNone && !r.opLate:
		fx.wake = r.opBy
	case kind != guardNone:
		fx.wake = at
	}
	return fx
}

func (r *guardMachine) giveUp(fx *guardEffects) {
	if r.op.kind != guardNone && !r.opLate {
		r.opLate = true
		fx.cancel = true
	}
}

// answered handles the reply to the request in flight.
func (r *guardMachine) answered(now time.Time, in guardInput, fx *guardEffects) {
	op := r.op
	r.op, r.opLate = guardOp{}, false
	fx.cancel = false
	var refused *backend.RefusedError
	switch {
	case errors.As(in.err, &refused):
		// A replicated stream also rejects a write that is only too early. Sending the same
		// write again at once is then as good as a read. It is not if the revision is known to
		// be gone.
		r.losses++
		r.fails, r.raiseFailing = 0, false
		r.needRead = refused.Named || r.losses%4 == 0
		if r.losses > raiseRush {
			r.retryAt = now.Add(backOff(raisePause, raisePauses, r.losses-raiseRush, in.dice))
		}
		return
	case in.err != nil:
		r.needRead = r.needRead || in.kind != guardInChecked
		r.raiseFailing = r.raiseFailing || in.kind == guardInRaised
		r.fails++
		r.retryAt = later(now, r.opAt.Add(backOff(raisePause, raisePauses, r.fails, in.dice)))
		fx.fault = in.err
		return
	}
	if r.raiseFailing = r.raiseFailing && in.kind == guardInRead; !r.raiseFailing {
		r.fails = 0
	}
	switch in.kind {
	case guardInChecked:
		r.fit = true
	case guardInRead:
		r.read(now, in.observed, in.dice)
	case guardInRaised:
		r.needRead, r.losses = false, 0
		r.seen, r.readAt = record.GuardObservation{Revision: in.revision, Kind: record.EntryRecord, Rec: op.rec}, now
	case guardInTick, guardInWish, guardInReconnected, guardInUnfit, guardInSuspect:
	}
}

// stalest is the number of reads in a row that may return an older revision before the
// guard counts as made anew. Whether it was or not, a write decides.
const stalest = 3

// read handles the result of a read.
func (r *guardMachine) read(now time.Time, s record.GuardObservation, dice uint32) {
	if 0 < s.Revision && s.Revision < r.seen.Revision && r.past < stalest {
		r.past++
		r.retryAt = now.Add(backOff(raisePause, raisePauses, 1, dice))
		return // and read again
	}
	r.past = 0
	r.needRead, r.known = false, true
	r.seen, r.readAt = s, now
}

// judge compares the guard as last seen with the wish.
func (r *guardMachine) judge(fx *guardEffects) {
	stood := r.stands
	r.stands = r.wish.token != 0 && r.seen.RaisedBy(r.session, r.wish.token)
	if stood && !r.stands && r.over() < r.wish.token {
		fx.fault = fmt.Errorf("%w, and is raised again", backend.ErrGuardDeleted)
	}
	if r.taken() && !r.needRead && r.op.kind == guardNone && fx.fault == nil {
		fx.fault = fmt.Errorf("%w: it stands for %q, and is left alone until it is deleted", backend.ErrGuardTaken, r.seen.Rec.Election)
	}
}

// over returns the token at which the guard stands, if not for the wish; or 0.
func (r *guardMachine) over() uint64 {
	if r.seen.Kind != record.EntryRecord || r.stands || r.taken() {
		return 0
	}
	return r.seen.Rec.Token
}

// taken reports whether the guard belongs to another election.
func (r *guardMachine) taken() bool {
	return r.seen.Kind == record.EntryRecord && r.seen.Rec.Election != r.election
}

// ready reports whether the guard can be raised, as far as is known.
func (r *guardMachine) ready() bool { return r.fit && r.known && !r.taken() }

// next returns the next request to send, and when.
func (r *guardMachine) next(now time.Time, lease time.Duration) (guardOpKind, time.Time) {
	soonest := later(now, r.retryAt)
	switch {
	case r.op.kind != guardNone:
		return guardNone, time.Time{}
	case !r.fit:
		return guardCheck, soonest
	case r.needRead || !r.known:
		return guardRead, soonest
	case r.wish.token == 0 && !r.taken() && r.over() <= record.LastToken:
		return guardNone, time.Time{}
	case r.stands, r.taken(), r.over() >= r.wish.token:
		return guardRead, later(soonest, r.readAt.Add(lease))
	default:
		return guardRaise, soonest
	}
}

// send sends a request.
func (r *guardMachine) send(now time.Time, kind guardOpKind, fx *guardEffects) {
	op := guardOp{kind: kind}
	if kind == guardRaise {
		op.revision = r.seen.Revision
		op.rec = record.Guard{Format: record.Format, Election: r.election, Token: r.wish.token, ID: r.id, Session: r.session}
	}
	r.op, r.opAt, r.opBy = op, now, now.Add(raiseWait<<min(r.fails, 3))
	fx.op = op
}
