package machine

import (
	"testing"

	"github.com/natsleader/natsleader/internal/check"
)

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
