package main

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// A target is a package whose mutants are made: its files without tests, and its types.
type target struct {
	dir      string // from the root of the repository
	path     string // of imports
	name     string
	fset     *token.FileSet
	files    []*file
	types    *types.Package
	info     *types.Info
	importer types.Importer
}

// A file is a file of a target, with the functions that a mutant may change.
type file struct {
	path   string // from the root of the repository
	text   string
	syntax *ast.File
	funcs  []*function
}

// A function is a function or a method with a body.
type function struct {
	key  string // its receiver's type and its name, as in *lane.take
	decl *ast.FuncDecl
	file *file
}

// load reads a package of the workspace.
func load(dir string) (*target, error) {
	t := &target{dir: dir, fset: token.NewFileSet()}
	exports := map[string]string{}
	list, err := command(".", "go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}\t{{.DepOnly}}\t{{range .GoFiles}}{{.}} {{end}}",
		"./"+dir, "os", "strconv") // which the switch of the mutants needs
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(list) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) < 3 {
			continue
		}
		exports[fields[0]] = fields[1]
		if fields[2] == "false" && len(fields) > 3 && strings.HasSuffix(fields[0], "/"+filepath.ToSlash(dir)) {
			t.path, names = fields[0], strings.Fields(fields[3])
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no Go files beside tests", dir)
	}
	var all []*ast.File
	for _, name := range names {
		var text []byte
		if text, err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			return nil, err
		}
		f := &file{path: path.Join(dir, name), text: string(text)}
		if f.syntax, err = parser.ParseFile(t.fset, f.path, text, parser.SkipObjectResolution); err != nil {
			return nil, err
		}
		f.funcs = functions(f)
		t.name = f.syntax.Name.Name
		t.files, all = append(t.files, f), append(all, f.syntax)
	}
	t.importer = importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	t.info = &types.Info{Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: t.importer}
	t.types, err = config.Check(t.path, t.fset, all, t.info)
	return t, err
}

// functions returns the functions of a file of which there can be copies. There can be none of main and init, and a
// copy of a function that recovers does not stop a panic, because the function itself has been deferred.
func functions(f *file) []*function {
	var all []*function
	for _, d := range f.syntax.Decls {
		decl, ok := d.(*ast.FuncDecl)
		if !ok || decl.Body == nil || decl.Recv == nil && (decl.Name.Name == "init" || decl.Name.Name == "main") || decl.Name.Name == "_" || recovers(decl) {
			continue
		}
		all = append(all, &function{key: keyOf(decl), decl: decl, file: f})
	}
	return all
}

func keyOf(decl *ast.FuncDecl) string {
	if decl.Recv == nil {
		return decl.Name.Name
	}
	return types.ExprString(decl.Recv.List[0].Type) + "." + decl.Name.Name
}

func recovers(decl *ast.FuncDecl) (found bool) {
	ast.Inspect(decl.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			id, ok := call.Fun.(*ast.Ident)
			found = found || ok && id.Name == "recover"
		}
		_, literal := n.(*ast.FuncLit)
		return !literal
	})
	return found
}

func (t *target) offset(p token.Pos) int { return t.fset.Position(p).Offset }

// source returns the text of a node.
func (t *target) source(f *file, n ast.Node) string {
	return f.text[t.offset(n.Pos()):t.offset(n.End())]
}

// changedSince returns the functions that are not the same, token by token, in the commit base.
func (t *target) changedSince(base string) (map[*function]bool, error) {
	before := map[string]map[string]bool{} // the tokens of functions, by key
	names, err := command(".", "git", "ls-tree", "--name-only", base, t.dir+"/")
	if err != nil {
		return nil, err
	}
	for _, name := range strings.Fields(names) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := command(".", "git", "show", base+":"+name)
		if err != nil {
			return nil, err
		}
		old := &target{fset: token.NewFileSet()}
		f := &file{path: name, text: text}
		if f.syntax, err = parser.ParseFile(old.fset, name, text, parser.SkipObjectResolution); err != nil {
			continue // all of its functions have changed
		}
		for _, fn := range functions(f) {
			if before[fn.key] == nil {
				before[fn.key] = map[string]bool{}
			}
			before[fn.key][tokens(old.source(f, fn.decl))] = true
		}
	}
	changed := map[*function]bool{}
	for _, f := range t.files {
		for _, fn := range f.funcs {
			if !before[fn.key][tokens(t.source(f, fn.decl))] {
				changed[fn] = true
			}
		}
	}
	return changed, nil
}

// tokens returns a text without its comments and the spaces between its tokens.
func tokens(text string) string {
	var out strings.Builder
	for _, w := range words(text) {
		out.WriteString(w.text + " ")
	}
	return out.String()
}
