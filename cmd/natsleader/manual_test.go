package main

import (
	"strings"
	"testing"

	"github.com/choria-io/fisk"

	expect "github.com/natsleader/natsleader/internal/check"
)

// No line of the help may become a request of troff, which would drop it.
func TestManual_Escapes(t *testing.T) {
	app := fisk.New("x", "Do it\n\n.profile is a file\n'quoted'\nback\\slash")
	app.Command("go", "Go on").HelpLong("'go' goes\n  --indented").Flag("far", ".5 or more").Envar("FAR").Short('f').String()
	app.Command("hidden", "Not shown").Hidden()
	var b strings.Builder
	expect.OK(t, writeManual(&b, app.Model()))
	printed(t, b.String(), "\nnatsleader \\- Do it\n", "\n\\&.profile is a file\n", "\n\\&'quoted'\n", "\nback\\eslash\n",
		"\n\\&'go' goes\n  \\-\\-indented\n", "\n\\fB\\-f, \\-\\-far\\fR=\\fIFAR\\fR\n\\&.5 or more ($FAR)\n")
	expect.That(t, !strings.Contains(b.String(), "hidden"), "a hidden command is shown:\n%s", b.String())
}
