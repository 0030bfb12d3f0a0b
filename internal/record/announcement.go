package record

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// Announcement is one entry of a roster, in JSON.
type Announcement struct {
	Format   int       `json:"v"`
	ID       string    `json:"id"`
	Priority int       `json:"priority,omitempty"`
	Preempt  bool      `json:"preempt,omitempty"`
	Denied   bool      `json:"denied,omitempty"` // see roster.Entry
	DeniedAt time.Time `json:"denied_at,omitzero"`
	Ticket   uint64    `json:"ticket,omitempty"` // revision of the first announcement; 0: this is it
	Since    time.Time `json:"since"`
	Value    string    `json:"value,omitempty"`
	Binary   string    `json:"value64,omitempty"` // a value that is not UTF-8, in base64

	Session  string
	Revision uint64
}

// AnnouncementFormat is the format that this version writes.
const AnnouncementFormat = 1

// Publish sets the value.
func (s *Announcement) Publish(value string) { s.Value, s.Binary = WireValue(value) }

// Published returns the value, or nil if there is none or it cannot be decoded.
func (s *Announcement) Published() []byte {
	value, err := ValueOf(s.Value, s.Binary)
	if err != nil || value == "" {
		return nil
	}
	return []byte(value)
}

// Encode returns the announcement as JSON.
func (s *Announcement) Encode() []byte {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings, numbers and a time of this age
	}
	return data
}

// DecodeAnnouncement decodes an announcement. One that cannot be decoded counts as none.
func DecodeAnnouncement(a backend.Announcement) (Announcement, bool) {
	var s Announcement
	if a.Entry == nil || json.Unmarshal(a.Entry, &s) != nil || s.Format < AnnouncementFormat || unfitForLine(a.Session) {
		return Announcement{}, false
	}
	s.Session, s.Revision = a.Session, a.Revision
	if s.Ticket == 0 {
		s.Ticket = a.Revision
	}
	return s, true
}

// Before compares in the order of succession: the highest priority first, the longest
// waiting among equals. Candidates whose writes are denied come after all others.
func (s *Announcement) Before(o *Announcement) int {
	if s.Denied != o.Denied {
		if o.Denied {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(o.Priority, s.Priority), cmp.Compare(s.Ticket, o.Ticket), cmp.Compare(s.Session, o.Session))
}
