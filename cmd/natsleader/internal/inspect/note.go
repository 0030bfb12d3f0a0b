package inspect

import (
	"context"
	"slices"
	"strings"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
)

// withNotes returns the elections without the keys of notes, and each with its note.
func withNotes(all []facts.ElectionStatus) []facts.ElectionStatus {
	notes := map[string]facts.Note{}
	all = slices.DeleteFunc(all, func(x facts.ElectionStatus) bool {
		election, ok := strings.CutPrefix(x.Election, facts.NotePrefix)
		if ok {
			notes[election] = facts.DecodeNote(x.Entry.Value)
		}
		return ok
	})
	for i := range all {
		all[i].Note = notes[all[i].Election]
	}
	return all
}

// NoteOf reads the note of one election. An observer may lack the permission: that it is not known is no sign of none.
func (s *Inspector) NoteOf(ctx context.Context, election string) facts.Note {
	x, err := Answer(ctx, s, func(ctx context.Context) (facts.ElectionStatus, error) { return s.One(ctx, facts.NotePrefix+election) })
	if err != nil {
		return facts.Note{Unread: front.ErrorText(err)}
	}
	return facts.DecodeNote(x.Entry.Value)
}

// NoteDetails are the lines of a note, for people.
func NoteDetails(n facts.Note) (rows [][]string) {
	if n.Owner != "" {
		rows = append(rows, []string{"Owner:", front.Printable(n.Owner)})
	}
	if n.Runbook != "" {
		rows = append(rows, []string{"Runbook:", front.Printable(n.Runbook)})
	}
	if n.OneShot {
		rows = append(rows, []string{"Kind:", "one-shot job"})
	}
	if n.Unread != "" {
		rows = append(rows, []string{"Note:", "not read: " + n.Unread})
	}
	return rows
}
