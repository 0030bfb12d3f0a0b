package leader

import (
	"errors"
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"

	"github.com/natsleader/natsleader/internal/record"
)

// inputKind is the kind of an input.
type inputKind uint8

const (
	inTick        inputKind = iota // nothing but time
	inHeard                        // the feed delivered a revision
	inReconnected                  // the connection was lost and is back
	inFeedLost                     // the feed has ended
	inClosed                       // the connection is closed for good
	inRead                         // replies to the request in flight
	inWritten
	inSettings
	inFeed
	inGuards // the state of the guards has changed
	inRoster // other candidates stand than before
	inResign // calls
	inStop
	inAbandon // stop without waiting for anything
	inDrained // the work of a term has ended
	inWorked  // likewise, and the term is to be handed over
	inLoop    // the application takes its terms in a loop
	inNoLoop  // the last loop has ended
	inProclaim
	inSuspend // for seats
	inResume
	inSlot // there is a slot for the request that is due
)

// input is one input of the machine.
type input struct {
	kind     inputKind
	observed record.Observation // inHeard, inRead
	before   sighting           // inRead: the last entry that was read in this process before this candidate
	revision uint64             // inWritten: acknowledged as
	settings backend.Settings   // inSettings
	guards   guardsReport       // inGuards
	roster   rosterReport       // inRoster
	to       string             // inResign: the intended successor
	next     bool               // inResign: in favour of the first in line
	value    string             // inProclaim, inResume
	until    time.Time          // inResume: takes no lease before then; inStop: drains no longer; zero: as configured
	term     uint64             // inDrained, inWorked
	err      error              // of a reply, or of the feed's end
	dice     uint32             // randomness for the pauses between tries
}

// absorb handles one input.
func (m *machine) absorb(now time.Time, in *input, fx *effects) {
	switch in.kind {
	case inTick:
	case inHeard:
		m.heard(now, in.observed, fx)
	case inReconnected:
		m.bucket.doubt()
		m.reads.need()
		m.queue.permitted()
		m.flight.startAnew(now)
		m.giveUp(fx) // the request in flight was lost with the old connection
	case inFeedLost:
		m.feed.lost(now)
		m.fault(fmt.Errorf("%w: %w", ErrNoFeed, in.err), fx)
	case inClosed:
		m.closed(now, fx)
	case inRead, inWritten, inSettings, inFeed:
		m.answered(now, in, fx)
	case inGuards:
		m.guardsStand(now, in.guards, fx)
	case inRoster:
		m.ranked(now, in.roster, fx)
	case inResign:
		m.resign(now, in, fx)
	case inStop:
		m.stop(now, in.until, fx)
	case inAbandon:
		m.leave.stop(now)
		if m.state == StateLeader {
			m.depose(ErrStopped, fx)
		}
		m.quit(now, fx)
	case inDrained, inWorked:
		m.worked(now, in.term, in.kind == inWorked, fx)
	case inLoop:
		m.work.take(m.state == StateLeader)
	case inNoLoop:
		m.work.leave()
	case inProclaim:
		m.proclaim(in.value, fx)
	case inSuspend:
		m.suspend()
	case inResume:
		m.resume(in.until, in.value)
	case inSlot:
		if m.flight.slot == slotWaits {
			m.flight.granted()
		}
	}
}

// answered takes the reply to the request in flight.
func (m *machine) answered(now time.Time, in *input, fx *effects) {
	req := m.flight.land()
	fx.cancel = false // its deadline may have passed in this step, but its reply is here
	if in.err != nil {
		var refused *backend.RefusedError
		switch {
		case errors.Is(in.err, ErrConnectionClosed):
			m.closed(now, fx)
		case errors.As(in.err, &refused):
			m.refused(now, req, *refused, in.dice, fx)
		default:
			m.failed(now, req, in, fx)
		}
		return
	}
	switch in.kind {
	case inRead:
		m.read(now, req, in, fx)
	case inWritten:
		m.acknowledged(now, req, in.revision, fx)
	case inSettings:
		m.settle(now, req, in, fx)
	case inFeed:
		m.feed.opened()
		m.reads.needAll() // for what was stored before the feed was open
		m.flight.succeeded()
	case inTick, inHeard, inReconnected, inFeedLost, inClosed, inGuards, inRoster, inResign, inStop, inAbandon, inDrained, inWorked, inLoop, inNoLoop, inProclaim, inSuspend, inResume, inSlot:
	}
}

// failed handles a request of unknown outcome. A write may still be applied.
func (m *machine) failed(now time.Time, req request, in *input, fx *effects) {
	err := in.err
	switch req.kind {
	case reqWrite:
		if errors.Is(err, ErrPermission) {
			m.queue.denied(now, m.bucket.timing().lease) // it tries for a free key as before
		}
		m.reads.needInFull()
		m.flight.writeFailed()
		m.renew.wantOnlyIf(m.holds())
	case reqRead:
		// Reads may fail where writes work, because a replica that hangs answers no read.
		// A holder in good standing asks the stream's leader by its next renewal.
		m.reads.needOnlyIf(m.state != StateLeader && m.state != StatePending)
		m.renew.wantOnlyIf(m.holds())
	case reqFeed:
		m.feed.failed(now.Add(m.pause(m.feed.fails+1, in.dice)))
		if !m.holds() {
			m.reads.need() // poll
		}
		m.fault(fmt.Errorf("%w: %w", ErrNoFeed, err), fx)
		return
	case reqNone, reqSettings:
	}
	if !m.feed.up && !m.holds() && errors.Is(err, ErrUnreachable) {
		m.bucket.doubt() // no feed will report a reconnection
	}
	m.fault(err, fx)
	m.pace(now, in.dice)
}

// resign hands over, perhaps to a given candidate, and stays a candidate.
func (m *machine) resign(now time.Time, in *input, fx *effects) {
	plain := in.to == "" && !in.next
	underWay := m.leave.mode == resigning || m.leave.mode == stopping && (m.term.draining || m.holds())
	switch {
	case plain && underWay:
	case m.state != StateLeader:
		fx.denied = ErrNotLeader
	case in.next && !m.listed:
		fx.denied = backend.ErrNotListed
	case in.next && m.queue.line == "" && !m.queue.reported:
		fx.denied = backend.ErrRosterUnread
	case in.next && m.queue.line == "":
		fx.denied = backend.ErrNoneStands
	case in.next:
		m.handOver(now, m.queue.line.First(), fx)
	default:
		m.handOver(now, in.to, fx)
	}
}

// stop hands over and ends. If until is not zero, a drain ends then at the latest.
func (m *machine) stop(now, until time.Time, fx *effects) {
	m.leave.stop(now)
	switch m.state {
	case StateLeader:
		m.stepDown(now, until, ErrStopped, fx)
	case StateFenced:
		if m.term.draining {
			m.term.hurry(until)
		} else {
			m.becomeCandidate(fx)
		}
	case StatePending:
		m.becomeCandidate(fx)
	case StateCandidate, StateEnded:
	}
}

// stepDown ends the context of a leader. The leader then drains or gives up the key.
func (m *machine) stepDown(now, until time.Time, cause error, fx *effects) {
	if !m.work.going {
		m.depose(cause, fx)
		return
	}
	m.becomeFenced(now, until, cause, fx)
	m.renew.due(m.writes.lastAt.Add(m.bucket.times.renewInterval)) // the lease is kept as before
}

// closed handles a closed connection. No request is possible any more, so the candidate
// can keep nothing.
func (m *machine) closed(now time.Time, fx *effects) {
	if m.leave.mode != stopping {
		m.err = ErrConnectionClosed
	}
	if m.state == StateLeader {
		m.becomeFenced(now, time.Time{}, ErrConnectionClosed, fx)
	}
	m.quit(now, fx)
}

// quit ends the machine without another request.
func (m *machine) quit(now time.Time, fx *effects) {
	m.expire(now, fx)
	m.lose(ErrStopped, fx)
	m.giveUp(fx)
	m.done = true
}

// proclaim changes the published value.
func (m *machine) proclaim(value string, fx *effects) {
	if m.state != StateLeader {
		fx.denied = ErrNotLeader
		return
	}
	if err := m.fit(value); err != nil {
		fx.denied = err
		return
	}
	m.value = value
	m.renew.want()
}
