package backend

import (
	"errors"
	"fmt"
	"slices"

	"github.com/natsleader/natsleader/internal/wire"
)

// Error is an error of package leader: a plain value, so that errors can be part of the
// machine's state, and two machines with the same cause compare equal.
type Error string

// Error returns the text, which begins with "leader: ".
func (e Error) Error() string { return "leader: " + string(e) }

// Errors that package leader exports and describes: those that the implementations of the port
// return, and those of the machine.
const (
	ErrInvalidConfig      = Error("invalid configuration")
	ErrUnreachable        = Error("the store did not answer")
	ErrPermission         = Error("permission denied")
	ErrConnectionClosed   = Error("the NATS connection is closed")
	ErrNoBucket           = Error("the bucket does not exist")
	ErrIncompatibleBucket = Error("the bucket is not fit for this election")
	ErrValueTooLarge      = Error("value too large")
	ErrFull               = Error("there is no room for a write")

	ErrResigned       = Error("resigned")
	ErrStopped        = Error("stopped")
	ErrLeaseExpired   = Error("lease not confirmed before the renew deadline")
	ErrPreempted      = Error("another candidate holds the key")
	ErrDeleted        = Error("the key was deleted")
	ErrRegressed      = Error("the store has lost acknowledged writes")
	ErrStalled        = Error("the work of the term has not asked its context for StallTimeout")
	ErrFenced         = Error("fenced: the guard of the term does not stand any more")
	ErrNotLeader      = Error("not the leader")
	ErrNoLeader       = Error("nobody leads")
	ErrRequestRefused = Error("the leader refuses the request")
	ErrNotSucceeded   = Error("the named successor has not taken over")
	ErrForeignRecord  = Error("the key holds a foreign record")
	ErrNoRoster       = Error("the bucket keeps no roster (BucketConfig.Roster or `natsleader bucket add --roster` makes one)")
	ErrNotReleased    = Error("not released")
	ErrCordoned       = Error("cordoned by an operator")
	ErrNoFeed         = Error("no feed, polling instead")
	ErrGuardDeleted   = Error("the guard was deleted or overwritten")
	ErrBucketDiffers  = Error("the bucket differs from the settings of EnsureBucket")
	ErrSeatsDiffer    = Error("the candidates disagree on the number of seats")
	ErrClock          = Error("the clock of this host does not keep pace with the server's")
	ErrCongested      = Error("renewals wait too long for their turn on the connection: lead fewer elections in this process or on this connection, give it more CPU, or use longer leases")
)

// ScheduleError is a fault of package schedule, which its candidate reports and counts.
type ScheduleError string

// Error returns the text, which begins with "schedule: ".
func (e ScheduleError) Error() string { return "schedule: " + string(e) }

// ErrNotOpened completes a sentence about a zero value that only a function of the module can
// make usable.
var ErrNotOpened = errors.New("was not made by leader.OpenBucket, fence.OpenBucket, fence.OpenStream or their Create functions")

// detail is a case of a more general error, which it matches, too.
type detail struct {
	of   Error
	text string
}

// Error returns the text, which begins with "leader: ".
func (d detail) Error() string { return "leader: " + d.text }

// Unwrap returns the more general error.
func (d detail) Unwrap() error { return d.of }

// ConnError is the last error of a connection that is down. It is a plain value, and matches no error of the network:
// a request has not failed with it.
type ConnError struct {
	Kind string // one of connKinds
	Text string
}

var connKinds = [...]string{"other", "auth", "tls", "refused", "timeout"}

// Bit returns a number with one bit for the kind.
func (e ConnError) Bit() uint8 { return 1 << max(0, slices.Index(connKinds[:], e.Kind)) }

// Error returns the kind and the text.
func (e ConnError) Error() string { return e.Kind + ": " + e.Text }

// Cases of the errors above. Package leader exports those about which an application can do
// something else than about the general one.
var (
	ErrNotStanding     error = detail{ErrRequestRefused, "not standing in the election"}
	ErrNoneStands      error = detail{ErrRequestRefused, "no other candidate stands in the election"}
	ErrNotListed       error = detail{ErrNoRoster, wire.NoRosterReason + ": its Config has no Queue"}
	ErrRosterGone      error = detail{ErrNoRoster, "the roster is gone, perhaps with the bucket"} // no advice to make it before the leases are over
	ErrRosterUnread    error = detail{ErrNoRoster, "the leader has not read the roster yet: try again"}
	ErrNoMajority      error = detail{ErrUnreachable, "reads are answered, and nothing that needs a majority of the servers: the server of this connection is cut off from the others, or the cluster has lost its quorum"}
	ErrGuardTaken      error = detail{ErrIncompatibleBucket, wire.GuardTaken}
	ErrTokensExhausted error = detail{ErrForeignRecord, "a token is too great to be followed"}
)

// ErrNotTryable keeps leader.TryAcquire from a bucket in which an empty key is not free at once.
var ErrNotTryable = fmt.Errorf("%w: it is not purge-protected, so a key that is empty is not free at once, as TryAcquire needs it: make it by CreateOrUpdateBucket or EnsureBucket without a TTL, or use Acquire", ErrIncompatibleBucket)
