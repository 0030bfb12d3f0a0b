package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

// seatCheck compares the number of seats of a lock with that of the holders. Locks with
// different numbers do not keep each other out: each finds a seat free where the other has
// none, or does not look at.
//
// A record that names another number is no reason to refuse the lock unless its holder lives.
// The holder lives if the record is renewed. The check of Acquire waits for that, or until the
// lease is over. That of TryAcquire refuses the lock until the process has seen the record for
// the whole lease.
type seatCheck struct {
	store        backend.Store
	clock        Clock
	election, id string
	seats        int // of the lock
	try          bool
	seen         *sightings // of this call, or for a try of the process
	foresight    *foresight // has the first read; nil: there is none
}

// checkLimit bounds a read of the check. A read that fails proves nothing: the candidate of
// the lock reports the fault, if it lasts.
const checkLimit = 2 * time.Second

// compare returns an error with [ErrSeatsDiffer] if a holder lives that is set to another number. As a
// rule it reads one key. The record of the first seat stays there when it is released. It
// names the number of its last holder, and so the seats to look at beyond those of the lock.
// If it names the number of the lock, compare looks at the other seats only with all.
func (c *seatCheck) compare(ctx context.Context, all bool) error {
	last := c.seats
	for n := 1; n <= last; n++ {
		key := wire.SeatKey(c.election, n)
		read := c.read
		if n == 1 && !all && c.foresight != nil {
			read = c.foresight.entry
		}
		s, err := read(ctx, key)
		if err != nil {
			return nil //nolint:nilerr // see checkLimit
		}
		if free := s.Kind == record.EntryNothing || s.Kind == record.EntryRecord && !s.Held(); n == 1 && !free {
			c.seen.since(key, s, newTimeline(c.clock).start) // the candidate may hear of it, and not read it
		}
		if n == 1 && !all && (s.Kind != record.EntryRecord || seatsOf(s.Rec) == c.seats) {
			return nil
		}
		if s.Kind == record.EntryRecord {
			last = max(last, min(seatsOf(s.Rec), maxSeats))
		}
		if err = c.outlast(ctx, key, s); err != nil {
			return err
		}
	}
	return nil
}

// outlast returns nil when the record of a seat is not that of a living holder with another
// number of seats.
func (c *seatCheck) outlast(ctx context.Context, key string, first record.Observation) error {
	if !first.Held() || seatsOf(first.Rec) == c.seats {
		return nil // the candidate of the lock remembers the record, if it has to
	}
	now := newTimeline(c.clock)
	seen := now.start.Sub(c.seen.since(key, first, now.start)) // so long ago
	for s := first; s.Held() && seatsOf(s.Rec) != c.seats; {
		rest := first.Rec.Lease - seen - now.elapsed()
		switch {
		case rest <= 0:
			return nil
		case c.try, s.Revision > first.Revision:
			return disagreement(c.id, c.seats, s.Rec)
		}
		if err := c.pause(ctx, min(rest, first.Rec.Lease/looksInLease)); err != nil {
			return fmt.Errorf("%w; the last fault: %w", err, disagreement(c.id, c.seats, s.Rec))
		}
		next, err := c.read(ctx, key)
		switch {
		case err == nil:
			s = next
		case errors.Is(err, ErrConnectionClosed):
			return nil
		}
	}
	return nil
}

// looksInLease is how often the check reads in the lease of a record: as often as its holder
// renews it by default.
const looksInLease = 6

func (c *seatCheck) read(ctx context.Context, key string) (record.Observation, error) {
	ctx, cancel := deadline.Within(ctx, checkLimit)
	defer cancel()
	return look(ctx, c.store, key)
}

// pause waits by the clock, or returns the error of ctx.
func (c *seatCheck) pause(ctx context.Context, d time.Duration) error {
	t := c.clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
