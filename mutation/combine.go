package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
)

// All mutants of a target are one program, because compiling takes seconds and a test often less than one. Each
// function that has mutants begins with a switch over the number of the mutant that runs. Each changed copy of the
// function is at the end of its file, under a name of its own.

const (
	switchFile = "mutant_switch.go"
	switchEnv  = "NATSLEADER_MUTANT"
	switchText = `

import (
	"os"
	"strconv"
)

var runningMutant, _ = strconv.Atoi(os.Getenv("` + switchEnv + `"))
`
)

// A span is the part of a combined file that belongs to a mutant.
type span struct {
	start, end int
	of         *mutant
}

// combine returns the texts of the files that these mutants change together, and where each mutant is in them.
func (t *target) combine(all []*mutant) (texts map[string]string, spans map[string][]span) {
	of := map[*function][]span{} // without positions
	copies := map[*function][]string{}
	for _, m := range all {
		for _, c := range m.copies {
			of[c.fn] = append(of[c.fn], span{of: m})
			copies[c.fn] = append(copies[c.fn], c.text)
		}
	}
	texts, spans = map[string]string{}, map[string][]span{}
	for _, f := range t.files {
		text, tail := f.text, ""
		var inTail []span
		for _, fn := range slices.Backward(f.funcs) {
			if len(of[fn]) == 0 {
				continue
			}
			calls := ""
			for i, s := range of[fn] {
				name := fmt.Sprintf("%s_mutant%d", fn.decl.Name.Name, s.of.id)
				calls += fmt.Sprintf("case %d: %s; ", s.of.id, callOf(fn.decl, name))
				s.start = len(tail)
				tail += "\n" + t.renamed(fn, copies[fn][i], name) + "\n"
				s.end = len(tail)
				inTail = append(inTail, s)
			}
			at := t.offset(fn.decl.Body.Lbrace) + 1
			text = text[:at] + " switch runningMutant { " + calls + "};" + text[at:]
			if start, end, named := t.receiver(fn.decl); !named && start > 0 {
				text = text[:start] + "mutantReceiver " + text[end:]
			}
		}
		if tail != "" {
			for i := range inTail {
				inTail[i].start += len(text)
				inTail[i].end += len(text)
			}
			texts[f.path], spans[f.path] = text+tail, inTail
		}
	}
	if len(texts) > 0 {
		texts[path.Join(t.dir, switchFile)] = "package " + t.name + switchText
	}
	return texts, spans
}

// receiver returns where the name of a receiver is, or belongs, and whether the method can use it. Start is 0 for a
// function.
func (t *target) receiver(decl *ast.FuncDecl) (start, end int, named bool) {
	if decl.Recv == nil {
		return 0, 0, false
	}
	r := decl.Recv.List[0]
	if len(r.Names) == 0 {
		return t.offset(r.Type.Pos()), t.offset(r.Type.Pos()), false
	}
	return t.offset(r.Names[0].Pos()), t.offset(r.Type.Pos()), r.Names[0].Name != "_"
}

// renamed returns the changed text of a function with another name. What precedes its body is as it was.
func (t *target) renamed(fn *function, text, name string) string {
	from := t.offset(fn.decl.Pos())
	start, end := t.offset(fn.decl.Name.Pos())-from, t.offset(fn.decl.Name.End())-from
	return text[:start] + name + text[end:]
}

// callOf returns the statement that calls a copy of the function with the function's parameters. A parameter without
// a name is not used by the copy either.
func callOf(f *ast.FuncDecl, name string) string {
	var args []string
	for _, p := range f.Type.Params.List {
		of, rest := types.ExprString(p.Type), ""
		if e, ok := p.Type.(*ast.Ellipsis); ok {
			of, rest = "[]"+types.ExprString(e.Elt), "..."
		}
		if len(p.Names) == 0 {
			args = append(args, "*new("+of+")"+rest)
		}
		for _, n := range p.Names {
			if n.Name == "_" {
				args = append(args, "*new("+of+")"+rest)
				continue
			}
			args = append(args, n.Name+rest)
		}
	}
	if f.Recv != nil {
		receiver := "mutantReceiver"
		if names := f.Recv.List[0].Names; len(names) > 0 && names[0].Name != "_" {
			receiver = names[0].Name
		}
		name = receiver + "." + name
	}
	if f.Type.TypeParams != nil {
		var all []string
		for _, p := range f.Type.TypeParams.List {
			for _, n := range p.Names {
				all = append(all, n.Name)
			}
		}
		name += "[" + strings.Join(all, ", ") + "]"
	}
	call := name + "(" + strings.Join(args, ", ") + ")"
	if f.Type.Results == nil {
		return call + "; return"
	}
	return "return " + call
}

// compiling returns those of the mutants that compile.
func (t *target) compiling(all []*mutant) ([]*mutant, error) {
	for {
		texts, spans := t.combine(all)
		fset := token.NewFileSet()
		var files []*ast.File
		parse := func(name, text string) error {
			f, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
			files = append(files, f)
			return err
		}
		for _, f := range t.files {
			text, ok := texts[f.path]
			if !ok {
				text = f.text
			}
			if err := parse(f.path, text); err != nil {
				return nil, err
			}
		}
		if name := path.Join(t.dir, switchFile); texts[name] != "" {
			if err := parse(name, texts[name]); err != nil {
				return nil, err
			}
		}
		bad := map[*mutant]bool{}
		var other error
		config := types.Config{Importer: t.importer, Error: func(err error) {
			e, _ := err.(types.Error) //nolint:errorlint // go/types documents this type
			at := fset.Position(e.Pos)
			for _, s := range spans[at.Filename] {
				if s.start <= at.Offset && at.Offset < s.end {
					bad[s.of] = true
					return
				}
			}
			other = err
		}}
		_, _ = config.Check(t.path, fset, files, nil)
		if len(bad) == 0 {
			return all, other
		}
		all = slices.DeleteFunc(slices.Clone(all), func(m *mutant) bool { return bad[m] })
	}
}
