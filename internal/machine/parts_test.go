package machine_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
)

// The parts of the machine keep their invariants by themselves only if nothing else writes
// them. So a field of a part is written by methods of that part, and nowhere else.
func TestParts_AreWrittenByTheirOwnMethods(t *testing.T) {
	pkg := checkedPackage(t)
	parts := pkg.parts(t)
	check.Must(t, len(parts) >= 10, "the machine has only %d parts: %v", len(parts), parts)
	seen := 0
	for _, file := range pkg.files {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			pkg.eachWrite(f, func(target ast.Expr) {
				part := pkg.writtenPart(target, parts)
				switch {
				case part == "":
				case part != receiver(f):
					t.Errorf("%v: %s writes to a %s, which only its own methods do", pkg.fset.Position(target.Pos()), f.Name.Name, part)
				default:
					seen++
				}
			})
		}
	}
	check.That(t, seen >= 50, "only %d writes were found", seen)
}

// checked is package machine without its tests. Types of other packages are not known.
type checked struct {
	fset  *token.FileSet
	files []*ast.File
	info  *types.Info
	types *types.Package
}

type noImports struct{}

func (noImports) Import(string) (*types.Package, error) { return nil, errors.New("not needed") }

func checkedPackage(t *testing.T) *checked {
	t.Helper()
	c := &checked{fset: token.NewFileSet(), info: &types.Info{Selections: make(map[*ast.SelectorExpr]*types.Selection)}}
	names, err := filepath.Glob("*.go")
	check.OK(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		var file *ast.File
		file, err = parser.ParseFile(c.fset, name, nil, 0)
		check.Must(t, err == nil, "%v", err)
		c.files = append(c.files, file)
	}
	conf := types.Config{Importer: noImports{}, Error: func(error) {}}
	c.types, err = conf.Check("machine", c.fset, c.files, c.info)
	check.Must(t, c.types != nil, "%v", err)
	return c
}

// parts returns the names of the types of the machine's parts: its fields that are structs
// with methods of their own.
func (c *checked) parts(t *testing.T) map[string]bool {
	t.Helper()
	all, ok := c.types.Scope().Lookup("Machine").Type().Underlying().(*types.Struct)
	check.Must(t, ok, "machine is no struct")
	parts := make(map[string]bool)
	for field := range all.Fields() {
		named, ok := field.Type().(*types.Named)
		if !ok || field.Embedded() || named.NumMethods() == 0 {
			continue
		}
		if _, ok := named.Underlying().(*types.Struct); ok {
			parts[named.Obj().Name()] = true
		}
	}
	return parts
}

// eachWrite visits each expression that a function assigns to, counts up, or takes the
// address of.
func (c *checked) eachWrite(f *ast.FuncDecl, visit func(ast.Expr)) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				visit(e)
			}
		case *ast.IncDecStmt:
			visit(n.X)
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				visit(n.X)
			}
		}
		return true
	})
}

// writtenPart returns the part that a write to the expression changes, or an empty string.
func (c *checked) writtenPart(e ast.Expr, parts map[string]bool) string {
	for {
		switch x := e.(type) {
		case *ast.ParenExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SelectorExpr:
			s := c.info.Selections[x]
			if s == nil {
				return ""
			}
			if name := namedType(s.Recv()); parts[name] {
				return name
			}
			if name := namedType(s.Obj().Type()); parts[name] && namedType(s.Recv()) == "Machine" {
				return name // the part as a whole
			}
			e = x.X
		default:
			return ""
		}
	}
}

func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	e := f.Recv.List[0].Type
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

func namedType(t types.Type) string {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := t.(*types.Named); ok {
		return n.Obj().Name()
	}
	return ""
}
