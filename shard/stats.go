package shard

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/leader"
)

// Stats is a snapshot of a member, for metrics and health checks. Totals are since [Join].
type Stats struct {
	// Election is of the member's own election, whose lease all its shards share. Its Faults and LogDropped also count
	// those of the member. [leader.Stats.Connected] is what a health check asks.
	Election leader.Stats
	Owned    int            // shards that the member works on
	Granted  int            // shards that the map grants to it, work that has not begun included
	Waiting  int            // shards that could be worked on, and that wait for [Member.Serve]
	Draining int            // shards whose context has ended, and whose work goes on, also after GracePeriod
	Busy     time.Duration  // how long the longest of that work has gone on after the end of its context
	Assigner string         // ID of the assigner; empty if none is known
	Moves    map[Reason]int // shards that this process, as the assigner, has granted anew
	// SinceRebalance is the time since the last of these moves; 0 if there was none.
	SinceRebalance time.Duration

	// Assigns is true if this process is the assigner, and knows the group. The figures that follow are 0 otherwise.
	Assigns bool
	Members int // whose lease is valid, or not known to have expired
	Unowned int // shards without an owner that lives
	Moving  int // shards whose owner waits until the work of another member has ended
	Uneven  int // shards that have to move until the spread is even
}

// Stats returns a snapshot.
func (m *Member) Stats() Stats {
	s := Stats{Election: m.work.Stats()}
	if h := m.assign.Leader(); h.State == leader.HolderLeading {
		s.Assigner = h.ID
	}
	s.Election.LogDropped += m.logs.Lost()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.faults > 0 {
		if s.Election.Faults == nil {
			s.Election.Faults = make(map[error]uint64)
		}
		s.Election.Faults[nil] += m.faults
	}
	s.Owned, s.Granted, s.Waiting, s.Draining = m.counts.Owned, m.counts.Granted, m.counts.Waiting, len(m.draining)
	for _, ended := range m.draining {
		s.Busy = max(s.Busy, time.Since(ended))
	}
	s.Moves = maps.Clone(m.moves)
	if !m.rebalanced.IsZero() {
		s.SinceRebalance = time.Since(m.rebalanced)
	}
	if f := m.figures; f != nil {
		s.Assigns, s.Members, s.Unowned, s.Moving, s.Uneven = true, f.members, f.Unowned, f.Moving, f.Uneven
	}
	return s
}

// figures are what an assigner has found.
type figures struct {
	group.Found
	members int
}

// count takes what a step has found.
func (m *Member) count(c group.Counts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts = c
}

// survey takes what the assigner has found; nil: this process is not the assigner.
func (m *Member) survey(f *figures) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.figures = f
}

// Ping returns nil when the goroutines of the member have answered: at once, also while NATS is silent. It returns
// [leader.ErrStopped] once the member has ended, and an error that wraps [ErrNotBegun] while shards have waited for
// [Member.Serve] for more than a lease. It is for liveness probes, see package health.
func (m *Member) Ping(ctx context.Context) error {
	if err := m.work.Ping(ctx); err != nil {
		return err
	}
	if err := m.assign.Ping(ctx); err != nil {
		return err
	}
	s := m.current.Load()
	if s == nil {
		return nil // between two terms
	}
	select {
	case <-s.pings:
	case <-s.ctx.Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.counts.Idle; n > 0 {
		return fmt.Errorf("%w for more than %v: %d shards: call Member.Serve", ErrNotBegun, s.lease, n)
	}
	return nil
}
