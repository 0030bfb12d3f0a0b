package leader

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/natskv"
	"github.com/natsleader/natsleader/internal/record"
)

// Stats is a snapshot of a candidate, for metrics and health checks. Totals begin with Campaign.
type Stats struct {
	Bucket        string // its name; empty for a store in memory
	State         State
	Seats, Seat   int           // seats of the election, 1 without package seats; seat of the term, 0 if none
	Token         uint64        // of the term that is led now; 0 if none
	Remaining     time.Duration // as [Term.Remaining]; 0 if the candidate does not lead
	SinceRenewal  time.Duration // since the newest acknowledged write of a key that it holds was sent; 0 if it holds none
	LeaseDuration time.Duration // the candidate's own; 0 until the bucket's settings are known
	Silent        time.Duration // since the last sign of a majority of the servers, which no read gives; 0 unless an answer or a renewal is missing since
	ConnError     error         // why the connection is down while Silent is not 0; begins with auth, tls, refused, timeout or other
	Expired       bool          // it is fenced by the end of its lease, and no write of the key was acknowledged since
	Queued        int           // requests that wait for their turn on the [Bucket]; the same for all of its candidates
	QueueAge      time.Duration // how long the first of them has waited
	Unreleased    time.Duration // how long work has gone on after its term; 0 if none does, or its end is not awaited
	Stalled       bool          // the term of that work has ended with [ErrStalled]
	Leaderless    time.Duration // total time during which the candidate knew no leader
	// WriteCounts is the histogram of the acknowledged writes of the record: WriteCounts[i] took no longer than
	// WriteBounds[i], and longer than the bound before; one more element counts the longest. WriteSum is their total.
	WriteCounts  []uint64
	WriteBounds  []time.Duration
	WriteSum     time.Duration
	Refused      uint64 // writes of the record that were rejected because their condition did not hold
	Unknown      uint64 // writes that failed otherwise, mostly because they were not answered in time
	FeedRebuilds uint64 // feeds that were opened after the first
	LogDropped   uint64 // log records that were dropped because [Config].Logger blocked
	// Pending and Elected count these events. Unelected counts the Pending that have ended without an Elected.
	Pending, Elected, Unelected uint64
	// Fenced and Deposed count by Cause, Faults by Err: the narrowest error here or of package schedule, nil for others.
	Fenced, Deposed, Faults map[error]uint64
	Lasting                 []error // keys of Faults without a sign that they are over; those that have no such sign, and outages, are left out
}

// Connected returns nil while the bucket serves the candidate. Otherwise: [ErrStopped] after its end, [ErrStalled] if
// Stalled, [ErrLeaseExpired] if Expired, [ErrUnreachable] if Silent > LeaseDuration/2, another if LeaseDuration is 0.
func (s Stats) Connected() error {
	var err error
	switch {
	case s.State == StateEnded || s.State == 0:
		return ErrStopped
	case s.LeaseDuration == 0:
		err = errNotAnswered
	case s.Stalled:
		return ErrStalled
	case s.Expired:
		err = fmt.Errorf("%w, and no write has been acknowledged since", ErrLeaseExpired)
	case s.Silent > s.LeaseDuration/2:
		err = fmt.Errorf("%w for more than half of the lease of %v", ErrUnreachable, s.LeaseDuration)
	}
	if err != nil && s.ConnError != nil {
		err = fmt.Errorf("%w: %w", err, s.ConnError)
	}
	return err
}

// errNotAnswered reports that a candidate has not learned yet what its lease is.
const errNotAnswered = backend.Error("the settings of the bucket are not known yet")

// writeTimes is a histogram with the bounds of [Stats].WriteBounds.
type writeTimes struct {
	counts [len(writeBounds) + 1]uint64
	sum    time.Duration
}

var writeBounds = [...]time.Duration{
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second,
}

func (w *writeTimes) add(d time.Duration) {
	i := 0
	for i < len(writeBounds) && d > writeBounds[i] {
		i++
	}
	w.counts[i]++
	w.sum += d
}

// tally holds the counters of a candidate. Instants are by the actor's clock, since it
// began. A candidate that waits and never leads needs little of it.
type tally struct {
	writes  *writeTimes
	refused uint64
	unknown uint64
	feeds   uint64
	lease   time.Duration

	pending, elected, unelected uint64
	causes                      causes

	holds   bool
	kept    bool // a write was acknowledged since it has held the key
	silent  bool
	expired bool // it is fenced because its lease was over, and no write has been acknowledged since
	working bool // the work of a term goes on after its end
	stalled bool // and it was the cause of that
	led     bool // a leader is known here

	renewed    time.Duration // kept: when the newest of those writes was sent
	signed     time.Duration // when the last sign of a majority came; silent: since when signs are missing
	ended      time.Duration // working: when the term ended
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

// works records whether work goes on after the end of its term.
func (t *tally) works(on bool, now func() time.Duration) {
	if on && !t.working {
		t.ended = now()
	}
	t.working = on
}

// settle counts the outcome of a request that was sent at asked. p is the phase of the
// record if the request was a write.
func (c *Candidate) settle(in *machine.Input, asked, quiet time.Duration, p record.Phase) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &c.tally
	refused := errors.Is(in.Err, backend.ErrRefused)
	if isUnanswered(in.Err) || refused { // a leader of the stream that is cut off refuses a write while one of the key is under way
		t.unanswered(asked, quiet)
	}
	switch {
	case in.Kind == machine.InFeed && in.Err == nil:
		t.feeds++
	case in.Kind != machine.InWritten:
	case refused:
		t.refused++
	case in.Err != nil:
		t.unknown++
	default:
		if t.writes == nil { // candidates wait by the thousand, and few ever write
			t.writes = new(writeTimes)
		}
		t.writes.add(c.since() - asked)
		if p != record.PhaseReleased {
			t.kept, t.renewed, t.expired = true, asked, false
		}
	}
}

// unanswered records that there was no sign of a majority at an instant. Signs may be missing for
// quiet, and where none is due, as while a key is free, they are not missed before.
func (c *Candidate) unanswered(at, quiet time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tally.unanswered(at, quiet)
}

func (t *tally) unanswered(at, quiet time.Duration) {
	if !t.silent {
		t.silent, t.signed = true, max(t.signed, at-quiet)
	}
}

// recordSign records a sign of a majority of the servers.
func (c *Candidate) recordSign() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tally.silent, c.tally.signed = false, c.since()
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
			t.pending++
		case Elected:
			t.elected++
			t.expired, t.stalled = false, false
		case Fenced:
			t.expired, t.stalled = errors.Is(e.Cause, ErrLeaseExpired), errors.Is(e.Cause, ErrStalled)
			t.causes.add(ofFence, e.Cause)
		case Deposed:
			deposed, t.expired = true, false
			t.causes.add(ofEnd, e.Cause)
		case Faulted:
			t.causes.add(ofFault, e.Err)
		case Observed:
		}
	}
	if before != after && after == StateCandidate && !deposed { // from Pending, which no event reports
		t.unelected++
	}
}

// counted are the causes and faults that [Stats] counts. Of those that an error matches, the
// first counts.
var counted = [...]error{
	ErrRegressed, ErrFenced, ErrGuardTaken, ErrGuardDeleted, ErrNotReleased, ErrCordoned, ErrNoFeed, ErrCongested, ErrClock, ErrNoBucket,
	ErrNoRoster, ErrIncompatibleBucket, ErrTokensExhausted, ErrForeignRecord, ErrValueTooLarge, ErrFull, ErrPermission,
	ErrConnectionClosed, ErrNoMajority, ErrUnreachable, ErrSeatsDiffer, ErrBucketDiffers, ErrResigned, ErrStopped,
	ErrStalled, ErrLeaseExpired, ErrPreempted, ErrDeleted,
}

func countedAs(err error) error {
	for _, kind := range counted {
		if errors.Is(err, kind) {
			return kind
		}
	}
	if kind := backend.ScheduleError(""); errors.As(err, &kind) {
		return kind
	}
	return nil
}

// Stats returns a snapshot. With several seats, the fields about the lease are those of the seat
// that the candidate is on, or tries to take. Totals are sums over all seats, Silent and
// Unreleased the longest.
func (c *Candidate) Stats() Stats {
	state, term := c.stateAndTerm()
	if c.seats != nil {
		return c.allStats(state, term)
	}
	return c.stats(state, term)
}

// stats returns the Stats of one seat, in the state and with the term that the candidate has.
func (c *Candidate) stats(state State, term *Term) Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, t := c.since(), &c.tally
	s := Stats{
		State: state, Seats: 1, LeaseDuration: t.lease, Expired: t.expired, Leaderless: t.leaderless,
		Refused: t.refused, Unknown: t.unknown, FeedRebuilds: max(t.feeds, 1) - 1,
		LogDropped: c.logs.Lost(), Pending: t.pending, Elected: t.elected, Unelected: t.unelected,
		Fenced: t.causes.of(ofFence), Deposed: t.causes.of(ofEnd), Faults: t.causes.of(ofFault),
	}
	if state != StateEnded {
		for _, f := range c.lastingFaults() {
			s.lasts(f.kind)
		}
	}
	if b, ok := c.store.(*natskv.Bucket); ok {
		s.Bucket = b.Name()
		if t.silent {
			s.ConnError = b.ConnError()
		}
	}
	if term != nil {
		s.take(term)
	}
	s.WriteBounds, s.WriteCounts = slices.Clone(writeBounds[:]), make([]uint64, len(writeBounds)+1)
	if t.writes != nil {
		copy(s.WriteCounts, t.writes.counts[:])
		s.WriteSum = t.writes.sum
	}
	if c.window != nil {
		s.Queued, s.QueueAge = c.window.Waiting(c.outside(c.now()))
	}
	if t.holds && t.kept {
		s.SinceRenewal = now - t.renewed
	}
	if t.silent {
		s.Silent = now - t.signed
	}
	if t.working {
		s.Unreleased, s.Stalled = now-t.ended, t.stalled
	}
	if !t.led {
		s.Leaderless += now - t.ledAt
	}
	return s
}

// lasts adds a kind of faults that last.
func (s *Stats) lasts(kind error) {
	if !slices.Contains(s.Lasting, kind) {
		s.Lasting = append(s.Lasting, kind)
	}
}

// take takes the state of a term at one instant.
func (s *Stats) take(term *Term) {
	if remaining := term.Remaining(); remaining > 0 {
		s.State, s.Seat, s.Token, s.Remaining = StateLeader, term.Seat(), term.Token(), remaining
		return
	}
	s.State, s.Expired = StateFenced, errors.Is(term.over(), ErrLeaseExpired)
}

// causes counts why terms were fenced and ended, and the faults, by countedAs. A candidate has few of them, and keeps them for good:
// three maps take ten times as much.
type causes []causeCount

type causeCount struct {
	of causeKind
	as error
	n  uint64
}

type causeKind uint8

const (
	ofFence causeKind = iota
	ofEnd
	ofFault
)

func (c *causes) add(of causeKind, err error) {
	as := countedAs(err)
	for i := range *c {
		if (*c)[i].of == of && (*c)[i].as == as { //nolint:errorlint // the same value
			(*c)[i].n++
			return
		}
	}
	*c = append(*c, causeCount{of, as, 1})
}

// of returns the counts of a kind, or nil.
func (c causes) of(kind causeKind) (counts map[error]uint64) {
	for _, one := range c {
		if one.of == kind {
			addAll(&counts, map[error]uint64{one.as: one.n})
		}
	}
	return counts
}

// addAll adds the counts of a map to those of another one, which may be nil.
func addAll(sums *map[error]uint64, counts map[error]uint64) {
	if *sums == nil && len(counts) > 0 {
		*sums = make(map[error]uint64)
	}
	for err, n := range counts {
		(*sums)[err] += n
	}
}

// allStats returns the Stats of a candidate with several seats.
func (c *Candidate) allStats(state State, term *Term) Stats {
	engaged := c.seatHeld()
	all := engaged.stats(state, term) // LogDropped is that of the queue, which they share
	all.Seats = len(c.seats)
	for _, seat := range c.seats {
		if seat == engaged {
			continue
		}
		s := seat.Stats()
		all.Silent, all.ConnError = max(all.Silent, s.Silent), cmp.Or(all.ConnError, s.ConnError)
		all.Unreleased = max(all.Unreleased, s.Unreleased)
		all.Leaderless += s.Leaderless
		for i, n := range s.WriteCounts {
			all.WriteCounts[i] += n
		}
		all.WriteSum += s.WriteSum
		all.Refused += s.Refused
		all.Unknown += s.Unknown
		all.FeedRebuilds += s.FeedRebuilds
		all.Pending += s.Pending
		all.Elected += s.Elected
		all.Unelected += s.Unelected
		addAll(&all.Fenced, s.Fenced)
		addAll(&all.Deposed, s.Deposed)
		addAll(&all.Faults, s.Faults)
		for _, kind := range s.Lasting {
			all.lasts(kind)
		}
	}
	return all
}
