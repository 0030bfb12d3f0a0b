package leader

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/machine"
)

// StopBesideGo stops a candidate. Before its goroutine has looked, a function of Go returns, which is the last, and another
// begins. The result ends that.
func StopBesideGo(c *Candidate, t *Term) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.toAll(machine.InStop)
	t.send(machine.InDrained)
	t.known.running++
	return t.returned
}

// LoopBesideGo begins a loop over the terms of a candidate. Before its goroutine has looked, a function of Go returns,
// which is the last. The result ends the body of the loop.
func LoopBesideGo(c *Candidate, t *Term) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	terms := c.loops.enter(c)
	t.send(machine.InDrained)
	return func() { (<-terms).finish() }
}

// later is a clock that is late by an hour after so many looks.
type later struct {
	Clock
	start time.Time
	looks atomic.Int64
}

func (c *later) Now() time.Time {
	if c.looks.Add(-1) < 0 {
		return c.start.Add(time.Hour)
	}
	return c.start
}

func (c *later) term(t *testing.T) *Term {
	c.start = testEpoch
	term := &Term{token: 1, timeline: timeline{clock: c, start: testEpoch}, until: new(atomic.Int64), box: &mailbox{}}
	term.until.Store(int64(10 * time.Second))
	ctx, cancel := context.WithCancelCause(t.Context())
	term.ctx, term.cancel = leadership{ctx, term}, cancel
	return term
}

// Grace of a shard asks no clock under the lock of its term, where the end of the lease would wait for itself.
func TestGrace_OfAShardAfterAPause(t *testing.T) {
	for looks := range int64(4) {
		c := new(later)
		c.looks.Store(1 << 20)
		within := c.term(t)
		sub, _ := newSubterm(&within.ctx, backend.Subterm{Raised: func() {}, Released: func() {}, Fault: func(error) {}})
		ctx := sub.(*Term).Context()
		c.looks.Store(looks)
		grace := Grace(ctx)
		c.looks.Store(0)
		check.Is(t, grace.Err(), context.Canceled)
		check.Is(t, context.Cause(grace), ErrLeaseExpired)
	}
}

// When the context of a shard that is lost has ended, its Grace has, too.
func TestGrace_EndsWithALostShard(t *testing.T) {
	c := new(later)
	c.looks.Store(1 << 40)
	within := c.term(t)
	for range 20_000 {
		made, _ := newSubterm(&within.ctx, backend.Subterm{Raised: func() {}, Released: func() {}, Fault: func(error) {}})
		sub := made.(*Term)
		grace := Grace(sub.Context())
		ended := make(chan error)
		go func() {
			for sub.Context().Err() == nil {
			}
			ended <- grace.Err()
		}()
		sub.lose(ErrFenced)
		check.Must(t, <-ended != nil, "Grace is alive")
	}
}

// A shard is released once, also if the last function of Go returns beside its release.
func TestGo_ReleasesAShardOnce(t *testing.T) {
	c := new(later)
	c.looks.Store(1 << 40)
	within := c.term(t)
	for range 5000 {
		var released atomic.Int32
		sub, _ := newSubterm(&within.ctx, backend.Subterm{Raised: func() {}, Released: func() { released.Add(1) }, Fault: func(error) {}})
		term := sub.(*Term)
		term.known.running++
		ended := make(chan struct{})
		go func() { defer close(ended); term.returned() }()
		term.free()
		<-ended
		check.Must(t, released.Load() == 1, "released %d times", released.Load())
	}
}

// Exact also asks the clock for a context that is derived from Grace, after the context of the term has ended.
func TestGrace_Exact(t *testing.T) {
	c := new(later)
	c.looks.Store(1 << 20)
	term := c.term(t)
	derived, cancel := context.WithTimeout(Grace(term.Context()), time.Hour)
	defer cancel()
	term.mu.Lock()
	term.end(ErrResigned)
	term.drain(0, 20*time.Second)
	term.mu.Unlock()
	check.OK(t, Exact(derived).Err())
	c.looks.Store(0)
	check.Is(t, Exact(derived).Err(), context.Canceled)
	check.Is(t, context.Cause(derived), ErrLeaseExpired)
}

// Grace of a shard asks the clock, as that of the member does.
func TestGrace_OfAShardAsksTheClock(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(within, sub *Term)
		want error
	}{
		"the shard moves": {func(within, sub *Term) { sub.cancel(ErrResigned); within.until.Store(int64(10 * time.Second)) }, ErrLeaseExpired},
		"the member stops": {func(within, _ *Term) {
			within.mu.Lock()
			defer within.mu.Unlock()
			within.end(ErrStopped)
			within.drain(0, 20*time.Second)
		}, ErrNotReleased},
	} {
		t.Run(name, func(t *testing.T) {
			clock := new(later)
			clock.looks.Store(1 << 20)
			within := clock.term(t)
			within.until.Store(int64(2 * time.Hour))
			made, _ := newSubterm(&within.ctx, backend.Subterm{Raised: func() {}, Released: func() {}, Fault: func(error) {}})
			sub := made.(*Term)
			derived, cancel := context.WithCancel(Grace(sub.Context()))
			defer cancel()
			c.end(within, sub)
			check.OK(t, Exact(derived).Err())
			check.That(t, sub.Context().Err() != nil, "the context of the shard is alive")
			clock.looks.Store(0)
			check.Is(t, Exact(derived).Err(), context.Canceled)
			check.Is(t, context.Cause(derived), c.want)
		})
	}
}
