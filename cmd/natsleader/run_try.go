//go:build unix

package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// rivals is what `run --try` knows of the other holders of the election's seats. A record
// that has expired, of a leader that has died, does not count.
type rivals struct {
	seats   int
	expired map[int]uint64 // by seat: revision of the record that has expired
	taken   map[int]bool   // by seat: another candidate holds it
}

// lead takes a change of holder, and reports whether other candidates hold all seats.
func (r *rivals) lead(h leader.Holder, another bool) bool {
	seat := max(1, h.Seat)
	if delete(r.taken, seat); another && h.Revision != r.expired[seat] {
		r.taken[seat] = true
	}
	return len(r.taken) == r.seats
}

// lookForLeader reads the seats of the election, and returns an error if other candidates
// hold all of them. It limits the time that --try may take: a lease that has not been renewed
// may have to be waited out, since one read cannot show that its holder is gone.
func (c *runLoop) lookForLeader(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, bucket *leader.Bucket, info leader.BucketInfo) error {
	c.rivals = rivals{seats: c.succession.seats, expired: make(map[int]uint64), taken: make(map[int]bool)}
	s := &inspector{nc: nc, bucket: bucket, js: js, name: c.bucket, limit: c.timeout}
	if err := s.ask(ctx); err != nil {
		return err
	}
	longest := max(info.MaxLease, c.lease, wire.DefaultLease)
	for seat := 1; seat <= c.succession.seats; seat++ {
		x, err := s.one(ctx, leader.SeatKey(c.election, seat))
		if err != nil {
			return err
		}
		x.holder.Seat = seat
		switch x.at(s.clock.now()) {
		case stateLeading, statePending, stateForeign:
			if c.rivals.lead(x.holder, true) {
				return c.taken(x.holder)
			}
		case stateExpired:
			c.rivals.expired[seat] = x.entry.Revision
			longest = max(longest, x.holder.Lease)
		case stateReleased, stateDeleted, stateNever: // free
		}
	}
	c.waited = time.After(2*longest + c.delay + c.timeout)
	return nil
}

// taken is the outcome of --try if another candidate leads. With --quiet nothing is printed,
// because that is no failure.
func (c *runLoop) taken(h leader.Holder) error {
	c.log.log(slog.LevelInfo, fields{"leader", h.ID, "leader_token", h.Token}, "not leading (--try): %v", h)
	return exitError{code: exitLost}
}

// undecided is the outcome of --try if the store has not shown in time which candidate leads.
func (c *runLoop) undecided() error {
	if c.fault != nil {
		return fmt.Errorf("did not become leader of %s at once (--try): %w", c.election, c.fault)
	}
	return exitError{exitLost, fmt.Errorf("did not become leader of %s at once (--try)", c.election)}
}
