// Package seats gives an election several leaders at once, each on a seat of its own: a semaphore.
package seats

import (
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// Of returns the store for candidates and locks of elections with n leaders, at most 1000. 0 and 1
// are one leader, as without Of. [leader.Campaign], [leader.Acquire] and [leader.TryAcquire] return
// [leader.ErrInvalidConfig] for another n, and for more than one seat with [leader.Config].Guards
// or package kvelect. The other functions of package leader take the store as it was.
//
// All candidates of an election should have the same n. A candidate that finds another n reports
// [leader.ErrSeatsDiffer], and Acquire and TryAcquire return it. docs/succession.md in the
// repository has the details.
func Of(store leader.Store, n int) leader.Store { return backend.Marked{Sealed: store, Seats: n} }

// Key returns the key of seat n of an election: election.seat.n, or election itself for seat 1 and
// anything less. It is a name for [leader.Observe], [leader.Lookup] and [leader.StepDown].
func Key(election string, n int) string { return wire.SeatKey(election, n) }
