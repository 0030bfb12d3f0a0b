// Package mutation breaks the protocol on purpose, one rule at a time, and
// requires that the proof finds out: what no check catches is either needed by
// nobody, or not checked.
package mutation_test

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var survey = flag.Bool("survey", false, "try every scenario and the simulation on every mutant, and report who catches it and how; minutes for each")

// mutant is the package with one bug.
type mutant struct {
	name   string
	edits  []string // old and new text, alternating; each old text stands once in the package
	caught string   // the scenario that catches it, or simulation, or transcript and which
}

// violation is how the exploration, the simulation and the transcripts say what
// was broken.
var violation = regexp.MustCompile(`_internal_test\.go:\d+: (.*; (?:\[|repeat with|it is now).*)`)

// copies are what a mutant is built from beside the package: the exploration, the
// simulation and the transcripts. Without the tests that need a server it links in a second.
var copies = regexp.MustCompile(`^(exploration.*|simulation.*|promises|slowdown|state)_internal_test\.go$`)

// overlay describes the mutant to the go command.
func (m mutant) overlay(t *testing.T, leader, dir string) string {
	t.Helper()
	replace := map[string]string{}
	tests, err := filepath.Glob(filepath.Join(leader, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		if !copies.MatchString(filepath.Base(test)) {
			replace[test] = ""
		} else if _, err = os.ReadFile(test); err != nil { // tells the go command what the result depends on
			t.Fatal(err)
		}
	}
	sources, err := filepath.Glob(filepath.Join(leader, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	mutated := map[string]string{}
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		text, readErr := os.ReadFile(source)
		if readErr != nil {
			t.Fatal(readErr)
		}
		mutated[source] = string(text)
	}
	for i := 0; i+1 < len(m.edits); i += 2 {
		found := 0
		for source, text := range mutated {
			if n := strings.Count(text, m.edits[i]); n > 0 {
				found += n
				mutated[source] = strings.Replace(text, m.edits[i], m.edits[i+1], 1)
				replace[source] = filepath.Join(dir, filepath.Base(source))
			}
		}
		if found != 1 {
			t.Fatalf("%q stands at %d places: the mutant is out of date", m.edits[i], found)
		}
	}
	for source, copied := range replace {
		if copied == "" {
			continue
		}
		if err = os.WriteFile(copied, []byte(mutated[source]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	description, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err = os.WriteFile(overlay, description, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}

// build returns the mutant's test binary.
func (m mutant) build(t *testing.T) string {
	t.Helper()
	leader, err := filepath.Abs("../leader")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "mutant")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", m.overlay(t, leader, dir), "-o", binary, leader)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the mutant does not build: %v\n%s", err, out)
	}
	return binary
}

// run runs a scenario of the exploration on the mutant, or the simulation, or a
// transcript, or nearly nothing of any; and returns what it says and whether it
// fails.
func run(t *testing.T, binary, check string) (string, bool) {
	t.Helper()
	args := []string{"-test.v", "-test.run=TestExploration/^" + strings.ReplaceAll(check, " ", "_") + "$", "-states=200000"}
	switch check {
	case "simulation":
		args = []string{"-test.run=TestWhatever", "-seeds=20000"}
	case "":
		args = []string{"-test.v", "-test.run=TestExploration", "-states=1"}
	}
	dir := t.TempDir()
	if name, ok := strings.CutPrefix(check, "transcript "); ok {
		dir = "../leader"
		if _, err := os.ReadFile(filepath.Join(dir, "testdata", "machine", name+".txt")); err != nil {
			t.Fatal(err)
		}
		args = []string{"-test.v", "-test.run=TestTheTranscripts/^" + name + "$"}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	test := exec.CommandContext(ctx, binary, args...)
	test.Dir = dir
	out, err := test.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("%s takes too long", check)
	}
	return string(out), err != nil
}

func TestEveryMutantIsCaught(t *testing.T) {
	for _, m := range slices.Concat(mutants, successionMutants) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			binary := m.build(t)
			if *survey {
				m.survey(t, binary)
				return
			}
			out, failed := run(t, binary, m.caught)
			if !failed {
				t.Fatalf("%s does not catch it", m.caught)
			}
			broken := violation.FindStringSubmatch(out)
			if broken == nil || strings.Contains(broken[1], "panic") {
				t.Fatalf("%s fails, but breaks no promise:\n%s", m.caught, out)
			}
			t.Logf("%s: %s", m.caught, broken[1])
		})
	}
}

// survey reports which checks catch the mutant, and how: to find out where a new
// one belongs.
func (m mutant) survey(t *testing.T, binary string) {
	t.Helper()
	for _, check := range append(scenarios(t, binary), "simulation") {
		begin := time.Now()
		out, _ := run(t, binary, check)
		if broken := violation.FindStringSubmatch(out); broken != nil {
			t.Logf("%s, after %.1fs: %.200s", check, time.Since(begin).Seconds(), broken[1])
		}
	}
}

// scenarios asks the binary for the names of the scenarios.
func scenarios(t *testing.T, binary string) []string {
	t.Helper()
	out, _ := run(t, binary, "")
	var names []string
	for _, found := range regexp.MustCompile(`--- (?:PASS|FAIL): TestExploration/(\S+)`).FindAllStringSubmatch(out, -1) {
		names = append(names, strings.ReplaceAll(found[1], "_", " "))
	}
	return names
}
