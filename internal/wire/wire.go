// Package wire has the names, formats and defaults that more than one package of this
// module has to know: package leader, the test kit, health and the command.
//
// Its files:
//
//	wire.go  names, formats and defaults that several packages share
//	keys.go  the rules for keys of elections, of seats, and of KV buckets
package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// DefaultLease is the lease of a candidate, and the MaxLease of a bucket, that were given
// none. It outlives the loss of the server that leads the stream, out of three
// servers: writes resume 5 to 8 s after the loss.
const DefaultLease = 15 * time.Second

// MostMaxLease bounds MaxLease of a bucket: after a crash of its leader an election has none for
// a whole lease, and after the deletion of its key for a whole MaxLease.
const MostMaxLease = 24 * time.Hour

// MaxValue is the largest value in bytes that a candidate may publish with its lease. Every
// renewal carries it.
const MaxValue = 64 << 10

// Lease returns the lease of a candidate that was given none, in a bucket with this
// MaxLease and TTL. 0 means that the bucket has none.
func Lease(maxLease, ttl time.Duration) time.Duration {
	switch {
	case maxLease > 0:
		return maxLease
	case ttl > 0:
		return min(DefaultLease, ttl*2/3)
	default:
		return DefaultLease
	}
}

// RenewDeadline returns the default of leader.Config.RenewDeadline.
func RenewDeadline(lease time.Duration) time.Duration { return lease / 5 * 4 }

// RenewInterval returns the default of leader.Config.RenewInterval.
func RenewInterval(lease time.Duration) time.Duration { return lease / 6 }

// RenewWait returns how long a holder waits for the reply to a renewal before it tries
// again: a quarter of the renew interval, and not less than 250 ms unless the interval
// itself is shorter. The sooner it tries again, the longer the outage that it survives.
func RenewWait(renewInterval time.Duration) time.Duration {
	return min(renewInterval, max(renewInterval/4, 250*time.Millisecond))
}

// Quiet returns how long a candidate waits for a sign of a majority of the servers before it takes its
// server for cut off: a third of the lease. It is more if a renewal that was lost once would
// otherwise look like that.
func Quiet(lease, renewInterval time.Duration) time.Duration {
	return max(lease/3, renewInterval+2*RenewWait(renewInterval))
}

// DefaultTurnTimeout is several round trips between servers that are far apart.
const DefaultTurnTimeout = 250 * time.Millisecond

// CallLimit bounds a call that makes one request to the store, if its context has no deadline. It
// also bounds one try of a guarded write, in any case. Package jetstream has the same limit.
const CallLimit = 5 * time.Second

// AnnouncementLeases is for how many leases an announcement in the roster lasts.
const AnnouncementLeases = 3

// GuardTaken is the text of the error for a guard that stands for another election.
const GuardTaken = "the guard is another election's"

// LeastGuardServer is the least version of nats-server that guards trust.
const LeastGuardServer = "2.11.8"

const (
	// VersionSubject is the subject of a request to all servers, which reply with their
	// versions. Every account may send it that has not been denied it (nats-server,
	// events.go, registerSystemImports).
	VersionSubject = "$SYS.REQ.ACCOUNT.PING.STATZ"
	// ConnectionsSubject is the subject of a request to all servers, which reply with the account's
	// connections. Every account may send it, too.
	ConnectionsSubject = "$SYS.REQ.ACCOUNT.PING.CONNZ"
	// VersionKey is the key in a stream's metadata under which the server that leads the
	// stream reports its version, since 2.11 (nats-server, jetstream_versioning.go,
	// setDynamicStreamMetadata).
	VersionKey = "_nats.ver"
)

const (
	// FeedPrefix is the prefix of the subjects to which a bucket of leader.CreateOrUpdateBucket
	// republishes. The name of the bucket, a dot and the key follow.
	FeedPrefix = "natsleader.feed."
	// AskPrefix is the prefix of the subject of requests to a holder. The name of the
	// bucket, a dot and the election follow.
	AskPrefix = "natsleader.ask."
)

const (
	// Headroom is how many bytes of a message's size the header of a conditional write takes, at most.
	Headroom = len("NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 18446744073709551615\r\n\r\n")
	// MarkRoom is how many more bytes the header of a marker takes.
	MarkRoom = len("KV-Operation: DEL\r\n")
)

// Keys in the metadata of a stream.
const (
	MaxLeaseKey = "natsleader.max_lease" // of a bucket: a duration for time.ParseDuration
	DomainKey   = "natsleader.domain"    // of a bucket: the JetStream domain that it was made in
	RosterKey   = "natsleader.roster"    // of a bucket: the name of the bucket of its roster
	RosterOfKey = "natsleader.roster_of" // of the bucket of a roster: the name of its bucket
)

// MaxBucketName is the length of the longest name of a bucket. It leaves room for KV_ in a
// stream's name (nats-server, JSMaxNameLen).
const MaxBucketName = 252

// RosterSuffix turns the name of a bucket into the name of its roster.
const RosterSuffix = "_roster"

// RosterName returns the name of the roster's bucket. A name that leaves no room for the
// suffix is cut, and made unique by a hash.
func RosterName(bucket string) string {
	if len(bucket)+len(RosterSuffix) > MaxBucketName {
		sum := sha256.Sum256([]byte(bucket))
		tail := "_" + hex.EncodeToString(sum[:8])
		bucket = bucket[:MaxBucketName-len(RosterSuffix)-len(tail)] + tail
	}
	return bucket + RosterSuffix
}

// Error codes of the JetStream API for a write with a condition that does not hold
// (nats-server, server/errors.json).
const (
	CodeWrongLastSequence = 10071 // a refusal that names the last revision
	CodeWrongLastConstant = 10164 // without the sequence: a refusal that proves nothing
)

// Messages in the log of a candidate that the command passes on.
const (
	LogRequested    = "asked to hand over"
	LogNotListening = "cannot be asked to hand over"
	LogAnswered     = "the servers answer again"
)

// NoRosterReason begins a leader's reason for refusing to hand over to the next candidate of
// the roster, where the leader has none. The command explains it.
const NoRosterReason = "the leader reads no roster"

// StepDownRequest is a request to the holder of an election, in JSON. It is for one term: if
// it is late, sent twice, or received in another bucket of the same name, it ends no other
// term.
type StepDownRequest struct {
	Format  int    `json:"v"` // StepDownFormat
	Do      string `json:"do"`
	Session string `json:"session"`      // of the record
	Token   uint64 `json:"token"`        // of the term
	To      string `json:"to,omitempty"` // DoTransfer: an ID; empty: the next of the roster
	By      string `json:"by,omitempty"` // name of the requester, by its own account
}

// The values of a StepDownRequest.
const (
	StepDownFormat = 1
	DoStepDown     = "step-down"
	DoTransfer     = "transfer"
)
