package snippets_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A fact stands on one page: no sentence of eight words or more stands on two.
func TestPages_SayItOnce(t *testing.T) {
	inRepository(t)
	pages := read(t, "../../README.md", "../../CONTRIBUTING.md", "../*.md", "../*/*.md", "../../bench/README.md")
	notProse := regexp.MustCompile("(?ms)^```.*?^```$|^    .*?$|^`[^`\n]*`$|^#+ .*?$|^<!--.*?-->")
	link := regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
	end := regexp.MustCompile(`[.:;?!]\s|\n\n|\n- |\n\d+\. |\s*\|\s*`)
	on := make(map[string]string) // the first page with a sentence
	for _, page := range slices.Sorted(maps.Keys(pages)) {
		text := link.ReplaceAllString(notProse.ReplaceAllString(pages[page], "\n\n"), "$1")
		for _, sentence := range end.Split(text, -1) {
			words := strings.Fields(strings.Trim(sentence, "*_ .\n"))
			if len(words) < 8 {
				continue
			}
			key := strings.ToLower(strings.Join(words, " "))
			if first, ok := on[key]; !ok {
				on[key] = page
			} else if first != page {
				t.Errorf("%s and %s say: %s", first, page, strings.Join(words, " "))
			}
		}
	}
}
