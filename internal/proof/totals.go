package proof

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// TotalsFile is the environment variable with the name of a file to which each test
// binary appends its totals. `go test` shows what a test binary prints only with -v.
const TotalsFile = "NATSLEADER_TOTALS"

var totals = struct {
	sync.Mutex
	of map[string]int
}{of: map[string]int{}}

// Ran adds n to this test binary's total of one kind, such as "situations" or "seeds".
func Ran(n int, of string) {
	totals.Lock()
	defer totals.Unlock()
	totals.of[of] += n
}

// Tests runs tests like a *testing.M.
type Tests interface{ Run() int }

// Main returns tests that report the totals of [Ran] when they have run, on the standard
// output and in the file that [TotalsFile] names. TestMain wraps its tests in it.
func Main(tests Tests) Tests { return counted{tests} }

type counted struct{ tests Tests }

func (c counted) Run() int {
	code := c.tests.Run()
	line := summary()
	if line == "" {
		return code
	}
	fmt.Print(line) //nolint:forbidigo // go test reads it
	if name := os.Getenv(TotalsFile); name != "" {
		if err := appendTo(name, line); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return max(code, 1)
		}
	}
	return code
}

// summary returns the line with the totals since the last one, or "".
func summary() string {
	totals.Lock()
	defer totals.Unlock()
	defer clear(totals.of)
	var parts []string
	for _, of := range slices.Sorted(maps.Keys(totals.of)) {
		parts = append(parts, fmt.Sprintf("%d %s", totals.of[of], of))
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("%s ran %s\n", binary(), strings.Join(parts, ", "))
}

// binary returns the name of the test binary, which is the last element of its package's path.
func binary() string { return strings.TrimSuffix(filepath.Base(os.Args[0]), ".test") }

func appendTo(name, line string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.WriteString(line); err != nil {
		return err
	}
	return f.Close()
}
