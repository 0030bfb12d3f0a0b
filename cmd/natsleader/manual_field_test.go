//go:build field

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	expect "github.com/natsleader/natsleader/internal/check"
)

// Every command of the table in docs/cli.md is in the manual page, with its long help, and every exit code.
func TestManual_Complete(t *testing.T) {
	page := expect.Got(os.ReadFile("../../docs/cli.md"))(t)
	out := strings.ReplaceAll(succeeds(t, "--help-man"), `\-`, "-")
	printed(t, out, ".TH NATSLEADER 1 ", "\n.SS \"run ", "$NATSLEADER_BUCKET", strings.Split(runHelp, "\n")[0])
	overview, rest, _ := strings.Cut(string(page), "\n## Install\n")
	_, rest, _ = strings.Cut(rest, "\n## Exit codes\n")
	table, _, _ := strings.Cut(rest, "\n## ")
	commands := regexp.MustCompile("(?m)^\\| \\[?`([a-z-]+)[^`]*`").FindAllStringSubmatch(overview, -1)
	expect.Must(t, len(commands) >= 10, "%d commands found in docs/cli.md", len(commands))
	for _, m := range commands {
		if !strings.Contains(out, "\n.SS \""+m[1]) {
			t.Errorf("no command %s", m[1])
		}
	}
	codes := regexp.MustCompile(`(?m)^\| ([0-9][0-9, +n]*) \| `).FindAllStringSubmatch(table, -1)
	expect.That(t, len(codes) == len(exitMeanings),
		"%d exit codes, docs/cli.md has %d", len(exitMeanings), len(codes))
	for _, m := range codes {
		printed(t, out, "\n.TP\n"+m[1]+"\n")
	}
}
