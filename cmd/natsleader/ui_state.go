package main

import (
	"strings"
	"sync"
	"time"
)

// uiState is what the page shows. As a renderer it gets what a watcher reports, and hands
// it to the pages that are open.
type uiState struct {
	bucket string

	mu    sync.Mutex
	s     *inspector // nil: not connected
	clock serverClock
	rows  map[string]uiRow
	texts map[string][]byte // the records, as stored
	err   error             // why the rows are not up to date; nil: they are
	began bool              // the watcher has read all keys once
	pages map[*uiReader]bool
}

// uiRow is an election, or a seat of one, as the page shows it. Numbers of 64 bits are texts,
// because JavaScript rounds them.
type uiRow struct {
	Key      string `json:"key"`
	State    state  `json:"state"`
	Trouble  int    `json:"trouble"`                // how much attention it needs: 0 is the most
	ID       string `json:"id,omitempty"`           // of the holder that leads or is pending, or led last
	Token    uint64 `json:"token,string,omitempty"` // of its term
	Since    int64  `json:"since,omitempty"`        // when it came into the state, in Unix ms of the server
	Expires  int64  `json:"expires,omitempty"`      // when its lease ends, likewise
	Lease    int64  `json:"lease,omitempty"`        // in ms
	Value    string `json:"value,omitempty"`        // what the leader publishes
	Value64  bool   `json:"value64,omitempty"`      // the value is no UTF-8, and is shown in base64
	Revision uint64 `json:"revision,string"`
	Written  int64  `json:"written,omitempty"`
}

// uiChange is a line of a time line.
type uiChange struct {
	Key   string `json:"key"`
	At    int64  `json:"at"`
	State state  `json:"state"`
	ID    string `json:"id,omitempty"`
	Token uint64 `json:"token,string,omitempty"`
	Text  string `json:"text"`
	First bool   `json:"first,omitempty"` // it is how the election was found
}

func newUIState(bucket string) *uiState {
	return &uiState{bucket: bucket, rows: make(map[string]uiRow), texts: make(map[string][]byte), pages: make(map[*uiReader]bool)}
}

func (u *uiState) begin() error        { return nil }
func (u *uiState) end()                {}
func (u *uiState) keys() <-chan string { return nil }
func (u *uiState) typed(string) error  { return nil }

// connected takes the connection that requests of pages use, or nil.
func (u *uiState) connected(s *inspector) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.s = s
}

// inspector returns the connection, or nil.
func (u *uiState) inspector() *inspector {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.s
}

func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// changed is part of renderer, as are shown and trouble. It reaches pages at once.
func (u *uiState) changed(changes ...change) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range changes {
		c, ok := c.(electionChange)
		if !ok {
			continue
		}
		line := uiChange{
			Key: c.now.election, At: milliseconds(c.at), State: c.state, ID: cut(c.now.holder.ID, mostID), Token: c.now.holder.Token,
			Text: cut(c.event(), mostValue), First: c.previous == nil,
		}
		u.rows[line.Key] = rowOf(&watched{now: c.now, as: c.state, was: u.rows[line.Key].ID}, u.clock.now(), nil)
		u.texts[line.Key] = c.now.entry.Value
		for p := range u.pages {
			p.add(line)
			p.touch(line.Key)
			p.signal()
		}
	}
	return nil
}

// shown compares the rows with what the watcher knows. Renewals reach pages by it.
func (u *uiState) shown(now time.Time, of viewer) error {
	w, ok := of.(*watcher)
	if !ok {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.clock = w.s.clock
	if !w.complete {
		return nil
	}
	if !w.troubled && w.feed != nil && u.err != nil {
		u.err = nil
		u.signal()
	}
	if !u.began {
		u.began = true
		u.signal()
	}
	for key, x := range w.elections {
		if x.last == nil {
			continue
		}
		row := rowOf(x, now, u.err)
		if old, known := u.rows[key]; known && old == row {
			continue
		}
		u.rows[key], u.texts[key] = row, x.now.entry.Value
		for p := range u.pages {
			p.touch(key)
			p.signal()
		}
	}
	return nil
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

// rowOf returns the row of an election.
func rowOf(x *watched, now time.Time, trouble error) uiRow {
	s := x.now
	row := uiRow{
		Key: s.election, State: x.as, Trouble: int(x.troubleOf(now, trouble)), ID: s.holder.ID, Token: s.holder.Token,
		Since: milliseconds(s.since(x.as)), Revision: s.entry.Revision, Written: milliseconds(s.entry.Created),
	}
	switch x.as {
	case stateLeading, statePending:
		row.Expires, row.Lease = milliseconds(s.expires()), s.holder.Lease.Milliseconds()
		var base string
		row.Value, base = text(s.holder.Value)
		if base != "" {
			row.Value, row.Value64 = base, true
		}
		row.Value = cut(row.Value, mostValue)
	case stateReleased, stateExpired, stateDeleted, stateForeign, stateNever:
		row.ID = x.was
		if last := s.last(); last != nil {
			row.ID, row.Token = last.ID, last.Token
		}
	}
	row.ID = cut(row.ID, mostID)
	return row
}

func (u *uiState) trouble(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.err = err
	u.signal()
}

// signal lets all pages look. The caller has the lock.
func (u *uiState) signal() {
	for p := range u.pages {
		p.signal()
	}
}

// record returns the record of an election as it is stored.
func (u *uiState) record(key string) (row uiRow, stored []byte, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	row, ok = u.rows[key]
	return row, u.texts[key], ok
}

// mostPages is how many pages are served at once.
const mostPages = 64

// mostUnread is how many changes are kept for a page that reads slowly.
const mostUnread = 1000

// uiReader is a page that is open. What it has not read yet is bounded: one row for each
// election, and the newest changes.
type uiReader struct {
	news    chan struct{} // has room for one
	dirty   map[string]bool
	changes []uiChange
	dropped bool // changes were dropped
}

// subscribe adds a page, which first gets all rows. It returns nil if there are too many.
func (u *uiState) subscribe() *uiReader {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.pages) >= mostPages {
		return nil
	}
	p := &uiReader{news: make(chan struct{}, 1), dirty: make(map[string]bool, len(u.rows))}
	for key := range u.rows {
		p.dirty[key] = true
	}
	p.signal()
	u.pages[p] = true
	return p
}

func (u *uiState) unsubscribe(p *uiReader) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.pages, p)
}

func (p *uiReader) touch(key string) { p.dirty[key] = true }

func (p *uiReader) add(c uiChange) {
	if len(p.changes) >= mostUnread {
		p.changes, p.dropped = p.changes[1:], true
	}
	p.changes = append(p.changes, c)
}

func (p *uiReader) signal() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// uiUpdate is a message to a page.
type uiUpdate struct {
	Now     int64      `json:"now"` // the server's time, in Unix ms; 0: not known yet
	Began   bool       `json:"began"`
	Error   string     `json:"error,omitempty"` // why the rows are not up to date
	Rows    []uiRow    `json:"rows,omitempty"`
	Changes []uiChange `json:"changes,omitempty"`
	Dropped bool       `json:"dropped,omitempty"`
	More    bool       `json:"more,omitempty"` // the rest follows at once
}

// mostRows is how many rows a message has, so that a page can draw between two messages.
const mostRows = 1000

// take returns what a page has not read yet.
func (u *uiState) take(p *uiReader) uiUpdate {
	u.mu.Lock()
	defer u.mu.Unlock()
	m := uiUpdate{Began: u.began, Changes: p.changes, Dropped: p.dropped}
	if !u.clock.local.IsZero() {
		m.Now = milliseconds(u.clock.now())
	}
	if u.err != nil {
		m.Error = errorText(u.err)
	}
	p.changes, p.dropped = nil, false
	for key := range p.dirty {
		if len(m.Rows) == mostRows {
			m.More = true
			p.signal()
			break
		}
		delete(p.dirty, key)
		m.Rows = append(m.Rows, u.rows[key])
	}
	return m
}
