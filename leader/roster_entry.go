package leader

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/natsleader/natsleader/internal/backend"
)

// RosterEntry is a candidate that waits in an election without holding its key.
type RosterEntry struct {
	ID       string
	Value    []byte // the value that it publishes with the lease when it leads; not to be changed
	Priority int
	Preempt  bool      // asks a leader of lower priority to hand over
	Since    time.Time // when it began to wait, by its own clock
}

// announcement is one entry of a roster, in JSON.
type announcement struct {
	Format   int       `json:"v"`
	ID       string    `json:"id"`
	Priority int       `json:"priority,omitempty"`
	Preempt  bool      `json:"preempt,omitempty"`
	Ticket   uint64    `json:"ticket,omitempty"` // revision of the first announcement; 0: this is it
	Since    time.Time `json:"since"`
	Value    string    `json:"value,omitempty"`
	Binary   string    `json:"value64,omitempty"` // a value that is not UTF-8, in base64

	session  string
	revision uint64
}

const announcementFormat = 1

// publish sets the value.
func (s *announcement) publish(value string) {
	s.Value, s.Binary = "", ""
	if utf8.ValidString(value) {
		s.Value = value
	} else {
		s.Binary = base64.StdEncoding.EncodeToString([]byte(value))
	}
}

func (s *announcement) encode() []byte {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings, numbers and a time of this age
	}
	return data
}

// decodeAnnouncement decodes an announcement. One that cannot be decoded counts as none.
func decodeAnnouncement(a backend.Announcement) (announcement, bool) {
	var s announcement
	if a.Entry == nil || json.Unmarshal(a.Entry, &s) != nil || s.Format < announcementFormat || unfitForLine(a.Session) {
		return announcement{}, false
	}
	s.session, s.revision = a.Session, a.Revision
	if s.Ticket == 0 {
		s.Ticket = a.Revision
	}
	return s, true
}

// before compares in the order of succession: the highest priority first, the longest
// waiting among equals.
func (s *announcement) before(o *announcement) int {
	return cmp.Or(cmp.Compare(o.Priority, s.Priority), cmp.Compare(s.Ticket, o.Ticket), cmp.Compare(s.session, o.session))
}

// show returns the entry as an application sees it.
func (s *announcement) show() RosterEntry {
	shown := RosterEntry{ID: s.ID, Priority: s.Priority, Preempt: s.Preempt, Since: s.Since}
	switch {
	case s.Binary != "":
		shown.Value, _ = base64.StdEncoding.DecodeString(s.Binary) // a value that cannot be decoded is left out
	case s.Value != "":
		shown.Value = []byte(s.Value)
	}
	return shown
}

// view collects the announcements of a roster for its reader.
type view struct {
	priority int    // of the reader: candidates above it may preempt it, and their announcements prove that they live
	changed  func() // called once after a change, until the view is read; never blocks

	mu       sync.Mutex
	stands   map[string]announcement // by session
	complete bool
	rung     bool
	err      error // why it has ended
}

func newView(priority int, changed func()) *view {
	return &view{priority: priority, changed: changed, stands: make(map[string]announcement)}
}

// take handles an announcement.
func (v *view) take(a backend.Announcement) {
	v.mu.Lock()
	defer v.mu.Unlock()
	was, stood := v.stands[a.Session]
	news := false
	switch s, stands := decodeAnnouncement(a); {
	case a.Err != nil:
		v.err, news = a.Err, true
	case a.Complete:
		v.complete, news = true, true
	case !stands:
		delete(v.stands, a.Session)
		news = stood
	case !stood || was.revision < s.revision:
		v.stands[a.Session] = s
		was.revision = s.revision
		news = was != s || s.Preempt && s.Priority > v.priority
	}
	if news && (v.complete || v.err != nil) && !v.rung {
		v.rung = true
		v.changed()
	}
}

// order returns the waiting candidates in order, without those that hold a key, and
// whether the view is complete; or the reason why the view has ended.
func (v *view) order(holds func(session string) bool) (all []announcement, told bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.rung = false
	if !v.complete || v.err != nil {
		return nil, false, v.err
	}
	for _, s := range v.stands {
		if !holds(s.session) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b announcement) int { return a.before(&b) })
	return all, true, nil
}
