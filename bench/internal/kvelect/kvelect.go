// Package kvelect is the algorithm of nats-kv-leader-elect, for tests and comparisons. It is
// written after election.go of github.com/ripienaar/nats-kv-leader-elect at commit 959bf24,
// because that module cannot be had from every module proxy.
package kvelect

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Grace is the time from the first update to the call of Won.
const Grace = 200 * time.Millisecond

// Interval returns the time between two campaigns in a bucket with this TTL.
func Interval(ttl time.Duration) time.Duration { return ttl / 4 * 3 }

// MinTTL is the shortest TTL that the library accepts. This package accepts any.
const MinTTL = 30 * time.Second

// Process is one process that campaigns.
type Process struct {
	KV   nats.KeyValue
	Key  string
	Name string
	// Interval is the time between two campaigns, and Splay that before the first.
	Interval, Splay time.Duration
	// Won and Lost are the callbacks. They run while the process holds its lock.
	Won, Lost func()

	mu     sync.Mutex
	seq    uint64 // of the last write; 0: the process has not won
	notify bool   // the next update that succeeds makes the process the leader
}

// IsLeader reports whether the process leads. It waits while a request is in flight, as in the
// library.
func (p *Process) IsLeader() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seq != 0 && !p.notify
}

// Run campaigns until ctx ends. A process that leads then calls neither Lost nor the server,
// and its record stays until it expires: the library sets its state to that of a candidate
// before it asks whether it leads.
func (p *Process) Run(ctx context.Context) {
	if !pause(ctx, p.Splay) {
		return
	}
	ticks := time.NewTicker(p.Interval)
	defer ticks.Stop()
	p.campaign(ctx)
	for {
		select {
		case <-ticks.C:
			p.campaign(ctx)
		case <-ctx.Done():
			p.mu.Lock()
			defer p.mu.Unlock()
			p.seq, p.notify = 0, false
			return
		}
	}
}

// campaign creates the key, or updates it on the condition of the last sequence. An update
// that fails is a loss. The first update that succeeds is the win.
func (p *Process) campaign(ctx context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seq == 0 {
		if s, err := p.KV.Create(p.Key, []byte(p.Name)); err == nil {
			p.seq, p.notify = s, true
		}
		return
	}
	s, err := p.KV.Update(p.Key, []byte(p.Name), p.seq)
	if err != nil {
		p.seq, p.notify = 0, false
		if p.Lost != nil {
			p.Lost()
		}
		return
	}
	p.seq = s
	if p.notify {
		p.notify = false
		pause(ctx, Grace)
		if p.Won != nil {
			p.Won()
		}
	}
}

// pause reports whether ctx is still alive after d.
func pause(ctx context.Context, d time.Duration) bool {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
		return true
	case <-ctx.Done():
		return false
	}
}
