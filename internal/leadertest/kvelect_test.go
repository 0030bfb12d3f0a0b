package leadertest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/kvelect"
	"github.com/natsleader/natsleader/leader"
)

// foreignAt returns a bucket with a TTL of 30 s and a record of nats-kv-leader-elect that
// does not expire in time.
func foreignAt(clock *leadertest.Clock) *leadertest.Store {
	s := leadertest.NewStore(clock, leadertest.WithTTL(time.Hour))
	s.Put("jobs", []byte("old"))
	s.Configure(leadertest.WithTTL(30*second), leadertest.WithMaxLease(0))
	return s
}

// A candidate beside nats-kv-leader-elect waits twice for a foreign record: before it
// takes the key, and before it leads.
func TestKVElect_WaitsTwice(t *testing.T) {
	clock := leadertest.NewClock()
	c, w := campaignAs(t, clock, foreignAt(clock), leader.Config{ID: "a"}, kvelect.Beside)
	clock.Advance(30*second - 1)
	w.ExpectExactly(leadertest.Observed())
	h := c.Leader()
	check.Must(t, h.State == leader.HolderForeign && string(h.Value) == "old", "%+v", h)
	clock.Advance(1)
	w.ExpectExactly(leadertest.Observed(), leadertest.Pending())
	clock.Advance(30*second - 1)
	w.ExpectExactly()
	clock.Advance(1)
	w.ExpectExactly(leadertest.Elected())
}

// Without kvelect.Beside, a candidate leads at once after a foreign record that it waited for.
func TestForeignRecord_OneWait(t *testing.T) {
	clock := leadertest.NewClock()
	_, w := campaignAs(t, clock, foreignAt(clock), leader.Config{ID: "a"})
	clock.Advance(30*second - 1)
	w.ExpectExactly(leadertest.Faulted(leader.ErrForeignRecord), leadertest.Observed())
	clock.Advance(1)
	w.ExpectExactly(leadertest.Observed(), leadertest.Pending(), leadertest.Elected())
}

// A candidate beside nats-kv-leader-elect gives up the key by a marker.
func TestKVElect_ReleasesByMarker(t *testing.T) {
	for kvElect, beside := range map[bool][]mark{true: {kvelect.Beside}, false: nil} {
		clock := leadertest.NewClock()
		s := leadertest.NewStore(clock, leadertest.WithTTL(30*second))
		a, _ := campaignAs(t, clock, s, leader.Config{ID: "a"}, beside...)
		clock.Advance(40 * second)
		check.OK(t, leadertest.Resign(t.Context(), a))
		e := s.Entry("jobs")
		h := s.Holder("jobs")
		check.Must(t, e.Marker == kvElect && h.State == leader.HolderReleased, "beside %v: %+v", kvElect, e)
	}
}

// A candidate takes a key at once that was given up by a marker. This holds also if the
// candidate that gave the key up learns of that late or never, and if the next candidate
// does not have the setting.
func TestMarkerRelease_TakenAtOnce(t *testing.T) {
	for _, f := range []func(*leadertest.Link){
		func(*leadertest.Link) {},
		func(l *leadertest.Link) { l.LoseReplies(1) },
		func(l *leadertest.Link) { l.DelayFeed(second) },
	} {
		for _, next := range [][]mark{{kvelect.Beside}, nil} {
			clock := leadertest.NewClock()
			s := leadertest.NewStore(clock, leadertest.WithTTL(30*second))
			a, wa := campaignAs(t, clock, s, leader.Config{ID: "a"}, kvelect.Beside)
			clock.Advance(40 * second)
			_, wb := campaignAs(t, clock, s, leader.Config{ID: "b"}, next...)
			wb.ExpectExactly(leadertest.Observed("a"))
			f(s.Link("a"))
			_ = leadertest.Led(a).Resign(check.Ended()) // it does not wait for the reply, which may be lost
			wa.Expect(leadertest.Elected(), leadertest.Deposed(leader.ErrResigned))
			wb.Ignore(leadertest.Observed())
			wb.ExpectExactly(leadertest.Pending(), leadertest.Elected())
			check.Must(t, clock.Elapsed() == 40*second, "%v", clock.Elapsed())
			clock.Advance(10 * second)
			wb.ExpectExactly()
		}
	}
}

// A candidate waits after a marker that carries no release. The marker of an operator's
// delete, and that of a record that expired, are no release.
func TestMarker_WithoutRelease(t *testing.T) {
	clock := leadertest.NewClock()
	s := leadertest.NewStore(clock, leadertest.WithTTL(30*second))
	_, w := campaignAs(t, clock, s, leader.Config{ID: "a"}, kvelect.Beside)
	clock.Advance(40 * second)
	w.Expect(leadertest.Elected())
	s.Delete("jobs")
	w.Ignore(leadertest.Observed())
	w.ExpectExactly(leadertest.Deposed(leader.ErrDeleted))
	clock.Advance(30*second - 1) // from the marker on
	w.ExpectExactly(leadertest.Pending())
	clock.Advance(1)
	w.ExpectExactly(leadertest.Elected())
}

// A candidate beside nats-kv-leader-elect reports a bucket that cannot be shared with it.
func TestKVElect_UnsharableBucket(t *testing.T) {
	clock := leadertest.NewClock()
	s := leadertest.NewStore(clock)
	_, err := leader.Campaign(t.Context(), kvelect.Beside(s), "jobs", leader.Config{})
	check.Must(t, errors.Is(err, leader.ErrIncompatibleBucket), "%v", err)
	s.Drop() // so that its settings are not known
	_, w := campaignAs(t, clock, s, leader.Config{ID: "a"}, kvelect.Beside)
	w.ExpectExactly(leadertest.Faulted(leader.ErrNoBucket))
	s.Recreate()
	clock.Advance(5 * second)
	w.ExpectExactly(leadertest.Faulted(leader.ErrIncompatibleBucket))
	s.Configure(leadertest.WithTTL(20*second), leadertest.WithMaxLease(0))
	clock.Advance(time.Minute)
	w.Expect(leadertest.Pending(), leadertest.Elected())
}
