//go:build field && unix

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

	"github.com/natsleader/natsleader/internal/check"
)

var (
	scaleInFull = flag.Bool("scale.full", false, "BenchmarkScale measures 10,000 elections, for five minutes, in place of a sample")
	scaleJSON   = flag.String("scale.json", "", "BenchmarkScale writes its table to this file, too")
)

// scaleRows has what each figure is of.
var scaleRows = map[string]string{
	"set-up":            "set-up of 10,000 elections led",
	"memory":            "memory each, heap and stack; goroutines",
	"waiting-one-key":   "one of 5,000 that wait on one key",
	"waiting-many-keys": "one of 10,000 that wait on keys of their own",
	"cpu":               "processor time at 4,000 renewals per second",
	"quota-40":          "both limited to 40% of a core for 15 s",
	"quota-20":          "to 20%",
	"quota-10":          "to 10%",
	"dead":              "connection dead for 13 s",
	"reconnection":      "reconnection: STREAM.INFO / writes refused",
	"many":              "30,000 candidates: fences / faults",
}

// scaleMetrics are figures by their unit.
type scaleMetrics map[string]float64

// scaleFigure is a row of the table.
type scaleFigure struct {
	Key, What, Measured string
	Metrics             scaleMetrics
}

// scaleTable collects what is measured.
type scaleTable struct {
	figures []scaleFigure
	limited string // how processors were limited
}

// add adds a figure, and reports it as the benchmark's.
func (t *scaleTable) add(b *testing.B, key, measured string, metrics scaleMetrics) {
	b.Helper()
	what, ok := scaleRows[key]
	check.Must(b, ok, "no row %q", key)
	f := scaleFigure{Key: key, What: what, Measured: measured, Metrics: metrics}
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
		_, _ = fmt.Fprintln(w, "what\tmeasured")
		for _, f := range t.figures {
			_, _ = fmt.Fprintf(w, "%s\t%s\n", f.What, f.Measured)
		}
		check.OK(b, w.Flush())
		fmt.Printf("\n%sprocessors limited by: %s\n\n", &text, t.limited)
	}
	if *scaleJSON == "" {
		return
	}
	text, err := json.MarshalIndent(map[string]any{
		"full": *scaleInFull, "go": runtime.Version(), "processors": runtime.NumCPU(), "limited": t.limited, "figures": t.figures,
	}, "", "\t")
	check.OK(b, err)
	check.OK(b, os.WriteFile(*scaleJSON, append(text, '\n'), 0o600))
}
