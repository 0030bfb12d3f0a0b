package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// The measures, by the names that they have in the report and in notes.
const (
	measureHandover = "handover"
	measureCrash    = "crash"
	measureCut      = "cut off"
	measurePause    = "stopped"
	measureWaiting  = "waiting"
	measureLeading  = "leading"
	measureRenewal  = "renewal"
	measureLock     = "lock"
	measureStart    = "start"
)

// figures are the results of one measure of one system. Times are in milliseconds.
type figures struct {
	Median, P99, Max float64 `json:",omitempty"`
	Samples          int
	// Unit of Median, P99 and Max. Other values have theirs in the name.
	Lease time.Duration `json:",omitempty"`

	OverlapMedianMS, OverlapMaxMS float64 `json:",omitempty"` // cut off, stopped: both believe that they lead
	OverlapRounds                 int     `json:",omitempty"`
	WrongFirstAnswers             int     `json:",omitempty"` // stopped: the first answer after it was that it leads

	Candidates         int     `json:",omitempty"`
	SetupMS            float64 `json:",omitempty"`
	BytesEach          float64 `json:",omitempty"` // of memory
	GoroutinesEach     float64 `json:",omitempty"`
	RequestsPerSecond  float64 `json:",omitempty"`
	ServerCPUPercent   float64 `json:",omitempty"` // of a core
	RequestsPerRenewal float64 `json:",omitempty"`
	BytesPerRenewal    float64 `json:",omitempty"` // on the connection, both directions
	// Interval is the one between two renewals.
	Interval time.Duration `json:",omitempty"`

	Steps        map[string]stepFigures `json:",omitempty"` // lock, start
	RequestsEach float64                `json:",omitempty"` // lock: of a waiter, from the first release to the last
}

// stepFigures are the fewest round trips that a step has taken, and the median of its times over the slow link.
type stepFigures struct {
	Trips int
	MS    float64
}

// errDisturbed reports that something happened before the fault that a measure makes, because
// the machine was too busy for the lease. The measure can be repeated.
var errDisturbed = errors.New("disturbed")

// errTwoLead reports that two candidates led at once in a system that promises one. No machine
// is too busy for that promise, so the measure is not repeated.
var errTwoLead = errors.New("two candidates lead")

// samples are durations of one operation.
type samples []time.Duration

// at returns the sample below which the share p of them lies.
func (s samples) at(p float64) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(len(sorted)-1, int(float64(len(sorted))*p))]
}

func (s samples) figures() figures {
	return figures{Median: millis(s.at(0.5)), P99: millis(s.at(0.99)), Max: millis(s.at(1)), Samples: len(s)}
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// place is where a measure takes place: one system, its running server and settings.
type place struct {
	sys  system
	srv  *serverProcess
	s    settings
	name func(string) string // makes a name of an election or a candidate that was not used before
}

func (p place) dial() (client, error) { return p.sys.dial(p.srv.addr, p.s) }

// candidate returns a candidate on a connection of its own. end ends both.
func (p place) candidate(addr, election string) (c candidate, end func(), err error) {
	cl, err := p.sys.dial(addr, p.s)
	if err != nil {
		return nil, nil, err
	}
	c = cl.campaign(election, p.name("c"))
	return c, func() { c.drop(); cl.close() }, nil
}

// leader returns a candidate that leads.
func (p place) leader(ctx context.Context, addr, election string) (c candidate, end func(), err error) {
	if c, end, err = p.candidate(addr, election); err != nil {
		return nil, nil, err
	}
	if _, err = awaitElected(ctx, c, p.failover()); err != nil {
		end()
	}
	return c, end, err
}

// follower returns a candidate that has seen a renewal of the leader.
func (p place) follower(ctx context.Context, election string, leads func() bool) (c candidate, end func(), err error) {
	if c, end, err = p.candidate(p.srv.addr, election); err != nil {
		return nil, nil, err
	}
	if err = p.meet(ctx); err == nil {
		err = p.notYet(c, leads)
	}
	if err != nil {
		end()
	}
	return c, end, err
}

// patience bounds the wait for something that happens at once.
const patience = time.Minute

// awaitElected waits until c leads, which takes d at most.
func awaitElected(ctx context.Context, c candidate, d time.Duration) (time.Time, error) {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-c.elected():
		return time.Now(), nil
	case <-over.C:
		return time.Time{}, fmt.Errorf("is not elected within %v", d)
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}

// failover is the longest time from the end of a leader until another one leads, twice over
// for a busy machine.
func (p place) failover() time.Duration { return 2*(p.s.Lease+p.s.Late) + patience }

// notYet returns an error if the follower leads before the fault. The old leader may have
// been too slow for its lease. If it still leads, there are two, and no busy machine is an
// excuse for that where a system promises one.
func (p place) notYet(follower candidate, oldLeads func() bool) error {
	select {
	case <-follower.elected():
	default:
		return nil
	}
	if p.sys.single && oldLeads() {
		return errTwoLead
	}
	return fmt.Errorf("%w: the follower leads before the fault", errDisturbed)
}

// settle waits until a follower waits, and then for a random share of its polls, so that the
// samples meet every phase of them.
func (p place) settle(ctx context.Context) error {
	return wait(ctx, p.sys.ready+randomShare(max(p.s.Poll, 20*time.Millisecond)))
}

func wait(ctx context.Context, d time.Duration) error {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// handover measures the time from the call that hands over until the follower leads, n times.
func handover(ctx context.Context, p place, n int) (samples, error) {
	var clients [2]client
	for i := range clients {
		c, err := p.dial()
		if err != nil {
			return nil, err
		}
		defer c.close()
		clients[i] = c
	}
	election := p.name("handover")
	leader := clients[0].campaign(election, p.name("c"))
	if _, err := awaitElected(ctx, leader, p.failover()); err != nil {
		leader.drop()
		return nil, fmt.Errorf("first candidate: %w", err)
	}
	var s samples
	for i := range n {
		follower := clients[(i+1)%2].campaign(election, p.name("c"))
		if err := p.settle(ctx); err != nil {
			return nil, err
		}
		if err := p.notYet(follower, leader.leads); err != nil {
			return nil, err
		}
		began := time.Now()
		resigned := make(chan error, 1)
		go func(old candidate) {
			within, cancel := context.WithTimeout(ctx, p.failover())
			defer cancel()
			resigned <- old.resign(within)
		}(leader)
		at, err := awaitElected(ctx, follower, p.failover())
		leader = follower
		if err != nil {
			leader.drop()
			return nil, fmt.Errorf("follower: %w", err)
		}
		s = append(s, at.Sub(began))
		if err := <-resigned; err != nil {
			leader.drop()
			return nil, fmt.Errorf("resign: %w", err)
		}
	}
	leader.drop()
	return s, nil
}

// randomShare returns a random part of d.
func randomShare(d time.Duration) time.Duration { return rand.N(d + 1) }
