package leader

import (
	"testing"

	"github.com/natsleader/natsleader/internal/record"

	"github.com/natsleader/natsleader/internal/machine"
)

// The ID of the successor is known before a call of Transfer returns.
func TestCalls_SuccessorIsKnownFirst(t *testing.T) {
	call, taken := make(chan error, 1), ""
	c := calls{handing: []handing{{call, "s"}}}
	c.taken = func(id string) {
		if taken = id; len(call) > 0 {
			t.Error("the call was answered before")
		}
	}
	c.answerTransfers(testEpoch, &machine.Status{Seen: &record.Observation{Kind: record.EntryRecord, Rec: record.Record{ID: "b", Session: "s"}}})
	if len(call) != 1 || <-call != nil || taken != "b" {
		t.Errorf("the call is not answered, or %q has taken the key", taken)
	}
}
