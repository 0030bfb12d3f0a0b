package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/natsleader/natsleader/internal/link"
)

// The measures lock and start count round trips: over a link with a delay that is long beside what the processes
// compute. The connections stand before the link becomes slow.

// roundTrip is what the link takes there and back.
const roundTrip = 100 * time.Millisecond

// The steps of lock and start, in the order of the report.
const (
	stepTaken   = "taken"
	stepGiven   = "given back"
	stepHeld    = "found held"
	stepCycle   = "cycle"
	stepWaiters = "waiters"

	stepEmpty   = "empty server"
	stepProcess = "new process"
	stepAnother = "another election"
	stepAgain   = "stop and again"
)

var stepsOf = map[string][]string{
	measureLock:  {stepTaken, stepGiven, stepHeld, stepCycle, stepWaiters},
	measureStart: {stepEmpty, stepProcess, stepAnother, stepAgain},
}

// clients returns n clients of the server, and the link between, which is slow as soon as they are connected.
func (p place) clients(n int) (all []client, k *link.Link, end func(), err error) {
	if k, err = link.New(p.srv.addr); err != nil {
		return nil, nil, nil, err
	}
	k.Delay = roundTrip / 2
	end = func() {
		k.Set(link.Works)
		for _, c := range all {
			c.close()
		}
		k.Close()
	}
	for range n {
		c, err := p.sys.dial(k.Addr(), p.s)
		if err != nil {
			end()
			return nil, nil, nil, err
		}
		all = append(all, c)
	}
	k.Set(link.Slow)
	return all, k, end, nil
}

// step is something to measure.
type step struct {
	name string
	do   func() error
}

// taken is what a step has taken.
type taken struct {
	time  time.Duration
	trips int
}

// timed takes the steps one after the other.
func (c *cell) timed(k *link.Link, steps ...step) error {
	for _, s := range steps {
		began, trips := time.Now(), k.Trips()
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		c.add(cell{steps: map[string][]taken{s.name: {{time.Since(began), trips()}}}, Figures: c.Figures})
	}
	return nil
}

// lockTurn measures a lock that is free, one that is held, and one that n others wait for. Each has a connection of its
// own, as processes have.
func lockTurn(n int) func(context.Context, place, *cell) error {
	return func(ctx context.Context, p place, c *cell) error {
		ctx, cancel := context.WithTimeout(ctx, p.failover()+time.Duration(n)*10*roundTrip)
		defer cancel()
		all, k, end, err := p.clients(3 + n)
		if err != nil {
			return err
		}
		defer end()
		name := p.name("lock")
		lockOf := func(i int) lock { return all[i].(locker).lock(name, p.name("c")) }
		// Whatever a library keeps its locks in is there before them.
		if err = cycle(ctx, all[2].(locker).lock(p.name("lock"), p.name("c"))); err != nil {
			return err
		}
		own := lockOf(0)
		err = c.timed(k,
			step{stepTaken, func() error { return own.take(ctx) }},
			step{stepHeld, func() error { return triedInVain(ctx, lockOf(1)) }},
			step{stepGiven, func() error { return own.giveBack(ctx) }},
			step{stepCycle, func() error { return cycle(ctx, own) }},
			step{stepCycle, func() error { return cycle(ctx, own) }},
		)
		if err == nil {
			err = own.take(ctx)
		}
		if err != nil {
			return err
		}
		var holders atomic.Int64
		holders.Add(1)
		waiters, within := errgroup.WithContext(ctx)
		for i := range n {
			l := counted{lockOf(3 + i), &holders}
			waiters.Go(func() error { return cycle(within, l) })
		}
		if err = wait(ctx, 15*roundTrip); err != nil { // until all wait
			return err
		}
		before, err := p.srv.counts()
		if err != nil {
			return err
		}
		err = c.timed(k, step{stepWaiters, func() error { return errors.Join(counted{own, &holders}.giveBack(ctx), waiters.Wait()) }})
		if err != nil {
			return err
		}
		after, err := p.srv.counts()
		c.Figures.Candidates, c.Figures.RequestsEach = n, float64(after.Requests-before.Requests)/float64(n)
		return err
	}
}

func cycle(ctx context.Context, l lock) error {
	if err := l.take(ctx); err != nil {
		return err
	}
	return l.giveBack(ctx)
}

func triedInVain(ctx context.Context, l lock) error {
	if err := l.try(ctx); !errors.Is(err, errHeld) {
		return fmt.Errorf("a lock that another holds was tried: %w", err)
	}
	return nil
}

// counted counts who holds a lock.
type counted struct {
	lock
	holders *atomic.Int64
}

func (l counted) take(ctx context.Context) error {
	if err := l.lock.take(ctx); err != nil {
		return err
	}
	if n := l.holders.Add(1); n > 1 {
		return fmt.Errorf("%w: %d hold the lock", errTwoLead, n)
	}
	return nil
}

func (l counted) giveBack(ctx context.Context) error {
	l.holders.Add(-1)
	return l.lock.giveBack(ctx)
}

// start measures how long a candidate takes until it leads in an election that has no leader.
func start(ctx context.Context, p place, c *cell) error {
	clients, k, end, err := p.clients(2)
	if err != nil {
		return err
	}
	defer end()
	var all []candidate
	defer func() {
		for _, c := range all {
			c.drop()
		}
	}()
	leads := func(cl client, election string) error {
		next := cl.campaign(election, p.name("c"))
		all = append(all, next)
		_, err := awaitElected(ctx, next, p.failover())
		return err
	}
	one, two, three := p.name("start"), p.name("start"), p.name("start")
	return c.timed(k,
		step{stepEmpty, func() error { return leads(clients[0], one) }},
		step{stepProcess, func() error { return leads(clients[1], two) }},
		step{stepAnother, func() error { return leads(clients[1], three) }},
		step{stepAgain, func() error { return errors.Join(all[2].resign(ctx), leads(clients[1], three)) }},
	)
}
