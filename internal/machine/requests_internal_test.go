package machine

import (
	"math"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

// A request is given up once, and its reply ends it whether it was given up or not.
func TestInflight_GiveUp(t *testing.T) {
	var f inflight
	check.That(t, !f.giveUp() && !f.waits(), "no request is given up")
	f.granted()
	f.send(Request{Kind: ReqRead}, epoch, epoch.Add(tick))
	if !f.waits() || !f.giveUp() || f.waits() || f.giveUp() || f.broken() != "" {
		t.Errorf("%+v, %q", f, f.broken())
	}
	if req := f.land(); req.Kind != ReqRead || f.late || f.req.Kind != ReqNone || f.broken() != "" {
		t.Errorf("%+v, %q", f, f.broken())
	}
}

// A read that succeeds does not end a row of writes that fail.
func TestInflight_FailuresInARow(t *testing.T) {
	var f inflight
	f.writeFailed()
	check.Equal(t, f.failed()+f.failed(), 3, "counted to %d")
	f.succeeded()
	check.That(t, f.fails == 0 && f.writeFailing, "%+v", f)
	f.recovered()
	check.That(t, !f.writeFailing, "%+v", f)
}

func (f *inflight) broken() string {
	switch {
	case f.late && f.req.Kind == ReqNone:
		return "no request is late"
	case f.req.Kind != ReqNone && f.deadline.IsZero():
		return "a request without a deadline"
	case (f.req.Kind != ReqNone) != (f.slot == slotHas):
		return "a request without a slot, or a slot without a request"
	case f.slot != slotWaits && (f.rank != 0 || !f.slotSince.IsZero() || f.slow), f.slot == slotWaits && f.slotSince.IsZero():
		return "it waits for no slot, and has a place in line, or the other way round"
	}
	return ""
}

// stepAtOnce steps a machine on a connection that always has a free slot.
func (m *Machine) stepAtOnce(now time.Time, in Input) Effects {
	fx := m.Step(now, &in)
	if fx.Slot.Wanted {
		m.Proceed(now, &fx)
	}
	return fx
}

// Pauses double with each failure up to the longest, and spread over a quarter to either side, so that
// those that have failed together do not try again together.
func TestBackOff_DoublesAndSpreads(t *testing.T) {
	const base, most = time.Second, 5 * time.Second
	for failures, middle := range []time.Duration{0, base, 2 * base, 4 * base, most, most, most} {
		if failures == 0 {
			continue
		}
		least, mean, longest := backOff(base, most, failures, 0), backOff(base, most, failures, 1<<31), backOff(base, most, failures, math.MaxUint32)
		check.That(t, least == middle*3/4 && mean == middle && longest > middle*6/5 && longest <= middle*5/4,
			"after %d failures %v, %v and %v, want %v in the middle", failures, least, mean, longest, middle)
	}
	last := backOff(base, most, math.MaxInt, math.MaxUint32)
	check.That(t, last > 0 && last <= most*5/4, "in the end %v", last)
}

// The pause of a candidate has a bound of its own, also where leases are long: it is not notified when
// the store is back. A leader waits for a part of its interval only.
func TestPause_Bounds(t *testing.T) {
	m := New(Params{Want: Durations{Lease: time.Hour}, ID: "a", Session: "A"}, "")
	got := m.pause(100, 1<<31)
	check.Equal(t, got, longPause, "a candidate waits %v")
}
