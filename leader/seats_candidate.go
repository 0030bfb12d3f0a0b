package leader

import (
	"context"
	"log/slog"
	"time"

	"github.com/natsleader/natsleader/internal/backend"

	"github.com/natsleader/natsleader/internal/machine"
)

// standForSeats starts the goroutines of a candidate of an election with several leaders, one
// for each seat.
func standForSeats(ctx context.Context, store backend.Store, election string, cfg Config, p machine.Params) *Candidate {
	front := newCandidate(store, election, cfg, p)
	b := &seatPermit{
		election: election, unread: true, front: front,
		waiting: make([]*mailbox, p.Seats), holders: make([]holding, p.Seats), denied: make([]time.Time, p.Seats), value: string(cfg.Value), there: p.Seats,
	}
	front.permit = b
	cfg.Clock, cfg.Logger = front.clock, nil // the seats log through front's
	for n := 1; n <= p.Seats; n++ {
		c := newCandidate(store, SeatKey(election, n), cfg, p)
		c.permit, c.loops = b, front.loops
		c.log, c.logs = front.log.With(slog.Int("seat", n)), front.logs
		a := newActor(ctx, c, cfg, p)
		front.seats = append(front.seats, c)
		go a.run(ctx) // before the next is made: a fake clock makes no timer while one is busy
	}
	return front
}

// seatHeld returns the candidate of the seat that is held, or may be, or that of the first
// seat if there is none. In an election with one leader it returns the candidate itself.
func (c *Candidate) seatHeld() *Candidate {
	if c.seats == nil {
		return c
	}
	c.permit.mu.Lock()
	defer c.permit.mu.Unlock()
	return c.seats[max(c.permit.taker, 1)-1]
}

// toAll sends an input to the candidate on all seats.
func (c *Candidate) toAll(kind machine.InputKind) {
	if c.seats == nil {
		c.box.put(mail{in: machine.Input{Kind: kind}})
	}
	for _, seat := range c.seats {
		seat.toAll(kind)
	}
}

// Leaders returns the holders that are believed to lead, possibly with the candidate
// itself, in the order of their seats. Seats without a leader are left out. In an
// election with one leader it is the result of [Candidate.Leader].
func (c *Candidate) Leaders() []Holder {
	seats := c.seats
	if seats == nil {
		seats = []*Candidate{c}
	}
	var holders []Holder
	for _, seat := range seats {
		if h, ok := seat.Leader(); ok {
			holders = append(holders, h)
		}
	}
	return holders
}

// allStats returns the Stats of a candidate with several seats.
func (c *Candidate) allStats(state State, term *Term) Stats {
	engaged := c.seatHeld()
	all := engaged.stats(state, term) // LogDropped is that of the queue, which they share
	all.Seats = len(c.seats)
	for _, seat := range c.seats {
		if seat == engaged {
			continue
		}
		s := seat.Stats()
		all.Silent = max(all.Silent, s.Silent)
		all.Unreleased = max(all.Unreleased, s.Unreleased)
		all.Leaderless += s.Leaderless
		for i, n := range s.Writes.Counts {
			all.Writes.Counts[i] += n
		}
		all.Writes.Sum += s.Writes.Sum
		all.Refused += s.Refused
		all.Unknown += s.Unknown
		all.FeedRebuilds += s.FeedRebuilds
		all.Pending += s.Pending
		all.Elected += s.Elected
		all.Unelected += s.Unelected
		addAll(&all.Fenced, s.Fenced)
		addAll(&all.Deposed, s.Deposed)
		addAll(&all.Faults, s.Faults)
	}
	return all
}

// offer passes an event on to the readers, in the order in which the events of all seats come: the
// event that ends one seat's term comes before the one that begins another's.
func (c *Candidate) offer(e Event) {
	if c.permit != nil {
		c = c.permit.front
	}
	c.out.add(e)
}

// leave records that a seat has ended. The last one ends the candidate.
func (b *seatPermit) leave(values context.Context) {
	b.mu.Lock()
	b.there--
	last := b.there == 0
	b.mu.Unlock()
	if !last {
		return
	}
	front, cut := b.front, false
	var err error
	for _, seat := range front.seats {
		if seat.err != nil { // it has ended
			err = seat.err
		}
		cut = cut || seat.cut
	}
	front.mu.Lock()
	front.err, front.cut = err, cut
	front.mu.Unlock()
	front.end(values)
}
