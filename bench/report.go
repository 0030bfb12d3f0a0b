package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"
	"time"
)

// report is the result of a run.
type report struct {
	Date    time.Time
	Go      string
	OS      string
	Cores   int
	Full    bool
	Systems []systemReport
	Rows    []*row
}

// row is one measure of all systems.
type row struct {
	Measure string
	Cells   map[string]*cell // by the name of the system
}

// systemReport names a system and the versions of its libraries.
type systemReport struct {
	Name     string
	Versions map[string]string
}

func newReport(o options) *report {
	return &report{
		Date: time.Now().UTC(), Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH,
		Cores: runtime.NumCPU(), Full: o.full,
	}
}

func (r *report) addSystem(s system) {
	v := make(map[string]string)
	for _, path := range s.libraries {
		v[path] = version(path)
	}
	r.Systems = append(r.Systems, systemReport{Name: s.name, Versions: v})
}

// version returns the version of a module in this binary.
func version(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range info.Deps {
		if m.Path != path {
			continue
		}
		if m.Version == "v0.0.0" || m.Version == "(devel)" {
			return "this source"
		}
		return m.Version
	}
	return "unknown"
}

// column is one figure of a measure.
type column struct {
	title string
	of    func(f figures) string
	value func(f figures) float64 // for the picture, or nil
	unit  string
}

// columns returns the figures that a measure shows.
func columns(measure string) []column {
	lease := column{title: "lease", of: func(f figures) string { return f.Lease.String() }}
	median := column{"median", func(f figures) string { return showMillis(f.Median) }, func(f figures) float64 { return f.Median }, "ms"}
	most := column{title: "most", of: func(f figures) string { return showMillis(f.Max) }}
	count := column{title: "samples", of: func(f figures) string { return fmt.Sprint(f.Samples) }}
	memory := column{"memory each", func(f figures) string { return fmt.Sprintf("%.1f kB", f.BytesEach/1000) }, func(f figures) float64 { return f.BytesEach / 1000 }, "kB"}
	goroutines := column{title: "goroutines each", of: func(f figures) string { return fmt.Sprintf("%.1f", f.GoroutinesEach) }}
	requests := column{"requests/s", func(f figures) string { return fmt.Sprintf("%.0f", f.RequestsPerSecond) }, func(f figures) float64 { return f.RequestsPerSecond }, "/s"}
	cpu := column{title: "server CPU", of: func(f figures) string { return fmt.Sprintf("%.0f%%", f.ServerCPUPercent) }}
	switch baseName(measure) {
	case measureHandover:
		return []column{lease, median, {title: "99th percentile", of: func(f figures) string { return showMillis(f.P99) }}, count}
	case measureCrash:
		return []column{lease, median, most, count}
	case measureCut:
		return []column{
			lease,
			{"next leads after", median.of, median.value, "ms"},
			{"two lead for", func(f figures) string { return showMillis(f.OverlapMaxMS) }, func(f figures) float64 { return f.OverlapMaxMS }, "ms"},
			{title: "rounds with two", of: func(f figures) string { return fmt.Sprintf("%d of %d", f.OverlapRounds, f.Samples) }},
		}
	case measurePause:
		return []column{
			lease,
			{"next leads after", median.of, median.value, "ms"},
			{title: "first answer wrong", of: func(f figures) string { return fmt.Sprintf("%d of %d", f.WrongFirstAnswers, f.Samples) }},
			{"wrong for", func(f figures) string { return showMillis(f.OverlapMaxMS) }, func(f figures) float64 { return f.OverlapMaxMS }, "ms"},
		}
	case measureWaiting:
		return []column{lease, {title: "candidates", of: func(f figures) string { return fmt.Sprint(f.Candidates) }}, requests, cpu, memory, goroutines}
	case measureLeading:
		return []column{
			lease,
			{title: "elections", of: func(f figures) string { return fmt.Sprint(f.Candidates) }},
			{"set-up", func(f figures) string { return showMillis(f.SetupMS) }, func(f figures) float64 { return f.SetupMS }, "ms"},
			requests, cpu, memory, goroutines,
		}
	case measureLock, measureStart:
		cols := []column{lease}
		for _, name := range stepsOf[baseName(measure)] {
			cols = append(cols, column{
				name,
				func(f figures) string {
					return fmt.Sprintf("%d, %s", f.Steps[name].Trips, showMillis(f.Steps[name].MS))
				},
				func(f figures) float64 { return f.Steps[name].MS }, "ms",
			})
		}
		if baseName(measure) == measureLock {
			cols = append(cols, column{title: "requests each", of: func(f figures) string { return showCount(f.RequestsEach) }})
		}
		return cols
	default:
		return []column{
			lease,
			{title: "interval", of: func(f figures) string { return showMillis(millis(f.Interval)) }},
			{"requests", func(f figures) string { return fmt.Sprintf("%.1f", f.RequestsPerRenewal) }, func(f figures) float64 { return f.RequestsPerRenewal }, ""},
			{"bytes", func(f figures) string { return fmt.Sprintf("%.0f", f.BytesPerRenewal) }, func(f figures) float64 { return f.BytesPerRenewal }, "B"},
			count,
		}
	}
}

func showMillis(ms float64) string {
	switch {
	case ms == 0:
		return "0"
	case ms < 10:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	default:
		return fmt.Sprintf("%.2f s", ms/1000)
	}
}

// showCount shows what a server that does not count leaves out.
func showCount(n float64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", n)
}

// text is the report as tables.
func (r *report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, %s, %d cores\n", r.Date.Format("2006-01-02"), r.Go, r.OS, r.Cores)
	for _, row := range r.Rows {
		cols := columns(row.Measure)
		fmt.Fprintf(&b, "\n%s\n", row.Measure)
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		var titles []string
		for _, c := range cols {
			titles = append(titles, c.title)
		}
		_, _ = fmt.Fprintf(w, "\t%s\n", strings.Join(titles, "\t"))
		var notes []string
		for _, s := range r.Systems {
			cell := row.Cells[s.Name]
			line := []string{s.Name}
			why := cell.Note + cell.Error
			for _, c := range cols {
				if why != "" {
					line = append(line, "-")
				} else {
					line = append(line, c.of(cell.Figures))
				}
			}
			if why != "" {
				notes = append(notes, fmt.Sprintf("%s: %s", s.Name, why))
			}
			_, _ = fmt.Fprintln(w, strings.Join(line, "\t"))
		}
		_ = w.Flush()
		for _, n := range notes {
			fmt.Fprintf(&b, "(%s)\n", n)
		}
	}
	b.WriteString("\nversions\n")
	for _, s := range r.Systems {
		var list []string
		for _, path := range sortedKeys(s.Versions) {
			list = append(list, path+" "+s.Versions[path])
		}
		fmt.Fprintf(&b, "%s: %s\n", s.Name, strings.Join(list, ", "))
	}
	b.WriteString("\nnotes\n")
	for _, n := range generalNotes {
		fmt.Fprintf(&b, "- %s\n", n)
	}
	return b.String()
}

// generalNotes hold for every run.
var generalNotes = []string{
	"Each server is a process of its own on this machine, and none syncs its writes to disk.",
	"client-go talks to an HTTP server of this program that keeps leases with optimistic concurrency, without limits on requests.",
	"kv-elect is a re-implementation of nats-kv-leader-elect at commit 959bf24. It refuses a TTL below 30 s: figures at a shorter TTL show its proportions.",
	"redsync is a lock. The loop that locks, and extends at intervals of a third of the expiry, is this program's.",
	"lock and start: the fewest round trips of the rounds, and the median of their times, over a link of 100 ms there and back.",
	"HashiCorp Consul is missing, because its server cannot be had here. PostgreSQL is measured if " + postgresEnv + " has the URL of a server.",
}
