package webpage

import (
	"encoding/base64"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// State is what the page shows. Its methods hand changes to the pages that are open, and may be called
// by any goroutine.
type State struct {
	mu    sync.Mutex
	now   func() time.Time // the server's; nil: not known yet
	rows  map[string]Row
	texts map[string][]byte // the records, as stored
	err   string            // why the rows are not up to date; empty: they are
	pages map[*reader]bool
}

// Row is an election, or a seat of one, as the page shows it. Numbers of 64 bits are texts,
// because JavaScript rounds them.
type Row struct {
	Key      string `json:"key"`
	State    string `json:"state"`                  // leading, pending, released, deleted, expired, foreign, never
	Trouble  int    `json:"trouble"`                // how much attention it needs, as table.js has it: 0 is the most
	ID       string `json:"id,omitempty"`           // of the holder that leads or is pending, or led last
	Token    uint64 `json:"token,string,omitempty"` // of its term
	Since    int64  `json:"since,omitempty"`        // when it came into the state, in Unix ms of the server
	Expires  int64  `json:"expires,omitempty"`      // when its lease ends, likewise
	Lease    int64  `json:"lease,omitempty"`        // in ms
	Value    string `json:"value,omitempty"`        // what the leader publishes
	Value64  bool   `json:"value64,omitempty"`      // the value is no UTF-8, and is shown in base64
	Revision uint64 `json:"revision,string"`
	Written  int64  `json:"written,omitempty"` // when the record was, in Unix ms of the server
}

// Change is a line of a time line.
type Change struct {
	Key   string `json:"key"`
	At    int64  `json:"at"` // in Unix ms of the server
	State string `json:"state"`
	ID    string `json:"id,omitempty"`
	Token uint64 `json:"token,string,omitempty"`
	Text  string `json:"text"`
	First bool   `json:"first,omitempty"` // it is how the election was found
}

// NewState returns a state without elections.
func NewState() *State {
	return &State{rows: make(map[string]Row), texts: make(map[string][]byte), pages: make(map[*reader]bool)}
}

// Milliseconds returns a time as rows and changes have it, and 0 for the zero time.
func Milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Complete says that all elections were read at least once, and what the server's time is. What was
// wrong before is over.
func (s *State) Complete(now func() time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil || s.err != "" {
		s.signal()
	}
	s.now, s.err = now, ""
}

// Trouble says why the rows are not up to date.
func (s *State) Trouble(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = cut(text, mostValue)
	s.signal()
}

// Row returns the row of an election as it is shown, without a state if there is none.
func (s *State) Row(key string) Row {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows[key]
}

// Show shows a row, and its record as stored, and adds lines to the time line of its election. Pages
// get both in one message. It does nothing for a row that is shown already, without changes.
func (s *State) Show(row Row, record []byte, changes ...Change) {
	row.ID, row.Value = cut(row.ID, mostID), cut(row.Value, mostValue)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows[row.Key] == row && len(changes) == 0 {
		return
	}
	s.rows[row.Key], s.texts[row.Key] = row, record
	for p := range s.pages {
		p.dirty[row.Key] = true
		for _, c := range changes {
			c.ID, c.Text = cut(c.ID, mostID), cut(c.Text, mostValue)
			p.add(c)
		}
		p.signal()
	}
}

// Candidates may publish 64 KiB, and others may write any record.
const (
	mostID     = 256
	mostValue  = 1024
	mostRecord = 256 << 10
)

// cut shortens a text to that many bytes, and leaves no broken character at its end.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// text returns bytes for JSON: as they are, or in base64 if they are not UTF-8.
func text(b []byte) (s string, inBase64 bool) {
	if utf8.Valid(b) {
		return string(b), false
	}
	return base64.StdEncoding.EncodeToString(b), true
}

// signal lets all pages look. The caller has the lock.
func (s *State) signal() {
	for p := range s.pages {
		p.signal()
	}
}

// record returns the record of an election as it is stored.
func (s *State) record(key string) (row Row, stored []byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row, ok = s.rows[key]
	return row, s.texts[key], ok
}

// mostPages is how many pages are served at once.
const mostPages = 64

// mostUnread is how many changes are kept for a page that reads slowly.
const mostUnread = 1000

// reader is a page that is open. What it has not read yet is bounded: one row for each
// election, and the newest changes.
type reader struct {
	news    chan struct{} // has room for one
	dirty   map[string]bool
	changes []Change
	dropped bool // changes were dropped
}

// subscribe adds a page, which first gets all rows. It returns nil if there are too many.
func (s *State) subscribe() *reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pages) >= mostPages {
		return nil
	}
	p := &reader{news: make(chan struct{}, 1), dirty: make(map[string]bool, len(s.rows))}
	for key := range s.rows {
		p.dirty[key] = true
	}
	p.signal()
	s.pages[p] = true
	return p
}

func (s *State) unsubscribe(p *reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pages, p)
}

func (p *reader) add(c Change) {
	if len(p.changes) >= mostUnread {
		p.changes, p.dropped = p.changes[1:], true
	}
	p.changes = append(p.changes, c)
}

func (p *reader) signal() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// update is a message to a page.
type update struct {
	Now     int64    `json:"now"` // the server's time, in Unix ms; 0: not known yet
	Began   bool     `json:"began"`
	Error   string   `json:"error,omitempty"` // why the rows are not up to date
	Rows    []Row    `json:"rows,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	Dropped bool     `json:"dropped,omitempty"`
	More    bool     `json:"more,omitempty"` // the rest follows at once
}

// mostRows is how many rows a message has, so that a page can draw between two messages.
const mostRows = 1000

// take returns what a page has not read yet.
func (s *State) take(p *reader) update {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := update{Error: s.err, Changes: p.changes, Dropped: p.dropped}
	if s.now != nil {
		m.Began, m.Now = true, Milliseconds(s.now())
	}
	p.changes, p.dropped = nil, false
	for key := range p.dirty {
		if len(m.Rows) == mostRows {
			m.More = true
			p.signal()
			break
		}
		delete(p.dirty, key)
		m.Rows = append(m.Rows, s.rows[key])
	}
	return m
}
