package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/golden"
)

func atRoot(t *testing.T) {
	t.Helper()
	t.Chdir("..")
}

const sample = "mutation/testdata/sample"

// The mutants of the sample are those of its transcript, with the outcome of each: what no test reaches or catches
// survives, and an endless loop is late.
func TestMutants_OfSample(t *testing.T) {
	golden.Check(t, outcomes(t))
}

func outcomes(t *testing.T) string {
	t.Helper()
	atRoot(t)
	of, err := load(sample)
	check.OK(t, err)
	var all []*mutant
	for _, f := range of.files {
		for _, fn := range f.funcs {
			all = append(all, of.mutants(fn)...)
		}
	}
	for i, m := range all {
		m.id = i + 1
	}
	compiling, err := of.compiling(all)
	check.OK(t, err)
	check.OK(t, (&judge{of: of, dir: sample}).try(t.Context(), compiling))
	t.Chdir("mutation")
	var out strings.Builder
	does := map[*mutant]bool{}
	for _, m := range compiling {
		does[m] = true
	}
	for _, m := range all {
		says := m.outcome.String()
		switch {
		case !does[m]:
			says = "does not compile"
		case !m.reached:
			says = "not reached"
		case m.by != "":
			says += " by " + m.by
		}
		_, _ = fmt.Fprintf(&out, "%s\t%s\t%s\t%s\n", m.function, m.operator, m.snippet, says)
	}
	return out.String()
}

// A function has changed if its tokens have: not if it has moved, or has another comment.
func TestFunctions_ChangedByTokens(t *testing.T) {
	check.That(t, tokens("func f() { // one\n\treturn\n}") == tokens("func f() {\n\n\treturn // two\n}"), "a comment changes the tokens")
	check.That(t, tokens("func f() { g(1) }") != tokens("func f() { g(2) }"), "another argument does not change the tokens")
}

// A list has the survivors of the functions that were tried, and keeps the lines of the others. As many survivors may
// be new as lines no longer fit.
func TestList_OnlyShrinks(t *testing.T) {
	one, two, three := &function{key: "one"}, &function{key: "two"}, &function{key: "three"}
	make := func(fn *function, snippet string, o outcome, reached bool) *mutant {
		return &mutant{place: place{fn.key, "delete", snippet}, copies: []replacement{{fn: fn}}, outcome: o, reached: reached}
	}
	caughtNow, new1, new2 := make(one, "a", caught, true), make(one, "b", survived, true), make(one, "c", survived, true)
	listed, other := make(one, "d", survived, true), make(two, "e", survived, true)
	far1, far2 := make(three, "f", survived, false), make(three, "g", survived, false)
	all := []*mutant{caughtNow, new1, new2, listed, other, far1, far2}
	before := parseList("one\tdelete\td\n" + "one\tdelete\tis gone\n" + "two\tdelete\te\tone reason\n" + "gone\tdelete\tx\n")
	now, added, spare := before.after(map[*function]bool{one: true, three: true}, all, []*mutant{caughtNow, new1, new2, far1, far2})
	check.Equal(t, fmt.Sprint(now), fmt.Sprint(list{{"one", "delete", "d"}: "", {"two", "delete", "e"}: "one reason"}), "remain: %v")
	check.Equal(t, fmt.Sprint(added), fmt.Sprint([]place{{"one", "delete", "b"}, {"one", "delete", "c"}, {"three", "not reached", ""}}), "new: %v")
	check.Equal(t, spare, 2, "%d may be new")

	// A function that no test reaches has one line. When a test reaches a part of it, the others get lines of their own.
	before = parseList("three\tnot reached\n")
	far1.reached = true
	_, added, spare = before.after(map[*function]bool{three: true}, all, []*mutant{far1, far2})
	check.That(t, len(added) == 2 && spare == 2, "new: %v, %d may be", added, spare)
	// The list tried again loses what a test catches now, and nothing else: other tests may reach less.
	before = parseList("one\tdelete\td\none\tdelete\ta\nthree\tnot reached\ntwo\tnot tried\n")
	listed.reached = false
	now = before.retried([]*mutant{listed, caughtNow})
	check.Equal(t, fmt.Sprint(now), fmt.Sprint(parseList("one\tdelete\td\nthree\tnot reached\ntwo\tnot tried\n")), "remain: %v")
}

// A list names the functions that have not been tried. When one is tried, its survivors need no reason.
func TestList_NotTried(t *testing.T) {
	one, two := &function{key: "one"}, &function{key: "two"}
	a := &mutant{place: place{"one", "delete", "a"}, copies: []replacement{{fn: one}}, reached: true}
	b := &mutant{place: place{"two", "delete", "b"}, copies: []replacement{{fn: two}}}
	before := untriedList([]*mutant{a, b})
	now, added, spare := before.after(map[*function]bool{one: true}, []*mutant{a, b}, []*mutant{a})
	check.Equal(t, fmt.Sprint(now), fmt.Sprint(list{unknown("two"): ""}), "remain: %v")
	check.That(t, len(added) == 1 && spare == 1, "new: %v, %d may be", added, spare)
	now[a.place] = ""
	check.That(t, !now.longer(before), "a function that has been tried makes the list longer")
	check.That(t, now.longer(list{unknown("two"): ""}) && !now.longer(now), "a line without a reason does not make the list longer")
	now[a.place] = "reason"
	check.That(t, !now.longer(list{unknown("two"): ""}), "a line with a reason makes the list longer")
	now[a.place] = missing
	check.That(t, now.longer(now), "a line whose reason is missing does not make the list longer")
}

// A list is read as it was written.
func TestList_RoundTrip(t *testing.T) {
	t.Chdir(t.TempDir())
	l := list{{"*box.put", "delete", "b.items = x"}: "", untested("unused"): "", {"kind", "number", "0"}: "the reason"}
	check.OK(t, l.write("internal/box"))
	text, err := os.ReadFile(filepath.Join(lists, "internal.box.txt"))
	check.OK(t, err)
	check.Equal(t, string(text), "*box.put\tdelete\tb.items = x\nkind\tnumber\t0\tthe reason\nunused\tnot reached\n", "wrote %q")
	read, ok, err := readList("internal/box")
	check.That(t, ok && err == nil && fmt.Sprint(read) == fmt.Sprint(l), "read %v, %v", read, err)
	dirs, err := listed()
	check.That(t, fmt.Sprint(dirs) == "[internal/box]" && err == nil, "listed %v, %v", dirs, err)
}

// A rule is found by its tokens in its function, or else once in the package. One that fits nowhere is none.
func TestRule_Fits(t *testing.T) {
	atRoot(t)
	of, err := load(sample)
	check.OK(t, err)
	for _, c := range []struct{ rule, want string }{
		{" *box.put\n-len(b.items)   >= most\n+len(b.items) > most", "*box.put"},
		{" *box.gone\n-len(b.items) >= most\n+true", "*box.put"},
		{" kind\n-n\n+0", ""},
		{" *box.put\n-is nowhere\n+true", ""},
		{" const most\n-3\n+4", "const"},
		{" *box.put\n-return 0, ErrFull\n+n := 0; return n, ErrFull\n-b.items = append(b.items, item);", "*box.put"},
	} {
		s, err := parseSuite("fence by fence\n# A rule: TestX\n" + c.rule + "\n")
		check.OK(t, err)
		m, texts, ok := of.apply(s.rules[0])
		got := ""
		switch {
		case ok && texts != nil:
			got = "const"
		case ok:
			got = m.copies[0].fn.key
		}
		check.Equal(t, got, c.want, "changes %s: "+c.rule)
	}
}

// A file of rules that cannot be read names the line.
func TestSuite_Errors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"fence", "does not name packages"},
		{"fence by fence\n-x", "precedes the first title"},
		{"fence by fence\n# no test here", "names no test"},
		{"fence by fence\n# A: TestX\n-x", "names no function"},
		{"fence by fence\n# A: TestX\n f\nx", "want a line that begins with"},
	} {
		_, err := parseSuite(c.text)
		check.That(t, err != nil && strings.Contains(err.Error(), c.want), "%q: %v", c.text, err)
	}
	s, err := parseSuite("internal/machine by leader -states=2 -tags=field\n// a comment\n# A: b: TestX/y z\n f\n-a\n")
	check.OK(t, err)
	check.That(t, s.field && s.by == "leader" && len(s.flags) == 1 && s.rules[0].title == "A: b" && s.rules[0].test == "TestX/y z", "%+v", s)
}

// The tests that rules name exist.
func TestRules_NameTests(t *testing.T) {
	atRoot(t)
	files, err := filepath.Glob(filepath.Join(rules, "*.txt"))
	check.Must(t, err == nil && len(files) > 0, "no rules: %v", err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		check.OK(t, err)
		s, err := parseSuite(string(text))
		check.Must(t, err == nil && len(s.rules) > 0, "%s: %d rules, %v", file, len(s.rules), err)
		tests, err := filepath.Glob(filepath.Join(s.by, "*_test.go"))
		check.OK(t, err)
		var source strings.Builder
		for _, name := range tests {
			text, err := os.ReadFile(name)
			check.OK(t, err)
			source.Write(text)
		}
		for _, r := range s.rules {
			name, _, _ := strings.Cut(r.test, "/")
			check.That(t, strings.Contains(source.String(), "\nfunc "+name+"("), "%s: %s has no test %s, which is to catch %q", file, s.by, name, r.title)
			for _, e := range r.edits {
				check.That(t, e.from != "", "%s: %q changes nothing in %s", file, r.title, e.in)
			}
		}
	}
}
