package machine

import (
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
