package leader_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

// The program in the README is Example, which compiles, as a program of its own.
func TestReadme_QuickStart(t *testing.T) {
	readme := string(check.Got(os.ReadFile("../README.md"))(t))
	source := string(check.Got(os.ReadFile("example_test.go"))(t))
	comment := regexp.MustCompile(`(?m)^//.*\n`)
	source = comment.ReplaceAllString(strings.Replace(source, "package leader_test\n", "package main\n", 1), "")
	source = strings.Replace(source, "\nfunc Example() {\n", "\nfunc main() {\n", 1)
	_, rest, _ := strings.Cut(readme, "\n```go\n")
	shown, _, ok := strings.Cut(rest, "```\n")
	check.Must(t, ok, "the README has no block of Go")
	check.Equal(t, source, shown, "Example is\n%s\nbut the README shows\n%s", shown)
	_, body, _ := strings.Cut(shown, "\nfunc main() {\n")
	n := strings.Count(body, "\n") - 1
	check.That(t, n <= 25, "the quick start has %d lines, more than 25", n)
	lines := strings.Count(readme, "\n")
	check.That(t, lines <= 156, "the README has %d lines", lines)
}

// A promise without its test is none, so the names in docs/verification.md are checked. A
// name that ends in "..." stands for all that begin like it.
func TestVerification_TestsExist(t *testing.T) {
	checkNamedTests(t, "../docs/verification.md", 50)
}

// The page of faults names tests that exist. The page links each test with its file, and
// has a row for each fault that the name of a test contains.
func TestFaults_TestsExist(t *testing.T) {
	page, tests := checkNamedTests(t, "../docs/faults.md", 70)
	linked := regexp.MustCompile("\\[`((?:Test|Fuzz)\\w+)`\\]\\(([^)]+)\\)").FindAllStringSubmatch(page, -1)
	for _, m := range linked {
		if file := filepath.Join("../docs", m[2]); !slices.Contains(tests[m[1]], file) {
			t.Errorf("%s is linked to %s, and declared in %v", m[1], file, tests[m[1]])
		}
	}
	numbered := regexp.MustCompile(`Fault0*(\d+)`)
	for name := range tests {
		m := numbered.FindStringSubmatch(name)
		check.That(t, m == nil || strings.Contains(page, "\n| "+m[1]+" | "),
			"%s is of a fault that the page does not have", name)
	}
}

// The decisions name tests that exist.
func TestDecisions_TestsExist(t *testing.T) {
	pages, err := filepath.Glob("../docs/decisions/*.md")
	check.Must(t, err == nil && len(pages) != 0, "pages: %v, %v", pages, err)
	for _, page := range pages {
		checkNamedTests(t, page, 0)
	}
}

// testFiles returns the files of all tests of the repository by their names.
var testFiles = sync.OnceValues(func() (map[string][]string, error) {
	tests := make(map[string][]string)
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	return tests, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(source, -1) {
			tests[string(m[1])] = append(tests[string(m[1])], path)
		}
		return err
	})
})

// checkNamedTests fails the test unless the page names at least so many tests and each
// exists. It returns the page, and the files of all tests by their names.
func checkNamedTests(t *testing.T, path string, least int) (page string, tests map[string][]string) {
	t.Helper()
	inRepository(t)
	text, err := os.ReadFile(path)
	check.OK(t, err)
	page, tests = string(text), check.Got(testFiles())(t)
	all := "\n" + strings.Join(slices.Collect(maps.Keys(tests)), "\n") + "\n"
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)(\\.\\.\\.)?`").FindAllStringSubmatch(page, -1)
	check.That(t, len(named) >= least, "%s names only %d tests", path, len(named))
	for _, m := range named {
		want := "\n" + m[1]
		if m[2] == "" {
			want += "\n"
		}
		if !strings.Contains(all, want) {
			t.Errorf("%s is named in %s, and there is no such test", m[1], path)
		}
	}
	return page, tests
}

// inRepository skips a test that reads files of the other modules of the repository, unless
// they are here. In the module cache, where `go test all` of a program runs the tests, they
// are not.
func inRepository(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("../metrics/go.mod"); err != nil {
		proof.Skip(t, "the other modules of the repository are not here")
	}
}
