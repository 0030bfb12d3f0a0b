// Package api_test compares what the importable packages export with testdata, so that a review sees each change:
//
//	make compatibility
package api_test

import (
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/golden"
	"github.com/natsleader/natsleader/internal/proof"
)

func TestAPI(t *testing.T) {
	if _, err := os.Stat("../../metrics/go.mod"); err != nil {
		proof.Skip(t, "the other modules of the repository are not here")
	}
	for _, dir := range []string{
		"leader", "fence", "roster", "seats", "kvelect", "schedule", "shard", "keys", "leadertest", "health", "metrics",
		"contrib/leaderasynq", "contrib/leadercron", "contrib/leadergocron", "contrib/leadertrace",
	} {
		t.Run(filepath.Base(dir), func(t *testing.T) { golden.Check(t, exported(t, filepath.Join("../..", dir))) })
	}
}

// exported returns the exported declarations of a package as go doc shows them, without comments.
func exported(t *testing.T, dir string) string {
	t.Helper()
	fset, where := token.NewFileSet(), check.Got(build.ImportDir(dir, 0))(t)
	var files []*ast.File
	for _, name := range where.GoFiles {
		files = append(files, check.Got(parser.ParseFile(fset, filepath.Join(dir, name), nil, 0))(t))
	}
	p := check.Got(doc.NewFromFiles(fset, files, where.Name))(t)
	var out strings.Builder
	show := func(decl ast.Decl) {
		check.OK(t, printer.Fprint(&out, fset, decl))
		out.WriteString("\n")
	}
	values := func(all []*doc.Value) {
		for _, v := range all {
			show(v.Decl)
		}
	}
	funcs := func(all []*doc.Func) {
		for _, f := range all {
			show(f.Decl)
		}
	}
	values(p.Consts)
	values(p.Vars)
	funcs(p.Funcs)
	for _, of := range p.Types {
		show(of.Decl)
		values(of.Consts)
		values(of.Vars)
		funcs(of.Funcs)
		funcs(of.Methods)
	}
	text := regexp.MustCompile(`\n\s*\n`).ReplaceAllString(out.String(), "\n")
	return regexp.MustCompile(`(\S)\t+`).ReplaceAllString(text, "$1 ")
}
