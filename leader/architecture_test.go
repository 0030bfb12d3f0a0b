package leader_test

import (
	"io/fs"
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

// The head of a package lists its files, each once with what it is about. A package of one file has no list.
func TestPackages_ListTheirFiles(t *testing.T) {
	inRepository(t)
	row := regexp.MustCompile(`(?m)^//\t(\w+\.go) +\S`)
	files, rows := make(map[string]int), make(map[string]int) // files in a directory; rows for a file
	for _, dir := range []string{"../leader", "../fence", "../roster", "../seats", "../kvelect", "../schedule", "../shard", "../leadertest", "../internal"} {
		for _, file := range goFiles(t, dir) {
			files[filepath.Dir(file)]++
			rows[file] += 0
			for _, m := range row.FindAllStringSubmatch(string(check.Got(os.ReadFile(file))(t)), -1) {
				rows[filepath.Join(filepath.Dir(file), m[1])]++
			}
		}
	}
	for _, file := range slices.Sorted(maps.Keys(rows)) {
		_, err := os.Stat(file)
		check.That(t, err == nil, "the list of a package has %s, and there is no such file", file)
		if files[filepath.Dir(file)] > 1 {
			check.Equal(t, rows[file], 1, "the list of its package has %d rows for %s", file)
		}
	}
}

// Links lead to files that exist. A link with code as its text, such as
// [`machine.step`](../internal/machine/machine.go), leads to the file that declares the name.
func TestArchitecture_LinksResolve(t *testing.T) {
	inRepository(t)
	link := regexp.MustCompile("\\[(`?)([^\\]`]*)`?\\]\\(([^)#:]+)(?:#[^)]*)?\\)")
	for _, name := range []string{"architecture.md", "protocol.md"} {
		links := link.FindAllStringSubmatch(docsPage(t, name), -1)
		check.That(t, len(links) >= 40, "%s has only %d links", name, len(links))
		for _, m := range links {
			file := filepath.Join("../docs", m[3])
			if !strings.HasSuffix(file, ".go") || m[1] == "" {
				_, err := os.Stat(file)
				check.That(t, err == nil, "%s: %v", name, err)
				continue
			}
			source, err := os.ReadFile(file)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if !declares(string(source), m[2]) {
				t.Errorf("%s: %s does not declare %s", name, file, m[2])
			}
		}
	}
}

// The tests, the scenarios of the exploration and the mutants that the pages name exist, and so do the
// names in code that are no links.
func TestArchitecture_NamesExist(t *testing.T) {
	proof.NotRaced(t)
	inRepository(t)
	var declared strings.Builder
	words := make(map[string]bool)
	for _, dir := range []string{"../leader", "../leader_test", "../leadertest", "../fence", "../shard", "../internal", "../mutation", "../cmd"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			inRules := strings.Contains(path, "mutation/rules/")
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" && !inRules {
				return err
			}
			source, err := os.ReadFile(path)
			for _, word := range regexp.MustCompile(`\w+`).FindAllString(string(source), -1) {
				words[word] = true
			}
			if inRules || strings.HasSuffix(path, "_test.go") {
				declared.Write(source)
			}
			return err
		})
		check.OK(t, err)
	}
	names := func(pattern, text string) []string {
		var all []string
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			all = append(all, m[1])
		}
		return all
	}
	for _, name := range names("`([a-z]+[A-Z]\\w*[^X`])`", docsPage(t, "architecture.md")) { // becomeX is a pattern
		check.That(t, words[name], "architecture.md names %s, and nothing has this name", name)
	}
	for _, name := range []string{"architecture.md", "protocol.md"} {
		text := strings.Join(strings.Fields(docsPage(t, name)), " ")
		for _, test := range names("`((?:Test|Fuzz)\\w+)`", text) {
			check.That(t, strings.Contains(declared.String(), "\nfunc "+test+"("),
				"%s names %s, and there is no such test", name, test)
		}
		var named []string
		for _, list := range names("[Ss]cenarios? ((?:`[^`]+`(?:, | and )?)+)", text) {
			named = append(named, names("`([^`]+)`", list)...)
		}
		for _, list := range names(`(?:[Mm]utants?|[Aa]ssumption) ("[^"]+"(?: and "[^"]+")?)`, text) {
			named = append(named, names(`"([^"]+)"`, list)...)
		}
		for _, what := range named {
			if !regexp.MustCompile(`name:\s*`+regexp.QuoteMeta(`"`+what+`"`)).MatchString(declared.String()) &&
				!strings.Contains(declared.String(), "\n# "+what+": ") { // a mutant
				t.Errorf("%s names %q, and there is no scenario, mutant or assumption of that name", name, what)
			}
		}
		check.That(t, name != "protocol.md" || len(named) >= 50,
			"%s names only %d scenarios, mutants and assumptions", name, len(named))
	}
}

// docsPage reads a page of docs.
func docsPage(t *testing.T, name string) string {
	t.Helper()
	text := check.Got(os.ReadFile(filepath.Join("../docs", name)))(t)
	return string(text)
}

// goFiles returns the Go files below a directory, but for tests.
func goFiles(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			files = append(files, filepath.Clean(path))
		}
		return err
	})
	check.OK(t, err)
	return files
}

// declares reports whether a source declares the name, which may be qualified by its
// receiver.
func declares(source, name string) bool {
	receiver, method, ok := strings.Cut(name, ".")
	if ok {
		return regexp.MustCompile(`(?m)^func \(\w+ \*?` + receiver + `\) ` + method + `\(`).MatchString(source)
	}
	return regexp.MustCompile(`(?m)^(?:func |type |const |var |\t)` + name + `\b`).MatchString(source)
}
