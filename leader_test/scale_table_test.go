//go:build unix

package leader_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

var (
	scaleInFull = flag.Bool("scale.full", false, "BenchmarkScale measures 10,000 elections, for five minutes, in place of a sample")
	scaleJSON   = flag.String("scale.json", "", "BenchmarkScale writes its table to this file, too")
)

// scaleGoals has what each figure was before issue 15, and what it is to be, for 10,000
// elections and on two processors that had nothing else to do.
var scaleGoals = []struct{ key, what, before, reach string }{
	{"set-up", "set-up of 10,000 elections led", "1.7 s", "1.2 s"},
	{"memory", "memory each, heap and stack; goroutines", "24 kB, 3", "8 kB, 1"},
	{"waiting-one-key", "one of 5,000 that wait on one key", "11.1 kB", "7 kB, 1"},
	{"waiting-many-keys", "one of 10,000 that wait on keys of their own", "30 kB", "7 kB, 1"},
	{"cpu", "processor time at 4,000 renewals per second", "18% client, 12% server", "12% client"},
	{"quota-40", "both limited to 40% of a core for 15 s", "at least 0 lead, all lead after 12 s", "none lost"},
	{"quota-20", "to 20%", "at least 0 lead, not all within 15 s", "none lost"},
	{"quota-10", "to 10%", "all lost, does not recover", "at least 9,950 lead, all lead after 2 s"},
	{"dead", "connection dead for 13 s", "10,000 fenced, all lead after 1.9 s", "all lead after 1 s"},
	{"reconnection", "reconnection: STREAM.INFO / writes refused", "19,000 / 3,067", "at most 20 / 0"},
	{"many", "30,000 candidates: fences / faults", "731 / 21,939", "0 / 0"},
}

// scaleMetrics are figures by their unit.
type scaleMetrics map[string]float64

// scaleFigure is a row of the table.
type scaleFigure struct {
	Key, What, Before, Reach, Measured string
	Metrics                            scaleMetrics
}

// scaleTable collects what is measured.
type scaleTable struct {
	figures []scaleFigure
	limited string // how processors were limited
}

// add adds a figure, and reports it as the benchmark's.
func (t *scaleTable) add(b *testing.B, key, measured string, metrics scaleMetrics) {
	b.Helper()
	f := scaleFigure{Key: key, Measured: measured, Metrics: metrics}
	for _, g := range scaleGoals {
		if g.key == key {
			f.What, f.Before, f.Reach = g.what, g.before, g.reach
		}
	}
	if f.What == "" {
		b.Fatalf("no goal %q", key)
	}
	t.figures = append(slices.DeleteFunc(t.figures, func(o scaleFigure) bool { return o.Key == key }), f)
	b.ReportMetric(0, "ns/op")
	for _, unit := range slices.Sorted(maps.Keys(metrics)) {
		b.ReportMetric(metrics[unit], key+":"+unit)
	}
}

// addMemory adds what each of n candidates takes.
func (t *scaleTable) addMemory(b *testing.B, key string, empty, full scaleMemory, n int) {
	b.Helper()
	each := func(full, empty uint64) float64 { return (float64(full) - float64(empty)) / float64(n) }
	heap, stack := each(full.Heap, empty.Heap), each(full.Stack, empty.Stack)
	goroutines := float64(full.Goroutines-empty.Goroutines) / float64(n)
	t.add(b, key, fmt.Sprintf("%.1f kB (%.1f heap, %.1f stack), %.1f", (heap+stack)/1e3, heap/1e3, stack/1e3, goroutines), scaleMetrics{
		"B/candidate": heap + stack, "B-heap/candidate": heap, "B-stack/candidate": stack,
		"B-heap-spans/candidate": each(full.HeapSpans, empty.HeapSpans), "goroutines/candidate": goroutines,
	})
}

// print prints the table, and writes it to the file that the flag names.
func (t *scaleTable) print(b *testing.B) {
	b.Helper()
	if *scaleInFull {
		var text strings.Builder
		w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(w, "what\tissue 15, before\treach\tmeasured")
		for _, f := range t.figures {
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.What, f.Before, f.Reach, f.Measured)
		}
		tcpOK(b, w.Flush())
		fmt.Printf("\n%sprocessors limited by: %s\n\n", &text, t.limited)
	}
	if *scaleJSON == "" {
		return
	}
	text, err := json.MarshalIndent(map[string]any{
		"full": *scaleInFull, "go": runtime.Version(), "processors": runtime.NumCPU(), "limited": t.limited, "figures": t.figures,
	}, "", "\t")
	tcpOK(b, err)
	tcpOK(b, os.WriteFile(*scaleJSON, append(text, '\n'), 0o600))
}
