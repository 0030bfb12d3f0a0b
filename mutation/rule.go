package main

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Rules are mutants by hand: each breaks a rule of the protocol, or of a package, in a way that no operator makes. A
// file of mutation/rules has the rules of a package that the tests of one package catch. Its first line names both, and
// the flags of the tests:
//
//	internal/machine by internal/machine -states=200000
//
// A rule has a title with the test that catches it, and its changes: the function, the text that goes, and the text in
// its place, which may be absent. Spaces and line breaks do not count, but the end of a statement is a semicolon.
//
//	# a renewal that trusts the reply: TestExploration/^core$
//	 *Machine.renewed
//	-m.lease.from(sent)
//	+m.lease.from(now)
//
// If the function has no such text, or is gone, the text is looked for in the whole package. A rule that fits nowhere
// is printed, and fails nothing: mend it, or take it out with the reason in the commit. A line that begins with // is a
// comment.
const rules = "mutation/rules"

// A suite is a file of rules.
type suite struct {
	of, by string
	flags  []string
	field  bool // whether field tests catch these
	rules  []rule
}

type rule struct {
	title, test string
	edits       []edit
}

// An edit is a change of a declaration: a function by its receiver and name, or `type name`, `const name`, `var name`.
type edit struct {
	in, from, to string
}

func parseSuite(text string) (s suite, err error) {
	head, body, _ := strings.Cut(text, "\n")
	fields := strings.Fields(head)
	if len(fields) < 3 || fields[1] != "by" {
		return s, fmt.Errorf("%q does not name packages, as in `fence by leader_test`", head)
	}
	s.of, s.by = fields[0], fields[2]
	for _, flag := range fields[3:] {
		if flag == "-tags=field" {
			s.field = true
			continue
		}
		s.flags = append(s.flags, flag)
	}
	for line := range strings.Lines(body) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "//") {
			continue
		}
		if title, ok := strings.CutPrefix(line, "# "); ok {
			at := strings.LastIndex(title, ": ")
			if at < 0 {
				return s, fmt.Errorf("%q names no test: want `# title: TestName`", line)
			}
			s.rules = append(s.rules, rule{title: title[:at], test: title[at+2:]})
			continue
		}
		if len(s.rules) == 0 {
			return s, fmt.Errorf("%q precedes the first title", line)
		}
		r := &s.rules[len(s.rules)-1]
		if line[0] == ' ' {
			r.edits = append(r.edits, edit{in: line[1:]})
			continue
		}
		if len(r.edits) == 0 {
			return s, fmt.Errorf("%q of %q names no function: want its name on the line before, after a space", line, r.title)
		}
		e := &r.edits[len(r.edits)-1]
		switch {
		case line[0] == '+':
			e.to = line[1:]
		case line[0] != '-':
			return s, fmt.Errorf("%q of %q: want a line that begins with #, a space, - or +", line, r.title)
		case e.from != "": // a second change of the same function
			r.edits = append(r.edits, edit{in: e.in, from: line[1:]})
		default:
			e.from = line[1:]
		}
	}
	return s, nil
}

// A declaration is a part of a file that a rule can change.
type declaration struct {
	fn         *function // nil of a type, a constant or a variable
	file       *file
	start, end int
}

// declarations returns the declarations of a target by name, in the order of the files.
func (t *target) declarations() (names []string, all map[string]declaration) {
	all = map[string]declaration{}
	add := func(name string, fn *function, f *file, n ast.Node) {
		names = append(names, name)
		all[name] = declaration{fn, f, t.offset(n.Pos()), t.offset(n.End())}
	}
	for _, f := range t.files {
		for _, d := range f.syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				i := slices.IndexFunc(f.funcs, func(fn *function) bool { return fn.decl == d })
				if i < 0 {
					add(keyOf(d), nil, f, d)
				} else {
					add(f.funcs[i].key, f.funcs[i], f, d)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						add("type "+s.Name.Name, nil, f, s)
					case *ast.ValueSpec:
						add(d.Tok.String()+" "+s.Names[0].Name, nil, f, s)
					}
				}
			}
		}
	}
	return names, all
}

// A word is a token and its place.
type word struct {
	text       string
	start, end int
}

// words returns the tokens of a text. The end of a statement is a semicolon, also at the end of a line.
func words(text string) (all []word) {
	var s scanner.Scanner
	fset := token.NewFileSet()
	f := fset.AddFile("", -1, len(text))
	s.Init(f, []byte(text), func(token.Position, string) {}, 0)
	for {
		pos, tok, lit := s.Scan()
		at := f.Offset(pos)
		switch {
		case tok == token.EOF:
			if n := len(all); n > 0 && all[n-1].text == ";" && all[n-1].start >= len(strings.TrimRight(text, " \t\n")) {
				all = all[:n-1] // the scanner ends the last line
			}
			return all
		case tok == token.SEMICOLON && lit == "\n":
			all = append(all, word{";", at, at})
		case lit != "" && tok != token.SEMICOLON:
			all = append(all, word{lit, at, at + len(lit)})
		default:
			all = append(all, word{tok.String(), at, at + len(tok.String())})
		}
	}
}

// find returns the places of a text in another, token by token.
func find(in, text string) (places [][2]int) {
	all, part := words(in), words(text)
	for i := 0; i+len(part) <= len(all) && len(part) > 0; i++ {
		if slices.EqualFunc(all[i:i+len(part)], part, func(a, b word) bool { return a.text == b.text }) {
			places = append(places, [2]int{all[i].start, all[i+len(part)-1].end})
		}
	}
	return places
}

// apply returns the mutant of a rule, and, if the rule changes more than bodies of functions, the texts of the files
// with it. It returns false if the rule fits nowhere.
func (t *target) apply(r rule) (*mutant, map[string]string, bool) {
	names, all := t.declarations()
	changed := map[string]string{} // texts of declarations
	for _, e := range r.edits {
		text := func(name string) string {
			if now, ok := changed[name]; ok {
				return now
			}
			d := all[name]
			return d.file.text[d.start:d.end]
		}
		in, places := e.in, [][2]int(nil)
		if _, ok := all[e.in]; ok {
			places = find(text(e.in), e.from)
		}
		if len(places) != 1 {
			places = nil
			for _, name := range names {
				for _, p := range find(text(name), e.from) {
					in, places = name, append(places, p)
				}
			}
		}
		if len(places) != 1 {
			return nil, nil, false
		}
		was := text(in)
		changed[in] = was[:places[0][0]] + e.to + was[places[0][1]:]
	}
	m := &mutant{place: place{operator: "rule", snippet: r.title}}
	texts := map[string]string{}
	for _, name := range slices.Backward(names) { // from the end of each file
		now, ok := changed[name]
		if !ok {
			continue
		}
		d := all[name]
		before, ok := texts[d.file.path]
		if !ok {
			before = d.file.text
		}
		texts[d.file.path] = before[:d.start] + now + before[d.end:]
		if d.fn == nil || t.header(d.fn) != now[:min(len(now), len(t.header(d.fn)))] {
			m.copies = nil
			continue
		}
		m.copies = append(m.copies, replacement{d.fn, now})
	}
	if len(m.copies) == len(changed) {
		return m, nil, true
	}
	return m, texts, true
}

// header returns what precedes the body of a function.
func (t *target) header(fn *function) string {
	return fn.file.text[t.offset(fn.decl.Pos()):t.offset(fn.decl.Body.Lbrace)]
}

// promises matches the tests of the machine that must report a broken promise, not only fail. violation matches their
// report.
var (
	promises  = regexp.MustCompile(`^Test(Exploration|Transcripts_Hold|\w+Machine_Explored)\b`)
	violation = regexp.MustCompile(`_internal_test\.go:\d+: (.*; (?:\[|repeat with|it is now).*)`)
)

// tryRules tries the rules of these packages, or of all, that tests of the gate catch, or with -field those that tests
// in real time catch; with -since those of packages that are not the same in that
// commit, or whose tests are not. Each rule is caught by the test that it names, which passes without it.
func tryRules(ctx context.Context, dirs []string) error {
	pattern, err := regexp.Compile(*run)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(rules, "*.txt"))
	if err != nil {
		return err
	}
	var failed error
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		s, err := parseSuite(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		s.rules = slices.DeleteFunc(s.rules, func(r rule) bool { return !pattern.MatchString(r.title) })
		if len(s.rules) == 0 || s.field != *inField || len(dirs) > 0 && !slices.Contains(dirs, s.of) {
			continue
		}
		if *since != "" {
			changed, err := command(".", "git", "diff", "--name-only", *since, "--", s.of, s.by, file)
			if err != nil || changed == "" {
				failed = errors.Join(failed, err)
				continue
			}
		}
		if err := s.try(ctx); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", file, err))
		}
	}
	return failed
}

func (s suite) try(ctx context.Context) error {
	t, err := load(s.of)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "rules")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	began := time.Now()
	var fitting []rule
	var mutants []*mutant
	var alone []map[string]string
	for _, r := range s.rules {
		m, texts, ok := t.apply(r)
		if !ok {
			say("%s: the rule fits nowhere: %s", s.of, r.title)
			continue
		}
		if err = parses(texts); err != nil {
			return fmt.Errorf("%s: %w", r.title, err)
		}
		m.id = len(mutants) + 1
		fitting, mutants, alone = append(fitting, r), append(mutants, m), append(alone, texts)
	}
	together := slices.DeleteFunc(slices.Clone(mutants), func(m *mutant) bool { return alone[m.id-1] != nil })
	if *only {
		say("%s by %s: %d of %d rules do not fit", s.of, s.by, len(s.rules)-len(fitting), len(s.rules))
		return nil
	}
	compiling, err := t.compiling(together)
	if err != nil {
		return err
	}
	for _, m := range together {
		if !slices.Contains(compiling, m) {
			return fmt.Errorf("%s does not compile", m.snippet)
		}
	}
	j := &judge{of: t, dir: s.by, field: s.field}
	texts, _ := t.combine(together)
	one, err := j.build(ctx, scratch, texts)
	if err != nil {
		return err
	}
	ofMachine := s.by == "internal/machine"
	if !ofMachine { // to go as far as with a mutant takes the exploration minutes without one
		var names []string
		for _, r := range fitting {
			name, _, _ := strings.Cut(r.test, "/")
			names = append(names, name)
		}
		slices.Sort(names)
		if r := j.run(ctx, one, 0, limits{wall: 10 * time.Minute}, slices.Compact(names), s.flags...); r.err != nil {
			return fmt.Errorf("the tests fail without a mutant: %w\n%s", r.err, r.out)
		}
	}
	var mu sync.Mutex
	var failed error
	each(len(fitting), func(i int) {
		r, binary, number := fitting[i], one, i+1
		err := error(nil)
		if alone[i] != nil {
			binary, err = j.build(ctx, scratch, alone[i])
			number = 0
		}
		if err == nil {
			var out result
			for try := range tries {
				if out = j.run(ctx, binary, number, limits{wall: 5 * time.Minute}, []string{r.test}, s.flags...); out.err != nil {
					if try > 0 {
						say("%s: %s catches it only by chance, at try %d", r.title, r.test, try+1)
					}
					break
				}
			}
			switch {
			case out.err == nil || !strings.Contains(out.out, "--- FAIL: "+r.test):
				err = fmt.Errorf("%s does not catch it:\n%s", r.test, out.out)
			case ofMachine && promises.MatchString(r.test) && (!violation.MatchString(out.out) || strings.Contains(out.out, "panic: ")):
				err = fmt.Errorf("%s fails, but breaks no promise:\n%s", r.test, out.out)
			}
		}
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, fmt.Errorf("%s: %w", r.title, err))
		}
	})
	say("%s by %s: %d rules, of which %d do not fit, in %.0f s", s.of, s.by, len(s.rules), len(s.rules)-len(fitting), time.Since(began).Seconds())
	return errors.Join(failed, ctx.Err())
}

func parses(texts map[string]string) error {
	for name, text := range texts {
		if _, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution); err != nil {
			return err
		}
	}
	return nil
}
