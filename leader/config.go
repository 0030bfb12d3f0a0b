package leader

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// defaultLease outlives the loss of the server that leads the stream, out of
// three: writes resume 5 to 8 s after it.
const defaultLease = 15 * time.Second

// Config is what a candidate may be told. The zero value works.
//
// A lease of less than 12 s cannot promise to outlive the loss of one NATS
// server out of three, which stops all writes for 5 to 8 s.
type Config struct {
	// ID is what others see of the candidate: at most 256 bytes of UTF-8 without control
	// characters. Default: host, process ID and six random characters. Two candidates
	// with the same ID are safe.
	ID string
	// Value is published with the lease, an address for instance; at most
	// [MaxValueSize] bytes. [Candidate.Proclaim] changes it.
	Value []byte
	// LeaseDuration is how long others wait after the last renewal before they
	// take over. Default: the bucket's MaxLease; in a bucket without one 15 s,
	// or two thirds of its TTL if that is shorter. It must not be longer than
	// the bucket's MaxLease or TTL. In a bucket without MaxLease all candidates
	// of an election must use the same.
	LeaseDuration time.Duration
	// RenewDeadline is how long after sending its last confirmed renewal a
	// leader is fenced. What is left of the lease is the margin for clocks that
	// run at different rates and for work to stop. Default: 80% of the lease.
	RenewDeadline time.Duration
	// RenewInterval is the time from one renewal to the next. Default: a sixth
	// of the lease. With more than half of the lease, every waiting candidate
	// reads the key once for each renewal.
	RenewInterval time.Duration
	// MinToken is a bound: tokens are greater. Give it what a protected
	// resource has already accepted, when the bucket may be newer. At most 1<<61.
	MinToken uint64
	// PendingPeriod is the least time from winning the key to leading. Default: 0.
	PendingPeriod time.Duration
	// DrainTimeout is how long a leader that steps down keeps the lease while
	// it waits for [Term.Release]. Default: 0, not at all.
	DrainTimeout time.Duration
	// Guards are the resources that only the leader may write: before a term
	// begins, the candidate has raised each of them to the term's token, so that
	// no write of an earlier term is accepted any more. All candidates of an
	// election should name the same. A candidate does not try for the lease until
	// [Guard].Check has found all fit; if it cannot raise them within one lease
	// after it was won, it hands over and sits out another. Default: none.
	Guards []Guard
	// Roster makes the candidate announce itself in the bucket's roster (see
	// [BucketConfig].Roster) while it stands: one small write for each lease. While
	// it leads, it publishes with its lease who follows. SuccessionQueue and
	// SuccessionPriority imply it. Where the bucket keeps no roster, that is a Faulted
	// event with [ErrNoRoster], and nobody has to wait for a turn.
	Roster bool
	// Succession is when the candidate tries to take a free key. Default:
	// [SuccessionRace]. It is about order, not safety: a candidate that does not keep
	// to it is no danger.
	Succession Succession
	// Priority is for SuccessionPriority: candidates of a higher one go first.
	Priority int
	// Preempt makes a leader of lower priority hand over to this candidate, as by
	// [Candidate.Transfer]: in order, one to two leases after this one has begun to stand,
	// and not before that one has led for one. After a handover in vain the leaders wait for
	// 2, 4, 8 and so on, at most 256 leases before the next. It needs SuccessionPriority, and
	// a leader that has a roster and no RefuseRequests.
	Preempt bool
	// TurnTimeout is how long the candidate waits for each of those before it in the
	// order to take a free key, before it tries itself, and for the one that a leader
	// has named as its successor. It should be several round trips. Default: 250 ms, or
	// a quarter of RenewInterval if that is shorter.
	TurnTimeout time.Duration
	// Seats is how many leaders the election has at once, at most 1000; 0 and 1: one.
	// All candidates of an election should give the same number; one that finds that
	// another does not reports [ErrSeats]. It cannot be combined with Guards, which
	// protect what one leader writes. See Several leaders in the package documentation.
	Seats int
	// RefuseRequests makes a leader refuse to hand over when it is asked to by
	// [StepDown] or [Transfer], or by a candidate with Preempt. Each request is logged, refused or not, with who asked.
	RefuseRequests bool
	// KVElect lets the candidate share its key with processes that still run
	// nats-kv-leader-elect, or choria's election: there is one leader among them all
	// while a fleet moves over, one process at a time. All candidates of the election
	// must set it, until the last of those processes is gone; it can then be dropped,
	// one candidate at a time. It needs the bucket of those processes, which has a
	// TTL, a LeaseDuration of at most three quarters and a RenewDeadline of at most half of
	// that, which is its default if it is less than 80% of the lease: their successor does
	// not wait longer. Not with Seats. docs/kvelect.md in the repository has the rest.
	KVElect bool
	// Clock is where time comes from. Default: [SystemClock], or the clock of
	// the store if it has one.
	Clock Clock
	// Logger gets a record for every event: Faulted as a warning, the others as
	// information; details of what goes wrong for debugging; and nothing while all
	// is well. The message is the event's name, the keys are election, id, seat if there
	// are several, and as far as they apply token, until, cause, holder, pending, foreign, err and
	// remaining; token, by and answer where it was asked to hand over; to and priority
	// where it does so for Preempt; and request in the details. Default: none.
	//
	// The handler, its method Enabled included, is called by a goroutine that exists only
	// while there is something to write, in the order of the records, which may be after an
	// event has been received. A handler that blocks holds up nothing else, and may call any
	// method of the candidate. While it blocks, 64 records wait, and those for debugging only
	// while fewer than 32 do; further ones are dropped and counted in [Stats].LogDropped, and the
	// next record that is written says how many in its attribute dropped. A handler
	// that panics ends the process.
	Logger *slog.Logger
}

// checkSuccession refuses settings that contradict each other.
func (c *Config) checkSuccession() error {
	switch {
	case c.Succession > SuccessionPriority:
		return fmt.Errorf("%w: %v is no Succession", ErrInvalidConfig, c.Succession)
	case c.Succession != SuccessionPriority && c.Priority != 0:
		return fmt.Errorf("%w: Priority %d is for SuccessionPriority, and Succession is %v", ErrInvalidConfig, c.Priority, c.Succession)
	case c.Succession != SuccessionPriority && c.Preempt:
		return fmt.Errorf("%w: Preempt is for SuccessionPriority, and Succession is %v", ErrInvalidConfig, c.Succession)
	}
	return nil
}

// durations are the times of a candidate, by the names of [Config].
type durations struct {
	lease, renewDeadline, renewInterval time.Duration
	pendingPeriod, drainTimeout         time.Duration
	turn                                time.Duration
}

// resolve fills in what was left to the bucket, and checks the relations.
func (d durations) resolve(s backend.Settings, kvElect bool) (durations, error) {
	if d.lease == 0 {
		d.lease = s.MaxLease
	}
	if d.lease == 0 {
		d.lease = defaultLease
		if s.TTL > 0 {
			d.lease = min(d.lease, s.TTL*2/3)
		}
	}
	if d.renewDeadline == 0 {
		d.renewDeadline = d.lease / 5 * 4
		if kvElect && s.TTL > 0 {
			d.renewDeadline = min(d.renewDeadline, s.TTL/2)
		}
	}
	if d.renewInterval == 0 {
		d.renewInterval = min(d.lease/6, d.renewDeadline/2)
	}
	if d.turn == 0 {
		d.turn = max(minDuration, min(defaultTurn, d.renewInterval/4))
	}
	return d, d.check()
}

// check returns an error that names the first relation which does not hold.
// Durations of 0 are left to be resolved.
func (d durations) check() error {
	for _, x := range []struct {
		name string
		d    time.Duration
	}{
		{"LeaseDuration", d.lease},
		{"RenewDeadline", d.renewDeadline},
		{"RenewInterval", d.renewInterval},
		{"PendingPeriod", d.pendingPeriod},
		{"DrainTimeout", d.drainTimeout},
		{"TurnTimeout", d.turn},
	} {
		switch {
		case x.d < 0:
			return fmt.Errorf("%w: %s %v is negative", ErrInvalidConfig, x.name, x.d)
		case 0 < x.d && x.d < minDuration:
			return fmt.Errorf("%w: %s %v is less than %v", ErrInvalidConfig, x.name, x.d, minDuration)
		case x.d > maxRecordLease:
			return fmt.Errorf("%w: %s %v is more than %v", ErrInvalidConfig, x.name, x.d, maxRecordLease)
		}
	}
	for _, x := range []struct {
		name, than string
		less, more time.Duration
	}{
		{"RenewDeadline", "LeaseDuration", d.renewDeadline, d.lease},
		{"RenewInterval", "RenewDeadline", d.renewInterval, d.renewDeadline},
		{"RenewInterval", "LeaseDuration", d.renewInterval, d.lease},
		{"TurnTimeout", "LeaseDuration", d.turn, d.lease},
	} {
		if x.less > 0 && x.more > 0 && x.less >= x.more {
			return fmt.Errorf("%w: %s %v is not less than %s %v", ErrInvalidConfig, x.name, x.less, x.than, x.more)
		}
	}
	return nil
}

// defaultTurn is several round trips, where servers are far apart.
const defaultTurn = 250 * time.Millisecond

// minDuration keeps every time that is derived from another positive.
const minDuration = time.Millisecond

// fit reports whether the bucket allows the lease, beside processes of
// nats-kv-leader-elect or without.
func (d durations) fit(s backend.Settings, kvElect bool) error {
	switch {
	case s.MaxLease > 0 && d.lease > s.MaxLease:
		return fmt.Errorf("%w: LeaseDuration %v is more than the bucket's MaxLease %v", ErrIncompatibleBucket, d.lease, s.MaxLease)
	case s.TTL > 0 && d.lease > s.TTL:
		return fmt.Errorf("%w: LeaseDuration %v is more than the bucket's TTL %v", ErrIncompatibleBucket, d.lease, s.TTL)
	case kvElect && s.TTL == 0:
		return fmt.Errorf("%w: KVElect needs a bucket with a TTL, and this has none", ErrIncompatibleBucket)
	case kvElect && d.renewDeadline > s.TTL/2:
		return fmt.Errorf("%w: with KVElect RenewDeadline %v is more than half of the bucket's TTL %v", ErrIncompatibleBucket, d.renewDeadline, s.TTL)
	case kvElect && d.lease > s.TTL/4*3:
		return fmt.Errorf("%w: with KVElect LeaseDuration %v is more than three quarters of the bucket's TTL %v", ErrIncompatibleBucket, d.lease, s.TTL)
	}
	return nil
}
