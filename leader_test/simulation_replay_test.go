package leader_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

// A simulation is the same every time, on any number of processors. "One seed, one run,
// bit for bit": every event that is offered or read, every write, and every action, with
// its time.
func TestSimulation_IsDeterministic(t *testing.T) {
	if !sessionsSeeded {
		proof.Skip(t, "before Go 1.26 no test can determine the candidates' sessions")
	}
	transcripts := func(seed uint64) []string {
		var lines []string
		for _, amnesia := range []bool{false, true} {
			inMemory(amnesia, seed%2 == 0)(t, seed, func(line string) { lines = append(lines, line) })
		}
		return lines
	}
	for seed := range uint64(max(1, seeds(100))) {
		first := transcripts(seed)
		check.Must(t, len(first) >= 100, "seed %d: only %d lines", seed, len(first))
		same(t, seed, first, transcripts(seed))
		before := runtime.GOMAXPROCS(1)
		alone := transcripts(seed)
		runtime.GOMAXPROCS(before)
		same(t, seed, first, alone)
	}
}

// same fails the test unless two transcripts are equal.
func same(t *testing.T, seed uint64, a, b []string) {
	t.Helper()
	for i := range max(len(a), len(b)) {
		if i == len(a) || i == len(b) || a[i] != b[i] {
			from := max(0, i-5)
			t.Fatalf("seed %d, line %d:%s\n-- and --%s", seed, i, list(a[from:]), list(b[from:]))
		}
	}
}

// list returns the first few lines.
func list(lines []string) (text string) {
	for line := range slices.Values(lines[:min(len(lines), 8)]) {
		text += fmt.Sprint("\n", line)
	}
	return text
}
