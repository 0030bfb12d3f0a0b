package record

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

// plainRecords have each field of a record, each alone and all together.
var plainRecords = []Record{
	{Phase: PhaseElect, ID: "host_1_ab", Session: "S", Counter: 1, Lease: 15 * time.Second, Least: 1},
	{Phase: PhaseLeading, ID: "<a>&'~ ", Session: "S", Counter: 2, Lease: time.Hour, Token: MaxToken, Since: 1, Value: "10.0.0.1:80"},
	{Phase: PhaseLeading, Session: "S", Lease: 1500 * time.Millisecond, Token: 7, Since: 1700000000_000000000},
	{Phase: PhasePending, ID: "a", Session: "S", Counter: 3, Lease: time.Nanosecond, Least: 9, Since: 1700000000_120000000},
	{Phase: PhaseReleased, ID: "a", Session: "S", Counter: 4, Lease: time.Second, Token: 9, Value: "{}[]/"},
	{Phase: PhaseLeading, ID: "a", Session: "S", Counter: 5, Lease: time.Second, Token: 9, Seats: 3, Priority: -5, Next: "B C"},
	{Phase: PhaseReleased, ID: "a", Session: "S", Counter: 6, Lease: time.Second, Token: 9, Value: "x", Priority: 7, Next: "B", To: "b"},
	{Phase: PhaseReleased, ID: "a", Session: "S", Lease: time.Second, Token: 8, To: "b", NeverLed: true},
	{
		Phase: PhaseReleased, ID: "a", Session: "S", Lease: time.Second, Token: 8, NeverLed: true,
		Last: Last{ID: "b", Token: 7, Until: 1700000000_123456789, Released: true, Value: "up to 4711"}.Pack(),
	},
	{Phase: PhasePending, ID: "a", Session: "S", Lease: time.Second, Least: 8, Last: Last{ID: "b"}.Pack()},
	{
		Phase: PhaseLeading, ID: "a", Session: "S", Counter: 1<<64 - 1, Lease: time.Second, Seats: -3, Token: 9, Least: 10, Since: 1700000000_123456789,
		Value: "v", Priority: 70, Next: "B C D", To: "b",
	},
}

// checkPlain fails if decodePlain accepts a value that encoding/json does not decode, or
// decodes in another way.
func checkPlain(t *testing.T, data []byte) (accepted bool) {
	t.Helper()
	got, ok := decodePlain(data)
	if !ok {
		return false
	}
	var want wireRecord
	err := json.Unmarshal(data, &want)
	check.Must(t, err == nil && reflect.DeepEqual(got, want),
		"%q is decoded as\n%+v, want\n%+v, %v", data, got, want, err)
	return true
}

// A record that Encode has written without escapes is not left to encoding/json.
func TestDecodePlain_AcceptsPlainRecords(t *testing.T) {
	for _, r := range plainRecords {
		if !checkPlain(t, r.Encode(1_700_000_000_000_000_001)) {
			t.Errorf("%s is left to encoding/json", r.Encode(1_700_000_000_000_000_001))
		}
	}
}

// Decoding a record takes two allocations: the stored text, and the strings that the record keeps.
func TestDecode_TwoAllocations(t *testing.T) {
	text := plainRecords[1].Encode(1)
	check.Equal(t, testing.AllocsPerRun(100, func() { _, _ = Decode(text) }), 2, "%v allocations")
}

// Each change of a record by one byte, or by a few in one place, is decoded as by
// encoding/json or left to it.
func TestDecodePlain_MatchesJSON(t *testing.T) {
	accepted := 0
	for _, r := range plainRecords {
		text := r.Encode(1_700_000_000_000_000_001)
		for i := range len(text) + 1 {
			for cut := range min(3, len(text)-i+1) {
				for _, with := range []string{
					"", `"`, `\`, ",", ":", "[", "]", "{", "}", "-", "+", "0", "1", "9", "00", "-0", ".", "e", "_", " ", "\n", "\x7f", "\x80", "é", "a", "T", "Z",
				} {
					if checkPlain(t, slices.Concat(text[:i], []byte(with), text[i+cut:])) {
						accepted++
					}
				}
			}
		}
	}
	check.That(t, accepted >= 10_000, "only %d of the changed records are not left to encoding/json", accepted)
}

// Values that encoding/json decodes in another way than a reader of plain text might.
func TestDecodePlain_LeavesToJSON(t *testing.T) {
	for _, text := range []string{
		``, `{`, `{}`, `{"v":1`, `{"v":1}x`, `{"v":1}}`, `{"v":10}`, `{"v":2}`, `{"v":1,}`, `{"v":1,"since":""}`, `{"v":1,"value64":"/w=="}`,
		`{"v":1,"n":}`, `{"v":1,"n":-1}`, `{"v":1,"n":01}`, `{"v":1,"n":00}`, `{"v":1,"seats":-01}`, `{"v":1,"seats":-}`, `{"v":1,"seats":+1}`, `{"v":1,"n":1e3}`,
		`{"v":1,"n":18446744073709551616}`, `{"v":1,"seats":9223372036854775808}`, `{"v":1,"n":1,"n":2}`,
		`{"v":1,"next":[]}`, `{"v":1,"next":["A",]}`, `{"v":1,"next":["A","]}`, `{"v":1,"next":["A",]"]}`, `{"v":1,"next":["A"`, `{"v":1,"next":["]}`,
		`{"v":1,"id":"\u0061"}`, `{"v":1,"id":"a}`, `{"v":1,"last":{"id":"a"`, `{"v":1,"last":{"id":"a"}`, `{"v":1,"last":{"token":7}}`, `{"v":1,"id":null}`, `{"v":1,"ID":"a"}`,
	} {
		check.That(t, !checkPlain(t, []byte(text)), "%s is accepted", text)
	}
}
