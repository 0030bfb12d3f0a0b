package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The page shows code that compiles.
func TestThePage_CodeCompiles(t *testing.T) {
	page, err := os.ReadFile("../../docs/fencing.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../fenced*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range append(files, "../../fence/example_test.go") {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(flush(string(source)))
	}
	blocks := strings.Split(string(page), "```go\n")[1:]
	for _, block := range blocks {
		code, _, closed := strings.Cut(block, "```")
		if !closed || !strings.Contains(all.String(), flush(code)) {
			t.Errorf("not in the examples:\n%s", code)
		}
	}
	if len(blocks) < 4 {
		t.Errorf("the page shows %d pieces of code", len(blocks))
	}
}

// flush takes the indentation from every line.
func flush(code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		b.WriteString(strings.TrimLeft(line, "\t"))
	}
	return b.String()
}
