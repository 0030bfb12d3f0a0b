package leader

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
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
	inDrained
	inProclaim
	inBar // the gate
	inOpen
)

// input is one input of the machine.
type input struct {
	kind     inputKind
	observed observation      // inHeard, inRead
	revision uint64           // inWritten: acknowledged as
	settings backend.Settings // inSettings
	guards   guardsReport     // inGuards
	roster   rosterReport     // inRoster
	to       string           // inResign: the intended successor
	next     bool             // inResign: in favour of the first in line
	value    string           // inProclaim, inOpen
	until    time.Time        // inOpen: takes no lease before then
	term     uint64           // inDrained
	err      error            // of a reply, or of the feed's end
	dice     uint32           // randomness for the pauses between tries
}

// absorb handles one input.
func (m *machine) absorb(now time.Time, in input, fx *effects) {
	switch in.kind {
	case inTick:
	case inHeard:
		m.heard(now, in.observed, fx)
	case inReconnected:
		m.settled = false
		m.needRead = true
		m.standsFrom = time.Time{}
		m.fails, m.retryAt = 0, now
		m.giveUp(fx) // the request in flight was lost with the old connection
	case inFeedLost:
		m.feedUp, m.feedAt = false, now
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
		m.stop(now, ErrStopped, fx)
	case inAbandon:
		m.drained = true
		m.stop(now, ErrStopped, fx)
		m.quit(now, fx)
	case inDrained:
		if m.term == in.term && (m.state == StateLeader || m.state == StateFenced) {
			m.drained = true
		}
	case inProclaim:
		m.proclaim(in.value, fx)
	case inBar:
		m.suspend()
	case inOpen:
		m.open(in.until, in.value)
	}
}

// answered takes the reply to the request in flight.
func (m *machine) answered(now time.Time, in input, fx *effects) {
	req := m.op
	m.op, m.opLate = request{}, false
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
		m.feedUp, m.feedFails = true, 0
		m.needRead, m.feedSilent = true, false // for what was stored before the feed was open
		m.fails = 0
	case inTick, inHeard, inReconnected, inFeedLost, inClosed, inGuards, inRoster, inResign, inStop, inAbandon, inDrained, inProclaim, inBar, inOpen:
	}
}

// failed handles a request of unknown outcome. A write may still be applied.
func (m *machine) failed(now time.Time, req request, in input, fx *effects) {
	err := in.err
	switch req.kind {
	case reqWrite:
		if errors.Is(err, ErrPermission) {
			// Only a reconnection or a write can show that the permission was granted.
			// The candidate tries for a free key as before, and stands again after a
			// while.
			m.standsFrom = now.Add(m.longestPatience())
		}
		m.needRead, m.lostRace, m.writeFailing = true, false, true
		m.renewNow = m.holds()
	case reqRead:
		// Reads may fail where writes work, because a replica that hangs answers no read.
		// A holder in good standing asks the stream's leader by its next renewal.
		m.needRead = m.state != StateLeader && m.state != StatePending
		m.renewNow = m.holds()
	case reqFeed:
		m.feedFails++
		m.feedAt = now.Add(m.pause(m.feedFails, in.dice))
		m.needRead = m.needRead || !m.holds() // poll
		m.fault(fmt.Errorf("%w: %w", ErrNoFeed, err), fx)
		return
	case reqNone, reqSettings:
	}
	if !m.feedUp && !m.holds() && errors.Is(err, ErrUnreachable) {
		m.settled = false // no feed will report a reconnection
	}
	m.fault(err, fx)
	m.pace(now, in.dice)
}

// settle takes the settings of the bucket. They do not end a row of failures, because
// they may have been requested as a consequence of it. Otherwise a read that takes longer
// than a candidate waits at first would never get the longer wait.
func (m *machine) settle(now time.Time, req request, in input, fx *effects) {
	m.settings = in.settings
	m.settled = true
	// A holder keeps to the lease that it promised while the bucket had other settings.
	m.bound = min(max(m.bound, m.settings.MaxLease, m.settings.TTL), maxRecordLease)
	err := m.fit(m.value)
	if !m.holds() { // a holder keeps to what it promised to others
		var times durations
		if times, err = m.want.resolve(m.settings, m.kvElect); err == nil {
			m.times = times
			err = m.fit(m.value)
		}
	}
	if err != nil && !m.observe {
		m.settled = m.holds() // a holder keeps its durations; a candidate asks again
		m.fault(err, fx)
		m.pace(now, in.dice)
	}
	if m.settings.LastRevision < max(req.revision, m.removedUpTo) {
		m.regress(now, fx)
	}
}

// fit returns the error that keeps the candidate from using the bucket with a value.
func (m *machine) fit(value string) error {
	if len(value) > MaxValueSize {
		return fmt.Errorf("%w: %d bytes are more than MaxValueSize %d", ErrValueTooLarge, len(value), MaxValueSize)
	}
	longest := record{
		phase: phaseReleased, id: m.id, session: m.session, value: value,
		counter: math.MaxUint64, lease: maxRecordLease - 1, token: maxToken, least: maxToken, since: math.MaxInt64, seats: m.seats,
	}
	need := len(longest.encode())
	if m.kvElect {
		need += markRoom
	}
	if m.settings.LastRevision >= maxToken {
		return fmt.Errorf("%w: its last revision %d leaves no greater token", ErrIncompatibleBucket, m.settings.LastRevision)
	}
	if m.settings.MaxValue > 0 && need > m.settings.MaxValue {
		return fmt.Errorf("%w: a record of up to %d bytes is more than the bucket's limit of %d", ErrValueTooLarge, need, m.settings.MaxValue)
	}
	return m.times.fit(m.settings, m.kvElect)
}

// resign hands over, perhaps to a given candidate, and stays a candidate.
func (m *machine) resign(now time.Time, in input, fx *effects) {
	plain := in.to == "" && !in.next
	underWay := m.leaving == resigning || m.leaving == stopping && (m.draining || m.holds())
	switch {
	case plain && underWay:
	case m.state != StateLeader:
		fx.denied = ErrNotLeader
	case in.next && (!m.listed || m.line == "" && !m.ranks):
		fx.denied = ErrNoRoster
	case in.next && m.line == "":
		fx.denied = ErrNotStanding
	case in.next:
		m.handOver(now, m.line.first(), fx)
	default:
		m.handOver(now, in.to, fx)
	}
}

// stop hands over and ends.
func (m *machine) stop(now time.Time, cause error, fx *effects) {
	m.leaving, m.leftAt = stopping, now
	switch m.state {
	case StateLeader:
		m.stepDown(now, cause, fx)
	case StateFenced:
		if !m.draining {
			m.becomeCandidate(fx)
		}
	case StatePending:
		m.becomeCandidate(fx)
	case StateCandidate:
	}
}

// stepDown ends the context of a leader. The leader then drains or gives up the key.
func (m *machine) stepDown(now time.Time, cause error, fx *effects) {
	if m.times.drainTimeout == 0 || m.drained {
		m.depose(cause, fx)
		return
	}
	m.becomeFenced(now, cause, fx)
	m.draining = true
	m.drainBy = now.Add(m.times.drainTimeout)
	m.renewAt = m.lastAt.Add(m.times.renewInterval) // the lease is kept as before
}

// closed handles a closed connection. No request is possible any more, so the candidate
// can keep nothing.
func (m *machine) closed(now time.Time, fx *effects) {
	if m.leaving != stopping {
		m.err = ErrConnectionClosed
	}
	if m.state == StateLeader {
		m.becomeFenced(now, ErrConnectionClosed, fx)
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
	m.renewNow = true
}
