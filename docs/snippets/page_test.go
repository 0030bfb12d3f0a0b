// Package snippets_test holds the code of docs/tutorial.md and of the pages in docs/howto. It
// compiles here, and the tests run what the tutorial tests.
package snippets_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/proof"
)

// The pages show code that compiles: each block of Go is here word for word. It may be
// indented here.
func TestPages_CodeCompiles(t *testing.T) {
	var sources strings.Builder
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		source, failed := os.ReadFile(name)
		if failed != nil {
			t.Fatal(failed)
		}
		sources.Write(source)
	}
	example, err := os.ReadFile("../../leader/example_test.go") // of the README
	if err != nil {
		t.Fatal(err)
	}
	sources.Write(example)
	here := flush(sources.String())

	pages, err := filepath.Glob("../howto/*.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for _, page := range append(pages, "../tutorial.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
			blocks++
			if !strings.Contains(here, flush("\n"+m[1])) {
				t.Errorf("%s: not in the sources, word for word:\n%s", page, m[1])
			}
		}
	}
	if blocks < 10 {
		t.Errorf("the pages show only %d blocks of Go", blocks)
	}
}

// flush removes the indentation.
func flush(text string) string { return regexp.MustCompile(`(?m)^\t+`).ReplaceAllString(text, "") }

// Links of the pages in docs, but for those of others' and of tests, lead to files that exist,
// and to sections that a page has.
func TestPages_LinksResolve(t *testing.T) {
	if _, err := os.Stat("../../metrics/go.mod"); err != nil {
		proof.Skip(t, "the other modules of the repository are not here")
	}
	pages := []string{"../../README.md", "../../CONTRIBUTING.md"}
	for _, pattern := range []string{"../*.md", "../howto/*.md", "../decisions/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	link := regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)\s]*))?\)`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		prose := regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(string(text), "")
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			target := page
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(page), m[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if m[2] != "" && strings.HasSuffix(target, ".md") && !hasSection(t, target, m[2]) {
				t.Errorf("%s: no section #%s in %s", page, m[2], target)
			}
		}
	}
}

// hasSection reports whether a page has a heading with the anchor that GitHub makes of it.
func hasSection(t *testing.T, page, anchor string) bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		kept := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		if strings.ReplaceAll(kept, " ", "-") == anchor {
			return true
		}
	}
	return false
}
