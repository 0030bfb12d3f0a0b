package judge

import (
	"strings"
	"testing"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

// Each code has a remedy, its heading in the runbook, and a line in the table of docs/cli.md.
func TestRemedies(t *testing.T) {
	runbook := strings.ToLower(string(expect.Got(proof.ReadOutside("../../../../docs/runbook.md"))(t)))
	cli := string(expect.Got(proof.ReadOutside("../../../../docs/cli.md"))(t))
	for code, r := range remedies {
		expect.That(t, r.do != "", "%s has no remedy", code)
		expect.That(t, r.entry == "" || strings.Contains(runbook, "\n### "+strings.ReplaceAll(r.entry, "-", " ")+"\n"), "%s leads to %q", code, r.entry)
		expect.That(t, strings.Contains(cli, "`"+string(code)+"`"), "docs/cli.md has no %s", code)
	}
}
