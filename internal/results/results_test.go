package main

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

const example = "# Results\n\nWords.\n" +
	"\n## A guarded `Put`\n\nWith 64\nwriters.\n\n`go test -bench A`\n\na stamp\n\n| old | table |\n| --- | --- |\n| 1 | 2 |\n" +
	"\n## New\n\n`go test -run New -v`\n" +
	"\n## Last\n\n`make last`\n\na stamp\n\n```text\nold\n\nlines\n```\n"

func TestPage_IsRead(t *testing.T) {
	p, err := parse(example)
	check.OK(t, err)
	check.Equal(t, len(p.sections), 3, "%d sections")
	check.Equal(t, p.sections[0].about, "With 64\nwriters.", "about: %s")
	check.Equal(t, p.sections[0].anchor(), "a-guarded-put", "the anchor %s")
	check.Equal(t, p.sections[0].result, "| old | table |\n| --- | --- |\n| 1 | 2 |", "the result %s")
	check.Equal(t, p.sections[1].command, "go test -run New -v", "the command %s")
	check.Equal(t, p.sections[1].result, "", "the result %s")
	check.Equal(t, p.String(), example, "%s")
	for _, broken := range []string{"no command\n", "a stamp alone\n\n`make x`\n\nstamp\n"} {
		_, err = parse("# Results\n\n## " + broken)
		check.That(t, err != nil, "no error for %s", broken)
	}
}

// A command that fails, or whose output has no result, leaves its section as it was.
func TestWriter_Sections(t *testing.T) {
	outputs := map[string]string{"go test -bench A": "BenchmarkA\t1\t3 ns/op\n", "go test -run New -v": "ok\n"}
	for _, k := range []struct{ only, written, err string }{
		{"", "A guarded `Put`", "these sections are as they were: New, Last"},
		{"guarded", "A guarded `Put`", ""},
		{"bench A", "A guarded `Put`", ""},
		{"make", "", "these sections are as they were: Last"},
		{"nothing", "", "no section matches nothing"},
	} {
		p, err := parse(example)
		check.OK(t, err)
		saved, log := example, new(strings.Builder)
		now := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
		w := writer{
			page: p, machine: "commit abc", log: log, save: func(text string) error { saved = text; return nil },
			now: func() time.Time { now = now.Add(61 * time.Second); return now },
			run: func(command string) (string, error) {
				if out, ok := outputs[command]; ok {
					return out, nil
				}
				return "what it printed\n", errors.New("exit 1")
			},
		}
		got := fmt.Sprint(w.write(regexp.MustCompile(k.only)))
		check.Equal(t, strings.Replace(got, "<nil>", "", 1), k.err, "the error %s")
		want := example
		if k.written != "" {
			want = strings.Replace(want, "a stamp\n\n| old | table |\n| --- | --- |\n| 1 | 2 |\n",
				"2026-11-27, commit abc, in 1m1s\n\n| benchmark | ns/op |\n| --- | ---: |\n| A | 3 |\n", 1)
		}
		check.Equal(t, saved, want, "%s")
		if k.only == "make" {
			check.Equal(t, log.String(), "== Last: make last\nwhat it printed\n\n== Last failed after 1m1s: exit 1\n", "%s")
		}
	}
}

// Of what commands print, these are the results.
func TestOutput_Results(t *testing.T) {
	threads := fmt.Sprint("-", runtime.GOMAXPROCS(0))
	if threads == "-1" {
		threads = ""
	}
	for name, k := range map[string]struct{ in, want string }{
		"benchmarks, each three times": {
			"goos: linux\nBenchmarkX/on-file" + threads + "         \t     100\t         9.5 µs-ours\t 1.500 ratio\n" +
				"BenchmarkX/on-file" + threads + "   \t 100\t 10.5 µs-ours\t 1.300 ratio\nBenchmarkX/on-file" + threads + "   \t 100\t 9.9 µs-ours\t 1.400 ratio\n" +
				"BenchmarkX/crowd-2000" + threads + "   \t 1\t 7 goroutines\nPASS\nok  \tpackage\t3.2s\n",
			"| benchmark | µs-ours | ratio | goroutines |\n| --- | ---: | ---: | ---: |\n| X/crowd-2000 |  |  | 7 |\n| X/on-file | 9.9 | 1.400 |  |",
		},
		"make scale": {
			"go test -bench Scale\nBenchmarkScale/led" + threads + "   \t 1\t 4 set-up:s\n\nwhat      measured\nset-up    1.5 s\nto 20%    none\nprocessors limited by: cgroup\n\nPASS\n",
			"```text\nwhat      measured\nset-up    1.5 s\nto 20%    none\nprocessors limited by: cgroup\n```",
		},
		"go -C bench run .": {
			"2026-11-27, go1.26.8, linux/amd64, 2 cores\n\nhandover\n            median\nnatsleader  0.69 ms\n\nnotes\n- One.\n",
			"```text\n2026-11-27, go1.26.8, linux/amd64, 2 cores\n\nhandover\n            median\nnatsleader  0.69 ms\n\nnotes\n- One.\n```",
		},
		"tests with -v": {
			"=== RUN   TestX\n    x_test.go:70: 7 moves: even\n        y_test.go:7: after 1s\n--- PASS: TestX (0.68s)\nPASS\nshard ran 40 seeds\nok  \tpackage\t8.5s\n",
			"```text\n7 moves: even\nafter 1s\nshard ran 40 seeds\n```",
		},
		"tests that log nothing": {
			"=== RUN   TestX\n--- PASS: TestX (0.68s)\n    --- PASS: TestX/v2.10.29 (0.1s)\n    --- SKIP: TestX/none (0.1s)\nPASS\n",
			"```text\nTestX\nTestX/v2.10.29\n```",
		},
		"no result": {"ok  \tpackage\t8.5s\n", ""},
	} {
		t.Run(name, func(t *testing.T) { check.Equal(t, output(k.in), k.want, "%s") })
	}
}
