// Package kvelect lets candidates share a key with processes that still run nats-kv-leader-elect, or
// choria's election. There is one leader among all of them while a fleet moves over, one process at
// a time.
package kvelect

import (
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/leader"
)

// Beside returns the store for candidates of an election in which such processes may run. All
// candidates of the election use it until the last of those processes is gone. It can then be
// dropped, one candidate at a time.
//
// The store is the bucket of those processes, which has a TTL. [leader.Config].LeaseDuration must be
// at most three quarters of that TTL, and RenewDeadline, which is then half of the TTL by default if
// that is less, at most half. [leader.Campaign] and [leader.Acquire] return
// [leader.ErrIncompatibleBucket] otherwise, or a [leader.Faulted] event has it. They return
// [leader.ErrInvalidConfig] for more than one seat of package seats, and so does [leader.TryAcquire]
// in any case. docs/kvelect.md in the repository has the reasons.
func Beside(store leader.Store) leader.Store { return backend.Marked{Sealed: store, KVElect: true} }
