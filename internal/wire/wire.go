// Package wire has the names, formats and defaults that more than one package of this
// module has to know: package leader, the test kit, health and the command.
package wire

import "time"

// DefaultLease is the lease of a candidate, and the MaxLease of a bucket, that were given
// none. It outlives the loss of the server that leads the stream, out of three
// servers: writes resume 5 to 8 s after the loss.
const DefaultLease = 15 * time.Second

// MaxValue is the largest value in bytes that a candidate may publish with its lease. Every
// renewal carries it.
const MaxValue = 64 << 10

const (
	// FeedPrefix is the prefix of the subjects to which a bucket of leader.CreateBucket
	// republishes. The name of the bucket, a dot and the key follow.
	FeedPrefix = "natsleader.feed."
	// AskPrefix is the prefix of the subject of requests to a holder. The name of the
	// bucket, a dot and the election follow.
	AskPrefix = "natsleader.ask."
)

// Keys in the metadata of a stream.
const (
	MaxLeaseKey = "natsleader.max_lease" // of a bucket: a duration for time.ParseDuration
	RosterKey   = "natsleader.roster"    // of a bucket: the name of the bucket of its roster
	RosterOfKey = "natsleader.roster_of" // of the bucket of a roster: the name of its bucket
)

// Error codes of the JetStream API for a write with a condition that does not hold
// (nats-server, server/errors.json).
const (
	CodeWrongLastSequence = 10071
	CodeWrongLastConstant = 10164 // without the sequence
)

// Messages in the log of a candidate that the command passes on.
const (
	LogRequested    = "asked to hand over"
	LogNotListening = "cannot be asked to hand over"
)

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
