package record

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

// A record that needs no escaping is encoded as encoding/json would encode it.
func TestEncode_MatchesJSON(t *testing.T) {
	for i, r := range plainRecords {
		at := int64(i%2) * 1_700_000_000_000_000_001
		check.Must(t, plain(r.ID) && plain(r.Value), "%+v is not plain", r)
		w := wireRecord{
			Format: Format, State: PhaseNames[r.Phase], ID: r.ID, Session: r.Session, Counter: r.Counter,
			Lease: r.Lease.String(), Token: r.Token, Least: r.Least, Value: r.Value, Seats: r.Seats, Priority: r.Priority, Next: r.Next.sessions(), To: r.To,
		}
		if r.hasLast() {
			w.Last = r.Last.Unpack().wire()
		}
		if r.Since != 0 {
			w.Since = time.Unix(0, r.Since).UTC()
		}
		if at != 0 {
			w.At = time.Unix(0, at).UTC().Add(time.Millisecond - 1).Truncate(time.Millisecond)
		}
		got := r.Encode(at)
		back, err := Decode(got)
		check.That(t, err == nil && back == r && WrittenAt(got).Equal(w.At), "%s decodes as %+v, %v", got, back, err)
		if r.ID != "<a>&'~ " { // Marshal escapes these
			want, _ := json.Marshal(w)
			check.Equal(t, string(got), string(want), "got  %s\nwant %s", want)
		}
	}
	for _, s := range []string{"\x1f", "\x7f", "\"", "\\", "é", "\xff", "\n"} {
		check.That(t, !plain(s), "%q is plain", s)
	}
}

// A record is stored as this JSON, which people and candidates of other versions read, and
// comes back as it was.
func TestEncode_Format(t *testing.T) {
	for want, r := range map[string]Record{
		`{"v":1,"state":"elected","id":"host_1_ab","session":"S","n":1,"lease":"15s","least":1}`: {
			Phase: PhaseElect, ID: "host_1_ab", Session: "S", Counter: 1, Lease: 15 * time.Second, Least: 1,
		},
		`{"v":1,"state":"leading","id":"<a>&'~ ","session":"S","n":2,"lease":"1h0m0s","token":4611686018427387904,"since":"1970-01-01T00:00:00.000000001Z","value":"10.0.0.1:80"}`: {
			Phase: PhaseLeading, ID: "<a>&'~ ", Session: "S", Counter: 2, Lease: time.Hour, Token: MaxToken, Since: 1, Value: "10.0.0.1:80",
		},
		`{"v":1,"state":"pending","id":"a","session":"S","n":3,"lease":"1ns","least":9,"since":"2023-11-14T22:13:20.12Z"}`: {
			Phase: PhasePending, ID: "a", Session: "S", Counter: 3, Lease: time.Nanosecond, Least: 9, Since: 1700000000_120000000,
		},
		`{"v":1,"state":"leading","id":"a","session":"S","n":5,"lease":"1s","seats":3,"token":9,"priority":-5,"next":["B","C"]}`: {
			Phase: PhaseLeading, ID: "a", Session: "S", Counter: 5, Lease: time.Second, Token: 9, Seats: 3, Priority: -5, Next: "B C",
		},
		`{"v":1,"state":"released","id":"a","session":"S","n":6,"lease":"1s","token":9,"value":"é","priority":7,"next":["B"],"to":"b"}`: {
			Phase: PhaseReleased, ID: "a", Session: "S", Counter: 6, Lease: time.Second, Token: 9, Value: "é", Priority: 7, Next: "B", To: "b",
		},
		`{"v":1,"state":"leading","id":"a","session":"S","n":7,"lease":"1s","token":9,"value64":"/w=="}`: {
			Phase: PhaseLeading, ID: "a", Session: "S", Counter: 7, Lease: time.Second, Token: 9, Value: "\xff",
		},
		`{"v":1,"state":"released","id":"a","session":"S","n":8,"lease":"1s","token":9,"last":{}}`: {
			Phase: PhaseReleased, ID: "a", Session: "S", Counter: 8, Lease: time.Second, Token: 9, NeverLed: true,
		},
		`{"v":1,"state":"pending","id":"a","session":"S","n":9,"lease":"1s","least":9,"last":{"id":"b","token":8,"until":"2023-11-14T22:13:20Z","released":true,"value64":"/w=="}}`: {
			Phase: PhasePending, ID: "a", Session: "S", Counter: 9, Lease: time.Second, Least: 9,
			Last: Last{ID: "b", Token: 8, Until: 1700000000_000000000, Released: true, Value: "\xff"}.Pack(),
		},
	} {
		check.Equal(t, string(r.Encode(0)), want, "got  %s\nwant %s", want)
		back, err := Decode([]byte(want))
		check.That(t, err == nil && back == r, "%s decodes as %+v, %v", want, back, err)
	}
}

// A value that is not UTF-8 is announced in another field than a text. Each replaces the other. A value
// that cannot be decoded is left out.
func TestAnnouncement_ValueReplaced(t *testing.T) {
	var s Announcement
	for _, value := range []string{"\xff", "text", "\xfe\x00", ""} {
		s.Publish(value)
		got := s.Published()
		check.That(t, string(got) == value && (got == nil) == (value == ""), "%q is shown as %q", value, got)
	}
	s.Binary = "/wAA?"
	check.That(t, s.Published() == nil, "%q is shown as %q", s.Binary, s.Published())
}
