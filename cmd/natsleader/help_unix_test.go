//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

// docs/cli-help.md has what --help prints, of natsleader itself and of each command. -update writes it.
func TestHelpPage_MatchesHelp(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	var now strings.Builder
	now.WriteString("# The help of each command\n\n" +
		"`go test ./cmd/natsleader -run TestHelpPage -update` writes this page from the command: edit the texts there.\n" +
		"[cli.md](cli.md) is the page to read first.\n\n" +
		"## natsleader\n\n```text\n" + strings.TrimSpace(helpOf(t)) + "\n```\n")
	app, _ := newApp(&front.Globals{}, false)
	for _, cmd := range app.Model().FlattenedCommands() {
		if cmd.Hidden || cmd.FullCommand == "help" {
			continue
		}
		text := helpOf(t, strings.Fields(cmd.FullCommand)...)
		before, _, found := strings.Cut(text, "\nGlobal Flags:\n")
		expect.Must(t, found, "no global flags in %s", text)
		fmt.Fprintf(&now, "\n## %s\n\n```text\n%s\n```\n", cmd.FullCommand, strings.TrimSpace(before))
	}
	const helpPage = "../../docs/cli-help.md"
	if *testworld.Update {
		expect.OK(t, os.WriteFile(helpPage, []byte(now.String()), 0o644)) //nolint:gosec // documentation
	}
	text := expect.Got(proof.ReadOutside(helpPage))(t)
	expect.That(t, string(text) == now.String(), "%s is not what --help prints: run the test with -update", helpPage)
}

// helpOf returns what --help prints of a command.
func helpOf(t *testing.T, command ...string) (shown string) {
	t.Helper()
	var out bytes.Buffer
	app, _ := newApp(&front.Globals{Stdio: front.Stdio{Stdout: &out}}, false)
	const printed = "the help is printed"
	app.Terminate(func(int) { panic(printed) }) // fisk would go on, and run the command
	defer func() {
		expect.Equal(t, recover(), any(printed), "--help ends with %v")
		shown = out.String()
	}()
	_, _ = app.Parse(append(command, "--help"))
	return ""
}
