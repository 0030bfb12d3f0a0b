package webpage

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/natsleader/natsleader/internal/check"
)

// The state keeps one row of each election, and the newest changes, for all pages. A page gets what it has not
// read in messages of a bounded size.
func TestState_SlowReader(t *testing.T) {
	s := NewState()
	p := s.reader()
	const many = mostUnread + 5
	for range 2 {
		for i := range many {
			key := fmt.Sprint("e", i)
			s.Show(Row{Key: key, State: "foreign", Revision: s.shown}, nil, Change{Key: key, At: int64(s.changed), Token: 1<<63 + 1})
		}
	}
	var rows []Row
	var changes []Change
	for first := true; ; first = false {
		m, news := s.take(p)
		rows, changes = append(rows, m.Rows...), append(changes, m.Changes...)
		n := (len(m.Rows) + len(m.Changes)) * frame
		check.Must(t, n <= mostMessage+frame && m.Dropped == first && m.More == (news == nil),
			"%d bytes; %+v", n, m)
		if !m.More {
			break
		}
	}
	if len(rows) != many || rows[0].Key != "e0" || rows[0].Revision != many || len(s.changes) != mostUnread {
		t.Errorf("%d rows, the first %+v, %d changes kept", len(rows), rows[0], len(s.changes))
	}
	if len(changes) != mostUnread || changes[mostUnread-1].At != 2*many-1 {
		t.Errorf("%d changes, the last %+v", len(changes), changes[len(changes)-1])
	}
	text, err := json.Marshal(changes[0])
	check.That(t, err == nil && strings.Contains(string(text), `"token":"9223372036854775809"`), "%s %v", text, err)
}

// A page that has a row hears that the election is gone, and again if it is back. One that is opened later hears nothing of it.
func TestState_Gone(t *testing.T) {
	s := NewState()
	s.Show(Row{Key: "a"}, []byte("record"))
	s.Show(Row{Key: "b"}, nil)
	rows := func(p *reader) string {
		m, _ := s.take(p)
		return fmt.Sprint(m.First, len(m.Rows), string(check.Got(json.Marshal(m.Rows))(t)))
	}
	old := s.reader()
	check.That(t, strings.HasPrefix(rows(old), "true 2"), "at first")
	for range 2 {
		s.Keep(func(key string) bool { return key == "b" })
	}
	const nothing = `,"state":"","trouble":0,"revision":"0"}`
	check.Equal(t, rows(old), `false 1[{"key":"a","gone":true`+nothing+`]`, "the page that has it gets %s")
	check.Equal(t, rows(s.reader()), `true 1[{"key":"b"`+nothing+`]`, "a later one gets %s")
	_, known := s.election("a")
	check.That(t, !known && s.Row("a").Key == "", "it is known: %+v", s.Row("a"))
	s.Show(Row{Key: "a"}, nil)
	check.Equal(t, rows(old), `false 1[{"key":"a"`+nothing+`]`, "when it is back %s")
}

// A page that reads more slowly than elections change gets all of them in turn, and the newest of each in the end.
func TestState_NoElectionWaits(t *testing.T) {
	s := NewState()
	const many = 1000
	show := func(revision uint64) {
		for i := range many {
			s.Show(Row{Key: fmt.Sprint("e", i), Revision: revision}, nil)
		}
	}
	show(1)
	p := s.reader()
	got, newest := make(map[string]int), make(map[string]uint64)
	looks, n := 0, uint64(2)
	for ; looks < 3; n++ {
		m, _ := s.take(p)
		for _, row := range m.Rows {
			got[row.Key]++
		}
		if p.next == 0 {
			looks++
		}
		show(n)
	}
	for i := range many {
		n := got[fmt.Sprint("e", i)]
		check.Must(t, n == looks, "e%d was sent %d times in %d looks", i, n, looks)
	}
	for m, news := s.take(p); ; m, news = s.take(p) {
		for _, row := range m.Rows {
			newest[row.Key] = row.Revision
		}
		if news != nil {
			break
		}
		if len(newest) == len(m.Rows) { // once, in the middle of a look
			show(n)
		}
	}
	for i := range many {
		got := newest[fmt.Sprint("e", i)]
		check.Must(t, got == n, "e%d has revision %d at last, want %d", i, got, n)
	}
}

// A page hears of a row and of the head only when it has changed, and of trouble until all is well again.
func TestState_OnlyChanges(t *testing.T) {
	s := NewState()
	s.Show(Row{Key: "other"}, []byte("old"))
	read, _ := s.election("other")
	s.Show(Row{Key: "other", Revision: 1}, []byte("new"))
	if string(read.record) != "old" { // a page may still be writing it
		t.Errorf("a record that was read became %q", read.record)
	}
	p := s.reader()
	m, news := s.take(p)
	hears := func(want bool) {
		t.Helper()
		select {
		case <-news:
			check.That(t, want, "it hears of nothing new")
			m, news = s.take(p)
		default:
			check.That(t, !want, "it hears of nothing")
		}
	}
	now := func() time.Time { return time.UnixMilli(7) }
	s.Complete(now)
	hears(true)
	s.Complete(now)
	hears(false)
	row := Row{Key: "e", State: "leading", ID: strings.Repeat("x", mostID+1)}
	s.Show(row, nil)
	hears(true)
	s.Show(row, nil)
	hears(false)
	s.Show(row, nil, Change{Key: "e"})
	s.Trouble("away", time.UnixMilli(3))
	hears(true)
	check.That(t, m.Began && m.Now == 7 && m.Error == "away" && m.Since == 3 && len(m.Rows) == 1 && len(m.Changes) == 1, "%+v", m)
	s.Complete(now)
	hears(true)
	check.That(t, m.Error == "" && m.Since == 0 && len(m.Rows) == 0 && m.Head == nil, "%+v", m)
	for _, another := range []bool{true, false} {
		s.Head(Head{Server: "n1", Replicas: []Replica{{Name: "n1"}}})
		hears(another)
	}
	check.That(t, m.Head != nil && m.Head.Server == "n1", "%+v", m)
	s.Show(row, nil, Change{Key: "e"})
	hears(true)
	check.That(t, m.Head == nil, "%+v", m)
	m, _ = s.take(s.reader())
	check.That(t, len(m.Rows) == 2 && len(m.Changes) == 0 && m.Head != nil, "a new page gets %+v", m)
}

// What others write is bounded before a page gets it.
func TestState_CutsTexts(t *testing.T) {
	s := NewState()
	p := s.reader()
	huge := "x" + strings.Repeat("ä", 64<<10)
	s.Show(Row{Key: "e", ID: huge, Host: huge, Value: huge}, nil, Change{Key: "e", ID: huge})
	s.Trouble(huge, time.Time{})
	m, _ := s.take(p)
	check.Must(t, len(m.Rows) == 1 && len(m.Changes) == 1, "%+v", m)
	row, change := m.Rows[0], m.Changes[0]
	for what, k := range map[string]struct {
		text string
		most int
	}{
		"ID": {row.ID, mostID}, "host": {row.Host, mostID}, "value": {row.Value, mostValue}, "ID of a change": {change.ID, mostID},
		"trouble": {m.Error, mostValue},
	} {
		if want := k.most - 1; len(k.text) != want+len("…") || !utf8.ValidString(k.text) { // an ä is cut in two
			t.Errorf("%s has %d bytes", what, len(k.text))
		}
	}
}
