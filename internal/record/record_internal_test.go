package record

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/wire"
)

// someRecord has every field set.
func someRecord() Record {
	return Record{
		Phase: PhaseLeading, ID: "a", Session: "S", Counter: 7, Lease: 15 * time.Second,
		Token: 42, Since: 1_700_000_000_123_456_789, Value: "http://10.0.0.1/?a=1&b=<2>",
	}
}

// A record is read as it was written.
func TestRecord_RoundTrip(t *testing.T) {
	for _, change := range []func(*Record){
		func(*Record) {},
		func(r *Record) { r.Phase, r.Token, r.Least, r.Since = PhasePending, 0, 43, 0 },
		func(r *Record) { r.Phase, r.Token, r.Least, r.Since = PhaseElect, 0, 43, 0 },
		func(r *Record) { r.Phase = PhaseReleased },
		func(r *Record) { r.Phase, r.NeverLed = PhaseReleased, true },
		func(r *Record) {
			*r = Record{Phase: PhasePending, Session: "S", Lease: time.Second, Value: strings.Repeat("\x00", wire.MaxValue)}
			r.Last = Last{ID: "b", Token: MaxToken, Until: 1, Value: r.Value}.Pack()
		},
		func(r *Record) { r.Value = "" },
		func(r *Record) { r.Value = "\xff\x00binary" },
		func(r *Record) { r.Value = strings.Repeat("\x00", wire.MaxValue) },
		func(r *Record) { r.ID = "a\"b\\c\nd é" },
		func(r *Record) { r.Lease = time.Millisecond },
		func(r *Record) { r.Lease = MaxLease },
		func(r *Record) { r.Token = MaxToken },
	} {
		want := someRecord()
		change(&want)
		got, err := Decode(want.Encode(0))
		check.That(t, err == nil && got == want, "%+v became %+v, %v", want, got, err)
	}
}

// A record is JSON that people can read.
func TestRecord_IsReadableText(t *testing.T) {
	const want = `{"v":1,"state":"leading","id":"a","session":"S","n":7,"lease":"15s","token":42,` +
		`"since":"2023-11-14T22:13:20.123456789Z","at":"2023-11-14T22:13:30Z","value":"http://10.0.0.1/?a=1&b=<2>"}`
	check.Equal(t, string(someRecord().Encode(1_700_000_010_000_000_000)), want, "it is\n%s, want\n%s", want)
}

// A value that is no record of this package is foreign.
func TestRecord_ForeignValues(t *testing.T) {
	for _, text := range []string{
		"", "null", "{}", "[]", "7", `"x"`, "\x00\xff", "{",
		`{"v":1}`,
		`{"v":0,"state":"leading","session":"S","lease":"15s"}`,
		`{"v":-1,"state":"leading","session":"S","lease":"15s"}`,
		`{"v":1,"state":"leading","session":"","lease":"15s"}`,
		`{"v":1,"state":"leading","session":"S"}`,
		`{"v":1,"state":"leading","session":"S","lease":"soon"}`,
		`{"v":1,"state":"leading","session":"S","lease":"0s"}`,
		`{"v":1,"state":"leading","session":"S","lease":"-1s"}`,
		`{"v":1,"state":"leading","session":"S","lease":"9000h"}`,
		`{"v":1,"state":"leading","session":"S","lease":15}`,
		`{"v":1,"state":"retired","session":"S","lease":"15s"}`,
		`{"v":1,"state":"leading","session":"S","lease":"15s","token":9223372036854775808}`,
		`{"v":1,"state":"leading","session":"S","lease":"15s","token":-1}`,
		`{"v":1,"state":"pending","session":"S","lease":"15s","least":18446744073709551615}`,
		`{"v":1,"state":"leading","session":"S","lease":"15s","value64":"?"}`,
		`{"v":1,"state":"leading","session":"S","lease":"15s","since":"yesterday"}`,
		`{"v":2,"session":"S","lease":15}`,
		`{"v":2,"session":["S"],"lease":"15s"}`,
	} {
		r, err := Decode([]byte(text))
		check.That(t, errors.Is(err, backend.ErrForeignRecord), "%s is read as %+v, %v", text, r, err)
	}
}

// "Newer formats keep lease and session decodable".
func TestRecord_OfLaterFormat(t *testing.T) {
	for text, want := range map[string]Record{
		`{"v":2,"state":"abdicating","session":"S","lease":"15s"}`:                 {Phase: PhaseLeading},
		`{"v":2,"state":{"name":"leading"},"session":"S","lease":"15s","n":"x"}`:   {Phase: PhaseLeading},
		`{"v":2,"state":"released","session":"S","lease":"15s","token":3}`:         {Phase: PhaseReleased, Token: 3},
		`{"v":9,"state":"leading","session":"S","lease":"15s","n":4,"unknown":[]}`: {Phase: PhaseLeading, Counter: 4},
	} {
		want.Session, want.Lease = "S", 15*time.Second
		got, err := Decode([]byte(text))
		check.That(t, err == nil && got == want, "%s is read as %+v, %v, want %+v", text, got, err, want)
	}
}

// The token of a new term is the least token of its record or the revision, whichever is
// greater.
func TestTermToken_LeastOrRevision(t *testing.T) {
	for _, c := range []struct {
		r        Record
		revision uint64
		want     uint64
	}{
		{Record{Phase: PhaseElect, Least: 5}, 9, 9},
		{Record{Phase: PhaseElect, Least: 50}, 9, 50},
		{Record{Phase: PhasePending, Least: 50}, 9, 50},
		{Record{Phase: PhaseLeading, Token: 7}, 9, 7},
		{Record{Phase: PhaseReleased, Token: 7}, 9, 7},
	} {
		got := c.r.TermToken(c.revision)
		check.That(t, got == c.want, "%+v at %d has token %d, want %d", c.r, c.revision, got, c.want)
	}
}

// Whatever is stored under the key, reading it neither panics nor yields a record that
// the machine cannot count with. A record that it yields survives being written, and decodePlain
// agrees with encoding/json.
func FuzzDecodeRecord(f *testing.F) {
	for _, r := range append(plainRecords, someRecord()) {
		f.Add(r.Encode(0))
	}
	f.Add([]byte(`{"v":2,"session":"S","lease":"15s"}`))
	f.Add([]byte(`{"v":1,"state":"elected","session":"S","lease":"1ns","least":9223372036854775807,"value64":"/w=="}`))
	f.Add([]byte(`{"v":1,"state":"released","session":"S","lease":"1ns","seats":3,"priority":-1,"next":["A","B C"],"to":"b"}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		checkPlain(t, data)
		r, err := Decode(data)
		if err != nil {
			check.Must(t, errors.Is(err, backend.ErrForeignRecord) && r == (Record{}), "%+v, %v", r, err)
			return
		}
		if r.Phase == PhaseNone || r.Session == "" || r.Lease <= 0 || r.Lease > MaxLease || r.Token > MaxToken || r.Least > MaxToken {
			t.Fatalf("%q is read as %+v", data, r)
		}
		again, err := Decode(r.Encode(0))
		check.Must(t, err == nil && again == r, "%+v became %+v, %v", r, again, err)
	})
}

// A value that cannot be a line is none, and the record is read all the same.
func TestRecord_InvalidLine(t *testing.T) {
	for next, want := range map[string]Line{
		`["A","B"]`:                             "A B",
		`[]`:                                    "",
		`["A","B","C","D","E","F","G","H","I"]`: "A B C D E F G H",
		`["A",""]`:                              "",
		`["A B"]`:                               "",
		`["A","\u00a0"]`:                        "",
		`["A","B","\n"]`:                        "",
		`["A","A"]`:                             "A A",
		`null`:                                  "",
	} {
		r, err := Decode([]byte(`{"v":1,"state":"leading","session":"S","lease":"15s","next":` + next + `}`))
		check.That(t, err == nil && r.Next == want, "%s: %q, %v", next, r.Next, err)
	}
}

// A last leader that no candidate can have stored is none, and the record is read all the same.
func TestRecord_InvalidLast(t *testing.T) {
	for last, want := range map[string]Last{
		`{"id":"b","token":7}`:                                              {ID: "b", Token: 7},
		`{"id":"b","until":"0001-01-01T00:00:00Z"}`:                         {ID: "b"},
		`{"token":7,"value":"x"}`:                                           {},
		`{"id":"` + strings.Repeat("b", MaxID+1) + `"}`:                     {},
		`{"id":"b","token":4611686018427387905}`:                            {},
		`{"id":"b","value64":"?"}`:                                          {},
		`{"id":"b","value":"` + strings.Repeat("x", wire.MaxValue+1) + `"}`: {},
		`null`: {},
	} {
		r, err := Decode([]byte(`{"v":1,"state":"pending","session":"S","lease":"15s","last":` + last + `}`))
		check.That(t, err == nil && r.Last == want.Pack(), "%s: %+v, %v", last, r.Last, err)
	}
}

// The last leader of an entry is its writer, or the one that a writer which has not led names.
func TestObservation_Leader(t *testing.T) {
	before := Last{ID: "b", Token: 7, Until: 5, Value: "x"}
	for _, c := range []struct {
		name string
		kind EntryKind
		rec  Record
		want Last
	}{
		{"no record", EntryMarker, Record{Token: 9}, Last{}},
		{"junk", EntryRecord, Record{Phase: PhaseLeading, ID: "a", Token: LastToken + 1}, Last{}},
		{"leading", EntryRecord, Record{Phase: PhaseLeading, ID: "a", Token: 9, Value: "v"}, Last{ID: "a", Token: 9, Until: 3, Value: "v"}},
		{"elected", EntryRecord, Record{Phase: PhaseElect, ID: "a", Least: 9}, Last{ID: "a", Token: 12, Until: 3}},
		{"released", EntryRecord, Record{Phase: PhaseReleased, ID: "a", Token: 9}, Last{ID: "a", Token: 9, Until: 3, Released: true}},
		{"pending", EntryRecord, Record{Phase: PhasePending, ID: "a", Least: 9, Last: before.Pack()}, before},
		{"pending, first", EntryRecord, Record{Phase: PhasePending, ID: "a", Least: 9}, Last{}},
		{"gave up", EntryRecord, Record{Phase: PhaseReleased, ID: "a", Token: 9, NeverLed: true, Last: before.Pack()}, before},
		{"gave up, first", EntryRecord, Record{Phase: PhaseReleased, ID: "a", Token: 9, NeverLed: true}, Last{}},
	} {
		s := Observation{Revision: 12, Kind: c.kind, Rec: c.rec}
		got := s.Leader(3).Unpack()
		check.That(t, got == c.want, "%s: %+v, want %+v", c.name, got, c.want)
	}
}

// A marker may carry a release, which counts. Of any other record it keeps the lease and the token.
func TestDecodeEntry_Marker(t *testing.T) {
	leads, released := someRecord(), someRecord()
	released.Phase = PhaseReleased
	for _, c := range []struct {
		name  string
		value []byte
		kind  EntryKind
		rec   Record
	}{
		{"a release", released.Encode(0), EntryRecord, released},
		{"a record", leads.Encode(0), EntryMarker, Record{Lease: leads.Lease, Token: leads.Token}},
		{"junk", []byte("junk"), EntryMarker, Record{}},
		{"nothing", nil, EntryMarker, Record{}},
	} {
		got := DecodeEntry(backend.Entry{Revision: 3, Value: c.value, Marker: true})
		want := (Observation{Revision: 3, Kind: c.kind, Rec: c.rec})
		check.That(t, got == want, "%s: %+v, want %+v", c.name, got, want)
	}
}
