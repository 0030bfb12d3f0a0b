// Package golden compares what a test has seen with a file of testdata. With -update the test writes the
// file, and the difference is the review.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// Check fails the test unless the text is that of testdata/NAME.txt, where NAME is the name of the test.
func Check(tb testing.TB, got string) {
	tb.Helper()
	compare(tb, filepath.Join("testdata", strings.ReplaceAll(tb.Name(), "/", "_")+".txt"), got)
}

func compare(tb testing.TB, file, got string) {
	tb.Helper()
	if *update {
		check.OK(tb, os.MkdirAll(filepath.Dir(file), 0o755))
		check.OK(tb, os.WriteFile(file, []byte(got), 0o644)) //nolint:gosec // a file of the repository
		return
	}
	want, lines := strings.Split(read(tb, file), "\n"), strings.Split(got, "\n")
	for i, line := range lines {
		check.Must(tb, i < len(want) && line == want[i], "%s:%d differs; it is now\n%s", file, i+1,
			strings.Join(lines[max(0, i-6):min(len(lines), i+8)], "\n"))
	}
	check.Must(tb, len(want) <= len(lines), "%s: the end is missing", file)
}

func read(tb testing.TB, file string) string {
	tb.Helper()
	text, err := os.ReadFile(file)
	check.OK(tb, err)
	return string(text)
}

// Scripts runs a test for each file of a directory in testdata, under the name of the file.
func Scripts(t *testing.T, dir string, test func(t *testing.T, file string)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", dir, "*.txt"))
	check.Must(t, err == nil && len(files) != 0, "no scripts: %v", err)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { test(t, file) })
	}
}

// Script does what each line of a script says. Below a line, indented, the script must have what do has
// returned for the line. A line that begins with # is a comment.
func Script(tb testing.TB, file string, do func(line string, words []string) []string) {
	tb.Helper()
	var out strings.Builder
	for line := range strings.Lines(read(tb, file)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "  ") {
			continue // what was returned before
		}
		out.WriteString(line + "\n")
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			for _, l := range do(line, words) {
				out.WriteString("  " + l + "\n")
			}
		}
	}
	compare(tb, file, out.String())
}
