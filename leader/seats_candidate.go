package leader

import (
	"context"
	"log/slog"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// standForSeats starts the goroutines of a candidate of an election with several leaders:
// one for each seat, and one that passes on their events.
func standForSeats(ctx context.Context, store backend.Store, election string, cfg Config, p params) (*Candidate, error) {
	front := newCandidate(store, election, cfg, p)
	b := &seatPermit{
		election: election, unread: true,
		waiting: make([]*mailbox, p.seats), holders: make([]holding, p.seats), denied: make([]time.Time, p.seats), value: string(cfg.Value), there: p.seats,
		events: eventMux{out: &front.out, bell: make(chan struct{}, 1), end: make(chan struct{})},
	}
	front.permit = b
	front.out.open()                         // for the mux, which sends on it
	cfg.Clock, cfg.Logger = front.clock, nil // the seats log through front's
	for n := 1; n <= p.seats; n++ {
		c := newCandidate(store, SeatKey(election, n), cfg, p)
		c.permit, c.loops = b, front.loops
		c.log, c.logs = front.log.With(slog.Int("seat", n)), front.logs
		a := newActor(ctx, c, cfg, p)
		front.seats = append(front.seats, c)
		go a.run(ctx) // before the next is made: a fake clock makes no timer while one is busy
	}
	go front.runEvents(context.WithoutCancel(ctx))
	return front, nil
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
func (c *Candidate) toAll(kind inputKind) {
	if c.seats == nil {
		c.box.put(mail{in: input{kind: kind}})
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
func (c *Candidate) allStats() Stats {
	engaged := c.seatHeld()
	all := engaged.Stats() // LogDropped is that of the queue, which they share
	all.State = c.State()  // a seat ends before its candidate
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

// offer passes an event on to the reader.
func (c *Candidate) offer(e Event) {
	if c.permit != nil {
		c.permit.events.add(e)
		return
	}
	c.out.add(e)
}

// leave records that a seat has ended.
func (b *seatPermit) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.there--; b.there == 0 {
		close(b.events.end)
	}
}

// runEvents passes on the events of all seats until the seats have ended, and then ends
// the candidate.
func (c *Candidate) runEvents(values context.Context) {
	c.permit.events.run()
	cut := false
	for _, seat := range c.seats {
		if err := seat.Err(); err != nil {
			c.mu.Lock()
			c.err = err
			c.mu.Unlock()
		}
		cut = cut || seat.cut // it has ended
	}
	c.mu.Lock()
	c.cut = cut
	c.mu.Unlock()
	c.logClosed(values, cut)
	c.logs.flush()
	close(c.done)
}

// eventMux brings the events of several seats into one channel, in the order in which they
// came: the event that ends one seat's term comes before the one that begins another's.
type eventMux struct {
	out  *outbox // with its channel
	held bool    // run holds an event, which nothing may overtake; guarded by the lock of out
	bell chan struct{}
	end  chan struct{} // closed when no more is added
}

// add never blocks. The events that fit are in the channel when it returns.
func (f *eventMux) add(e Event) {
	f.out.mu.Lock()
	defer f.out.mu.Unlock()
	f.out.keep(e)
	if !f.held {
		f.out.flush()
	}
	if len(f.out.backlog) > 0 {
		select {
		case f.bell <- struct{}{}:
		default:
		}
	}
}

// run waits for the reader with the events that did not fit, and closes the channel in
// the end.
func (f *eventMux) run() {
	for {
		e := f.next()
		if e == nil {
			select {
			case <-f.bell:
				continue
			case <-f.end:
				f.close(nil)
				return
			}
		}
		select {
		case f.out.ch <- e:
		case <-f.end:
			f.close(e)
			return
		}
	}
}

// next takes an event out of the backlog, to be sent before all others; or nil.
func (f *eventMux) next() (e Event) {
	f.out.mu.Lock()
	defer f.out.mu.Unlock()
	f.out.flush()
	if f.held = len(f.out.backlog) > 0; f.held {
		e = f.out.backlog[0]
		f.out.drop()
	}
	return e
}

// close puts back the event that was held, and closes the channel.
func (f *eventMux) close(held Event) {
	if held != nil {
		f.out.mu.Lock()
		f.out.backlog = append([]Event{held}, f.out.backlog...)
		f.out.mu.Unlock()
	}
	f.out.close()
}
