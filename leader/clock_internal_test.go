package leader

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

// "The system clock counts the time that the host was suspended": what was
// asleep before counts, and never less than before.
func TestSystemClock_CountsTimeAsleep(t *testing.T) {
	c := SystemClock().(*systemClock)
	before := c.Now()
	c.slept.Store(int64(time.Hour))
	gained := c.Now().Sub(before)
	check.That(t, gained >= time.Hour-divergence && gained <= time.Hour+time.Minute,
		"after an hour asleep the clock has gone on by %v", gained)
}

// On waking up, the wall clock has moved against the monotonic one: that is when
// the time asleep is read again.
func TestSystemClock_RereadsTimeAsleep(t *testing.T) {
	c := SystemClock().(*systemClock)
	c.slept0 = sleptNow() - time.Hour // as if the host had slept for an hour since; two readings differ a little
	before := c.Now()
	check.Must(t, c.slept.Load() == 0, "the time asleep was read without a reason")
	c.drift.Store(int64(-time.Hour)) // as if the wall clock had been an hour behind
	gained := c.Now().Sub(before)
	check.That(t, gained >= time.Hour-divergence && gained <= time.Hour+time.Minute, "the clock has gone on by %v", gained)
	c.drift.Store(int64(time.Hour))
	c.slept0 = sleptNow() // a later reading that is less
	again := c.Now().Sub(before)
	check.That(t, again >= gained, "the clock went back by %v", gained-again)
}

// The time that the host was suspended is never negative.
func TestTimeAsleep_IsNeverNegative(t *testing.T) {
	first, second := sleptNow(), sleptNow()
	check.That(t, first >= 0 && second >= first-divergence, "%v, then %v", first, second)
}

func TestTimer_UnarmedDoesNotFire(t *testing.T) {
	timer := backend.Unarmed(SystemClock())
	check.That(t, !check.Now(timer.C()), "it fired")
	timer.Reset(0)
	<-timer.C()
}

// stillClock stands where it is put.
type stillClock struct{ now time.Time }

func (c *stillClock) Now() time.Time               { return c.now }
func (c *stillClock) NewTimer(time.Duration) Timer { panic("no timer") }

func newTerm(t *testing.T, clock Clock) *Term {
	t.Helper()
	term := &Term{token: 3, timeline: newTimeline(clock), until: new(atomic.Int64)}
	ctx, cancel := context.WithCancelCause(t.Context())
	term.ctx, term.cancel = leadership{ctx, term}, cancel
	term.until.Store(int64(10 * time.Second))
	return term
}

// "A process that was paused finds its lease over by the clock before it acts".
func TestTermErr_AsksTheClock(t *testing.T) {
	clock := &stillClock{now: time.Unix(100, 0)}
	term := newTerm(t, clock)
	clock.now = clock.now.Add(10*time.Second - 1)
	if err := Err(term.Context()); err != nil || term.Remaining() != 1 {
		t.Errorf("just before the deadline: %v, %v", err, term.Remaining())
	}
	clock.now = clock.now.Add(1)
	if err := Err(term.Context()); !errors.Is(err, ErrLeaseExpired) || term.Remaining() != 0 || term.ctx.ended() == nil {
		t.Errorf("at the deadline: %v, %v", err, term.Remaining())
	}
	term.cancel(ErrResigned)
	check.Is(t, Err(term.Context()), ErrLeaseExpired)
}

// Err and Term.Token allocate nothing.
func TestTerm_AllocatesNothing(t *testing.T) {
	term := newTerm(t, SystemClock())
	if n := testing.AllocsPerRun(1000, func() {
		check.Must(t, Err(term.Context()) == nil && term.Token() == 3, "it is over")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
