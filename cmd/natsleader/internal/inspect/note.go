package inspect

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/internal/group"
)

// NotePrefix begins the key of a note. The election follows.
const NotePrefix = "natsleader.note."

// ElectionNote is what operators have written about an election.
type ElectionNote struct {
	Owner   string `json:"owner,omitempty"`
	Runbook string `json:"runbook,omitempty"`
	OneShot bool   `json:"one_shot,omitempty"`
}

// MostNote is the length of a text in a note.
const MostNote = 500

// DecodeNote returns what a key of a note holds. Other clients may write it, so only a link to a page is one.
func DecodeNote(b []byte) (n ElectionNote) {
	if json.Unmarshal(b, &n) != nil || len(n.Owner) > MostNote {
		return ElectionNote{}
	}
	if CheckRunbook(n.Runbook) != nil {
		n.Runbook = ""
	}
	return n
}

// CheckRunbook rejects what is no link to a runbook.
func CheckRunbook(link string) error {
	u, err := url.Parse(link)
	switch {
	case link == "":
		return nil
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "", len(link) > MostNote:
		return front.Usagef("--runbook %q is no address of a page: it begins with https:// or http://, and has %d bytes at most", front.Shorten(link, front.LongValue), MostNote)
	}
	return nil
}

// withNotes returns the elections without the keys of notes, and each with its note.
func withNotes(all []ElectionStatus) []ElectionStatus {
	notes := map[string]ElectionNote{}
	all = slices.DeleteFunc(all, func(x ElectionStatus) bool {
		election, ok := strings.CutPrefix(x.Election, NotePrefix)
		if ok {
			notes[election] = DecodeNote(x.Entry.Value)
		}
		return ok
	})
	for i := range all {
		all[i].Note = notes[all[i].Election]
	}
	return all
}

// NoteOf reads the note of one election. An observer may lack the permission, and then there is none.
func (s *Inspector) NoteOf(ctx context.Context, election string) ElectionNote {
	x, err := Answer(ctx, s, func(ctx context.Context) (ElectionStatus, error) { return s.One(ctx, NotePrefix+election) })
	if err != nil {
		return ElectionNote{}
	}
	return DecodeNote(x.Entry.Value)
}

// Details are the lines of a note, for people.
func (n ElectionNote) Details() (rows [][]string) {
	if n.Owner != "" {
		rows = append(rows, []string{"Owner:", front.Printable(n.Owner)})
	}
	if n.Runbook != "" {
		rows = append(rows, []string{"Runbook:", front.Printable(n.Runbook)})
	}
	if n.OneShot {
		rows = append(rows, []string{"Kind:", "one-shot job"})
	}
	return rows
}

// NoteKey returns the key of the note of an election or of a group.
func NoteKey(election string) string {
	return NotePrefix + strings.TrimSuffix(election, group.AllKeys(""))
}
