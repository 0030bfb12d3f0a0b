package leader

import (
	"encoding/json"
	"testing"
	"time"
)

// A record that needs no escaping is encoded as encoding/json would encode it.
func TestEncode_MatchesJSON(t *testing.T) {
	for _, r := range []record{
		{phase: phaseElect, id: "host_1_ab", session: "S", counter: 1, lease: 15 * time.Second, least: 1},
		{phase: phaseLeading, id: "<a>&'~ ", session: "S", counter: 2, lease: time.Hour, token: maxToken, since: 1, value: "10.0.0.1:80"},
		{phase: phaseLeading, session: "S", lease: 1500 * time.Millisecond, token: 7, since: 1700000000_000000000},
		{phase: phasePending, id: "a", session: "S", counter: 3, lease: time.Nanosecond, least: 9, since: 1700000000_120000000},
		{phase: phaseReleased, id: "a", session: "S", counter: 4, lease: time.Second, token: 9, value: "{}[]/"},
		{phase: phaseLeading, id: "a", session: "S", counter: 5, lease: time.Second, token: 9, seats: 3, priority: -5, next: "B C"},
		{phase: phaseReleased, id: "a", session: "S", counter: 6, lease: time.Second, token: 9, value: "x", priority: 7, next: "B", to: "b"},
	} {
		if !plain(r.id) || !plain(r.value) {
			t.Fatalf("%+v is not plain", r)
		}
		w := wireRecord{
			Format: recordFormat, State: phaseNames[r.phase], ID: r.id, Session: r.session, Counter: r.counter,
			Lease: r.lease.String(), Token: r.token, Least: r.least, Value: r.value, Seats: r.seats, Priority: r.priority, Next: r.next.sessions(), To: r.to,
		}
		if r.since != 0 {
			since := time.Unix(0, r.since).UTC()
			w.Since = &since
		}
		back, err := decodeRecord(r.encode())
		if err != nil || back != r {
			t.Errorf("%s decodes as %+v, %v", r.encode(), back, err)
		}
		if r.id != "<a>&'~ " { // Marshal escapes these
			if want, _ := json.Marshal(w); string(r.encode()) != string(want) {
				t.Errorf("got  %s\nwant %s", r.encode(), want)
			}
		}
	}
	for _, s := range []string{"\x1f", "\x7f", "\"", "\\", "é", "\xff", "\n"} {
		if plain(s) {
			t.Errorf("%q is plain", s)
		}
	}
}

// A record is stored as this JSON, which people and candidates of other versions read, and
// comes back as it was.
func TestEncode_Format(t *testing.T) {
	for want, r := range map[string]record{
		`{"v":1,"state":"elected","id":"host_1_ab","session":"S","n":1,"lease":"15s","least":1}`: {
			phase: phaseElect, id: "host_1_ab", session: "S", counter: 1, lease: 15 * time.Second, least: 1,
		},
		`{"v":1,"state":"leading","id":"<a>&'~ ","session":"S","n":2,"lease":"1h0m0s","token":4611686018427387904,"since":"1970-01-01T00:00:00.000000001Z","value":"10.0.0.1:80"}`: {
			phase: phaseLeading, id: "<a>&'~ ", session: "S", counter: 2, lease: time.Hour, token: maxToken, since: 1, value: "10.0.0.1:80",
		},
		`{"v":1,"state":"pending","id":"a","session":"S","n":3,"lease":"1ns","least":9,"since":"2023-11-14T22:13:20.12Z"}`: {
			phase: phasePending, id: "a", session: "S", counter: 3, lease: time.Nanosecond, least: 9, since: 1700000000_120000000,
		},
		`{"v":1,"state":"leading","id":"a","session":"S","n":5,"lease":"1s","seats":3,"token":9,"priority":-5,"next":["B","C"]}`: {
			phase: phaseLeading, id: "a", session: "S", counter: 5, lease: time.Second, token: 9, seats: 3, priority: -5, next: "B C",
		},
		`{"v":1,"state":"released","id":"a","session":"S","n":6,"lease":"1s","token":9,"value":"é","priority":7,"next":["B"],"to":"b"}`: {
			phase: phaseReleased, id: "a", session: "S", counter: 6, lease: time.Second, token: 9, value: "é", priority: 7, next: "B", to: "b",
		},
		`{"v":1,"state":"leading","id":"a","session":"S","n":7,"lease":"1s","token":9,"value64":"/w=="}`: {
			phase: phaseLeading, id: "a", session: "S", counter: 7, lease: time.Second, token: 9, value: "\xff",
		},
	} {
		if got := string(r.encode()); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if back, err := decodeRecord([]byte(want)); err != nil || back != r {
			t.Errorf("%s decodes as %+v, %v", want, back, err)
		}
	}
}
