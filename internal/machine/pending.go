package machine

import (
	"time"

	"github.com/natsleader/natsleader/internal/record"
)

// pendingReason is why a pending candidate may not lead yet.
type pendingReason uint8

const (
	pendingForNothing pendingReason = iota // it leads at once
	pendingForGuards
	pendingForPeriod
	pendingForLostWrites
	pendingForDeleted
	pendingForEmpty
	pendingForUnread
	pendingForLease // none of the others is known
)

// String returns the reason as the event Pending of package leader has it.
func (r pendingReason) String() string {
	switch r {
	case pendingForNothing:
		return ""
	case pendingForGuards:
		return "its guards are still to be raised"
	case pendingForPeriod:
		return "it waits for its PendingPeriod"
	case pendingForLostWrites:
		return "the store has lost acknowledged writes, and a lease that it has forgotten may be running"
	case pendingForDeleted:
		return "the key was deleted or has expired, and the lease of its last holder may be running"
	case pendingForEmpty:
		return "the key is empty in a bucket that is not purge-protected, and a lease that left no trace may be running"
	case pendingForUnread:
		return "the entry that it replaced was not read, and an unknown lease may be running"
	case pendingForLease:
	}
	return "an earlier lease may be running"
}

// whyPending returns why the writer of w may not lead before ready. replaced is the entry
// that was known before w was stored. The reason follows from the state of that moment, so
// the machine does not keep it. Where several reasons hold, the one that sets ready counts.
func (m *Machine) whyPending(now, ready time.Time, w write, replaced record.Observation) pendingReason {
	period := m.bucket.times.PendingPeriod
	switch {
	case !now.Before(ready) && m.Guarded:
		return pendingForGuards
	case !now.Before(ready):
		return pendingForNothing
	case ready.Equal(m.memory.notBefore):
		return pendingForLostWrites
	case period > 0 && ready.Equal(now.Add(period)):
		return pendingForPeriod
	case !w.win || replaced.Revision != w.cond:
		return pendingForLease
	case w.blind:
		return pendingForUnread
	}
	switch replaced.Kind {
	case record.EntryNothing:
		return pendingForEmpty
	case record.EntryMarker:
		return pendingForDeleted
	case record.EntryUnseen, record.EntryForeign, record.EntryRecord:
	}
	return pendingForLease
}
