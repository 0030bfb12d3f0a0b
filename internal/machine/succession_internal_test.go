package machine

import (
	"testing"
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
	if q.forgetFailedHandovers(); q.failedHandovers != 0 {
		t.Errorf("%d in vain", q.failedHandovers)
	}
}

// A try for the key makes the report of the roster stale, and not the line.
func TestQueueState_StaleReport(t *testing.T) {
	var q queueState
	q.report("B C")
	if q.stale(); q.reported || q.line != "B C" {
		t.Errorf("%+v", q)
	}
	if q.left("B"); q.line != "C" {
		t.Errorf("line %q", q.line)
	}
}

func (q *queueState) broken() string {
	if q.failedHandovers > 0 && q.yieldsFrom.IsZero() {
		return "a handover in vain without a wait"
	}
	return ""
}
