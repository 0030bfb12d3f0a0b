package machine

import (
	"fmt"
	"math"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

// bucketView is the candidate's knowledge of its bucket.
//
// bound is not less than any MaxLease or TTL that was ever known, up to the longest lease
// of a record: a holder keeps to the lease that it promised while the bucket had other
// settings. times changes only while the candidate does not hold the key, or to those that
// it promised with a write of its own.
type bucketView struct {
	known    bool // the settings are known since the connection was last made
	settings backend.Settings
	bound    time.Duration // the greatest MaxLease or TTL that was ever known
	times    Durations     // resolved from the settings; zero before these are known
}

// doubt makes the candidate ask for the settings again.
func (b *bucketView) doubt() { b.known = false }

// learn takes the settings of the bucket.
func (b *bucketView) learn(s backend.Settings) {
	b.settings, b.known = s, true
	b.bound = min(max(b.bound, s.MaxLease, s.TTL), record.MaxLease)
}

// promise sets the durations that the candidate keeps to.
func (b *bucketView) promise(times Durations) { b.times = times }

// timing returns the durations of the candidate, also before it knows the bucket.
func (b *bucketView) timing() Durations { return b.times.OrDefault() }

// feedHealth is the state of the candidate's feed.
//
// retryAt counts only while the feed is not up. deaf counts the reads in a row that found
// what the feed should have delivered.
type feedHealth struct {
	up      bool
	fails   int32
	deaf    int32     // how often in a row the feed was found deaf
	retryAt time.Time // when to try to open a feed, while there is none
}

// mute is how often in a row a feed is found deaf before the candidate stops relying on
// it.
const mute = 3

// opened records that a feed is open.
func (f *feedHealth) opened() { f.up, f.fails = true, 0 }

// lost makes the candidate open a feed.
func (f *feedHealth) lost(now time.Time) { f.up, f.retryAt = false, now }

// failed counts a try to open a feed, and sets when the next one is due.
func (f *feedHealth) failed(retryAt time.Time) {
	f.fails++
	f.retryAt = retryAt
}

// delivered records that the feed has delivered a message.
func (f *feedHealth) delivered() { f.deaf = 0 }

// missed handles a feed that should have delivered a revision that a read found, and
// reports whether that is a fault to report. The feed is opened anew. If that does not
// help, the candidate polls, and opens the feed again now and then.
func (f *feedHealth) missed(now time.Time) (fault bool) {
	f.deaf++
	if f.deaf <= mute || f.deaf%16 == 0 {
		f.lost(now)
	}
	return f.deaf == mute
}

// trusted reports whether the candidate relies on the feed, so that it need not poll.
func (f *feedHealth) trusted() bool { return f.up && f.deaf < mute }

// settle takes the settings of the bucket. They do not end a row of failures, because
// they may have been requested as a consequence of it. Otherwise a read that takes longer
// than a candidate waits at first would never get the longer wait.
func (m *Machine) settle(now time.Time, req Request, in *Input, fx *Effects) {
	m.clock.set(in.Settings.Now, m.flight.sentAt, now)
	m.bucket.learn(in.Settings)
	err := m.fit(m.value)
	if !m.holds() { // a holder keeps to what it promised to others
		var times Durations
		if times, err = m.Want.Resolve(m.bucket.settings, m.KVElect); err == nil {
			m.bucket.promise(times)
			err = m.fit(m.value)
		}
	}
	if err != nil && !m.Observe {
		if !m.holds() { // a holder keeps its durations; a candidate asks again
			m.bucket.doubt()
		}
		m.fault(err, fx)
		m.pace(now, in.Jitter)
	}
	if m.bucket.settings.LastRevision < max(req.Revision, m.key.removedUpTo) {
		m.regress(now, fx)
	}
}

// fit returns the error that keeps the candidate from using the bucket with a value.
func (m *Machine) fit(value string) error {
	if len(value) > wire.MaxValue {
		return fmt.Errorf("%w: a value of %d bytes is more than %d", backend.ErrValueTooLarge, len(value), wire.MaxValue)
	}
	if m.Tries && !m.bucket.settings.PurgeProtected {
		return backend.ErrNotTryable
	}
	longest := record.Record{
		Phase: record.PhaseReleased, ID: m.ID, Session: m.Session, Value: value,
		Counter: math.MaxUint64, Lease: record.MaxLease - 1, Token: record.MaxToken, Least: record.MaxToken, Since: math.MaxInt64, Seats: m.Seats,
	}
	need := len(longest.Encode(math.MaxInt64))
	if m.KVElect {
		need += wire.MarkRoom
	}
	if m.bucket.settings.LastRevision >= record.MaxToken {
		return fmt.Errorf("%w: its last revision %d leaves no greater token", backend.ErrIncompatibleBucket, m.bucket.settings.LastRevision)
	}
	if s := m.bucket.settings; s.MaxValue > 0 && need > s.MaxValue {
		if s.Limit != "" {
			return fmt.Errorf("%w: a record of up to %d bytes with its header is more than %s", backend.ErrValueTooLarge, need+wire.Headroom, s.Limit)
		}
		return fmt.Errorf("%w: a record of up to %d bytes is more than the bucket's limit of %d", backend.ErrValueTooLarge, need, s.MaxValue)
	}
	return m.bucket.times.Fit(m.bucket.settings, m.KVElect)
}
