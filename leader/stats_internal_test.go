package leader

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The name of an error in Stats is that of its variable without Err, in snake case, and no
// two errors share one.
func TestErrorNames_AreThoseOfTheVariables(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "stats.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	hump := regexp.MustCompile(`([a-z])([A-Z])`)
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || v.Names[0].Name != "errorNames" {
			return true
		}
		for _, row := range v.Values[0].(*ast.CompositeLit).Elts {
			pair := row.(*ast.CompositeLit).Elts
			variable := pair[0].(*ast.Ident).Name
			name, err := strconv.Unquote(pair[1].(*ast.BasicLit).Value)
			want := strings.ToLower(hump.ReplaceAllString(variable[len("err"):], "${1}_${2}"))
			if err != nil || name != want || seen[name] {
				t.Errorf("%s is called %q, not %q, or another one is", variable, name, want)
			}
			seen[name] = true
		}
		return false
	})
	if len(seen) != len(errorNames) {
		t.Errorf("%d names were found, not %d", len(seen), len(errorNames))
	}
}

// An error has its own name, also where the error that it wraps has one, too.
func TestErrorNames_TheMostSpecificCounts(t *testing.T) {
	for _, n := range errorNames {
		if got := errorName(n.err); got != n.name {
			t.Errorf("%v is called %s, not %s", n.err, got, n.name)
		}
	}
}
