package main

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

func results(t *testing.T) page {
	t.Helper()
	text := check.Got(os.ReadFile("../../" + file))(t)
	p := check.Got(parse(string(text)))(t)
	check.Equal(t, p.String(), string(text), "written again, the page is\n%s")
	return p
}

// Each section has a command of its own, and a result that the command has written.
func TestResults_AreComplete(t *testing.T) {
	stamp := regexp.MustCompile(`^\d{4}-\d\d-\d\d, commit [0-9a-f]{12}, \d+ x .+, go1\.\S+, nats-server v2\.\S+, in \S+$`)
	commands := make(map[string]bool)
	for _, s := range results(t).sections {
		check.That(t, stamp.MatchString(s.stamp), "%s: the stamp is %q", s.title, s.stamp)
		check.That(t, s.result != "", "%s has no result", s.title)
		check.That(t, !commands[s.command], "%s has a command that another section has", s.title)
		commands[s.command] = true
	}
}

// A sentence, or a row of a table, that has a command of docs/results.md or a link to one of its sections claims
// what the section says. Every figure with a unit in it is in the section: in the result, or among the settings that
// the words before the command name. The head of a table speaks for all of its rows. Other settings and figures
// belong into other sentences.
func TestPages_FiguresAreResults(t *testing.T) {
	if _, err := os.Stat("../../bench/README.md"); err != nil {
		proof.Skip(t, "the other modules of the repository are not here")
	}
	p := results(t)
	claims := 0
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/*/*.md", "../../*/README.md"} {
		for _, name := range check.Got(filepath.Glob(pattern))(t) {
			if base := filepath.Base(name); base == "results.md" || base == "CHANGELOG.md" || base == "cli-help.md" {
				continue
			}
			n, wrong := compare(string(check.Got(os.ReadFile(name))(t)), p)
			claims += n
			for _, each := range wrong {
				t.Errorf("%s: %s", name, each)
			}
		}
	}
	check.That(t, claims >= 5, "the pages have only %d figures", claims)
}

// Each of these pages but those without an error claims what the results do not say.
func TestPages_AreCompared(t *testing.T) {
	p := page{sections: []section{
		{"Guarded writes", "With 64 goroutines, at 5 ms each way.", "go test -bench Guard ./x", "a stamp", "| benchmark | µs-ours | ratio | writes/s |\n| --- | ---: | ---: | ---: |\n| X | 1142 | 1.349 | 16234 |"},
		{"Groups", "", "go test ./shard -run Rest -v", "a stamp", "```text\nthe gap is 14.13s, 40 ms; 0.483 requests/s, 10.6 kB (23% client)\n```"},
	}}
	for text, want := range map[string]string{
		"It takes 1.3 times as long (`go test -bench\nGuard ./x`).":                                            "",
		"It takes 1.1 to 1.3 times as long (`go test -bench Guard ./x`).":                                      "1.1 times is not in Guarded writes",
		"It takes 1.4 times as long (`go test -bench Guard ./x`).":                                             "1.4 times is not in Guarded writes",
		"[Measured](results.md#guarded-writes): 1.1 ms, 1,140 µs, 16,000 writes/s at 5 ms.":                    "",
		"[Measured](results.md#guarded-writes): 1.14 ms and 16,100 writes/s.":                                  "16,100 writes/s is not in Guarded writes",
		"[Measured](results.md#guarded-writes): 1.2 ms. It takes 7 ms elsewhere.":                              "1.2 ms is not in Guarded writes",
		"[Measured](results.md#guarded-writes): 1.14 kB.":                                                      "1.14 kB is not in Guarded writes",
		"It takes 7 ms. [Measured](results.md#groups): 14.1 s, 11 kB and 22%.":                                 "22 % is not in Groups",
		"| a | [measured](../results.md#groups) |\n| --- | --- |\n| b | 40 ms |\n| c | 41 ms |\n\nThen 42 ms.": "41 ms is not in Groups",
		"- one: `go test ./shard -run Rest -v`\n- two: 41 ms":                                                  "",
		"Read `go test -bench Other ./x`.":                                                                     "`go test -bench Other ./x` is not in docs/results.md",
		"Read `go test -bench Other ./x`, [measured](results.md#groups).":                                      "",
		"`make scale` and `go -C bench run . --full`":                                                          "`make scale` is not in docs/results.md`go -C bench run . --full` is not in docs/results.md",
		"`go test ./shard -run Other -v` runs it.":                                                             "",
		"`go test ./shard -run Other -v` takes 3 ms.":                                                          "`go test ./shard -run Other -v` is not in docs/results.md",
		"See [this](results.md#none).":                                                                         "no section #none in docs/results.md",
	} {
		_, wrong := compare(text, p)
		check.Equal(t, strings.Join(wrong, ""), want, text+": %s")
	}
}

var (
	fence    = regexp.MustCompile("(?ms)^```.*?^```$")
	code     = regexp.MustCompile("`[^`]+`")
	link     = regexp.MustCompile(`\]\(([^)]*)\)`)
	anchored = regexp.MustCompile(`\]\([^)]*\bresults\.md#([^)]+)\)`)
	// The beginnings of a paragraph and of an item of a list, and the end of a sentence.
	begins    = regexp.MustCompile(`^\s*($|- |\d+\. )`)
	sentences = regexp.MustCompile(`[.!?][)*_]*\s`)
	// Commands that measure. Those of tests with -v do if a figure is beside them.
	measures = regexp.MustCompile(`^go test .*-bench |^make (scale|bench)\b|^go -C bench run \.`)
	verbose  = regexp.MustCompile(`^go test .*-v\b`)
	number   = `(?:\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?)`
	figures  = regexp.MustCompile(`\b((?:` + number + `(?: to | and | or |, |-))*)(` + number + `) ?((?:ns|µs|ms|s|times|bytes|[kM]?B(?:/s)?|[a-z]+/s)\b|%)`)
	numbers  = regexp.MustCompile(number)
)

// claim is a sentence or a row of a table, and the head of the table.
type claim struct{ text, head string }

func claimsOf(text string) (all []claim) {
	var block, head string
	over := func() {
		for _, sentence := range sentences.Split(block, -1) {
			all = append(all, claim{sentence, ""})
		}
		block = ""
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "|") {
			head = cmp.Or(head, line)
			all = append(all, claim{line, head})
			continue
		}
		head = ""
		if begins.MatchString(line) {
			over()
		}
		block += line
	}
	over()
	return all
}

// compare returns how many figures a page takes from the results, and what is wrong with them.
func compare(text string, p page) (taken int, wrong []string) {
	var codes []string
	text = code.ReplaceAllStringFunc(fence.ReplaceAllString(text, ""), func(span string) string {
		codes = append(codes, strings.Join(strings.Fields(strings.Trim(span, "`")), " "))
		return string(rune(0xE000 + len(codes) - 1)) // no end of a sentence, and no figure
	})
	for _, c := range claimsOf(text) {
		var from []section
		for _, m := range anchored.FindAllStringSubmatch(c.text+c.head, -1) {
			i := slices.IndexFunc(p.sections, func(s section) bool { return s.anchor() == m[1] })
			if i < 0 {
				wrong = append(wrong, fmt.Sprintf("no section #%s in %s", m[1], file))
				continue
			}
			from = append(from, p.sections[i])
		}
		found := figures.FindAllStringSubmatch(link.ReplaceAllString(c.text, ""), -1)
		linked := len(from) > 0
		for _, r := range c.text + c.head {
			if r < 0xE000 || int(r-0xE000) >= len(codes) {
				continue
			}
			command := codes[r-0xE000]
			i := slices.IndexFunc(p.sections, func(s section) bool { return s.command == command })
			switch {
			case i >= 0:
				from = append(from, p.sections[i])
			case !linked && (measures.MatchString(command) || verbose.MatchString(command) && found != nil):
				wrong = append(wrong, fmt.Sprintf("`%s` is not in %s", command, file))
			}
		}
		if len(from) == 0 {
			continue
		}
		var known []figure
		var titles []string
		for _, s := range from {
			known = append(known, s.figures()...)
			titles = append(titles, s.title)
		}
		for _, m := range found {
			for _, n := range numbers.FindAllString(m[1]+m[2], -1) {
				taken++
				if !slices.ContainsFunc(known, func(f figure) bool { return f.rounds(n, m[3]) }) {
					wrong = append(wrong, fmt.Sprintf("%s %s is not in %s", n, m[3], strings.Join(titles, ", ")))
				}
			}
		}
	}
	return taken, wrong
}

// figure is a value in seconds, in bytes, in bytes per second, in percent, or in things.
type figure struct {
	value float64
	unit  string
}

// units are those of a dimension. All others count things.
var units = map[string]figure{
	"ns": {1e-9, "s"}, "µs": {1e-6, "s"}, "ms": {1e-3, "s"}, "s": {1, "s"},
	"B": {1, "B"}, "bytes": {1, "B"}, "kB": {1e3, "B"}, "MB": {1e6, "B"},
	"B/s": {1, "B/s"}, "kB/s": {1e3, "B/s"}, "MB/s": {1e6, "B/s"}, "%": {1, "%"},
}

func figureOf(n, unit string) figure {
	value, _ := strconv.ParseFloat(strings.ReplaceAll(n, ",", ""), 64)
	one, ok := units[unit]
	if !ok {
		one = figure{1, ""}
	}
	return figure{value * one.value, one.unit}
}

// rounds reports whether n is the figure, rounded to the digits that n has. Zeros at the end of thousands are none.
func (f figure) rounds(n, unit string) bool {
	digits := 0
	if _, decimals, ok := strings.Cut(n, "."); ok {
		digits = len(decimals)
	} else if plain := strings.ReplaceAll(n, ",", ""); len(plain) > 3 {
		digits = len(strings.TrimRight(plain, "0")) - len(plain)
	}
	want, half := figureOf(n, unit), figureOf("0.5", unit).value*math.Pow10(-digits)
	return want.unit == f.unit && math.Abs(want.value-f.value) <= half*(1+1e-9)
}

// figures are those of a section. The unit of a benchmark is in the head of its column.
func (s section) figures() (all []figure) {
	for _, m := range figures.FindAllStringSubmatch(s.about+"\n"+s.result, -1) {
		for _, n := range numbers.FindAllString(m[1]+m[2], -1) {
			all = append(all, figureOf(n, m[3]))
		}
	}
	rows := strings.Split(s.result, "\n")
	if !strings.HasPrefix(rows[0], "|") {
		for _, n := range numbers.FindAllString(s.result, -1) {
			all = append(all, figureOf(n, ""))
		}
		return all
	}
	heads := strings.Split(rows[0], "|")
	for _, row := range rows[2:] {
		for i, cell := range strings.Split(row, "|") {
			if cell = strings.TrimSpace(cell); numbers.MatchString(cell) && i > 1 {
				unit, _, _ := strings.Cut(strings.TrimSpace(heads[i]), "-")
				unit, _, _ = strings.Cut(unit, "/")
				all = append(all, figureOf(cell, unit))
			}
		}
	}
	return all
}
