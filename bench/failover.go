package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
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

// crash measures the time from killing the process of the leader until a follower leads.
func crash(ctx context.Context, p place) (time.Duration, error) {
	election := p.name("crash")
	leader, err := p.leaderProcess(election)
	if err != nil {
		return 0, err
	}
	cl, err := p.dial()
	if err != nil {
		return 0, errors.Join(err, leader.kill())
	}
	defer cl.close()
	follower := cl.campaign(election, p.name("c"))
	defer follower.drop()
	if err = p.meet(ctx); err != nil {
		return 0, errors.Join(err, leader.kill())
	}
	select {
	case <-follower.elected():
		return 0, errors.Join(fmt.Errorf("%w: the follower leads before the crash", errDisturbed), leader.kill())
	default:
	}
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
	both     time.Duration // how long both believed that they lead; 0 or less if they never did
	wrong    bool          // stopped: the first answer after the pause was that it leads
}

// cutOff cuts the leader off from the server, and reports how long two believe that they lead.
func cutOff(ctx context.Context, p place) (overlap, error) {
	var o overlap
	k, err := newLink(p.srv.addr)
	if err != nil {
		return o, err
	}
	defer k.close()
	far, err := p.sys.dial(k.addr(), p.s)
	if err != nil {
		return o, err
	}
	election := p.name("cut")
	old := far.campaign(election, p.name("c"))
	defer far.close()
	defer old.drop()
	if _, err = awaitElected(ctx, old, p.failover()); err != nil {
		return o, err
	}
	near, err := p.dial()
	if err != nil {
		return o, err
	}
	defer near.close()
	follower := near.campaign(election, p.name("c"))
	defer follower.drop()
	if err = p.meet(ctx); err != nil {
		return o, err
	}
	if !old.leads() {
		return o, fmt.Errorf("%w: the leader does not lead before it is cut off", errDisturbed)
	}

	began := time.Now()
	k.cut()
	ended := make(chan time.Time, 1)
	within, cancel := context.WithTimeout(ctx, 2*p.failover())
	defer cancel()
	go func() {
		defer close(ended)
		end := time.Now() // it led then: a goroutine that wakes up late does not count against it
		for tick := time.NewTicker(askEvery); ; {
			asked := time.Now()
			if !old.leads() {
				ended <- end
				return
			}
			end = asked
			select {
			case <-tick.C:
			case <-within.Done():
				return
			}
		}
	}()
	at, err := awaitElected(ctx, follower, p.failover())
	if err != nil {
		return o, fmt.Errorf("follower: %w", err)
	}
	end, ok := <-ended
	if !ok {
		return o, errors.New("the leader that is cut off goes on leading")
	}
	return overlap{failover: at.Sub(began), both: end.Sub(at)}, nil
}

// stopped stops the process of the leader until a follower leads, continues it, and reports its
// first answer and for how long it still believes that it leads.
func stopped(ctx context.Context, p place) (overlap, error) {
	var o overlap
	election := p.name("stopped")
	leader, err := p.leaderProcess(election)
	if err != nil {
		return o, err
	}
	defer func() { _ = leader.kill() }()
	cl, err := p.dial()
	if err != nil {
		return o, err
	}
	defer cl.close()
	follower := cl.campaign(election, p.name("c"))
	defer follower.drop()
	if err = p.meet(ctx); err != nil {
		return o, err
	}
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
