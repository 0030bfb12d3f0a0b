// Package mutation breaks the protocol on purpose, one rule at a time, and requires
// that the proof notices. If no check catches the loss of a rule, the rule is not
// needed or not checked.
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

	"github.com/natsleader/natsleader/internal/proof"
)

var survey = flag.Bool("survey", false, "try every scenario and the simulation on every mutant, and report who catches it and how; minutes for each")

// mutant is the package with one bug.
type mutant struct {
	name   string
	edits  []string // old and new text, alternating; each old text is in the package once
	caught string   // the scenario that catches it, or simulation, or transcript and which
	seed   uint64   // a seed of the simulation that catches it, to be tried before all others
}

// slow are the mutants that take half of the time of all mutants. The exploration goes
// far before it catches them, or they need a binary of their own. They are tried with
// the build tag prove.
var slow = []string{
	"a claim goes on below a guard that was raised further",
	"a guard raised over a greater token",
	"a term begins on a lease that ended while its guards were raised",
	"a write whose counter is forgotten trusted at once",
	"Pending ends by time alone",
	"raising is never given up",
}

// violation matches the report of a broken promise by the exploration, the simulation
// or the transcripts.
var violation = regexp.MustCompile(`_internal_test\.go:\d+: (.*; (?:\[|repeat with|it is now).*)`)

// copies matches the tests that a mutant is built with: all but the one that reads the sources.
var copies = regexp.MustCompile(`_internal_test\.go$`)

// binary is a test binary in which a mutant runs.
type binary struct {
	path   string
	number int // of the mutant in it; 0: it has no other
}

// build returns the test binary of these files in place of the package's.
func (s sources) build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "mutant")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", s.overlay(t, "internal/machine", dir, copies), "-o", path, "../internal/machine")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s does not build: %v\n%s", s.culprit(string(out)), err, out)
	}
	return path
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

// run runs a scenario of the exploration on the mutant, the simulation, a transcript, the
// exploration of the small machines, or nearly nothing. It returns the output, and whether the check fails.
func run(t *testing.T, b binary, check string) (string, bool) {
	t.Helper()
	args := []string{"-test.v", "-test.run=TestExploration/^" + strings.ReplaceAll(check, " ", "_") + "$", "-states=200000"}
	switch check {
	case "simulation":
		args = []string{"-test.run=TestWhatever", "-seeds=20000", "-test.failfast"}
	case "parts":
		args = []string{"-test.run=Machine_Explored$"}
	case "":
		args = []string{"-test.v", "-test.run=TestExploration", "-states=1"}
	}
	if seed, ok := strings.CutPrefix(check, "seed "); ok {
		args = []string{"-test.run=TestWhatever", "-seeds=1", "-first=" + seed}
	}
	dir := t.TempDir()
	if name, ok := strings.CutPrefix(check, "transcript "); ok {
		dir = "../internal/machine"
		if _, err := os.ReadFile(filepath.Join(dir, "testdata", "machine", name+".txt")); err != nil {
			t.Fatal(err)
		}
		args = []string{"-test.v", "-test.run=TestTranscripts/^" + name + "$"}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	test := exec.CommandContext(ctx, b.path, args...)
	test.Dir = dir
	test.Env = append(os.Environ(), switchEnv+"="+strconv.Itoa(b.number))
	out, err := test.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("%s takes too long", check)
	}
	return string(out), err != nil
}

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "6") // unless the command line says otherwise; tests that fail wait for most of their time
	os.Exit(proof.Main(m).Run())
}

// Every mutant is caught by the check that it names.
func TestMutants_AreCaught(t *testing.T) {
	all := slices.Concat(mutants, workMutants, sightMutants, windowMutants, successionMutants, trustMutants, partMutants)
	for _, name := range slow {
		if !slices.ContainsFunc(all, func(m mutant) bool { return m.name == name }) {
			t.Errorf("no mutant %q", name)
		}
	}
	from := readSources(t, "internal/machine", "internal/record")
	together, within := from.combined(t, all)
	one := together.build(t)
	for i, m := range all {
		t.Run(m.name, func(t *testing.T) {
			if slices.Contains(slow, m.name) && !*survey {
				proof.Only(t)
			}
			t.Parallel()
			b := binary{path: one, number: i + 1}
			if !within[i] {
				b = binary{path: from.mutated(t, m).build(t)}
			}
			if *survey {
				m.survey(t, b)
				return
			}
			out, failed := "", false
			if m.seed != 0 {
				out, failed = run(t, b, fmt.Sprintf("seed %d", m.seed))
				if _, broken := run(t, binary{path: one}, fmt.Sprintf("seed %d", m.seed)); broken {
					t.Fatalf("seed %d fails without the mutant, too", m.seed)
				}
			}
			if !failed {
				out, failed = run(t, b, m.caught)
			}
			if !failed {
				t.Fatalf("%s does not catch it", m.caught)
			}
			broken := violation.FindStringSubmatch(out)
			if broken == nil || strings.Contains(broken[1], "panic") {
				t.Fatalf("%s fails, but breaks no promise:\n%s", m.caught, out)
			}
			proof.Ran(1, "mutants")
			t.Logf("%s: %s", m.caught, broken[1])
		})
	}
}

// survey reports which checks catch the mutant, and how, to find the place for a new
// mutant.
func (m mutant) survey(t *testing.T, b binary) {
	t.Helper()
	for _, check := range append(scenarios(t, b), "simulation") {
		begin := time.Now()
		out, _ := run(t, b, check)
		if broken := violation.FindStringSubmatch(out); broken != nil {
			t.Logf("%s, after %.1fs: %.200s", check, time.Since(begin).Seconds(), broken[1])
		}
	}
}

// scenarios asks the binary for the names of the scenarios.
func scenarios(t *testing.T, b binary) []string {
	t.Helper()
	out, _ := run(t, b, "")
	var names []string
	for _, found := range regexp.MustCompile(`--- (?:PASS|FAIL): TestExploration/(\S+)`).FindAllStringSubmatch(out, -1) {
		names = append(names, strings.ReplaceAll(found[1], "_", " "))
	}
	return names
}
