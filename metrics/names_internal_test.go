package metrics

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
)

// errorNames returns the values that the labels cause and kind can have, as package leader
// has them in a table.
func errorNames(t *testing.T) (names []string) {
	t.Helper()
	file := check.Got(parser.ParseFile(token.NewFileSet(), "stats.go", read(t, "../leader/stats.go"), 0))(t)
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || v.Names[0].Name != "errorNames" {
			return true
		}
		for _, row := range v.Values[0].(*ast.CompositeLit).Elts {
			name := check.Got(strconv.Unquote(row.(*ast.CompositeLit).Elts[1].(*ast.BasicLit).Value))(t)
			names = append(names, name)
		}
		return false
	})
	check.Must(t, len(names) >= 20, "only %d names were found: %v", len(names), names)
	return names
}

// An ID of the greatest length is a label as it is. Of a longer one the end is cut, without a half of a rune.
func TestLabelOf_LongID(t *testing.T) {
	at, rune2 := strings.Repeat("x", maxID), strings.Repeat("é", maxID)
	for id, want := range map[string]string{
		at:       at,
		at + "y": at[:maxID-len("…")] + "…",
		rune2:    rune2[:2*((maxID-len("…"))/2)] + "…",
	} {
		got := labelOf(id)
		check.That(t, got == want, "%q is %q, want %q", id, got, want)
	}
}
