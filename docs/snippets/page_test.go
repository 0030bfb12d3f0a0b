// Package snippets_test holds the code of docs/succession.md and the pages in docs/howto, which compiles here.
// Command tutorial beside it is the program of docs/tutorial.md.
package snippets_test

import (
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

// read returns the text of all files that match a pattern.
func read(t *testing.T, patterns ...string) (all map[string]string) {
	t.Helper()
	all = make(map[string]string)
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			check.OK(t, err)
			all[name] = string(text)
		}
	}
	return all
}

// block is the text between two fences of a page: what is behind the first, and the lines.
var block = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")

// inRepository skips a test where the other modules of the repository are not there.
func inRepository(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("../../examples/go.mod"); err != nil {
		proof.Skip(t, "the other modules of the repository are not here")
	}
}

// The pages show code that compiles: each block of Go is in the sources word for word. It may be
// indented there.
func TestPages_CodeCompiles(t *testing.T) {
	for _, k := range []struct {
		pages, sources []string
		least          int // blocks
	}{
		{[]string{"../howto/*.md"}, []string{"*_test.go", "../../leader/example_test.go"}, 10},
		{[]string{"../tutorial.md"}, []string{"tutorial/*.go"}, 3},
		{[]string{"../succession.md"}, []string{"howto_test.go"}, 1},
		{[]string{"../migration.md"}, []string{"../migration/*_test.go"}, 7},
		{[]string{"../recipes.md"}, []string{"../../examples/recipes/*_test.go"}, 1},
		{[]string{"../fencing.md"}, []string{"../../examples/fenced*/*.go", "../../fence/example_test.go"}, 4},
	} {
		t.Run(filepath.Base(k.pages[0]), func(t *testing.T) {
			if strings.Contains(k.sources[0], "examples") {
				inRepository(t)
			}
			here := flush("\n" + strings.Join(slices.Collect(maps.Values(read(t, k.sources...))), "\n"))
			blocks := 0
			for page, text := range read(t, k.pages...) {
				for _, m := range block.FindAllStringSubmatch(text, -1) {
					if m[1] != "go" {
						continue
					}
					blocks++
					if !strings.Contains(here, flush("\n"+m[2])) {
						t.Errorf("%s: not in the sources, word for word:\n%s", page, m[2])
					}
				}
			}
			if blocks < k.least {
				t.Errorf("the pages show only %d blocks of Go", blocks)
			}
		})
	}
}

// flush removes the indentation.
func flush(text string) string { return regexp.MustCompile(`(?m)^\t+`).ReplaceAllString(text, "") }

// The page on migration shows code of other libraries that parses, and no block that nobody checks.
func TestMigration_CodeOfOthersParses(t *testing.T) {
	theirs := 0
	for _, text := range read(t, "../migration.md") {
		blocks := block.FindAllStringSubmatch(text, -1)
		if n := strings.Count(text, "```"); n != 2*len(blocks) {
			t.Fatalf("%d fences, but %d blocks", n, len(blocks))
		}
		for _, m := range blocks {
			switch whose, isGo := strings.CutPrefix(m[1], "go // "); {
			case isGo:
				theirs++
				body := "package p\nfunc _() error {\n" + m[2] + "}\n"
				if _, err := parser.ParseFile(token.NewFileSet(), whose, body, parser.AllErrors); err != nil {
					t.Errorf("%v in\n%s", err, m[2])
				}
			case m[1] != "go" && m[1] != "sh":
				t.Errorf("a block of %q, which nobody checks", m[1])
			}
		}
	}
	if theirs < 2 {
		t.Errorf("the page shows %d pieces of others' Go", theirs)
	}
}

// Links of the pages in docs, but for those of others' and of tests, lead to files that exist,
// and to sections that a page has.
func TestPages_LinksResolve(t *testing.T) {
	inRepository(t)
	pages := read(t, "../../README.md", "../../CONTRIBUTING.md", "../*.md", "../howto/*.md", "../decisions/*.md")
	link := regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)\s]*))?\)`)
	for page, text := range pages {
		prose := regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(text, "")
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
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(read(t, page)[page], -1) {
		kept := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		if strings.ReplaceAll(kept, " ", "-") == anchor {
			return true
		}
	}
	return false
}
