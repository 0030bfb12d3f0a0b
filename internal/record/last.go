package record

import (
	"encoding/base64"
	"encoding/binary"
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

// PackedLast is a Last in one string, or empty for the zero Last. Records are copied often, and a
// candidate's stack has 8 kB.
type PackedLast string

// Pack returns the last leader in one string. One without a proper ID is none.
func (l Last) Pack() PackedLast {
	if l.ID == "" || len(l.ID) > MaxID {
		return ""
	}
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 18+len(l.ID)+len(l.Value)), l.Token)
	b = binary.BigEndian.AppendUint64(b, uint64(l.Until))
	if b = append(b, 0, byte(len(l.ID)-1)); l.Released {
		b[16] = 1
	}
	return PackedLast(append(append(b, l.ID...), l.Value...))
}

// Unpack returns the last leader. It copies nothing.
func (p PackedLast) Unpack() Last {
	if p == "" {
		return Last{}
	}
	var head [16]byte
	copy(head[:], p)
	texts, id := string(p[18:]), int(p[17])+1
	return Last{
		ID: texts[:id], Value: texts[id:], Released: p[16] == 1,
		Token: binary.BigEndian.Uint64(head[:]), Until: int64(binary.BigEndian.Uint64(head[8:])),
	}
}

// Leader returns the last leader that the entry shows: its writer, or the leader before a writer that
// has not led. A writer that was elected may have crashed before it learned that. The entry was created
// at that time, in Unix nanoseconds.
func (s *Observation) Leader(created int64) PackedLast {
	switch r := &s.Rec; {
	case s.Kind != EntryRecord, r.TermToken(s.Revision) > LastToken: // no record, or junk
		return ""
	case r.Phase == PhasePending || r.NeverLed:
		return r.Last
	default:
		return Last{ID: r.ID, Token: r.TermToken(s.Revision), Until: created, Released: r.Phase == PhaseReleased, Value: r.Value}.Pack()
	}
}

// hasLast reports whether the record names the last leader, perhaps as none.
func (r *Record) hasLast() bool { return r.NeverLed || r.Phase == PhasePending && r.Last != "" }

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
	w.Value, w.Binary = WireValue(l.Value)
	return w
}

// pack returns the last leader, or none if a candidate cannot have stored it.
func (w *wireLast) pack() PackedLast {
	if w == nil || w.ID == "" || len(w.ID) > MaxID || w.Token > MaxToken {
		return ""
	}
	value, err := ValueOf(w.Value, w.Binary)
	if err != nil || len(value) > wire.MaxValue {
		return ""
	}
	return Last{ID: w.ID, Token: w.Token, Until: instantOf(w.Until), Released: w.Released, Value: value}.Pack()
}

// WireValue returns a value as it is stored: as text, or in base64 if it is not UTF-8.
func WireValue(value string) (text, binary string) {
	if utf8.ValidString(value) {
		return value, ""
	}
	return "", base64.StdEncoding.EncodeToString([]byte(value))
}

// ValueOf returns the value that is stored as one of these.
func ValueOf(text, binary string) (string, error) {
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

// plain reports whether JSON shows the texts as they are.
func (l Last) plain() bool { return plain(l.ID) && plain(l.Value) }
