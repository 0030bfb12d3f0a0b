package leader

import (
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

// Config configures a candidate. The zero value works.
type Config struct {
	// ID names the candidate to others: at most 256 bytes of UTF-8 without control characters. Two candidates with the
	// same ID are safe. Default: host, process ID and six random characters.
	ID    string
	Value []byte // published with the lease; at most 64 KiB. [Term.Proclaim] changes it
	// Inherit makes each term begin with the last value of the leader before it ([Term.Previous]) in place of Value. If
	// no leader is known, the value is what the candidate has published last.
	Inherit bool
	// LeaseDuration is how long other candidates wait after the last renewal before they take over: at most the bucket's
	// MaxLease or TTL, in a bucket without MaxLease the same for all. One of less than 12 s may not outlive the loss of one
	// NATS server of three. Default: MaxLease, or without one 15 s or two thirds of the TTL, the shorter.
	LeaseDuration time.Duration
	// RenewDeadline is the time from sending the last confirmed renewal until the leader is fenced. The rest of the lease
	// is the margin for clocks that run at different rates and for work to stop. Default: 80% of the lease.
	RenewDeadline time.Duration
	RenewInterval time.Duration // from one renewal to the next. Default: a sixth of the lease
	// MinToken is a lower bound: tokens are greater. If the bucket may be newer than a protected resource, set it to the
	// greatest token that the resource has accepted. At most 1<<61.
	MinToken      uint64
	PendingPeriod time.Duration // the least time from winning the key to leading. Default: 0
	// GracePeriod is how long a candidate whose term has ended keeps the key, without leading, for work that goes on: the
	// body of the loop over [Candidate.Terms], and the functions of [Term.Go]. The candidate does not campaign before they
	// have returned, and reports [ErrNotReleased] when the time is up. A term without such work is handed over at once; a
	// [Lock] is work until [Lock.Unlock]. Default: one lease, in a stop no longer than StopTimeout allows.
	GracePeriod time.Duration
	// StallTimeout makes the candidate notice work that hangs: if the work of a term has not asked for that long whether
	// the term leads, the term ends with [ErrStalled], and the candidate hands over. The time counts from the first body or
	// call of Go on. Work asks by [Err], by Err and Done of [Term.Context] and [Exact], and by each write of package fence,
	// in any of its goroutines. A select asks once, when it calls Done: one that may wait for longer has a ticker, and a
	// long item of work calls Err at times. At least 1 s. Default: 0, work may be silent for ever.
	StallTimeout time.Duration
	// StopTimeout bounds a stop. The time for its work ends 2 s before, or a quarter of StopTimeout if that is less. It must
	// be longer than a GracePeriod that is set. Negative: no bound. Default: 8 s, or GracePeriod and 2 s if that is longer.
	StopTimeout time.Duration
	// Guards are the resources that only the leader may write. All candidates of an election should name the same. A
	// candidate that cannot raise them within one lease hands over. Default: none.
	Guards []Guard
	Queue  *Queue // Default: nil, it tries for a free key at once, and is in no roster
	// TurnTimeout is how long the candidate leaves a free key to a named successor, and in a [Queue] to each candidate
	// before it. It should be several round trips. Default: 250 ms, or a quarter of RenewInterval if that is shorter.
	TurnTimeout    time.Duration
	RefuseRequests bool // a leader refuses to hand over at the request of [StepDown], or of a [Queue] with Preempt
	// ForceReconnect lets the candidate move the connection of its bucket to another server (nats.Conn.ForceReconnect)
	// when it is up, but has shown no sign of a majority of the servers for a third of the lease. Requests of the
	// application that are in flight fail then. Default: it stays, and the candidate reports [ErrNoMajority].
	ForceReconnect bool
	Clock          Clock // source of time. Default: [SystemClock], or the clock of the store if it has one
	// Logger gets a record for every event, Faulted as a warning (docs/production.md has the messages and keys). A handler
	// that blocks delays nothing: 64 records wait, and further ones are dropped and counted ([Stats].LogDropped). A handler
	// that panics ends the process. Default: warnings only, to [slog.Default]. To be silent: [slog.DiscardHandler].
	Logger *slog.Logger

	sightings  *sightings // for Acquire and TryAcquire
	admission  *admission // the same
	foresight  *foresight // the same
	uncordoned bool       // for package shard: the cordon does not concern the candidate
}

// Queue is a candidate's part in the order in which candidates take a free key: it waits for one [Config].TurnTimeout
// for each candidate with a higher Priority, or of the same that has waited longer. Safety does not depend on the
// order. The candidate announces its part in the bucket's roster ([BucketConfig].Roster), by one small write per
// lease. Without a roster it reports [ErrNoRoster], and no candidate waits for a turn.
type Queue struct {
	Priority int
	// Preempt makes a leader of lower priority hand over to this candidate, one to two leases after this candidate has
	// begun to wait. The leader needs a Queue and no RefuseRequests.
	Preempt bool
	AtOnce  bool // it is in the roster, but tries for a free key at once. Priority and Preempt are not for it
}

// check returns an error for a part that contradicts itself.
func (q *Queue) check() error {
	if q != nil && q.AtOnce && (q.Priority != 0 || q.Preempt) {
		return fmt.Errorf("%w: Queue with AtOnce, and Priority %d or Preempt, which are for a candidate that waits for its turn: leave out one or the other", ErrInvalidConfig, q.Priority)
	}
	return nil
}

// defaultStopTimeout leaves a container time to end before `docker stop` kills it after 10 s.
const defaultStopTimeout = 8 * time.Second

// checkStop returns an error for a StopTimeout that cannot work.
func (c *Config) checkStop() error {
	switch {
	case c.StopTimeout > 0 && c.StopTimeout < machine.MinDuration:
		return fmt.Errorf("%w: StopTimeout %v is less than %v", ErrInvalidConfig, c.StopTimeout, machine.MinDuration)
	case c.StopTimeout > 0 && c.StopTimeout <= c.GracePeriod:
		return fmt.Errorf("%w: StopTimeout %v is not more than GracePeriod %v, which it bounds: raise it, or leave it out", ErrInvalidConfig, c.StopTimeout, c.GracePeriod)
	}
	return nil
}

// minStall is less than any pause of a healthy process on a busy host.
const minStall = time.Second

// checkStall returns an error for a StallTimeout that cannot work.
func (c *Config) checkStall() error {
	if c.StallTimeout == 0 || c.StallTimeout >= minStall {
		return nil
	}
	return fmt.Errorf("%w: StallTimeout %v is less than %v, the least that is no mere delay: raise it, or leave it out",
		ErrInvalidConfig, c.StallTimeout, minStall)
}

// stopTimeout returns the bound of a stop, or its default.
func (c *Config) stopTimeout() time.Duration {
	if c.StopTimeout != 0 {
		return c.StopTimeout
	}
	return max(defaultStopTimeout, c.GracePeriod+releaseTime)
}

// Limits of the names that callers choose, in bytes, beside those in package jsapi.
const (
	// maxElection is for the key of an election, with the suffix of its seat. See [jsapi.MaxSubject].
	maxElection = wire.MaxElection
)

// checkKey rejects a name that is not the key of an election or of one of its seats.
func checkKey(election string) error {
	if err := wire.CheckElection(election); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	return nil
}

// checkElection rejects a name under which a candidate with that many seats cannot
// campaign. The key of a seat is rejected, because the election would share that key with
// the seat.
func checkElection(name string, seats int) error {
	if err := checkKey(name); err != nil {
		return err
	}
	if of, n := wire.SeatOf(name); n > 1 {
		return fmt.Errorf("%w: election %q has the name of seat %d of election %q", ErrInvalidConfig, name, n, of)
	}
	if suffix := wire.SeatKey(name, seats)[len(name):]; len(name)+len(suffix) > maxElection {
		return fmt.Errorf("%w: election of %d bytes is more than %d, which leave room for %s of the last seat", ErrInvalidConfig, len(name), maxElection-len(suffix), suffix)
	}
	return nil
}

// checkID rejects an ID that a record or a request to the leader cannot carry unchanged,
// or that cannot be shown in one line.
func checkID(what, id string) error {
	if err := jsapi.CheckLength(what, id, record.MaxID); err != nil {
		return err
	}
	switch {
	case !utf8.ValidString(id):
		return fmt.Errorf("%w: %s %q is not valid UTF-8", ErrInvalidConfig, what, id)
	case strings.ContainsFunc(id, unicode.IsControl):
		return fmt.Errorf("%w: %s %q contains a control character", ErrInvalidConfig, what, id)
	}
	return nil
}

const maxSeats = 1000

// checkSeats rejects a number of seats that cannot be, and what several seats exclude.
func checkSeats(is backend.Marked, guards int) error {
	switch {
	case is.Seats < 0 || is.Seats > maxSeats:
		return fmt.Errorf("%w: %d seats are not from 1 to %d", ErrInvalidConfig, is.Seats, maxSeats)
	case is.Seats > 1 && guards > 0:
		return fmt.Errorf("%w: %d seats with Guards, which protect what one leader writes: leave out one of the two", ErrInvalidConfig, is.Seats)
	case is.Seats > 1 && is.KVElect:
		return fmt.Errorf("%w: %d seats beside nats-kv-leader-elect, whose processes know one leader: leave out one of the two", ErrInvalidConfig, is.Seats)
	}
	return nil
}

// checkGuards rejects guards that are missing or listed twice.
func checkGuards(guards []Guard) error {
	for i, g := range guards {
		if opened(g) == nil {
			return fmt.Errorf("%w: Guards[%d] is nil, or %w", ErrInvalidConfig, i, backend.ErrNotOpened)
		}
		if !reflect.TypeOf(g).Comparable() {
			return fmt.Errorf("%w: Guards[%d] is a %T, which cannot be compared", ErrInvalidConfig, i, g)
		}
		for j, other := range guards[:i] {
			if other == g {
				return fmt.Errorf("%w: Guards[%d] and Guards[%d] are the same, %s", ErrInvalidConfig, j, i, g)
			}
		}
	}
	return nil
}
