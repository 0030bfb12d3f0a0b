package leader

import "github.com/natsleader/natsleader/internal/backend"

// Causes of an ended term. One of them, possibly wrapped, is [context.Cause] of the term's context,
// the Cause of its [Deposed] event, and the result of [Err].
var (
	// ErrResigned ends a term that was handed over, by Resign, a transfer, [StepDown], [Queue].Preempt, [Lock.Unlock] or the return of its work.
	ErrResigned error = backend.ErrResigned
	// ErrStopped ends a term whose candidate was stopped, by [Candidate.Stop] or the end of the context of [Campaign].
	ErrStopped error = backend.ErrStopped
	// ErrStalled ends a term whose work has not asked its context for [Config].StallTimeout.
	ErrStalled error = backend.ErrStalled
	// ErrLeaseExpired ends a term whose lease was not confirmed within [Config].RenewDeadline.
	ErrLeaseExpired error = backend.ErrLeaseExpired
	// ErrPreempted ends a term whose key was found to hold another's record.
	ErrPreempted error = backend.ErrPreempted
	// ErrDeleted ends a term whose key was found deleted, purged, expired or gone with its bucket.
	ErrDeleted error = backend.ErrDeleted
	// ErrRegressed ends a term whose bucket has lost acknowledged writes: it was restored or made anew. Also reported.
	ErrRegressed error = backend.ErrRegressed
	// ErrFenced ends a term when a later one has raised a guard. Package fence returns it for a rejected write.
	ErrFenced error = backend.ErrFenced
	// ErrConnectionClosed ends a term, and its candidate, because the application has closed the NATS connection.
	ErrConnectionClosed error = backend.ErrConnectionClosed
)

// Errors that functions return, or that candidates report by a [Faulted] event. The text of an error names the setting,
// token, subject or candidate.
var (
	// ErrInvalidConfig reports a setting that cannot work, or settings that contradict each other.
	ErrInvalidConfig error = backend.ErrInvalidConfig
	// ErrSeatsDiffer reports that another candidate of the election is set to another number of seats.
	ErrSeatsDiffer error = backend.ErrSeatsDiffer
	// ErrBucketDiffers reports that the bucket is not as [EnsureBucket] would make it. It is used as it is.
	ErrBucketDiffers error = backend.ErrBucketDiffers
	// ErrNotLeader is returned by calls of a term that is over, on a zero [Lock], and with a ctx of no term.
	ErrNotLeader error = backend.ErrNotLeader
	// ErrNoLeader is returned by [StepDown] when there is no leader.
	ErrNoLeader error = backend.ErrNoLeader
	// ErrRequestRefused is returned if the leader refuses to hand over, or the successor does not wait. The leader stays.
	ErrRequestRefused error = backend.ErrRequestRefused
	// ErrNotSucceeded is returned by [StepDown] when the leader has handed over, and its successor has not taken the key.
	ErrNotSucceeded error = backend.ErrNotSucceeded
	// ErrValueTooLarge reports a value of more than 64 KiB, or one that does not fit into a record of the bucket.
	ErrValueTooLarge error = backend.ErrValueTooLarge
	// ErrFull reports that the account, the bucket or a server has no room for a write.
	ErrFull error = backend.ErrFull
	// ErrForeignRecord reports a value that is no record. Its key counts as held until no lease can be running.
	ErrForeignRecord error = backend.ErrForeignRecord
	// ErrTokensExhausted is an ErrForeignRecord with too great a token. No candidate is elected until it is deleted.
	ErrTokensExhausted error = backend.ErrTokensExhausted
	// ErrUnreachable reports that the store did not answer: no connection, no answer in time, or no responders.
	ErrUnreachable error = backend.ErrUnreachable
	// ErrNoMajority is an ErrUnreachable: the server answers reads, but no writes. See [Config].ForceReconnect.
	ErrNoMajority error = backend.ErrNoMajority
	// ErrNoBucket reports that the bucket, or the stream of a guard, does not exist.
	ErrNoBucket error = backend.ErrNoBucket
	// ErrNoRoster reports that the bucket keeps no roster ([BucketConfig].Roster), or that it was not read yet.
	ErrNoRoster error = backend.ErrNoRoster
	// ErrIncompatibleBucket reports a bucket that does not fit elections or these settings, or does not protect a guard.
	ErrIncompatibleBucket error = backend.ErrIncompatibleBucket
	// ErrGuardTaken is an ErrIncompatibleBucket: the guard stands for another election, until it is deleted.
	ErrGuardTaken error = backend.ErrGuardTaken
	// ErrGuardDeleted reports that the guard of the term was deleted or overwritten. The leader raises it again.
	ErrGuardDeleted error = backend.ErrGuardDeleted
	// ErrPermission reports a subject that the connection may not use.
	ErrPermission error = backend.ErrPermission
	// ErrNotReleased reports work that goes on although GracePeriod is over, or another leads. The candidate waits for its end.
	ErrNotReleased error = backend.ErrNotReleased
	// ErrCordoned reports, once, that an operator keeps the candidate from taking the key (natsleader drain).
	ErrCordoned error = backend.ErrCordoned
	// ErrNoFeed reports that the candidate receives no changes, and polls until a feed works.
	ErrNoFeed error = backend.ErrNoFeed
	// ErrCongested reports that a leader's request has waited for its turn for half of RenewDeadline (docs/scale.md).
	ErrCongested error = backend.ErrCongested
	// ErrClock reports, once, that this clock stood still or runs at another rate than the server's (docs/contract.md).
	ErrClock error = backend.ErrClock
)
