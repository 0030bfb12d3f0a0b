package mutation_test

import (
	"context"
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

	"github.com/natsleader/natsleader/internal/proof"
)

// plumbing are mutants of one package beside the machine. Tests of a package catch them.
type plumbing struct {
	of, by  string // directories, from the root of the repository
	field   bool   // whether field tests catch these
	mutants []mutant
}

// readPlumbing reads a file of mutants. After a line that names the packages, each mutant has a
// title, the test that catches it, and its changes as a diff. A line @@ is between two changes.
func readPlumbing(t *testing.T, file string) plumbing {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, all, _ := strings.Cut(string(text), "\n\n## ")
	var p plumbing
	if _, err = fmt.Sscanf(head, "Mutants of %s by %s", &p.of, &p.by); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for section := range strings.SplitSeq(strings.TrimSpace(all), "\n\n## ") {
		title, rest, _ := strings.Cut(section, "\n")
		caught, changes, _ := strings.Cut(rest, "\n")
		m := mutant{name: title, caught: strings.TrimPrefix(caught, "caught by ")}
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
		p.mutants = append(p.mutants, m)
	}
	return p
}

// everyTest matches the files of all tests.
var everyTest = regexp.MustCompile("")

// Every mutant of the plumbing is caught by the test that it names, which passes without
// the mutant. Mutants of internal packages are cheap. The others are tried with the build
// tag prove, and those that field tests catch with both tags.
func TestPlumbing_MutantsAreCaught(t *testing.T) { tryPlumbing(t, false) }

func tryPlumbing(t *testing.T, field bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "plumbing", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatal("no mutants: ", err)
	}
	for _, file := range files {
		p := readPlumbing(t, file).caughtIn(t, field)
		if len(p.mutants) == 0 {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			if field || !strings.HasPrefix(p.by, "internal/") {
				proof.Only(t)
			}
			t.Parallel()
			p.run(t)
		})
	}
}

// caughtIn returns the mutants that field tests catch, or the others.
func (p plumbing) caughtIn(t *testing.T, field bool) plumbing {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", p.by, "*_field_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var tests string
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tests += string(source)
	}
	p.field = field
	p.mutants = slices.DeleteFunc(p.mutants, func(m mutant) bool {
		name, _, _ := strings.Cut(m.caught, "/")
		return strings.Contains(tests, "\nfunc "+name+"(") != field
	})
	return p
}

func (p plumbing) run(t *testing.T) {
	from := readSources(t, p.of)
	together, within := from.combined(t, p.mutants)
	one := p.build(t, together)
	var names []string
	for _, m := range p.mutants {
		name, _, _ := strings.Cut(m.caught, "/")
		names = append(names, name)
	}
	slices.Sort(names)
	if out, ok := one.passes(t, binary{}, strings.Join(slices.Compact(names), "|")); !ok {
		t.Fatalf("the tests fail without a mutant:\n%s", out)
	}
	for i, m := range p.mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			with, b := one, binary{number: i + 1}
			if !within[i] {
				with, b = p.build(t, from.mutated(t, m)), binary{}
			}
			out, ok := with.passes(t, b, m.caught)
			if ok || !strings.Contains(out, "--- FAIL: "+m.caught) {
				t.Fatalf("%s does not catch it:\n%s", m.caught, out)
			}
			proof.Ran(1, "mutants of the plumbing")
		})
	}
}

// testBinary is the test binary of a package in which a package has mutants. Programs that
// its tests build have them, too.
type testBinary struct{ path, dir, overlay string }

func (p plumbing) build(t *testing.T, s sources) testBinary {
	t.Helper()
	dir := t.TempDir()
	b := testBinary{path: filepath.Join(dir, "mutant"), dir: filepath.Join("..", p.by), overlay: s.overlay(t, p.by, dir, everyTest)}
	args := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", b.overlay, "-o", b.path}
	if p.field {
		args = append(args, "-tags=field")
	}
	build := exec.CommandContext(t.Context(), "go", args...)
	build.Dir = b.dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s does not build: %v\n%s", s.culprit(string(out)), err, out)
	}
	return b
}

// passes reports whether the tests of that name pass with a mutant, and what they print.
func (b testBinary) passes(t *testing.T, m binary, name string) (string, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	run := "^(" + strings.ReplaceAll(name, "/", ")$/^(") + ")$"
	test := exec.CommandContext(ctx, b.path, "-test.failfast", "-test.run="+run)
	test.Dir = b.dir
	test.WaitDelay = 10 * time.Second // programs that the tests started may hold the pipe
	test.Env = append(os.Environ(), switchEnv+"="+strconv.Itoa(m.number), "GOFLAGS=-overlay="+b.overlay)
	out, err := test.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("%s takes too long:\n%s", name, out)
	}
	return string(out), err == nil
}
