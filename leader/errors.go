package leader

import "github.com/natsleader/natsleader/internal/backend"

// Causes of an ended term. One of them, possibly wrapped, is [context.Cause] of the
// term's context, the Cause of its [Deposed] event, and the result of [Err].
var (
	// ErrResigned ends a term that was handed over: by Resign or a transfer, at the request of [StepDown], for a
	// candidate that preempts, or by [Lock.Unlock].
	ErrResigned error = backend.ErrResigned
	// ErrStopped ends a term when its candidate was stopped, by [Candidate.Stop] or by the end of the context given
	// to [Campaign]. Methods of a candidate that has ended return it.
	ErrStopped error = backend.ErrStopped
	// ErrStalled ends a term whose work has not asked its context for [Config].StallTimeout.
	ErrStalled error = backend.ErrStalled
	// ErrLeaseExpired ends a term when its lease was not confirmed before its renew deadline.
	ErrLeaseExpired error = backend.ErrLeaseExpired
	// ErrPreempted ends a term when its key was found to hold another's record.
	ErrPreempted error = backend.ErrPreempted
	// ErrDeleted ends a term when its key was found deleted, purged, expired or gone with its bucket.
	ErrDeleted error = backend.ErrDeleted
	// ErrRegressed ends a term during which the store was found to have forgotten acknowledged writes: a restored
	// backup, or a bucket that was deleted and created again. It is also the Err of a [Faulted] event.
	ErrRegressed error = backend.ErrRegressed
	// ErrFenced ends a term when a later term was found to have raised one of its guards. The writers of package
	// fence return it for a write that the server has rejected.
	ErrFenced error = backend.ErrFenced
	// ErrConnectionClosed ends a term, and its candidate, because the application closed the NATS connection.
	ErrConnectionClosed error = backend.ErrConnectionClosed
)

// Errors that the package returns or reports in a [Faulted] event.
var (
	// ErrInvalidConfig is returned for settings that cannot work. The text names the setting and the relation that
	// does not hold. In a [Faulted] event it reports settings with which the server cannot make the bucket of
	// [EnsureBucket].
	ErrInvalidConfig error = backend.ErrInvalidConfig
	// ErrSeatsDiffer reports that another candidate of the election is set to another number of seats. The text
	// names that candidate and both numbers. The candidate goes on with its own number. [Acquire] and [TryAcquire]
	// return it.
	ErrSeatsDiffer error = backend.ErrSeatsDiffer
	// ErrBucketDiffers reports that the bucket is not as [EnsureBucket] would have made it. The text names the
	// setting. The candidate goes on with the bucket as it is.
	ErrBucketDiffers error = backend.ErrBucketDiffers
	// ErrNotLeader is returned by [Candidate.Proclaim], [Candidate.Resign], [Candidate.TransferTo] and
	// [Candidate.TransferNext] when the candidate does not lead, by [Candidate.Ready] when it is not to lead, and by
	// [Lock.Unlock] of a nil or zero Lock.
	ErrNotLeader error = backend.ErrNotLeader
	// ErrNoLeader is returned by [StepDown] when there is no leader.
	ErrNoLeader error = backend.ErrNoLeader
	// ErrRequestRefused is returned for a handover that the leader is set to refuse, or does not know, and for one
	// to a candidate that does not wait in the election. The leader goes on leading.
	ErrRequestRefused error = backend.ErrRequestRefused
	// ErrNotSucceeded is returned by [Candidate.TransferTo] and [StepDown] when the leader has handed over and the
	// candidate that it named has not taken the key.
	ErrNotSucceeded error = backend.ErrNotSucceeded
	// ErrValueTooLarge is returned for a value of more than 64 KiB, or that does not fit into a record of the
	// bucket.
	ErrValueTooLarge error = backend.ErrValueTooLarge
	// ErrForeignRecord reports that the key holds a value that is not a record of this package. No candidate is
	// elected until it has been deleted.
	ErrForeignRecord error = backend.ErrForeignRecord
	// ErrTokensExhausted is an ErrForeignRecord: the record or a guard has a token so great that no term can have
	// counted up to it. The text names the token.
	ErrTokensExhausted error = backend.ErrTokensExhausted
	// ErrUnreachable reports that the store did not answer: the connection is down, the request timed out, or there
	// are no responders.
	ErrUnreachable error = backend.ErrUnreachable
	// ErrNoMajority is an ErrUnreachable: the server of the connection answers reads, and nothing that needs a
	// majority of the servers. See [Config].ForceReconnect.
	ErrNoMajority error = backend.ErrNoMajority
	// ErrNoBucket reports that the bucket, or the stream of a guard, does not exist.
	ErrNoBucket error = backend.ErrNoBucket
	// ErrNoRoster reports that the bucket keeps no roster, see [BucketConfig].Roster. A transfer to any candidate
	// returns it also before the roster was read.
	ErrNoRoster error = backend.ErrNoRoster
	// ErrIncompatibleBucket reports that an election, or this candidate's settings, cannot work with the bucket, or
	// that a guarded bucket or stream does not protect its guard. The text names the setting.
	ErrIncompatibleBucket error = backend.ErrIncompatibleBucket
	// ErrGuardTaken is an ErrIncompatibleBucket: the guard stands for another election. It is left alone until it is
	// deleted.
	ErrGuardTaken error = backend.ErrGuardTaken
	// ErrGuardDeleted reports that the guard of the term was deleted or overwritten behind the leader's back. The
	// leader raises the guard again.
	ErrGuardDeleted error = backend.ErrGuardDeleted
	// ErrPermission reports a subject that the connection may not use. The text names it.
	ErrPermission error = backend.ErrPermission
	// ErrNotReleased reports that the work of a term goes on although DrainTimeout is over, or that another
	// candidate leads. The text names the token. The candidate does not campaign before the work has ended. It
	// reports ErrNotReleased again after one lease, and then at intervals that double.
	ErrNotReleased error = backend.ErrNotReleased
	// ErrNoFeed reports that the candidate receives no changes and polls instead, until a feed works.
	ErrNoFeed error = backend.ErrNoFeed
	// ErrCongested reports that a request of a leader has waited for its turn on the connection for half of
	// RenewDeadline or longer: the process or the server is too slow for so many elections. One leader of the
	// [Bucket] reports it, and none does again until no leader waits. See [Stats].Queued.
	ErrCongested error = backend.ErrCongested
)
