package machine

import (
	"testing"

	"github.com/natsleader/natsleader/internal/check"
)

// The wait after a handover in vain doubles up to a bound.
func TestQueueState_PatienceDoubles(t *testing.T) {
	var q queueState
	for n := range PatienceDoubles + 3 {
		q.handoverFailed(epoch, tick)
		if want := tick << min(n+1, PatienceDoubles); q.yieldsFrom != epoch.Add(want) || q.broken() != "" {
			t.Errorf("after %d in vain: %v, not %v; %q", n+1, q.yieldsFrom.Sub(epoch), want, q.broken())
		}
	}
	q.forgetFailedHandovers()
	check.That(t, q.failedHandovers == 0, "%d in vain", q.failedHandovers)
}

// A try for the key makes the report of the roster stale, and not the line.
func TestQueueState_StaleReport(t *testing.T) {
	var q queueState
	q.report("B C")
	q.stale()
	check.That(t, !q.reported && q.line == "B C", "%+v", q)
	q.left("B")
	check.That(t, q.line == "C", "line %q", q.line)
}

func (q *queueState) broken() string {
	if q.failedHandovers > 0 && q.yieldsFrom.IsZero() {
		return "a handover in vain without a wait"
	}
	return ""
}
