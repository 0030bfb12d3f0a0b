package main

import (
	"cmp"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

var (
	benchmarkLine = regexp.MustCompile(`(?m)^Benchmark(\S+)\s+\d+\t(.*)$`)
	// A table that BenchmarkScale prints, or a report of bench.
	table = regexp.MustCompile(`(?ms)^what +measured\n.*?^processors limited by: [^\n]*|^\d{4}-\d\d-\d\d, go\S+, .*`)
	// What a test logs, or package proof counts.
	logged = regexp.MustCompile(`(?m)^ +\w+\.go:\d+: (.*)$|^(\S+ ran \d.*)$`)
	passed = regexp.MustCompile(`(?m)^ *--- PASS: (\S+)`)
)

// output returns the result in what a command has written, in Markdown: the table that it prints, or a table
// of its benchmarks, or the lines that its tests have logged, or their names if they have logged nothing.
func output(text string) string {
	if found := table.FindString(text); found != "" {
		return fenced(found)
	}
	if found := benchmarkLine.FindAllStringSubmatch(text, -1); found != nil {
		return benchmarks(found)
	}
	for _, lines := range []*regexp.Regexp{logged, passed} {
		var all []string
		for _, m := range lines.FindAllStringSubmatch(text, -1) {
			all = append(all, strings.Join(m[1:], ""))
		}
		if all != nil {
			return fenced(strings.Join(all, "\n"))
		}
	}
	return ""
}

func fenced(text string) string { return "```text\n" + strings.TrimSpace(text) + "\n```" }

// benchmarks returns a table of the benchmarks' names and results. Of several results of one benchmark (-count)
// it has the median.
func benchmarks(lines [][]string) string {
	var names, units []string
	all := make(map[string]map[string][]string) // by name and unit
	for _, m := range lines {
		name := strings.TrimSuffix(m[1], fmt.Sprint("-", runtime.GOMAXPROCS(0)))
		if all[name] == nil {
			all[name] = make(map[string][]string)
			names = append(names, name)
		}
		fields := strings.Fields(m[2])
		for i := 0; i+1 < len(fields); i += 2 {
			unit := fields[i+1]
			if !slices.Contains(units, unit) {
				units = append(units, unit)
			}
			all[name][unit] = append(all[name][unit], fields[i])
		}
	}
	slices.Sort(names) // some run in an order that changes
	var b strings.Builder
	row := func(first string, cell func(unit string) string) {
		fmt.Fprintf(&b, "| %s |", first)
		for _, unit := range units {
			fmt.Fprintf(&b, " %s |", cell(unit))
		}
		b.WriteString("\n")
	}
	row("benchmark", func(unit string) string { return unit })
	row("---", func(string) string { return "---:" })
	for _, name := range names {
		row(name, func(unit string) string { return median(all[name][unit]) })
	}
	return strings.TrimSpace(b.String())
}

// median returns one of the values, or "" if there is none.
func median(values []string) string {
	if len(values) == 0 {
		return ""
	}
	slices.SortFunc(values, func(a, b string) int {
		x, _ := strconv.ParseFloat(a, 64)
		y, _ := strconv.ParseFloat(b, 64)
		return cmp.Compare(x, y)
	})
	return values[len(values)/2]
}
