package leader

import (
	"reflect"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

// The Stats of a candidate with several seats add up those of the seats, except for the longest silence and the
// longest work.
func TestStats_OfAllSeats(t *testing.T) {
	front := &Candidate{done: make(chan struct{}), permit: newBench(3)}
	for n := range 3 {
		k := uint64(1) << (8 * n)
		front.seats = append(front.seats, &Candidate{done: front.done, permit: front.permit, timeline: newTimeline(&stillClock{testEpoch}), tally: tally{
			writes: &writeTimes{counts: [len(writeBounds) + 1]uint64{k, 2 * k}, sum: time.Duration(3 * k)}, refused: 4 * k, unknown: 5 * k, feeds: 6*k + 1,
			pending: 7 * k, elected: 8 * k, unelected: 9 * k, causes: causes{{ofFence, ErrStopped, 10 * k}, {ofEnd, ErrStopped, 11 * k}, {ofFault, ErrStopped, 12 * k}},
			led: true, leaderless: time.Duration(13 * k), silent: true, signed: -time.Duration(14 * k), working: true, ended: -time.Duration(15 * k),
		}})
	}
	const all, longest = 1 + 1<<8 + 1<<16, 1 << 16
	named := func(k uint64) map[error]uint64 { return map[error]uint64{ErrStopped: k * all} }
	want := Stats{
		Seats: 3, Refused: 4 * all, Unknown: 5 * all, FeedRebuilds: 6 * all, Pending: 7 * all, Elected: 8 * all, Unelected: 9 * all,
		Fenced: named(10), Deposed: named(11), Faults: named(12), Leaderless: 13 * all, Silent: 14 * longest, Unreleased: 15 * longest,
	}
	want.WriteBounds, want.WriteCounts, want.WriteSum = writeBounds[:], make([]uint64, len(writeBounds)+1), 3*all
	want.WriteCounts[0], want.WriteCounts[1] = all, 2*all
	got := front.Stats()
	check.That(t, reflect.DeepEqual(got, want), "Stats are\n%+v, not\n%+v", got, want)
}

// What is wrong with the connection is said where it is the reason.
func TestStats_ConnectedNamesConnError(t *testing.T) {
	why := backend.ConnError{Kind: "auth", Text: "revoked"}
	silent := Stats{State: StateCandidate, LeaseDuration: 15 * time.Second, Silent: 8 * time.Second, ConnError: why}
	check.Says(t, silent.Connected(), ErrUnreachable, "the lease of 15s: auth: revoked")
	check.Says(t, Stats{State: StateCandidate, ConnError: why}.Connected(), errNotAnswered, "not known yet: auth: revoked")
	check.OK(t, Stats{State: StateCandidate, LeaseDuration: 15 * time.Second, Silent: time.Second, ConnError: why}.Connected())
}

// An error counts as itself, also where the error that it wraps is counted, too.
func TestCounted_TheMostSpecificCounts(t *testing.T) {
	for _, kind := range counted {
		check.Equal(t, countedAs(kind), kind, "it counts as %v, not %v")
	}
}
