package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/natsleader/natsleader/examples/internal/timeline"
	"github.com/natsleader/natsleader/leader"
)

// serve stands in the election and runs the job whenever this process leads,
// until ctx ends.
func (p *process) serve(ctx context.Context, store leader.Store) error {
	c, err := leader.Campaign(context.Background(), store, "cron", leader.Config{ID: p.name})
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() {
		stopping, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := c.Stop(stopping); err != nil {
			p.tl.Say(p.name, "faulted", "stopped without releasing the key: %v", err)
		}
	})()

	var jobs, show sync.WaitGroup
	for ev := range c.Events() {
		switch ev := ev.(type) {
		case leader.Elected:
			p.tl.Say(p.name, "elected", "token %d", ev.Term.Token())
			jobs.Go(func() { p.schedule(ev.Term) })
			show.Go(func() { p.handOver(ctx, c, ev.Term) })
		case leader.Fenced:
			p.tl.Say(p.name, "fenced", "token %d, %s", ev.Term.Token(), timeline.Reason(ev.Cause))
		case leader.Deposed:
			jobs.Wait() // nothing of this term may run when the next one begins
			p.tl.Say(p.name, "deposed", "token %d, %s", ev.Term.Token(), timeline.Reason(ev.Cause))
		case leader.Faulted:
			p.tl.Say(p.name, "faulted", "%s", timeline.Reason(ev.Err))
		case leader.Pending, leader.Observed:
		}
	}
	show.Wait()
	return c.Err()
}

// schedule runs the job on every slot of the clock until the term ends. Slots
// are times of day, so the schedule outlives a change of leaders.
func (p *process) schedule(term *leader.Term) {
	ctx := term.Context()
	for {
		slot := time.Now().Truncate(every).Add(every)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(slot)):
		}
		// Timers may be late, for instance after a pause of the process. The
		// term asks the clock.
		if term.Err() != nil {
			return
		}
		p.book(ctx, term.Token(), slot)
	}
}

// book runs the job for one slot. The lease makes it unlikely that two leaders
// try. The ledger compares their tokens, which makes it impossible that both
// succeed.
func (p *process) book(ctx context.Context, token uint64, slot time.Time) {
	err := p.ledger.book(ctx, token, slot, p.name)
	switch {
	case errors.Is(err, errStale), errors.Is(err, errTaken):
		p.tl.Say(p.name, "refused", "token %d, %v", token, err)
	case ctx.Err() != nil: // the term has ended meanwhile
	case err != nil:
		p.tl.Say(p.name, "faulted", "token %d, %v", token, err)
	default:
		p.tl.Say(p.name, "job", "token %d, the run of %s", token, slot.Format(time.TimeOnly))
	}
}

// handOver resigns after the tenure, if there is one, to demonstrate a run of the
// old term that comes late.
func (p *process) handOver(ctx context.Context, c *leader.Candidate, term *leader.Term) {
	if p.tenure == 0 {
		return
	}
	select {
	case <-time.After(p.tenure):
	case <-term.Context().Done():
		return
	}
	p.tl.Say(p.name, "RESIGN", "token %d", term.Token())
	if err := c.Resign(ctx); err != nil && ctx.Err() == nil {
		p.tl.Say(p.name, "faulted", "%s", timeline.Reason(err))
	}
	select {
	case <-time.After(3 * every / 2):
		p.tl.Say(p.name, "LATE", "as if it had slept through the change")
		p.book(ctx, term.Token(), time.Now().Truncate(every).Add(every))
	case <-ctx.Done():
	}
}
