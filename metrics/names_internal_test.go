package metrics

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// The name of each error that package leader counts is that of its variable without Err, in snake case. Those of package
// schedule have its name before theirs.
func TestErrorNames_AreThoseOfTheVariables(t *testing.T) {
	table := func(path, name string) (rows []ast.Expr) {
		file := check.Got(parser.ParseFile(token.NewFileSet(), path, read(t, path), 0))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && v.Names[0].Name == name {
				rows = v.Values[0].(*ast.CompositeLit).Elts
			}
			return rows == nil
		})
		return rows
	}
	var counted []string
	for _, row := range table("../leader/stats.go", "counted") {
		counted = append(counted, row.(*ast.Ident).Name)
	}
	check.Must(t, len(counted) >= 20, "only %d errors are counted: %v", len(counted), counted)
	hump := regexp.MustCompile(`([a-z])([A-Z])`)
	var named []string
	for _, row := range table("scrape.go", "errorNames") {
		pair := row.(*ast.KeyValueExpr)
		key := pair.Key.(*ast.SelectorExpr)
		variable := key.Sel.Name
		name := check.Got(strconv.Unquote(pair.Value.(*ast.BasicLit).Value))(t)
		want := strings.ToLower(hump.ReplaceAllString(variable[len("Err"):], "${1}_${2}"))
		if key.X.(*ast.Ident).Name == "schedule" {
			check.Equal(t, name, "schedule_"+want, "%q is the name of "+variable)
			continue
		}
		check.Equal(t, name, want, "%q is the name of "+variable)
		named = append(named, variable)
	}
	slices.Sort(counted)
	slices.Sort(named)
	check.Deep(t, named, counted)
}

// Errors without a name are counted together.
func TestNamed_Other(t *testing.T) {
	got := named(map[error]uint64{leader.ErrStopped: 1, nil: 2, errors.ErrUnsupported: 4})
	check.Deep(t, got, map[string]uint64{"stopped": 1, "other": 6})
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
