package slots

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Mark is how far the leaders have come. The zero Mark is none.
type Mark struct {
	At    int64  // the slot, or the instant at which the schedule began or began anew
	Begun bool   // the slot is begun and not done
	After int64  // the slot before it, if Begun
	Print uint32 // the fingerprint of the first slots after At, by the calendar of the leader that wrote the mark; 0: not known
	Next  int64  // the first slot after At by that calendar; None: there is none
	High  int64  // the last slot that was worked before its time, if that is after At
	Why   Fault  // why slots before the one after At may be left out
}

// Differs reports whether a leader with another calendar has published the mark.
func (m Mark) Differs(cal Calendar) bool {
	return m.Print != 0 && fingerprint(cal, m.At) != m.Print
}

// The words of a mark, each before its value.
const (
	wordDone  = "done"
	wordBegun = "begun"
	wordAfter = "after"
	wordPrint = "calendar"
	wordNext  = "next"
	wordHigh  = "high"
	wordWhy   = "because"
)

// faultNames are the values of that word.
var faultNames = [...]string{Ahead: "ahead", Changed: "changed", Broken: "broken", Unread: "unread"}

// String returns the text that is published, as "begun 2026-11-28T03:00:00Z after 2026-11-27T03:00:00Z calendar 1f3a09c2".
func (m Mark) String() string {
	at := func(t int64) string { return time.Unix(0, t).UTC().Format(time.RFC3339Nano) }
	words := []string{wordDone, at(m.At)}
	if m.Begun {
		words = []string{wordBegun, at(m.At), wordAfter, at(m.After)}
	}
	if m.Print != 0 {
		words = append(words, wordPrint, strconv.FormatUint(uint64(m.Print), 16))
	}
	if m.Next != None {
		words = append(words, wordNext, at(m.Next))
	}
	if m.High != None {
		words = append(words, wordHigh, at(m.High))
	}
	if m.Why != Fine {
		words = append(words, wordWhy, faultNames[m.Why])
	}
	return strings.Join(words, " ")
}

// ParseMark returns the mark of a text, or false if it is none.
func ParseMark(text string) (m Mark, ok bool) {
	words := strings.Split(text, " ")
	if len(words)%2 != 0 || len(words) > 12 {
		return Mark{}, false
	}
	for i := 0; i < len(words); i += 2 {
		switch words[i] {
		case wordPrint:
			n, err := strconv.ParseUint(words[i+1], 16, 32)
			if err != nil {
				return Mark{}, false
			}
			m.Print = uint32(n)
			continue
		case wordWhy:
			m.Why = Fault(max(0, slices.Index(faultNames[:], words[i+1]))) //nolint:gosec // one of a few
			continue
		}
		t, err := time.Parse(time.RFC3339Nano, words[i+1])
		if err != nil || t.Year() < 1970 || t.Year() > 2261 { // others have no Unix nanoseconds
			return Mark{}, false
		}
		switch words[i] {
		case wordDone, wordBegun:
			m.At, m.Begun = t.UnixNano(), words[i] == wordBegun
		case wordAfter:
			m.After = t.UnixNano()
		case wordNext:
			m.Next = t.UnixNano()
		case wordHigh:
			m.High = t.UnixNano()
		}
	}
	if m.String() != text || m.At <= 0 || m.After >= m.At || m.Next != None && m.Next <= m.At || m.High != None && m.High < m.At { // or other words, twice the same, in another order
		return Mark{}, false
	}
	return m, true
}
