// Package mutation breaks the sources on purpose, one place at a time, and requires that a
// test notices. If no test notices that a rule is gone, the rule is not needed or not tested.
package mutation_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

// mutant is a package with one bug.
type mutant struct {
	name   string
	of     string   // directory of the package, from the root of the repository
	caught string   // the test that catches it
	edits  []string // old and new text, alternating; each old text is in the package once
}

// suite are mutants that tests of one package catch.
type suite struct {
	by      string   // directory of that package, from the root of the repository
	flags   []string // of the tests
	field   bool     // whether field tests catch these
	mutants []mutant
}

// readSuite reads a file of mutants of one package. Its first line names the packages, and after "with" the flags of
// the tests. Each mutant has a title, the test that catches it, and its changes as a diff. A line @@ is
// between two changes. A heading begins with #, and is about the mutants up to the next.
func readSuite(t *testing.T, file string) suite {
	t.Helper()
	text, err := os.ReadFile(file)
	check.OK(t, err)
	head, all, _ := strings.Cut(string(text), "\n\n## ")
	head, _, _ = strings.Cut(head, "\n\n# ")
	head, flags, _ := strings.Cut(head, " with ")
	s, of := suite{flags: strings.Fields(flags)}, ""
	_, err = fmt.Sscanf(head, "Mutants of %s by %s", &of, &s.by)
	check.Must(t, err == nil, "%s: %v", file, err)
	for section := range strings.SplitSeq(strings.TrimSpace(all), "\n\n## ") {
		section, _, _ = strings.Cut(section, "\n\n# ")
		title, rest, _ := strings.Cut(section, "\n")
		caught, changes, _ := strings.Cut(rest, "\n")
		m := mutant{name: title, of: of, caught: strings.TrimPrefix(caught, "caught by ")}
		for change := range strings.SplitSeq(changes, "\n@@\n") {
			var from, to string
			for line := range strings.SplitSeq(change, "\n") {
				switch {
				case strings.HasPrefix(line, "-"):
					from += line[1:] + "\n"
				case strings.HasPrefix(line, "+"):
					to += line[1:] + "\n"
				default:
					line = strings.TrimPrefix(line, " ")
					from, to = from+line+"\n", to+line+"\n"
				}
			}
			m.edits = append(m.edits, from, to)
		}
		s.mutants = append(s.mutants, m)
	}
	return s
}

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "6") // unless the command line says otherwise; tests that fail wait for most of their time
	os.Exit(proof.Main(m).Run())
}

// Every mutant is caught by the test that it names, which passes without the mutant. Without the build
// tag prove, the changes of each must fit the sources. Those that field tests catch need the tag field, too.
func TestMutants_AreCaught(t *testing.T) { tryMutants(t, false) }

func tryMutants(t *testing.T, field bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	check.Must(t, err == nil && len(files) != 0, "no mutants:  %v", err)
	suites := map[string]suite{}
	for _, file := range files {
		s := readSuite(t, file).caughtIn(t, field)
		if before, ok := suites[s.by]; ok {
			check.Must(t, slices.Equal(before.flags, s.flags), "%s: other flags of the same tests", file)
			s.mutants = append(before.mutants, s.mutants...)
		}
		suites[s.by] = s
	}
	for by, s := range suites {
		if len(s.mutants) == 0 {
			continue
		}
		t.Run(filepath.Base(by), func(t *testing.T) {
			t.Parallel()
			s.run(t)
		})
	}
}

// caughtIn returns the suite with the mutants that field tests catch, or with the others.
func (s suite) caughtIn(t *testing.T, field bool) suite {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", s.by, "*_field_test.go"))
	check.OK(t, err)
	var tests string
	for _, file := range files {
		source, err := os.ReadFile(file)
		check.OK(t, err)
		tests += string(source)
	}
	s.field = field
	s.mutants = slices.DeleteFunc(s.mutants, func(m mutant) bool {
		name, _, _ := strings.Cut(m.caught, "/")
		return strings.Contains(tests, "\nfunc "+name+"(") != field
	})
	return s
}

// violation matches the report of a broken promise by the exploration or the transcripts of the
// machine.
var violation = regexp.MustCompile(`_internal_test\.go:\d+: (.*; (?:\[|repeat with|it is now).*)`)

func (s suite) run(t *testing.T) {
	var of []string
	for _, m := range s.mutants {
		of = append(of, m.of)
	}
	slices.Sort(of)
	from := readSources(t, slices.Compact(of)...)
	together, within := from.combined(t, s.mutants)
	proof.Only(t)
	one := s.build(t, together)
	ofMachine := s.by == "internal/machine"
	if !ofMachine { // to go so far as with a mutant takes the exploration minutes without one
		var names []string
		for _, m := range s.mutants {
			name, _, _ := strings.Cut(m.caught, "/")
			names = append(names, name)
		}
		slices.Sort(names)
		out, ok := one.passes(t, 0, strings.Join(slices.Compact(names), "|"))
		check.Must(t, ok, "the tests fail without a mutant:\n%s", out)
	}
	for i, m := range s.mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			b, number := one, i+1
			if !within[i] {
				b, number = s.build(t, from.mutated(t, m)), 0
			}
			out, ok := b.passes(t, number, m.caught)
			switch {
			case ok || !strings.Contains(out, "--- FAIL: "+m.caught):
				t.Fatalf("%s does not catch it:\n%s", m.caught, out)
			case ofMachine && (!violation.MatchString(out) || strings.Contains(out, "panic: ")):
				t.Fatalf("%s fails, but breaks no promise:\n%s", m.caught, out)
			}
			proof.Ran(1, "mutants")
		})
	}
}

// binary is the test binary of a package in which a package has mutants. Programs that its tests build
// have them, too.
type binary struct {
	path, dir, overlay string
	flags              []string
}

// build returns the test binary of the package with these files in place of its own.
func (s suite) build(t *testing.T, files sources) binary {
	t.Helper()
	dir := t.TempDir()
	b := binary{path: filepath.Join(dir, "mutant"), dir: filepath.Join("..", s.by), flags: s.flags}
	b.overlay = files.overlay(t, s.by, dir)
	args := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", b.overlay, "-o", b.path}
	if s.field {
		args = append(args, "-tags=field")
	}
	build := exec.CommandContext(t.Context(), "go", args...)
	build.Dir = b.dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s does not build: %v\n%s", files.culprit(string(out)), err, out)
	}
	return b
}

// passes reports whether the tests of that name pass with a mutant, or without one if its number is
// 0, and what they print.
func (b binary) passes(t *testing.T, number int, name string) (string, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	run := "^(" + strings.ReplaceAll(name, "/", ")$/^(") + ")$"
	test := exec.CommandContext(ctx, b.path, append([]string{"-test.failfast", "-test.run=" + run}, b.flags...)...)
	test.Dir = b.dir
	test.WaitDelay = 10 * time.Second // programs that the tests started may hold the pipe
	// What a mutant counts is no proof.
	test.Env = append(os.Environ(), switchEnv+"="+strconv.Itoa(number), "GOFLAGS=-overlay="+b.overlay, proof.TotalsFile+"=")
	out, err := test.CombinedOutput()
	check.Must(t, ctx.Err() == nil, "%s takes too long:\n%s", name, out)
	return string(out), err == nil
}
