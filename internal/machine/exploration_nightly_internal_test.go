package machine

import (
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

var exploreNightly = flag.String("nightly", "", "explore some scenarios to their ends, which takes a quarter of an hour, and write docs/exploration.md for this commit")

// nightly are the scenarios of any one fault that are too large for every run. `make nightly`
// explores them to their ends.
var nightly = []struct{ name, what string }{
	{"sealed", "a purge-protected bucket"},
	{"ordinary", "a bucket with a TTL, also purges"},
	{"leases", "leases of 4 and 3 ticks, `MaxLease` 5"},
	{"pending", "a `PendingPeriod`"},
	{"drain", "a `GracePeriod`, and work from the election on"},
}

const nightlyFile = "../../docs/exploration.md"

// docs/exploration.md has what an exploration of each nightly scenario to its end counted.
// With -nightly these are explored, and the page is written.
func TestExploration_PageIsComplete(t *testing.T) {
	if *exploreNightly != "" {
		exploreToTheEnd(t, *exploreNightly)
	}
	page := check.Got(os.ReadFile(nightlyFile))(t)
	check.That(t, regexp.MustCompile(`on 20\d\d-\d\d-\d\d at commit [0-9a-f]{40},`).Match(page),
		"the page has no date and commit")
	rows := regexp.MustCompile(`(?m)^\| ([a-z ]+) \| (.*) \| ([\d,]+) \| ([\d,]+) \| (\d+) \| (\d+) \| (\d+) \|$`).FindAllSubmatch(page, -1)
	check.Must(t, len(rows) == len(nightly)+1,
		"the page has %d rows, want one for each of %d scenarios, and one for all", len(rows), len(nightly))
	var all [2]int
	for i, row := range rows {
		situations, transitions := uncommas(t, string(row[3])), uncommas(t, string(row[4]))
		if i == len(nightly) {
			if all != [2]int{situations, transitions} {
				t.Errorf("all together have %d situations and %d transitions, and the page says %d and %d", all[0], all[1], situations, transitions)
			}
			break
		}
		if string(row[1]) != nightly[i].name || string(row[2]) != nightly[i].what {
			t.Errorf("row %d is of %s, %s", i, row[1], row[2])
		}
		if situations < 500_000 || transitions < situations {
			t.Errorf("%s was not explored to its end: %d situations, %d transitions", row[1], situations, transitions)
		}
		all[0], all[1] = all[0]+situations, all[1]+transitions
	}
}

// exploreToTheEnd explores the nightly scenarios and writes the page. It explores one after the
// other, because each needs much memory.
func exploreToTheEnd(t *testing.T, commit string) {
	t.Helper()
	var page strings.Builder
	fmt.Fprintf(&page, `# Exploration to the end

`+"`make nightly`"+` wrote this page on %s at commit %s,
on %d processors with %s. In each scenario two candidates run, and any one fault may happen at
any instant. Each exploration reached its end: it visited every situation of its scenario.
[verification.md](verification.md#1-exploration) explains situations, transitions and ticks.

| scenario | world | situations | transitions | actions deep | ticks until there is a leader, at most | seconds |
| --- | --- | --- | --- | --- | --- | --- |
`, time.Now().UTC().Format(time.DateOnly), commit, runtime.GOMAXPROCS(0), runtime.Version())
	row := func(name, what string, situations, transitions, depth int, worst uint8, took time.Duration) {
		fmt.Fprintf(&page, "| %s | %s | %s | %s | %d | %d | %.0f |\n", name, what, commas(situations), commas(transitions), depth, worst, took.Seconds())
	}
	var situations, transitions, depth int
	var worst uint8
	began := time.Now()
	for _, n := range nightly {
		begin := time.Now()
		i := slices.IndexFunc(scenarios, func(sc *scenario) bool { return sc.name == n.name && sc.total == 1 })
		check.Must(t, i >= 0, "%s is no scenario of any one fault", n.name)
		sc := scenarios[i]
		e := sc.explore(math.MaxInt)
		proof.Ran(len(e.order), "situations")
		proof.Ran(e.edges, "transitions")
		t.Logf("%s: %s in %v", n.name, e, time.Since(begin).Round(time.Second))
		if e.broken != "" {
			sc.retell(e.trace, t.Logf)
			t.Fatalf("%s: %s; %v", n.name, e.broken, e.trace)
		}
		row(n.name, n.what, len(e.order), e.edges, e.depth, e.worst, time.Since(begin))
		situations, transitions, depth, worst = situations+len(e.order), transitions+e.edges, max(depth, e.depth), max(worst, e.worst)
	}
	row("all", "", situations, transitions, depth, worst, time.Since(began))
	if err := os.WriteFile(nightlyFile, []byte(page.String()), 0o644); err != nil { //nolint:gosec // it is a page of the repository
		t.Fatal(err)
	}
}

// commas returns a number with commas between its thousands.
func commas(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func uncommas(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.ReplaceAll(text, ",", ""))
	check.Must(t, err == nil && commas(n) == text, "%s is no number", text)
	return n
}
