package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/act"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

// No line of the help may become a request of troff, which would drop it, and no hidden command is shown.
func TestManual_Escapes(t *testing.T) {
	app := fisk.New("x", "Do it\n\n.profile is a file\n'quoted'\nback\\slash")
	app.Command("go", "Go on").HelpLong("'go' goes\n  --indented").Flag("far", ".5 or more").Envar("FAR").Short('f').String()
	app.Command("hidden", "Not shown").Hidden()
	testworld.Alone(t, func(w *testworld.World) {
		expect.OK(w, writeManual(testworld.NoteWriter{W: w, Mark: ""}, app.Model()))
	})
}

// The page is written in one piece, or a reader that has seen enough ends natsleader by SIGPIPE.
func TestManual_InOnePiece(t *testing.T) {
	var pieces pieces
	expect.OK(t, writeManual(&pieces, fisk.New("x", "Do it").Model()))
	expect.Equal(t, pieces, 1, "%d pieces")
}

type pieces int

func (p *pieces) Write(b []byte) (int, error) {
	*p++
	return len(b), nil
}

// Every command of the table in docs/cli.md is in the manual page, with its long help, and every exit code.
func TestManual_Complete(t *testing.T) {
	page := expect.Got(proof.ReadOutside("../../docs/cli.md"))(t)
	var b strings.Builder
	expect.Equal(t, execute([]string{"--help-man"}, front.Stdio{Stdout: &b}), 0, "exit code %d")
	out := strings.ReplaceAll(b.String(), `\-`, "-")
	printed(t, out, ".TH NATSLEADER 1 ", "\n.SS \"step-down ", "$NATSLEADER_BUCKET", strings.Split(act.StepDownHelp, ";")[0])
	overview, rest, _ := strings.Cut(string(page), "\n## Install\n")
	_, rest, _ = strings.Cut(rest, "\n## Exit codes\n")
	table, _, _ := strings.Cut(rest, "\n## ")
	commands := regexp.MustCompile("(?m)^\\| \\[?`([a-z-]+)[^`]*`").FindAllStringSubmatch(overview, -1)
	expect.Must(t, len(commands) >= 10, "%d commands found in docs/cli.md", len(commands))
	for _, m := range commands {
		printed(t, out, "\n.SS \""+m[1])
	}
	codes := regexp.MustCompile(`(?m)^\| ([0-9][0-9, +n]*) \| `).FindAllStringSubmatch(table, -1)
	expect.That(t, len(codes) == len(exitMeanings),
		"%d exit codes, docs/cli.md has %d", len(exitMeanings), len(codes))
	for _, m := range codes {
		printed(t, out, "\n.TP\n"+m[1]+"\n")
	}
}
