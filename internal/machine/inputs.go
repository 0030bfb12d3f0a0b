package machine

import (
	"errors"
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/record"
)

// InputKind is the kind of an input.
type InputKind uint8

// Inputs of a machine.
const (
	InTick        InputKind = iota // nothing but time
	InHeard                        // the feed delivered a revision
	InReconnected                  // the connection was lost and is back
	InFeedLost                     // the feed has ended
	InClosed                       // the connection is closed for good
	InRead                         // replies to the request in flight
	InWritten
	InSettings
	InFeed
	InGuards // the state of the guards has changed
	InRoster // other candidates stand than before
	InResign // calls
	InStop
	InAbandon // stop without waiting for anything
	InDrained // the work of a term has ended
	InWorked  // the work of a term has ended, and the term ends with it
	InLoop    // the application takes its terms in a loop
	InNoLoop  // the last loop has ended
	InProclaim
	InSuspend // for seats
	InResume
	InSlot    // there is a slot for the request that is due
	InStalled // the work of the term hangs
	InPaused  // the time of day has run ahead of the clock
)

// Input is one input of the machine.
type Input struct {
	Kind     InputKind
	Observed record.Observation // InHeard, InRead
	Before   Sighting           // InRead: the last entry that was read in this process before this candidate
	Revision uint64             // InWritten: acknowledged as
	Settings backend.Settings   // InSettings
	Guards   GuardsReport       // InGuards
	Roster   RosterReport       // InRoster
	To       string             // InResign: the intended successor
	Next     bool               // InResign: in favour of the first in line
	Value    string             // InProclaim, InResume
	Until    time.Time          // InResume: takes no lease before then; InStop: drains no longer; zero: as configured
	Term     uint64             // InDrained, InWorked; InResign, InProclaim: for that term only, if it is not 0
	Works    bool               // the term that leads has work that the hand-over waits for
	Err      error              // of a reply, or of the feed's end
	By       time.Duration      // InPaused: by so much
	Jitter   uint32             // randomness for the pauses between tries
}

// absorb handles one input.
func (m *Machine) absorb(now time.Time, in *Input, fx *Effects) {
	switch in.Kind {
	case InTick:
	case InHeard:
		m.heard(now, in.Observed, fx)
	case InReconnected:
		m.bucket.doubt()
		m.reads.need()
		m.queue.permitted()
		m.flight.fails, m.flight.retryAt = 0, now
		m.giveUp(fx) // the request in flight was lost with the old connection
	case InFeedLost:
		m.feed.lost(now)
		m.fault(fmt.Errorf("%w: %w", backend.ErrNoFeed, in.Err), fx)
	case InClosed:
		m.closed(now, fx)
	case InRead, InWritten, InSettings, InFeed:
		m.answered(now, in, fx)
	case InGuards:
		m.guardsReported(now, in.Guards, fx)
	case InRoster:
		m.ranked(now, in.Roster, fx)
	case InResign:
		m.resign(now, in, fx)
	case InStop:
		m.stop(now, in.Until, fx)
	case InAbandon:
		m.leave.stop(now)
		if m.state == StateLeader {
			m.depose(backend.ErrStopped, fx)
		}
		m.quit(now, fx)
	case InDrained, InWorked:
		m.worked(now, in.Term, in.Kind == InWorked, fx)
	case InLoop:
		m.work.take(m.state == StateLeader)
	case InNoLoop:
		m.work.leave()
	case InProclaim:
		m.proclaim(in, fx)
	case InSuspend:
		m.suspend()
	case InResume:
		m.resume(in.Until, in.Value)
	case InSlot:
		if m.flight.slot == slotWaits {
			m.flight.granted()
		}
	case InStalled:
		m.stalled(now, fx)
	case InPaused:
		m.paused(now, in.By)
	}
}

// answered takes the reply to the request in flight.
func (m *Machine) answered(now time.Time, in *Input, fx *Effects) {
	req := m.flight.land()
	fx.Cancel = false // its deadline may have passed in this step, but its reply is here
	if in.Err != nil {
		var refused *backend.RefusedError
		switch {
		case errors.Is(in.Err, backend.ErrConnectionClosed):
			m.closed(now, fx)
		case errors.As(in.Err, &refused):
			m.refused(now, req, *refused, in.Jitter, fx)
		default:
			m.failed(now, req, in, fx)
		}
		return
	}
	switch in.Kind {
	case InRead:
		m.read(now, req, in, fx)
	case InWritten:
		m.acknowledged(now, req, in.Revision, fx)
	case InSettings:
		m.settle(now, req, in, fx)
	case InFeed:
		m.feed.opened()
		m.reads.needed, m.reads.silence = true, false // for what was stored before the feed was open
		m.flight.succeeded()
	case InTick, InHeard, InReconnected, InFeedLost, InClosed, InGuards, InRoster, InResign, InStop, InAbandon, InDrained, InWorked, InLoop, InNoLoop, InProclaim, InSuspend, InResume, InSlot, InStalled, InPaused:
	}
}

// failed handles a request of unknown outcome. A write may still be applied.
func (m *Machine) failed(now time.Time, req Request, in *Input, fx *Effects) {
	err := in.Err
	switch req.Kind {
	case ReqWrite:
		if errors.Is(err, backend.ErrPermission) {
			m.queue.denied(now, m.bucket.timing().Lease) // it tries for a free key as before
		}
		m.reads.needInFull()
		m.flight.writeFailed()
		m.renew.wantOnlyIf(m.holds())
	case ReqRead:
		// Reads may fail where writes work, because a replica that hangs answers no read.
		// A holder in good standing asks the stream's leader by its next renewal.
		m.reads.needOnlyIf(m.state != StateLeader && m.state != StatePending)
		m.renew.wantOnlyIf(m.holds())
	case ReqFeed:
		m.feed.failed(now.Add(m.pause(int(m.feed.fails)+1, in.Jitter)))
		if !m.holds() {
			m.reads.need() // poll
		}
		m.fault(fmt.Errorf("%w: %w", backend.ErrNoFeed, err), fx)
		return
	case ReqNone, ReqSettings:
	}
	if !m.feed.up && !m.holds() && errors.Is(err, backend.ErrUnreachable) {
		m.bucket.doubt() // no feed will report a reconnection
	}
	m.fault(err, fx)
	m.pace(now, in.Jitter)
}

// resign hands over, perhaps to a given candidate, and stays a candidate.
func (m *Machine) resign(now time.Time, in *Input, fx *Effects) {
	switch {
	case m.isLate(in), m.state != StateLeader:
		fx.Denied = backend.ErrNotLeader
	case in.Next && !m.Listed:
		fx.Denied = backend.ErrNotListed
	case in.Next && m.queue.line == "" && !m.queue.reported:
		fx.Denied = backend.ErrRosterUnread
	case in.Next && m.queue.line == "":
		fx.Denied = backend.ErrNoneStands
	case in.Next:
		m.handOver(now, m.queue.line.First(), fx)
	default:
		m.handOver(now, in.To, fx)
	}
}

// stop hands over and ends. If until is not zero, a drain ends then at the latest.
func (m *Machine) stop(now, until time.Time, fx *Effects) {
	m.leave.stop(now)
	switch m.state {
	case StateLeader:
		m.stepDown(now, until, backend.ErrStopped, fx)
	case StateFenced:
		if m.term.draining {
			m.term.drainBy = Earlier(m.term.drainBy, until)
		} else {
			m.becomeCandidate(fx)
		}
	case StatePending:
		m.becomeCandidate(fx)
	case StateCandidate:
	}
}

// stepDown ends the context of a leader. The leader then drains or gives up the key.
func (m *Machine) stepDown(now, until time.Time, cause error, fx *Effects) {
	if !m.work.going {
		m.depose(cause, fx)
		return
	}
	m.becomeFenced(now, until, cause, fx)
	m.renew.due(m.writes.lastAt.Add(m.bucket.times.RenewInterval)) // the lease is kept as before
}

// closed handles a closed connection. No request is possible any more, so the candidate
// can keep nothing.
func (m *Machine) closed(now time.Time, fx *Effects) {
	if m.leave.mode != Stopping {
		m.err = backend.ErrConnectionClosed
	}
	if m.state == StateLeader {
		m.becomeFenced(now, time.Time{}, backend.ErrConnectionClosed, fx)
	}
	m.quit(now, fx)
}

// quit ends the machine without another request.
func (m *Machine) quit(now time.Time, fx *Effects) {
	m.expire(now, fx)
	m.lose(backend.ErrStopped, fx)
	m.giveUp(fx)
	m.done = true
}

// proclaim changes the published value. Work that goes on after its term can publish what it has done.
func (m *Machine) proclaim(in *Input, fx *Effects) {
	if m.isLate(in) || m.state != StateLeader && !m.term.draining {
		fx.Denied = backend.ErrNotLeader
		return
	}
	if err := m.fit(in.Value); err != nil {
		fx.Denied = err
		return
	}
	m.value = in.Value
	m.renew.want()
}
