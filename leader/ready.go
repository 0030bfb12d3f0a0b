package leader

import (
	"context"
	"fmt"
)

// Ready waits until the candidate leads or knows the holder that it follows, be it pending or foreign, and returns
// nil. With several seats the candidate leads on one, or knows the holders of all. Faults and a cordon do not end the
// wait. If ctx ends first, Ready returns its cause, and the last fault if no holder was seen since.
//
// Where the candidate waits for the application, Ready returns at once: [ErrStalled] while work that has hung goes
// on, and, if no other candidate holds the key, [ErrNotReleased] while the work of an ended term goes on, and
// [ErrNotLeader] after the loop over Terms was left. Once the candidate has ended, Ready returns [Candidate.Err], or
// [ErrStopped] if that is nil.
func (c *Candidate) Ready(ctx context.Context) error {
	if known, err := c.knowsRole(); known {
		return err
	}
	events := c.reader()
	defer c.out.leave(events)
	bell := events.bell
	var fault error
	for {
		for e, ok := events.next(); ok; e, ok = events.next() {
			switch e := e.(type) {
			case Faulted:
				fault = e.Err
			case Observed:
				if e.Holder.held() {
					fault = nil
				}
			case Pending, Elected:
				fault = nil
			case Fenced, Deposed:
			}
		}
		if known, err := c.knowsRole(); known {
			return err
		}
		select {
		case _, open := <-bell:
			if !open {
				bell = nil
			}
		case <-c.Done():
		case <-ctx.Done():
			err := fmt.Errorf("leader: %q neither leads nor knows who does: %w", c.id, context.Cause(ctx))
			if fault != nil {
				err = fmt.Errorf("%w; the last fault: %w", err, fault)
			}
			return err
		}
	}
}

// knowsRole reports whether the candidate leads or follows, or does neither, and waits for nothing
// but the application. The error says why it does neither.
func (c *Candidate) knowsRole() (bool, error) {
	select {
	case <-c.Done():
		if err := c.Err(); err != nil {
			return true, err
		}
		return true, ErrStopped
	default:
	}
	seats := c.seats
	if seats == nil {
		seats = []*Candidate{c}
	}
	follows, works, stalled := true, false, false
	for _, seat := range seats {
		other, working, hangs := seat.look()
		follows, works, stalled = follows && other, works || working, stalled || hangs
	}
	switch {
	case stalled:
		return true, fmt.Errorf("%w; %q takes no key before it has ended", ErrStalled, c.id)
	case c.IsLeader() || follows:
		return true, nil
	case works:
		return true, fmt.Errorf("%w; %q takes no key before", ErrNotReleased, c.id)
	case c.loops.left():
		return true, fmt.Errorf("%w: %q has left its loop over Terms, and takes no key before another loop", ErrNotLeader, c.id)
	}
	return false, nil
}

// look reports whether another candidate holds the key, and whether the work of an own term goes on
// after the end of the term, and hangs.
func (c *Candidate) look() (other, working, hangs bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.holder.held() && !c.holds && c.leading.Load() == nil, c.tally.working, c.tally.working && c.tally.stalled
}

// pulse is a channel on which a candidate's goroutine sends whenever it has nothing else to
// do. A Ping receives from it. No lock is involved and nothing is left behind, so a Ping
// ends with its context, whatever holds up the goroutine. The channel is closed when the
// goroutine ends.
type pulse chan struct{}

// beat answers one Ping, if one waits.
func (p pulse) beat() {
	select {
	case p <- struct{}{}:
	default:
	}
}

// Ping returns nil when the candidate's goroutine has answered: at once, also while NATS is silent, unless a call of
// the Store, a Guard or the Clock hangs. Errors: [ErrStopped] once the candidate has ended, and [ErrStalled] while
// work that hangs goes on after the handover. It is for liveness probes (package health).
func (c *Candidate) Ping(ctx context.Context) error {
	seats := c.seats
	if seats == nil {
		seats = []*Candidate{c}
	}
	result := ErrStopped
	for _, seat := range seats { // a seat that has ended need not answer for the others
		if seat.pulse == nil {
			continue // the zero value has no goroutine
		}
		select {
		case _, lives := <-seat.pulse:
			switch {
			case lives && seat.hangs.Load():
				return ErrStalled
			case lives:
				result = nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return result
}
