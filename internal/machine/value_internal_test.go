package machine

import (
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/record"
)

// The state machine renews, and hears of the renewals of others, without
// garbage.
func TestMachine_AllocatesNothing(t *testing.T) {
	s := script{t: t, wrote: map[uint64]record.Record{}}
	s.begin([]string{"sealed", "maxlease=15s"})
	leads := s.m
	now := scriptOrigin
	leads.stepAtOnce(now, Input{Kind: InRead, Observed: record.Observation{Kind: record.EntryNothing}})
	revision := uint64(5)
	leads.stepAtOnce(now, Input{Kind: InWritten, Revision: revision})
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(2500 * time.Millisecond)
		check.Must(t, leads.stepAtOnce(now, Input{Kind: InTick}).Request.Kind == ReqWrite, "it does not renew")
		revision++
		leads.stepAtOnce(now, Input{Kind: InWritten, Revision: revision})
	}); n != 0 || leads.state != StateLeader {
		t.Errorf("a leader makes %v allocations", n)
	}

	waits := s.m
	now = scriptOrigin
	held := record.Observation{Revision: 5, Kind: record.EntryRecord, Rec: record.Record{Phase: record.PhaseLeading, ID: "a", Session: "S", Lease: 15 * time.Second, Token: 42}}
	waits.stepAtOnce(now, Input{Kind: InRead, Observed: held})
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(2500 * time.Millisecond)
		held.Revision++
		check.Must(t, waits.stepAtOnce(now, Input{Kind: InHeard, Observed: held}).Request.Kind == ReqNone,
			"it asks for something")
	}); n != 0 {
		t.Errorf("a candidate that waits makes %v allocations", n)
	}
}

// "Its state is a plain value: to copy it is to copy the machine, and equal
// machines compare equal".
func TestMachine_IsAPlainValue(t *testing.T) {
	s := script{t: t, wrote: map[uint64]record.Record{}}
	s.begin([]string{"sealed", "maxlease=15s"})
	a, b := s.m, s.m
	a.Step(scriptOrigin, &Input{Kind: InRead, Observed: record.Observation{Kind: record.EntryNothing}})
	check.That(t, a != b && b == s.m, "a copy is not independent")
	b.Step(scriptOrigin, &Input{Kind: InRead, Observed: record.Observation{Kind: record.EntryNothing}})
	check.That(t, a == b, "the same input made two machines different")
}
