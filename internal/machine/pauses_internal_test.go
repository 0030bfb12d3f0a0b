package machine

import (
	"math"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/record"
)

// pausesTimes are the durations of the tests below.
var pausesTimes = Durations{Lease: 15 * time.Second, RenewInterval: 3 * time.Second, Turn: time.Second}

// Candidates that came together repeat their first announcements at different times of the second lease.
func TestAnnouncer_SpreadsRepetitions(t *testing.T) {
	for spread, want := range map[uint32]time.Duration{
		0:              15 * time.Second,
		1 << 31:        22500 * time.Millisecond,
		math.MaxUint32: 30 * time.Second,
	} {
		h := AnnouncerMachine{Announces: true, Spread: spread}
		in := AnnouncerInput{Eligible: true, Times: pausesTimes}
		check.Must(t, h.Step(epoch, in).Announce, "nothing is announced")
		in.Answered, in.Revision = true, 7
		got := h.Step(epoch, in).Wake.Sub(epoch)
		check.That(t, want-got <= time.Microsecond && got <= want, "spread %d: repeated after %v, want %v", spread, got, want)
	}
}

// After a failure the announcement is made again one renew interval later, and not at once.
func TestAnnouncer_PausesAfterFailure(t *testing.T) {
	h := AnnouncerMachine{Announces: true}
	in := AnnouncerInput{Eligible: true, Times: pausesTimes}
	h.Step(epoch, in)
	in.Answered, in.Failed = true, true
	fx := h.Step(epoch, in)
	check.That(t, !fx.Announce && fx.Wake.Equal(epoch.Add(in.Times.RenewInterval)), "%+v", fx)
}

// A candidate that ends waits for its withdrawal for a moment only.
func TestAnnouncer_LeavesSoon(t *testing.T) {
	h := AnnouncerMachine{Announces: true}
	in := AnnouncerInput{Eligible: true, Times: pausesTimes}
	h.Step(epoch, in)
	in.Answered, in.Revision, in.Eligible, in.Leaves = true, 7, false, true
	fx := h.Step(epoch, in)
	check.That(t, fx.Withdraw && fx.Wake.Equal(epoch.Add(lastWord)), "%+v", fx)
}

// A view that could not be opened is opened again a lease later, and one that was lost a renew interval
// later.
func TestWatcher_PausesAfterFailure(t *testing.T) {
	for name, k := range map[string]struct {
		in   []WatcherInput
		want time.Duration
	}{
		"not opened": {[]WatcherInput{{Kind: WatcherOpened, Failed: true}}, pausesTimes.Lease},
		"lost":       {[]WatcherInput{{Kind: WatcherOpened}, {Kind: WatcherBroken}}, pausesTimes.RenewInterval},
	} {
		var l WatcherMachine
		now := epoch.Add(rosterPause)
		tick := WatcherInput{Holds: true, Times: pausesTimes}
		l.Step(epoch, tick)
		check.Must(t, l.Step(now, tick).Open, "%s: no view is opened", name)
		for _, in := range k.in {
			in.Holds, in.Times = true, pausesTimes
			l.Step(now, in)
		}
		fx := l.Step(now, tick)
		check.That(t, !fx.Open && fx.Wake.Equal(now.Add(k.want)), "%s: %+v", name, fx)
	}
}

// A guard is raised again at once while other writers interfere, and after many refusals in a row only
// with pauses, which differ from guard to guard.
func TestGuardRaise_RushEnds(t *testing.T) {
	r := GuardMachine{GuardParams: GuardParams{Session: "S", Election: "e"}}
	r.Step(epoch, time.Second, GuardInput{Kind: GuardInDesired, Desired: DesiredGuards{Token: 5}})
	r.Step(epoch, time.Second, GuardInput{Kind: GuardInChecked})
	fx := r.Step(epoch, time.Second, GuardInput{Kind: GuardInRead, Observed: record.GuardObservation{Kind: record.EntryNothing}})
	raises := 0
	for fx.Op.Kind != GuardNone && raises < 1000 {
		if fx.Op.Kind == GuardRead {
			fx = r.Step(epoch, time.Second, GuardInput{Kind: GuardInRead, Observed: record.GuardObservation{Kind: record.EntryNothing}})
			continue
		}
		raises++
		fx = r.Step(epoch, time.Second, GuardInput{Kind: GuardInRaised, Err: &backend.RefusedError{}})
	}
	check.Equal(t, raises, raiseRush+1, "%d raises without a pause")
	check.Equal(t, fx.Wake.Sub(epoch), raisePause*3/4, "the next follows after %v")
	fx = r.Step(fx.Wake, time.Second, GuardInput{})
	for fx.Op.Kind == GuardRead {
		fx = r.Step(r.opAt, time.Second, GuardInput{Kind: GuardInRead, Observed: record.GuardObservation{Kind: record.EntryNothing}})
	}
	sent := r.opAt
	fx = r.Step(sent, time.Second, GuardInput{Kind: GuardInRaised, Err: &backend.RefusedError{}, Jitter: 1 << 31})
	check.Equal(t, fx.Wake.Sub(sent), 2*raisePause, "with another jitter the next follows after %v")
}
