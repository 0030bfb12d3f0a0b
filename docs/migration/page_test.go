package migration_test

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// block is the text between two fences of the page.
type block struct{ info, code string }

func blocksOfThePage(t *testing.T) (page string, blocks []block) {
	t.Helper()
	text, err := os.ReadFile("../migration.md")
	if err != nil {
		t.Fatal(err)
	}
	fence := regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")
	for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, block{m[1], m[2]})
	}
	if n := strings.Count(string(text), "```"); n != 2*len(blocks) {
		t.Fatalf("%d fences, but %d blocks", n, len(blocks))
	}
	return string(text), blocks
}

// The page shows code that is tested.
func TestThePage_CodeIsTested(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range files {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(append(source, '\n'))
	}
	_, blocks := blocksOfThePage(t)
	ours := 0
	for _, b := range blocks {
		if b.info != "go" {
			continue
		}
		ours++
		if !strings.Contains(all.String(), "\n"+b.code+"\n") {
			t.Errorf("not in the tests, word for word and as a whole:\n%s", b.code)
		}
	}
	if ours < 7 {
		t.Errorf("the page shows %d pieces of our code", ours)
	}
}

// The page shows code of other libraries that parses.
func TestThePage_CodeOfOthersParses(t *testing.T) {
	_, blocks := blocksOfThePage(t)
	theirs := 0
	for _, b := range blocks {
		switch whose, isGo := strings.CutPrefix(b.info, "go // "); {
		case isGo:
			theirs++
			body := "package p\nfunc _() error {\n" + b.code + "}\n"
			if _, err := parser.ParseFile(token.NewFileSet(), whose, body, parser.AllErrors); err != nil {
				t.Errorf("%v in\n%s", err, b.code)
			}
		case b.info == "go", b.info == "sh":
		default:
			t.Errorf("a block of %q, which nobody checks", b.info)
		}
	}
	if theirs < 2 {
		t.Errorf("the page shows %d pieces of others' Go", theirs)
	}
}

// anchor returns the anchor that GitHub makes of a heading.
func anchor(heading string) string {
	kept := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading), "")
	return strings.ReplaceAll(kept, " ", "-")
}

// The page links to sections that it has.
func TestThePage_LinksResolve(t *testing.T) {
	page, _ := blocksOfThePage(t)
	has := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		has[anchor(m[1])] = true
	}
	links := regexp.MustCompile(`\]\(#([^)]*)\)`).FindAllStringSubmatch(page, -1)
	for _, m := range links {
		if !has[m[1]] {
			t.Errorf("no section #%s", m[1])
		}
	}
	if len(links) == 0 {
		t.Error("the page has no links to its own sections")
	}
}
