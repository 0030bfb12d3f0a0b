package facts

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/natsleader/natsleader/internal/group"
)

// NotePrefix begins the key of a note. The election follows.
const NotePrefix = "natsleader.note."

// Note is what operators have written about an election.
type Note struct {
	Owner   string `json:"owner,omitempty"`
	Runbook string `json:"runbook,omitempty"`
	OneShot bool   `json:"one_shot,omitempty"`
	Unread  string `json:"unread,omitempty"` // why it is not known; empty: it was read, or there is none
}

// MostNote is the length of a text in a note.
const MostNote = 500

// DamagedNote is why a note is not known whose key holds something else.
const DamagedNote = "its key holds something else, which natsleader note with --remove takes away"

// DecodeNote returns what a key of a note holds, or nothing if it is missing. Other clients may write it, so only a link to a page
// is one.
func DecodeNote(b []byte) (n Note) {
	switch err := json.Unmarshal(b, &n); {
	case len(b) == 0:
		return Note{}
	case err != nil || len(n.Owner) > MostNote:
		return Note{Unread: DamagedNote}
	}
	n.Unread = "" // others may write it
	if !IsPage(n.Runbook) {
		n.Runbook = ""
	}
	return n
}

// IsPage reports whether a text is the address of a page.
func IsPage(link string) bool {
	u, err := url.Parse(link)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && len(link) <= MostNote
}

// NoteKey returns the key of the note of an election or of a group.
func NoteKey(election string) string {
	return NotePrefix + strings.TrimSuffix(election, group.AllKeys(""))
}
