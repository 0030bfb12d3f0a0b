package leader_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// The last renewal before 3.5s is that of 3s. So a leader that is cut off then
// is fenced at 3s + deadline, and replaced at 3s + lease.

// pair returns a leader and a waiting candidate, at 3.5s.
func (w *world) pair() (a, b *candidate) {
	w.Helper()
	a = w.stand("a")
	w.at(500 * time.Millisecond)
	b = w.stand("b")
	w.at(3500 * time.Millisecond)
	a.saw(w.T, "0s pending", "0s elected")
	b.saw(w.T, "500ms observed a")
	return a, b
}

// lone returns a leader, at 3.5s.
func (w *world) lone() *candidate {
	w.Helper()
	a := w.stand("a")
	w.at(3500 * time.Millisecond)
	a.news()
	return a
}

// A leader that crashes is replaced one lease after its last renewal.
func TestCrashedLeader_IsReplaced(t *testing.T) { story(t) }

// A leader that crashes in an unprotected bucket is replaced one lease after its last
// renewal.
func TestCrashedLeader_Unprotected(t *testing.T) { story(t) }

// nats.go ends a flush that waits for its reply with nats.ErrConnectionClosed when the
// connection is lost, although it connects again. A candidate that opens its feed at that
// moment goes on.
func TestOutage_WhileFeedOpens(t *testing.T) { story(t) }

// The context of a partitioned leader ends before another candidate can lead. Fault 3 of
// docs/faults.md.
func TestPartition_EndsContext(t *testing.T) { story(t) }

// transitions are the news without Observed and Faulted.
func (c *candidate) transitions() []string {
	return c.without(" observed ", " faulted ")
}

// turned is saw for the transitions.
func (c *candidate) turned(t *testing.T, want ...string) {
	t.Helper()
	got := c.transitions()
	check.That(t, slices.Equal(got, want), "%s saw\n  %q\nwant\n  %q", c.ID(), got, want)
}

// A short outage costs no leadership.
func TestOutage_ShortKeepsLeader(t *testing.T) { story(t) }

// An outage is reported once.
func TestOutage_IsReportedOnce(t *testing.T) { story(t) }

// The partition of a waiting candidate disturbs no other candidate.
func TestPartition_OfWaiter(t *testing.T) { story(t) }

// A waiting candidate that receives nothing takes nothing, although its requests arrive.
func TestWaiter_DeafTakesNothing(t *testing.T) { story(t) }

// A partition of all candidates ends with one leader.
func TestPartition_OfAll(t *testing.T) { story(t) }

// A fenced leader that no candidate replaced is elected again.
func TestFencedLeader_Returns(t *testing.T) { story(t) }

// The accessors of a candidate return at once during an outage. Fault 5 of
// docs/faults.md.
func TestAccessors_ReturnDuringOutage(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b := w.pair()
		for _, c := range []*candidate{a, b} {
			c.blackhole(up, down)
		}
		w.at(4100 * time.Millisecond) // a renewal is in flight
		for ; w.now() < 20*time.Second; time.Sleep(333 * time.Millisecond) {
			at := w.now()
			for _, c := range []*candidate{a, b} {
				_, _ = c.Term()
				_ = c.Leader()
				_, _, _, _, _ = c.State(), c.IsLeader(), c.ID(), c.Err(), c.Done()
			}
			term := a.lastTerm(t)
			_, _, _ = leader.Err(term.Context()), term.Remaining(), term.Token()
			w.isAt(at, "answered")
		}
	})
}

// The application may close the connection of a leader, which is deposed at once.
func TestClosedConnection_DeposesLeader(t *testing.T) { story(t) }

// The application may close the connection of a waiting candidate, which then ends.
func TestClosedConnection_EndsCandidate(t *testing.T) { story(t) }

// A closed connection is found when a campaign begins.
func TestClosedConnection_EndsCampaign(t *testing.T) { story(t) }

// jumpy is a clock whose timers do not know that it has jumped ahead, as after a pause
// of the process.
type jumpy struct {
	leader.Clock
	ahead atomic.Int64
}

func (c *jumpy) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.ahead.Load())) }

// A process that was paused finds at once that its lease is over. Fault 6 of
// docs/faults.md.
func TestPausedProcess_IsFenced(t *testing.T) { story(t) }

// A process that was paused while another was elected is deposed.
func TestPausedProcess_IsDeposed(t *testing.T) { story(t) }
