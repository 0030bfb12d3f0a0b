package webpage

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// What a page has not read is bounded: one row of each election, and the newest changes.
func TestState_SlowReader(t *testing.T) {
	s := NewState()
	p := s.subscribe()
	const many = max(mostRows, mostUnread) + 5
	for i := range many {
		key := fmt.Sprint("e", i)
		s.Show(Row{Key: key, State: "foreign"}, nil, Change{Key: key, At: int64(i), Token: 1<<63 + 1})
	}
	m := s.take(p)
	if len(m.Rows) != mostRows || len(m.Changes) != mostUnread || !m.Dropped || !m.More || m.Changes[mostUnread-1].At != many-1 {
		t.Errorf("%d rows, %d changes, %v %v", len(m.Rows), len(m.Changes), m.Dropped, m.More)
	}
	text, err := json.Marshal(m.Changes[0])
	if err != nil || !strings.Contains(string(text), `"token":"9223372036854775809"`) {
		t.Errorf("%s %v", text, err)
	}
	<-p.news // there is more
	if m = s.take(p); len(m.Rows) != many-mostRows || m.More || m.Dropped || len(m.Changes) != 0 {
		t.Errorf("%d rows, %d changes, %v %v", len(m.Rows), len(m.Changes), m.Dropped, m.More)
	}
	for range mostPages - 1 {
		if s.subscribe() == nil {
			t.Fatal("it is not subscribed")
		}
	}
	if s.subscribe() != nil {
		t.Error("there are too many pages")
	}
	s.unsubscribe(p)
	if s.subscribe() == nil {
		t.Error("there is room for one more")
	}
}

// A page hears of a row only when it has changed, and of trouble until all is well again.
func TestState_OnlyChanges(t *testing.T) {
	s := NewState()
	p := s.subscribe()
	hears := func(want bool) {
		t.Helper()
		select {
		case <-p.news:
			if !want {
				t.Error("it hears of nothing new")
			}
		default:
			if want {
				t.Error("it hears of nothing")
			}
		}
	}
	hears(true) // of what there is
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
	hears(true)
	s.Trouble("away")
	hears(true)
	if m := s.take(p); !m.Began || m.Now != 7 || m.Error != "away" || len(m.Rows) != 1 {
		t.Errorf("%+v", m)
	}
	s.Complete(now)
	hears(true)
	if m := s.take(p); m.Error != "" || len(m.Rows) != 0 {
		t.Errorf("%+v", m)
	}
}

// What others write is bounded before a page gets it.
func TestState_CutsTexts(t *testing.T) {
	s := NewState()
	p := s.subscribe()
	huge := "x" + strings.Repeat("ä", 64<<10)
	s.Show(Row{Key: "e", ID: huge, Value: huge}, nil, Change{Key: "e", ID: huge, Text: huge})
	m := s.take(p)
	if len(m.Rows) != 1 || len(m.Changes) != 1 {
		t.Fatalf("%+v", m)
	}
	row, change := m.Rows[0], m.Changes[0]
	for what, k := range map[string]struct {
		text string
		most int
	}{
		"ID": {row.ID, mostID}, "value": {row.Value, mostValue}, "ID of a change": {change.ID, mostID}, "text": {change.Text, mostValue},
	} {
		if want := k.most - 1; len(k.text) != want+len("…") || !utf8.ValidString(k.text) { // an ä is cut in two
			t.Errorf("%s has %d bytes", what, len(k.text))
		}
	}
}
