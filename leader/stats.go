package leader

import (
	"errors"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// Stats is a snapshot of a candidate, for metrics and health checks. Totals are since
// [Campaign].
type Stats struct {
	State State
	// Token of the term that is led now; 0 if none.
	Token uint64
	// Remaining is how long the lease is valid, as [Term.Remaining] returns it; 0 if the
	// candidate does not lead.
	Remaining time.Duration
	// SinceRenewal is the time since the newest acknowledged write by which the candidate
	// keeps the key was sent. It is 0 unless the candidate holds the key, and while only a
	// read has shown that it does.
	SinceRenewal time.Duration
	// LeaseDuration is the candidate's own; 0 until the bucket's settings are
	// known.
	LeaseDuration time.Duration
	// Silent is the time since the first request of the current row of unanswered requests
	// was sent. It is 0 if the last request was answered, even by an error, or if a feed has
	// delivered something since.
	Silent time.Duration
	// Leaderless is the total time during which no leader was known to the candidate.
	Leaderless time.Duration
	// Writes counts the acknowledged writes of the record, including those that take and
	// release the key, by the time until the acknowledgement.
	Writes Latencies
	// Refused counts the writes of the record that were rejected because their condition did
	// not hold.
	Refused uint64
	// Unknown counts the writes that failed otherwise, mostly because they were not
	// answered in time or at all.
	Unknown uint64
	// FeedRebuilds counts the feeds that were opened, except for the first.
	FeedRebuilds uint64
	// LogDropped counts the log records that were dropped because [Config].Logger blocked.
	LogDropped uint64
	// Transitions counts the changes of the state.
	Transitions map[Transition]uint64
	// Faults counts the Faulted events by the error of the package that Err matches; by nil
	// if it matches none.
	Faults map[error]uint64
}

// Transition is a change of a candidate's state.
type Transition struct {
	To State
	// Cause is the Cause of [Fenced] for StateFenced, and that of [Deposed] for
	// StateCandidate, even if Pending follows at once. It is nil otherwise.
	Cause error
}

// Latencies counts durations.
type Latencies struct {
	// Counts holds the number of durations that were not longer than each of [LatencyBounds]
	// and longer than the one before. The last is the number that were longer than all.
	Counts [len(latencyBounds) + 1]uint64
	Sum    time.Duration
}

var latencyBounds = [...]time.Duration{
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second,
}

// LatencyBounds returns the bounds of [Latencies], in ascending order.
func LatencyBounds() []time.Duration { return append([]time.Duration(nil), latencyBounds[:]...) }

func (l *Latencies) add(d time.Duration) {
	i := 0
	for i < len(latencyBounds) && d > latencyBounds[i] {
		i++
	}
	l.Counts[i]++
	l.Sum += d
}

// tally holds the counters of a candidate. Instants are by the actor's clock, since it
// began. A candidate that waits and never leads needs little of it.
type tally struct {
	writes      *Latencies
	transitions map[Transition]uint64
	faults      map[error]uint64
	refused     uint64
	unknown     uint64
	feeds       uint64
	lease       time.Duration

	holds   bool
	kept    bool          // by an acknowledged write, since it has held the key
	renewed time.Duration // when the newest of those was sent

	silent bool
	since  time.Duration // silent: when the first request that failed was sent

	led        bool          // a leader is known here
	leaderless time.Duration // up to when that last changed
	ledAt      time.Duration // when that last changed
}

// seesLeader records whether a leader is known from now on.
func (t *tally) seesLeader(led bool, now func() time.Duration) {
	if led == t.led {
		return
	}
	at := now()
	if led {
		t.leaderless += at - t.ledAt
	}
	t.led, t.ledAt = led, at
}

// settle counts the outcome of a request that was sent at asked. p is the phase of the
// record if the request was a write.
func (c *Candidate) settle(in input, asked time.Duration, p phase) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &c.tally
	refused := errors.Is(in.err, backend.ErrRefused)
	switch answered := !errors.Is(in.err, ErrUnreachable) && !errors.Is(in.err, ErrConnectionClosed); {
	case answered:
		t.silent = false
	case !t.silent:
		t.silent, t.since = true, asked
	}
	switch {
	case in.kind == inFeed && in.err == nil:
		t.feeds++
	case in.kind != inWritten:
	case refused:
		t.refused++
	case in.err != nil:
		t.unknown++
	default:
		if t.writes == nil { // candidates wait by the thousand, and few ever write
			t.writes = new(Latencies)
		}
		t.writes.add(c.since() - asked)
		if p != phaseReleased {
			t.kept, t.renewed = true, asked
		}
	}
}

// hears records that the feed has delivered something. Only the candidate's goroutine
// writes the tally, so it need not lock to read.
func (c *Candidate) hears() {
	if !c.tally.silent {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tally.silent = false
}

// transits counts the changes of one step.
func (c *Candidate) transits(before, after State, events []Event) {
	if before == after && len(events) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t, deposed := &c.tally, false
	for _, e := range events {
		switch e := e.(type) {
		case Pending:
			count(&t.transitions, Transition{To: StatePending})
		case Elected:
			count(&t.transitions, Transition{To: StateLeader})
		case Fenced:
			count(&t.transitions, Transition{To: StateFenced, Cause: e.Cause})
		case Deposed:
			deposed = true
			count(&t.transitions, Transition{To: StateCandidate, Cause: e.Cause})
		case Faulted:
			count(&t.faults, kindOf(e.Err))
		case Observed:
		}
	}
	if before != after && after == StateCandidate && !deposed { // from Pending, which no event reports
		count(&t.transitions, Transition{To: StateCandidate})
	}
}

// kinds are the errors of a Faulted event, the most specific first.
var kinds = [...]error{
	ErrRegressed, ErrFenced, ErrGuardTaken, ErrGuardDeleted, ErrNoFeed, ErrNoBucket, ErrNoRoster, ErrIncompatibleBucket,
	ErrForeignRecord, ErrValueTooLarge, ErrPermission, ErrConnectionClosed, ErrUnreachable, ErrSeats, ErrTokensExhausted,
}

func kindOf(err error) error {
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return nil
}

// Stats returns a snapshot. It never blocks. With several seats, the fields about the
// lease are those of the seat that the candidate is on, or tries to take. Totals are
// those of all seats together, Leaderless included, and Silent is the longest.
func (c *Candidate) Stats() Stats {
	if c.seats != nil {
		return c.allStats()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now, t := c.since(), &c.tally
	s := Stats{
		State: c.State(), LeaseDuration: t.lease, Leaderless: t.leaderless,
		Refused: t.refused, Unknown: t.unknown, FeedRebuilds: max(t.feeds, 1) - 1,
		LogDropped: c.logs.lost(), Transitions: copied(t.transitions), Faults: copied(t.faults),
	}
	if term, ok := c.Term(); ok {
		s.Token, s.Remaining = term.Token(), term.Remaining()
	}
	if t.writes != nil {
		s.Writes = *t.writes
	}
	if t.holds && t.kept {
		s.SinceRenewal = now - t.renewed
	}
	if t.silent {
		s.Silent = now - t.since
	}
	if !t.led {
		s.Leaderless += now - t.ledAt
	}
	return s
}

// copied returns a copy that is not nil.
func copied[K comparable](counts map[K]uint64) map[K]uint64 {
	m := make(map[K]uint64, len(counts))
	for k, n := range counts {
		m[k] = n
	}
	return m
}

func count[K comparable](counts *map[K]uint64, k K) {
	if *counts == nil {
		*counts = make(map[K]uint64)
	}
	(*counts)[k]++
}
