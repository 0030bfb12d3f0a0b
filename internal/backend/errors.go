package backend

import "errors"

// Error is an error of package leader: a plain value, so that errors can be part of the
// machine's state, and two machines with the same cause compare equal.
type Error string

// Error returns the text, which begins with "leader: ".
func (e Error) Error() string { return "leader: " + string(e) }

// Errors that the implementations of the port return. Package leader exports and describes
// them.
const (
	ErrInvalidConfig      = Error("invalid configuration")
	ErrUnreachable        = Error("the store did not answer")
	ErrPermission         = Error("permission denied")
	ErrConnectionClosed   = Error("the NATS connection is closed")
	ErrNoBucket           = Error("the bucket does not exist")
	ErrIncompatibleBucket = Error("the bucket is not fit for this election")
	ErrValueTooLarge      = Error("value too large")
)

// ErrNotOpened completes a sentence about a zero value that only a function of the module can
// make usable.
var ErrNotOpened = errors.New("was not made by leader.OpenBucket, fence.OpenBucket, fence.OpenStream or their Create functions")
