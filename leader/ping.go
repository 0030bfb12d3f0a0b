package leader

import "context"

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

// Ping returns nil when the candidate's goroutine has answered. The goroutine answers at
// once, also while NATS is silent, unless a call of the Store, a Guard or the Clock has
// not returned. With several seats the goroutine of each seat answers. Ping returns the error of
// ctx if ctx ends first, and [ErrStopped] once the candidate has ended. Package health has a
// handler for liveness probes that calls it.
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
			if lives {
				result = nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return result
}
