package webpage

import (
	"encoding/base64"
	"reflect"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// State is what the page shows. Its methods hand changes to the pages that are open, and may be called
// by any goroutine. All pages share what it keeps: of a page it knows only how far that has read.
type State struct {
	mu        sync.Mutex
	now       func() time.Time // the server's; nil: not known yet
	index     map[string]int   // of elections, by key
	elections []election
	shownAt   []uint64 // what shown was when each of them was shown anew
	shown     uint64   // how often an election was shown anew
	changes   []Change // the newest
	changed   uint64   // how many changes there were
	head      Head
	heads     int           // how often the head was another
	err       string        // why the rows are not up to date; empty: they are
	since     time.Time     // since when; zero: they never were
	news      chan struct{} // closed when there is something new; nil: no page waits for it
}

// election is what is known of an election.
type election struct {
	row    Row
	record []byte // as stored
}

// Row is an election, or a seat of one, as the page shows it. Numbers of 64 bits are texts,
// because JavaScript rounds them.
type Row struct {
	Key      string   `json:"key"`
	Gone     bool     `json:"gone,omitempty"`         // the election is not there any more, and nothing else is said of it
	Group    string   `json:"group,omitempty"`        // whose assigner is elected, and whose row this is
	Sharing  *Sharing `json:"sharing,omitempty"`      // of the group; another one once it has changed
	State    string   `json:"state"`                  // leading, pending, released, deleted, expired, foreign, never
	Trouble  int      `json:"trouble"`                // how much attention it needs, as table.js has it: 0 is the most
	ID       string   `json:"id,omitempty"`           // of the holder that leads or is pending, or led last
	Host     string   `json:"host,omitempty"`         // on which the ID of the leader was made; empty: it is the ID
	Token    uint64   `json:"token,string,omitempty"` // of its term
	Since    int64    `json:"since,omitempty"`        // when it came into the state, in Unix ms of the server
	Expires  int64    `json:"expires,omitempty"`      // when its lease ends, likewise
	Lease    int64    `json:"lease,omitempty"`        // in ms
	Value    string   `json:"value,omitempty"`        // what the leader publishes
	Value64  bool     `json:"value64,omitempty"`      // the value is no UTF-8, and is shown in base64
	Revision uint64   `json:"revision,string"`
	Written  int64    `json:"written,omitempty"` // when the record was, in Unix ms of the server
	Code     string   `json:"code,omitempty"`    // of the trouble
	Why      string   `json:"why,omitempty"`     // it is in trouble
	Do       string   `json:"do,omitempty"`      // about that
	Link     string   `json:"link,omitempty"`    // to more about that
}

// Sharing is how a group shares its shards.
type Sharing struct {
	Shards  int      `json:"shards"`
	NoOwner int      `json:"no_owner,omitempty"` // shards that were never granted, or that no member may have
	Members []Member `json:"members"`
	Others  int      `json:"others,omitempty"` // members that are left out
	Since   int64    `json:"since"`            // nothing is known of the time before, in Unix ms of the server
	Steps   []Step   `json:"steps,omitempty"`  // the newest, the oldest of them first
}

// Member is a member of a group, with how many of its shards are in which state.
type Member struct {
	ID       string `json:"id"`
	Host     string `json:"host,omitempty"` // on which the ID was made; empty: it is the ID
	State    string `json:"state"`          // lives, drained, leaves, left, gone
	Works    int    `json:"works,omitempty"`
	NotBegun int    `json:"not_begun,omitempty"`
	Waits    int    `json:"waits,omitempty"`    // until the work of another member has ended
	Gone     int    `json:"gone,omitempty"`     // its term is over, and they are to be granted to another
	Leaving  int    `json:"leaving,omitempty"`  // granted to others, which wait until its work has ended
	Numbers  string `json:"numbers,omitempty"`  // of its shards
	More     string `json:"more,omitempty"`     // what else is known of it
	Shortage string `json:"shortage,omitempty"` // what draining it would lead to
}

// Step is a change in a group.
type Step struct {
	At      int64  `json:"at"` // in Unix ms of the server
	Text    string `json:"text"`
	Trouble bool   `json:"trouble,omitempty"`
	Moved   int    `json:"moved,omitempty"` // shards
	From    string `json:"from,omitempty"`  // empty: they had no owner
	To      string `json:"to,omitempty"`
}

// mostSharing is how many bytes the members of a group have in a message, and the last one may go beyond it.
const mostSharing = 16 << 10

// Add adds a member, or counts it where there is no room for it.
func (s *Sharing) Add(m Member) {
	if s.size() > mostSharing {
		s.Others++
		return
	}
	s.Members = append(s.Members, m)
}

// size returns how many bytes it has in a message.
func (s *Sharing) size() (n int) {
	if s == nil {
		return 0
	}
	for _, m := range s.Members {
		n += frame + len(m.ID) + len(m.Host) + len(m.Numbers) + len(m.More) + len(m.Shortage)
	}
	for _, x := range s.Steps {
		n += frame + len(x.Text) + len(x.From) + len(x.To)
	}
	return n
}

// Head is what the page shows of the servers.
type Head struct {
	Server   string    `json:"server,omitempty"`   // to which the program is connected, or was last
	Lost     bool      `json:"lost,omitempty"`     // it was
	Facts    []Fact    `json:"facts,omitempty"`    // about the connection
	Replicas []Replica `json:"replicas,omitempty"` // of the bucket, the leader first
	Cordoned []string  `json:"cordoned,omitempty"` // IDs and hosts
	Checked  bool      `json:"checked"`            // the findings are there
	Findings []Finding `json:"findings,omitempty"` // about the bucket, the worst first
}

// Fact is what is known of the connection.
type Fact struct {
	Name string `json:"name"`
	Text string `json:"text,omitempty"` // empty: it is not known
	Why  string `json:"why,omitempty"`  // it is not known
}

// Replica is a server that keeps the bucket.
type Replica struct {
	Name    string `json:"name"`
	Leads   bool   `json:"leads,omitempty"`
	Fault   string `json:"fault,omitempty"`   // what is wrong with it
	Unknown bool   `json:"unknown,omitempty"` // it was not read how the server is
}

// Finding is something that is wrong with the bucket.
type Finding struct {
	Severity string `json:"severity"`
	Text     string `json:"text"`
	Advice   string `json:"advice,omitempty"`
}

// Change is that of the state or the term of an election.
type Change struct {
	Key   string `json:"key"`
	At    int64  `json:"at"` // in Unix ms of the server
	State string `json:"state"`
	ID    string `json:"id,omitempty"`
	Token uint64 `json:"token,string,omitempty"`
	First bool   `json:"first,omitempty"` // it is how the election was found
	Text  string `json:"text,omitempty"`  // the change in words

	Trouble bool `json:"trouble,omitempty"` // it leads to trouble
}

// NewState returns a state without elections.
func NewState() *State { return &State{index: make(map[string]int)} }

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

// Trouble says why the rows are not up to date, and since when: the zero time if they never were.
func (s *State) Trouble(text string, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.since = cut(text, mostValue), since
	s.signal()
}

// Head shows the servers. It does nothing if they are shown so already.
func (s *State) Head(head Head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !reflect.DeepEqual(head, s.head) {
		s.head = head
		s.heads++
		s.signal()
	}
}

// Row returns the row of an election as it is shown, without a state if there is none.
func (s *State) Row(key string) Row {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, _ := s.get(key)
	return e.row
}

// get returns an election. The caller has the lock.
func (s *State) get(key string) (e election, known bool) {
	i, known := s.index[key]
	if known = known && !s.elections[i].row.Gone; known {
		e = s.elections[i]
	}
	return e, known
}

// Show shows a row, and its record as stored, and what has changed of its election. Pages
// get both in one message. It does nothing for a row that is shown already, without changes.
func (s *State) Show(row Row, record []byte, changes ...Change) {
	row.ID, row.Host, row.Value = cut(row.ID, mostID), cut(row.Host, mostID), cut(row.Value, mostValue)
	s.mu.Lock()
	defer s.mu.Unlock()
	i, known := s.index[row.Key]
	switch {
	case !known:
		i = len(s.elections)
		s.index[row.Key], s.elections, s.shownAt = i, append(s.elections, election{}), append(s.shownAt, 0)
	case s.elections[i].row == row && len(changes) == 0:
		return
	}
	s.shown++
	s.elections[i], s.shownAt[i] = election{row, record}, s.shown
	for _, c := range changes {
		c.ID, c.Text = cut(c.ID, mostID), cut(c.Text, mostValue)
		s.changes = append(s.changes[max(0, len(s.changes)+1-mostUnread):], c)
		s.changed++
	}
	s.signal()
}

// Keep takes away the rows that are not to be kept.
func (s *State) Keep(has func(key string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range s.elections {
		if !e.row.Gone && !has(e.row.Key) {
			s.shown++
			s.elections[i], s.shownAt[i] = election{row: Row{Key: e.row.Key, Gone: true}}, s.shown
			s.signal()
		}
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
	if s.news != nil {
		close(s.news)
		s.news = nil
	}
}

// election returns an election, with its record as it is stored.
func (s *State) election(key string) (e election, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.get(key)
}

// mostUnread is how many changes are kept for pages that read slowly.
const mostUnread = 1000

// reader is how far a page has read.
type reader struct {
	began   bool   // the page has got a message
	changed uint64 // what that of the state was
	heads   int    // what that of the state was
	shown   uint64 // the page has all elections as they were then
	next    int    // the election that it looks at next
	then    uint64 // what shown will be when it has looked at all of them
}

// reader returns that of a page that is opened, which first gets all rows.
func (s *State) reader() *reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &reader{changed: s.changed}
}

// update is a message to a page.
type update struct {
	Now     int64    `json:"now"`             // the server's time, in Unix ms; 0: not known yet
	First   bool     `json:"first,omitempty"` // the page has got nothing yet
	Began   bool     `json:"began"`           // all rows were read once
	Error   string   `json:"error,omitempty"` // why the rows are not up to date
	Since   int64    `json:"since,omitempty"` // since when they are not, in Unix ms of the server
	Head    *Head    `json:"head,omitempty"`
	Rows    []Row    `json:"rows,omitempty"`
	Changes []Change `json:"changes,omitempty"`
	Dropped bool     `json:"dropped,omitempty"` // there were more changes
	More    bool     `json:"more,omitempty"`    // the rest follows at once
}

// mostMessage is how many bytes the rows and changes of a message have, and the last one may go beyond it.
// JSON makes at most six of a byte. A page can draw between two messages.
const mostMessage = 8 << 10

// frame is how many bytes a row or change has beside its texts.
const frame = 200

// take returns what a page has not read yet, the changes first, and a channel that is closed when there is
// more: nil if there is more already.
func (s *State) take(p *reader) (update, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := update{Error: s.err, First: !p.began}
	p.began = true
	if s.now != nil {
		m.Began, m.Now = true, Milliseconds(s.now())
	}
	if s.err != "" {
		m.Since = Milliseconds(s.since)
	}
	if p.heads < s.heads {
		head := s.head
		m.Head, p.heads = &head, s.heads
	}
	size := 0
	kept := s.changed - uint64(len(s.changes)) // those before it are not there any more
	m.Dropped = p.changed < kept
	for p.changed = max(p.changed, kept); p.changed < s.changed && size < mostMessage; p.changed++ {
		c := s.changes[p.changed-kept]
		m.Changes = append(m.Changes, c)
		size += frame + len(c.Key) + len(c.ID) + len(c.Text)
	}
	// Each look goes through all elections in the same order, so that none of them waits while others change.
	if p.next == 0 {
		p.then = s.shown
	}
	for ; p.shown < p.then && p.next < len(s.elections) && size < mostMessage; p.next++ {
		if row := s.elections[p.next].row; s.shownAt[p.next] > p.shown && (!row.Gone || p.shown > 0) {
			m.Rows = append(m.Rows, row)
			size += frame + len(row.Key) + len(row.Group) + len(row.ID) + len(row.Host) + len(row.Value) + len(row.Why) + len(row.Do) + len(row.Link) + row.Sharing.size()
		}
	}
	if p.next == len(s.elections) {
		p.next, p.shown = 0, p.then
	}
	if m.More = p.changed < s.changed || p.shown < s.shown; m.More {
		return m, nil
	}
	if s.news == nil {
		s.news = make(chan struct{})
	}
	return m, s.news
}
