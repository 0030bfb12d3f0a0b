package inspect

import (
	"encoding/json"
	"strings"
	"testing"

	expect "github.com/natsleader/natsleader/internal/check"
)

// What others write as a note is shown up to a length.
func TestNote_Bounds(t *testing.T) {
	const page = "https://x/"
	note := func(owner, link int) ElectionNote {
		n := ElectionNote{Owner: strings.Repeat("o", owner), Runbook: page + strings.Repeat("r", link-len(page)), OneShot: true}
		return DecodeNote(expect.Got(json.Marshal(n))(t))
	}
	n := note(MostNote, MostNote)
	expect.That(t, len(n.Owner) == MostNote && len(n.Runbook) == MostNote, "%+v", n)
	expect.Deep(t, note(1, MostNote+1), ElectionNote{Owner: "o", OneShot: true})
	expect.Deep(t, note(MostNote+1, 20), ElectionNote{})
}
