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
	file, err := parser.ParseFile(token.NewFileSet(), "errors.go", read(t, "../leader/errors.go"), 0)
	if err != nil {
		t.Fatal(err)
	}
	texts := make(map[string]string) // by name
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(v.Names[0].Name, "Err") {
			return true
		}
		name := snake(strings.TrimPrefix(v.Names[0].Name, "Err"))
		text, err := strconv.Unquote(v.Values[0].(*ast.CallExpr).Args[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = "leader: " + text
		return true
	})
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

var hump = regexp.MustCompile(`([a-z])([A-Z])`)

func snake(s string) string { return strings.ToLower(hump.ReplaceAllString(s, "${1}_${2}")) }
