package leader

import (
	"errors"
	"fmt"
	"time"
)

// Event is emitted by a candidate on the channels of [Candidate.Events]: a [Pending], [Elected], [Fenced], [Deposed],
// [Observed] or [Faulted]. String is for logs.
//
//sumtype:decl
type Event interface {
	fmt.Stringer
	event()
}

// Pending reports that the key was won. Every Elected follows a Pending, at once if no
// other lease can be valid.
type Pending struct {
	Token  uint64    // the least token that the term may get
	Until  time.Time // when the candidate may be elected at the earliest, by the time of day of its host
	Reason string    // why it may not lead yet, for a person; empty: it leads at once
	Seat   int       // see [Term.Seat]
}

// Elected reports that a term has begun. Its reader starts work by [Term.Go]: the next leader waits for no other
// goroutine.
type Elected struct {
	Term *Term
}

// Fenced reports that the term's context has ended while the candidate may still hold the key. After
// [ErrLeaseExpired] the candidate tries to renew the lease, and is elected again, with a new term, once its work has
// ended, if no other candidate has taken the key. After [ErrResigned], [ErrStopped] and [ErrStalled] it keeps the key
// for the work. After [ErrFenced], a later term has raised a guard, so no guarded write of this term is accepted.
// After [ErrConnectionClosed] the candidate ends.
type Fenced struct {
	Term  *Term
	Cause error     // as context.Cause of the term's context
	Until time.Time // when the key, if it is still held, is given up even if the work goes on, by the time of day of its host; zero: no work is waited for
}

// kind returns which kind of fence it is, as the log has it.
func (e Fenced) kind() string {
	switch {
	case errors.Is(e.Cause, ErrResigned), errors.Is(e.Cause, ErrStopped), errors.Is(e.Cause, ErrStalled):
		return "draining"
	case errors.Is(e.Cause, ErrFenced):
		return "fenced by a later term"
	default:
		return "fenced"
	}
}

// Deposed reports, once for every Elected, that the term is over for good.
type Deposed struct {
	Term     *Term
	Cause    error // as context.Cause of the term's context
	Finished bool  // the end of the work was awaited ([Config].GracePeriod), and has come
}

// Observed reports that the candidate has seen another holder, or none.
type Observed struct {
	Holder Holder
}

// Faulted reports an error from which the candidate goes on.
type Faulted struct {
	Err       error
	Remaining time.Duration // how long the lease was valid then; 0 if the candidate does not lead
}

func (Pending) event()  {}
func (Elected) event()  {}
func (Fenced) event()   {}
func (Deposed) event()  {}
func (Observed) event() {}
func (Faulted) event()  {}

func (e Pending) String() string {
	s := fmt.Sprintf("pending%s: token at least %d, not before %s", onSeat(e.Seat), e.Token, e.Until.Format(clockFormat))
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s
}

func (e Elected) String() string {
	return fmt.Sprintf("elected%s: token %d", onSeat(e.Term.Seat()), e.Term.Token())
}

func (e Fenced) String() string {
	s := fmt.Sprintf("%s%s: token %d: %v", e.kind(), onSeat(e.Term.Seat()), e.Term.Token(), e.Cause)
	if !e.Until.IsZero() {
		s += ", keeps the key until " + e.Until.Format(clockFormat) + " or the end of its work"
	}
	return s
}

func (e Deposed) String() string {
	return fmt.Sprintf("deposed%s: token %d: %v", onSeat(e.Term.Seat()), e.Term.Token(), e.Cause)
}

func (e Observed) String() string { return "observed: " + e.Holder.String() }

func (e Faulted) String() string {
	if e.Remaining > 0 {
		return fmt.Sprintf("faulted: %v; the lease is good for %v", e.Err, e.Remaining.Round(time.Millisecond))
	}
	return fmt.Sprintf("faulted: %v", e.Err)
}

// clockFormat is how the text of an event shows an instant.
const clockFormat = "15:04:05.000"

// HolderState is the state of the key of an election, or of one of its seats.
type HolderState uint8

// The values of a HolderState.
const (
	HolderNone    HolderState = iota // no holder, or not read yet
	HolderPending                    // holds the key and does not lead, because an earlier lease may be valid
	HolderLeading                    // leads
	// HolderReleased has given the key up. Its Token may be an earlier one. Only [HolderOf], [Lookup], [Holder].Last and
	// [Term.Previous] return it: elsewhere such a key has HolderNone.
	HolderReleased
	HolderExpired // has led until its lease expired: in [Holder].Last and of [Term.Previous]
	// HolderForeign is no record of this package. The key counts as held, with kvelect.Beside by the process that Value names.
	HolderForeign
)

// String returns the name of the state in lower case.
func (s HolderState) String() string {
	switch s {
	case HolderNone:
		return "none"
	case HolderPending:
		return "pending"
	case HolderLeading:
		return "leading"
	case HolderReleased:
		return "released"
	case HolderExpired:
		return "expired"
	case HolderForeign:
		return "foreign"
	default:
		return fmt.Sprintf("HolderState(%d)", uint8(s))
	}
}

// Holder is the holder of the key of an election, or of one of its seats.
type Holder struct {
	State    HolderState
	ID       string        // of the candidate, if it is pending or leads
	Value    []byte        // published with the lease, not to be changed; of a foreign record its text, if that is short
	Token    uint64        // of the term; while it is pending, the least that it will have
	Since    time.Time     // the server's time of the write that began the term, as exactly as its leader knows it; zero while it is pending or not known
	Lease    time.Duration // how long other candidates wait after the last renewal
	Renewed  time.Time     // the server's time of the last renewal that was seen when the Holder was made
	Revision uint64        // of the record
	Seat     int           // see [Term.Seat]
	// Last is the last leader of a key whose holder does not lead: a HolderReleased or a HolderExpired with its ID,
	// token, last value, and as Renewed the time of its last write. It is nil if none is known.
	Last *Holder

	session string // of the candidate that holds the key
}

// held reports whether the key has a holder.
func (h Holder) held() bool {
	return h.State == HolderPending || h.State == HolderLeading || h.State == HolderForeign
}

// String returns a line for a log.
func (h Holder) String() string {
	switch h.State {
	case HolderForeign:
		if len(h.Value) > 0 {
			return fmt.Sprintf("the foreign record %q at revision %d%s", h.Value, h.Revision, onSeat(h.Seat))
		}
		return fmt.Sprintf("a foreign record at revision %d%s", h.Revision, onSeat(h.Seat))
	case HolderPending:
		return fmt.Sprintf("%q is pending%s with token %d or more", h.ID, onSeat(h.Seat), h.Token)
	case HolderLeading:
		return fmt.Sprintf("%q leads%s with token %d", h.ID, onSeat(h.Seat), h.Token)
	case HolderNone, HolderReleased, HolderExpired:
	}
	return "nobody leads" + onSeat(h.Seat)
}

// onSeat names a seat, except for the first, because most elections have no other.
func onSeat(n int) string {
	if n <= 1 {
		return ""
	}
	return fmt.Sprintf(" on seat %d", n)
}
