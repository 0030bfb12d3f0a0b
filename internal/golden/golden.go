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
	file := filepath.Join("testdata", strings.ReplaceAll(tb.Name(), "/", "_")+".txt")
	if *update {
		check.OK(tb, os.MkdirAll("testdata", 0o755))
		check.OK(tb, os.WriteFile(file, []byte(got), 0o644)) //nolint:gosec // a file of the repository
		return
	}
	text, err := os.ReadFile(file)
	check.OK(tb, err)
	want, lines := strings.Split(string(text), "\n"), strings.Split(got, "\n")
	for i, line := range lines {
		check.Must(tb, i < len(want) && line == want[i], "%s:%d is now\n%s", file, i+1, strings.Join(lines[i:min(i+6, len(lines))], "\n"))
	}
	check.Must(tb, len(want) == len(lines), "%s: the end is missing", file)
}
