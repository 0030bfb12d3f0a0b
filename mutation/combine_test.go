package mutation_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
)

// All mutants that tests of one package catch are one test binary, because compiling the package takes four
// seconds, and running a mutant often less than one. Each function that mutants change
// begins with a switch over the number of the mutant. Each changed copy of the function
// is at the end of its file, under a name of its own. A mutant that changes more than
// functions (a type, a constant) gets a binary of its own.

// switchFile declares the number of the mutant that runs; 0 is none.
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

// title precedes each changed copy, followed by the mutant's name.
const title = "// Mutant: "

// sources are the files of packages, by their paths from the root of the repository, without tests.
type sources map[string]string

func readSources(t *testing.T, dirs ...string) sources {
	t.Helper()
	s := sources{}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		check.OK(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			check.OK(t, err)
			s[path.Join(dir, filepath.Base(file))] = string(text)
		}
	}
	return s
}

// mutated returns the files that the mutant changes.
func (s sources) mutated(t *testing.T, m mutant) sources {
	t.Helper()
	changed := sources{}
	for i := 0; i+1 < len(m.edits); i += 2 {
		found := 0
		for name, text := range s {
			if path.Dir(name) != m.of {
				continue
			}
			if done, ok := changed[name]; ok {
				text = done
			}
			if n := strings.Count(text, m.edits[i]); n > 0 {
				found += n
				changed[name] = strings.Replace(text, m.edits[i], m.edits[i+1], 1)
			}
		}
		if found != 1 {
			t.Fatalf("%s: %q stands at %d places: the mutant is out of date", m.name, m.edits[i], found)
		}
	}
	return changed
}

// parsed is a file in parts: its functions, and the text around them.
type parsed struct {
	pkg    string
	text   string
	funcs  map[string]*ast.FuncDecl // by receiver and name
	order  []string
	around string
	offset func(token.Pos) int
}

func parse(t *testing.T, name, text string) parsed {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, 0)
	check.OK(t, err)
	p := parsed{pkg: file.Name.Name, text: text, funcs: map[string]*ast.FuncDecl{}, offset: func(pos token.Pos) int { return fset.Position(pos).Offset }}
	end := 0
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil || f.Name.Name == "init" || f.Name.Name == "_" {
			continue
		}
		key := receiver(fset, f) + "." + f.Name.Name
		p.funcs[key] = f
		p.order = append(p.order, key)
		p.around += text[end:p.offset(f.Pos())] + key + "\n"
		end = p.offset(f.End())
	}
	p.around += text[end:]
	return p
}

func receiver(fset *token.FileSet, f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	var out bytes.Buffer
	_ = printer.Fprint(&out, fset, f.Recv.List[0].Type)
	return out.String()
}

func (p parsed) textOf(key string) string {
	f := p.funcs[key]
	return p.text[p.offset(f.Pos()):p.offset(f.End())]
}

// variant is a changed copy of a function under a name of its own, and the case that
// calls it.
type variant struct {
	key, text, call string
}

// variants returns the functions of a file that the mutant changes, or false if it
// changes something else, too.
func variants(from, to parsed, number int) ([]variant, bool) {
	if from.around != to.around {
		return nil, false
	}
	var all []variant
	for _, key := range from.order {
		if from.textOf(key) == to.textOf(key) {
			continue
		}
		f, g := from.funcs[key], to.funcs[key]
		name := fmt.Sprintf("%s_mutant%d", f.Name.Name, number)
		call, ok := callOf(f, name)
		if !ok || from.text[from.offset(f.Pos()):from.offset(f.Body.Lbrace)] != to.text[to.offset(g.Pos()):to.offset(g.Body.Lbrace)] {
			return nil, false
		}
		text := to.text[to.offset(g.Pos()):to.offset(g.Name.Pos())] + name + to.text[to.offset(g.Name.End()):to.offset(g.End())]
		all = append(all, variant{key: key, text: text, call: fmt.Sprintf("case %d: %s; ", number, call)})
	}
	return all, true
}

// callOf returns the statement that calls the function of that name with the
// parameters of f in its place, or false if one of them has no name.
func callOf(f *ast.FuncDecl, name string) (string, bool) {
	var args []string
	for _, p := range f.Type.Params.List {
		if len(p.Names) == 0 {
			return "", false
		}
		for _, n := range p.Names {
			if n.Name == "_" { // the copy does not use it either
				args = append(args, "*new("+types.ExprString(p.Type)+")")
				continue
			}
			args = append(args, n.Name)
		}
		if _, ok := p.Type.(*ast.Ellipsis); ok {
			args[len(args)-1] += "..."
		}
	}
	if f.Recv != nil {
		if len(f.Recv.List[0].Names) == 0 || f.Recv.List[0].Names[0].Name == "_" {
			return "", false
		}
		name = f.Recv.List[0].Names[0].Name + "." + name
	}
	call := name + "(" + strings.Join(args, ", ") + ")"
	if f.Type.Results == nil {
		return call + "; return", true
	}
	return "return " + call, true
}

// combined returns the files that all mutants together change, and the numbers of
// the mutants that are among them, by their index.
func (s sources) combined(t *testing.T, all []mutant) (sources, map[int]bool) {
	t.Helper()
	before := map[string]parsed{}
	changed := sources{}
	for name, text := range s {
		before[name] = parse(t, name, text)
		changed[path.Join(path.Dir(name), switchFile)] = "package " + before[name].pkg + switchText
	}
	within := map[int]bool{}
	byFile := map[string][]variant{}
	for i, m := range all {
		of, fits := map[string][]variant{}, true
		for name, text := range s.mutated(t, m) {
			var ok bool
			of[name], ok = variants(before[name], parse(t, name, text), i+1)
			fits = fits && ok
		}
		if within[i] = fits; !fits {
			continue
		}
		for name, v := range of {
			for _, one := range v {
				one.text = title + m.name + "\n" + one.text
				byFile[name] = append(byFile[name], one)
			}
		}
	}
	for name, v := range byFile {
		changed[name] = before[name].with(v)
	}
	return changed, within
}

// with returns the text of the file with variants of its functions.
func (p parsed) with(all []variant) string {
	text := p.text
	for _, key := range slices.Backward(p.order) {
		calls := ""
		for _, v := range all {
			if v.key == key {
				calls += v.call
			}
		}
		if calls != "" {
			at := p.offset(p.funcs[key].Body.Lbrace) + 1
			text = text[:at] + " switch runningMutant { " + calls + "};" + text[at:]
		}
	}
	for _, v := range all {
		text += "\n" + v.text + "\n"
	}
	return text
}

// overlay makes the go command compile these files in place of those of the tree. It returns the name
// of the description. The tests of the directory tested are read, so that the result of this test
// depends on them.
func (s sources) overlay(t *testing.T, tested, dir string) string {
	t.Helper()
	replace := map[string]string{}
	root, err := filepath.Abs("..")
	check.OK(t, err)
	tests, err := filepath.Glob(filepath.Join(root, tested, "*_test.go"))
	check.OK(t, err)
	for _, test := range tests {
		_, err = os.ReadFile(test)
		check.Must(t, err == nil, "%v", err)
	}
	for name, text := range s {
		copied := filepath.Join(dir, strings.ReplaceAll(name, "/", "."))
		err = os.WriteFile(copied, []byte(text), 0o600)
		check.OK(t, err)
		replace[filepath.Join(root, name)] = copied
	}
	description, err := json.Marshal(map[string]any{"Replace": replace})
	check.OK(t, err)
	overlay := filepath.Join(dir, "overlay.json")
	err = os.WriteFile(overlay, description, 0o600)
	check.OK(t, err)
	return overlay
}

// place matches the position of an error from the compiler.
var place = regexp.MustCompile(`([\w.]+\.go):(\d+):`)

// culprit names the mutants in which the compiler found errors, as far as it reported
// them.
func (s sources) culprit(errors string) string {
	var names []string
	for _, at := range place.FindAllStringSubmatch(errors, -1) {
		line, _ := strconv.Atoi(at[2])
		text := ""
		for name := range s {
			if strings.HasSuffix(strings.ReplaceAll(name, "/", "."), filepath.Base(at[1])) {
				text = s[name]
			}
		}
		lines := strings.Split(text, "\n")
		for n := min(line, len(lines)); n > 0; n-- {
			if name, ok := strings.CutPrefix(lines[n-1], title); ok {
				names = append(names, name)
				break
			}
		}
	}
	if len(names) == 0 {
		return "the mutant"
	}
	return strings.Join(slices.Compact(names), ", ")
}
