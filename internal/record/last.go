package record

import (
	"encoding/base64"
	"time"
	"unicode/utf8"

	"github.com/natsleader/natsleader/internal/wire"
)

// Last is the last leader before a candidate won the key. It is zero if none is known.
type Last struct {
	ID       string
	Token    uint64
	Until    int64 // server's time of its last write that is known, Unix nanoseconds; 0: not known
	Released bool  // that write released the key
	Value    string
}

// Leader returns the last leader that the entry shows: its writer, or the leader before a writer that
// has not led. A writer that was elected may have crashed before it learned that.
func (s Observation) Leader() Last {
	switch r := s.Rec; {
	case s.Kind != EntryRecord:
		return Last{}
	case r.Phase == PhasePending || r.NeverLed:
		return r.Last
	default:
		return Last{ID: r.ID, Token: r.TermToken(s.Revision), Until: s.Created, Released: r.Phase == PhaseReleased, Value: r.Value}
	}
}

// hasLast reports whether the record names the last leader, perhaps as none.
func (r *Record) hasLast() bool { return r.NeverLed || r.Phase == PhasePending && r.Last != (Last{}) }

// wireLast is the last leader as it is stored.
type wireLast struct {
	ID       string    `json:"id,omitempty"`
	Token    uint64    `json:"token,omitempty"`
	Until    time.Time `json:"until,omitzero"`
	Released bool      `json:"released,omitempty"`
	Value    string    `json:"value,omitempty"`
	Binary   string    `json:"value64,omitempty"`
}

func (l Last) wire() *wireLast {
	w := &wireLast{ID: l.ID, Token: l.Token, Released: l.Released}
	if l.Until != 0 {
		w.Until = time.Unix(0, l.Until).UTC()
	}
	w.Value, w.Binary = wireValue(l.Value)
	return w
}

// decode returns the last leader, or none if a candidate cannot have stored it.
func (w *wireLast) decode() Last {
	if w == nil || w.ID == "" || len(w.ID) > MaxID || w.Token > MaxToken {
		return Last{}
	}
	value, err := valueOf(w.Value, w.Binary)
	if err != nil || len(value) > wire.MaxValue {
		return Last{}
	}
	return Last{ID: w.ID, Token: w.Token, Until: instantOf(w.Until), Released: w.Released, Value: value}
}

// wireValue returns a value as it is stored: as text, or in base64 if it is not UTF-8.
func wireValue(value string) (text, binary string) {
	if utf8.ValidString(value) {
		return value, ""
	}
	return "", base64.StdEncoding.EncodeToString([]byte(value))
}

func valueOf(text, binary string) (string, error) {
	if binary == "" {
		return text, nil
	}
	b, err := base64.StdEncoding.DecodeString(binary)
	return string(b), err
}

// instantOf returns the Unix nanoseconds of an instant, or 0 for a year that does not fit.
func instantOf(t time.Time) int64 {
	if n := t.UnixNano(); time.Unix(0, n).Equal(t) {
		return n
	}
	return 0
}
