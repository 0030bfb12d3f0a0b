package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/natsleader/natsleader/internal/link"
)

// leaderProcess starts a process that leads the election.
func (p place) leaderProcess(election string) (*process, error) {
	l, err := startProcess(role{Lead: p.sys.name, Addr: p.srv.addr, Election: election, ID: p.name("p"), Settings: p.s})
	if err != nil {
		return nil, err
	}
	b, err := l.next()
	if err == nil && !b.Leads {
		err = errors.New("the process reports that it does not lead")
	}
	if err != nil {
		return nil, errors.Join(err, l.kill())
	}
	return l, nil
}

// beside starts a leader in a process of its own and a follower here, and returns when the follower has
// seen a renewal. end ends both.
func (p place) beside(ctx context.Context, election string) (leader *process, follower candidate, end func(), err error) {
	if leader, err = p.leaderProcess(election); err != nil {
		return nil, nil, nil, err
	}
	follower, drop, err := p.follower(ctx, election, leader.believes)
	if err != nil {
		return nil, nil, nil, errors.Join(err, leader.kill())
	}
	return leader, follower, func() { drop(); _ = leader.kill() }, nil
}

// crash measures the time from killing the process of the leader until a follower leads.
func crash(ctx context.Context, p place) (time.Duration, error) {
	leader, follower, end, err := p.beside(ctx, p.name("crash"))
	if err != nil {
		return 0, err
	}
	defer end()
	began := time.Now()
	if err = leader.kill(); err != nil {
		return 0, err
	}
	at, err := awaitElected(ctx, follower, p.failover())
	return at.Sub(began), err
}

// meet waits until the follower has seen a renewal, and then for a random share of the interval
// between two.
func (p place) meet(ctx context.Context) error {
	if err := p.settle(ctx); err != nil {
		return err
	}
	return wait(ctx, p.s.Renew+randomShare(p.s.Renew))
}

// overlap is the outcome of a fault that the leader survives.
type overlap struct {
	failover time.Duration // from the fault until the follower leads
	both     time.Duration // for how long at most both believed that they lead; 0 or less if they never did
	wrong    bool          // stopped: the first answer after the pause was that it leads
}

// cutOff cuts the leader off from the server, and reports for how long at most two believe that they lead.
func cutOff(ctx context.Context, p place) (overlap, error) {
	var o overlap
	k, err := link.New(p.srv.addr)
	if err != nil {
		return o, err
	}
	defer k.Close()
	election := p.name("cut")
	old, end, err := p.leader(ctx, k.Addr(), election)
	if err != nil {
		return o, err
	}
	defer end()
	follower, drop, err := p.follower(ctx, election, old.leads)
	if err != nil {
		return o, err
	}
	defer drop()
	if !old.leads() {
		return o, fmt.Errorf("%w: the leader does not lead before it is cut off", errDisturbed)
	}

	began := time.Now()
	k.Set(link.Held)
	within, cancel := context.WithTimeout(ctx, 2*p.failover())
	defer cancel()
	at, both, err := passed(within, old, follower)
	if err != nil {
		return o, err
	}
	return overlap{failover: at.Sub(began), both: both}, nil
}

// passed asks both candidates every millisecond, until the follower leads and the old leader
// does not. It returns when the follower led, and for how long at most both led. That time
// begins at the last "no" of the follower and ends at the first "no" of the old leader, so a
// question that is late makes it longer. If a late question alone decides whether there was
// such a time, the error is errDisturbed.
func passed(ctx context.Context, old, follower candidate) (elected time.Time, both time.Duration, err error) {
	begin, lastYes := time.Now(), time.Now()
	var end time.Time
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for elected.IsZero() || end.IsZero() {
		if ctx.Err() != nil {
			return elected, 0, fmt.Errorf("follower elected: %t, old leader ended: %t: %w", !elected.IsZero(), !end.IsZero(), ctx.Err())
		}
		if elected.IsZero() {
			asked := time.Now()
			select {
			case <-follower.elected():
				elected = time.Now()
			default:
				begin = asked
			}
		}
		if end.IsZero() {
			asked := time.Now()
			if old.leads() {
				lastYes = asked
			} else {
				end = time.Now()
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	both = end.Sub(begin)
	if lastYes.Before(elected) && both > 20*askEvery {
		err = fmt.Errorf("%w: the candidates were asked so late that both may have led for %v", errDisturbed, both)
	}
	return elected, both, err
}

// stopped stops the process of the leader until a follower leads, continues it, and reports its
// first answer and for how long it still believes that it leads.
func stopped(ctx context.Context, p place) (overlap, error) {
	var o overlap
	leader, follower, end, err := p.beside(ctx, p.name("stopped"))
	if err != nil {
		return o, err
	}
	defer end()
	began := time.Now()
	if err = leader.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return o, err
	}
	at, err := awaitElected(ctx, follower, p.failover())
	if err != nil {
		return o, fmt.Errorf("follower: %w", err)
	}
	o.failover = at.Sub(began)
	// The process is stopped for at least one lease, which is how it recognises the pause.
	if err := wait(ctx, p.s.Lease/2); err != nil {
		return o, err
	}
	if err := leader.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return o, err
	}
	type report struct {
		belief
		err error
	}
	reports := make(chan report)
	quit := make(chan struct{})
	defer close(quit)
	go func() {
		for {
			b, err := leader.next()
			select {
			case reports <- report{b, err}:
			case <-quit:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	over := time.NewTimer(p.failover())
	defer over.Stop()
	for paused := false; ; {
		select {
		case r := <-reports:
			switch {
			case r.err != nil:
				return o, fmt.Errorf("leader process: %w", r.err)
			case !r.Leads && !paused && r.Paused == 0:
				return o, fmt.Errorf("%w: the leader lost its term before it was stopped", errDisturbed)
			case r.Leads:
				paused, o.wrong = true, true
			default:
				o.both = r.After
				return o, nil
			}
		case <-over.C:
			return o, errors.New("the process that was continued goes on leading")
		case <-ctx.Done():
			return o, ctx.Err()
		}
	}
}
