package machine

import (
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/record"
)

// FuzzMachine feeds one machine inputs that no world would: any reply, any revision, at
// any time. It must not panic, and keeps its promises to the application.
func FuzzMachine(f *testing.F) {
	f.Add([]byte{0, 0, 9, 0, 0, 10, 0, 0, 6, 1, 3, 7, 1, 1})
	f.Add([]byte{128, 0, 0, 9, 0, 0, 10, 0, 0, 11, 1, 0, 0, 6, 1, 3, 7, 1, 1, 11, 1, 0, 0})
	f.Add([]byte{3, 5, 9, 1, 2, 10, 7, 7, 6, 0, 0, 7, 2, 2, 1, 4, 9, 12, 0, 0, 11, 1, 1})
	f.Fuzz(func(t *testing.T, bytes []byte) {
		next := func() int {
			if len(bytes) == 0 {
				return 0
			}
			b := bytes[0]
			bytes = bytes[1:]
			return int(b)
		}
		first := next()
		settings := []backend.Settings{tight, roomy, expiring, {}}[first%4]
		m := New(Params{ID: "A", Session: "A", Want: ticks(3, 2, time.Duration(next()%3), time.Duration(next()%3)), Guarded: first >= 128, KVElect: first&64 != 0, Order: []Order{{}, queued, {Listed: true}}[first/4%3]}, "")
		check := checker{void: true, exact: true}
		now := epoch
		for range 1000 {
			if len(bytes) == 0 || m.done {
				return
			}
			now = now.Add(time.Duration(next()%8) * tick / 4)
			in := fuzzInput(&m, settings, next)
			in.Works = first&32 != 0
			before := m.view()
			fx := m.stepAtOnce(now, in)
			if broken := m.brokenInvariant(); broken != "" {
				t.Fatalf("%s: %s", describeInput(in), broken)
			}
			if broken := check.check(&m, before, now, in, fx); broken != "" {
				t.Fatalf("%s: %s", describeInput(in), broken)
			}
		}
	})
}

func fuzzInput(m *Machine, settings backend.Settings, next func() int) Input {
	in := Input{Kind: InputKind(next() % int(InPaused+1)), Jitter: uint32(next()) << 24}
	in.Observed = fuzzObservation(next)
	switch in.Kind {
	case InRead, InWritten, InSettings, InFeed:
		// A reply is of the kind that was requested, with any content.
		switch m.flight.req.Kind {
		case ReqNone:
			return Input{Kind: InTick}
		case ReqRead:
			in.Kind = InRead
		case ReqWrite:
			in.Kind, in.Revision = InWritten, uint64(next()%12)
		case ReqSettings:
			in.Kind, in.Settings = InSettings, settings
			in.Settings.LastRevision = uint64(next() % 12)
		case ReqFeed:
			in.Kind = InFeed
		}
		if e := next(); e%3 == 0 {
			in.Err = []error{backend.ErrUnreachable, backend.ErrPermission, backend.ErrNoBucket, backend.ErrConnectionClosed, &backend.RefusedError{}, &backend.RefusedError{Named: true, Actual: uint64(next() % 12)}}[e/3%6]
			if m.flight.req.Kind != ReqWrite && e/3%6 > 3 {
				in.Err = backend.ErrUnreachable // only a write is refused
			}
		}
	case InFeedLost:
		in.Err = backend.ErrUnreachable
	case InDrained, InWorked:
		in.Term = m.term.number
		if next()%4 == 0 {
			in.Term-- // of the term before
		}
	case InGuards:
		if !m.Guarded {
			return Input{Kind: InTick}
		}
		in.Guards = GuardsReport{Fit: next()%4 != 0, Over: uint64(next() % 12)}
		if next()%2 == 0 {
			in.Guards.RaisedAt = m.term.token
		}
	case InRoster:
		in.Roster = RosterReport{Line: fuzzLine(next), Preemptor: Preemptor{Session: []string{"", "B", "C"}[next()%3]}}
	case InResign:
		in.To, in.Next = []string{"", "", "A", "B"}[next()%4], next()%4 == 1
	case InPaused:
		in.By = time.Duration(1+next()%6) * tick
	case InTick, InHeard, InReconnected, InClosed, InStop, InAbandon, InLoop, InNoLoop, InProclaim, InSuspend, InResume, InSlot, InStalled:
	}
	return in
}

func fuzzLine(next func() int) record.Line {
	return []record.Line{"", "", "A", "B", "A B", "B A", "B C A", "B B"}[next()%8]
}

func fuzzObservation(next func() int) record.Observation {
	s := record.Observation{Revision: uint64(next() % 12), Kind: record.EntryNothing}
	if s.Revision == 0 {
		return s
	}
	switch s.Kind = record.EntryMarker + record.EntryKind(next()%3); s.Kind {
	case record.EntryRecord:
		s.Rec = record.Record{
			Phase: record.PhasePending + record.Phase(next()%4), ID: "A", Session: []string{"A", "B", "C"}[next()%3], Counter: uint64(next() % 8),
			Lease: time.Duration(1+next()%6) * tick, Token: uint64(next() % 12), Least: uint64(next() % 12),
			Next: fuzzLine(next), To: []string{"", "", "A", "B"}[next()%4],
		}
	case record.EntryUnseen, record.EntryNothing, record.EntryMarker, record.EntryForeign:
	}
	return s
}
