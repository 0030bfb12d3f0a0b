package metrics

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every error that package leader exports can become a cause or the kind of a fault one
// day. Each has a name from the start: its own without Err, in snake case.
func TestEveryErrorOfPackageLeaderHasAName(t *testing.T) {
	values := errorsOf(t, "../leader/errors.go")
	shared := errorsOf(t, "../internal/backend/errors.go") // some have their values there
	texts := make(map[string]string)                       // by name
	for name, value := range values {
		if sel, ok := value.(*ast.SelectorExpr); ok {
			value = shared[sel.Sel.Name]
		}
		text, err := strconv.Unquote(value.(*ast.CallExpr).Args[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		texts[snake(strings.TrimPrefix(name, "Err"))] = "leader: " + text
	}
	if len(texts) < 23 {
		t.Fatalf("only %d errors were found: %v", len(texts), texts)
	}
	got := make(map[string]string)
	for err, name := range names {
		if got[name] != "" {
			t.Errorf("two errors are called %s", name)
		}
		got[name] = err.Error()
	}
	if !maps.Equal(got, texts) {
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			if got[name] != texts[name] {
				t.Errorf("%s: %q, not %q", name, got[name], texts[name])
			}
		}
		t.Errorf("names are %v", slices.Sorted(maps.Values(names)))
	}
}

// errorsOf returns the values of the errors that a file declares, by name.
func errorsOf(t *testing.T, path string) map[string]ast.Expr {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]ast.Expr)
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "Err") {
			values[v.Names[0].Name] = v.Values[0]
		}
		return true
	})
	return values
}

var hump = regexp.MustCompile(`([a-z])([A-Z])`)

func snake(s string) string { return strings.ToLower(hump.ReplaceAllString(s, "${1}_${2}")) }
