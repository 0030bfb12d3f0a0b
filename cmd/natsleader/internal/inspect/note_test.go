package inspect

import (
	"encoding/json"
	"strings"
	"testing"

	expect "github.com/natsleader/natsleader/internal/check"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
)

// What others write as a note is shown up to a length.
func TestNote_Bounds(t *testing.T) {
	const page = "https://x/"
	note := func(owner, link int) facts.Note {
		n := facts.Note{Owner: strings.Repeat("o", owner), Runbook: page + strings.Repeat("r", link-len(page)), OneShot: true}
		return facts.DecodeNote(expect.Got(json.Marshal(n))(t))
	}
	n := note(facts.MostNote, facts.MostNote)
	expect.That(t, len(n.Owner) == facts.MostNote && len(n.Runbook) == facts.MostNote, "%+v", n)
	expect.Deep(t, note(1, facts.MostNote+1), facts.Note{Owner: "o", OneShot: true})
	expect.Deep(t, note(facts.MostNote+1, 20), facts.Note{Unread: facts.DamagedNote})
	expect.Deep(t, facts.DecodeNote([]byte(`{"owner":7`)), facts.Note{Unread: facts.DamagedNote})
	expect.Deep(t, facts.DecodeNote(nil), facts.Note{})
}
