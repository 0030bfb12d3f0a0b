package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/natsleader/natsleader/leader"
)

// row holds the measurements of one operation, and of the bare writes beside it.
type row struct {
	name, bareName string
	ours, bare     []time.Duration
}

// distribution is the report on a row, in microseconds.
type distribution struct {
	Name   string  `json:"name"`
	Count  int     `json:"count"`
	Min    float64 `json:"min_us"`
	Median float64 `json:"median_us"`
	P90    float64 `json:"p90_us"`
	P99    float64 `json:"p99_us"`
	Max    float64 `json:"max_us"`
	Bare   string  `json:"bare,omitempty"`  // the row to compare with
	Ratio  float64 `json:"ratio,omitempty"` // of the medians
}

// distribute sorts the samples. A share p of them lies below at(p).
func distribute(name string, took []time.Duration) distribution {
	slices.Sort(took)
	at := func(p float64) float64 {
		return float64(took[min(len(took)-1, int(float64(len(took))*p))].Nanoseconds()) / 1e3
	}
	return distribution{Name: name, Count: len(took), Min: at(0), Median: at(0.5), P90: at(0.9), P99: at(0.99), Max: at(1)}
}

// distributions returns the rows in the order of the report, each followed by its bare
// one. Rows without measurements are left out.
func distributions(rows []row) []distribution {
	var all []distribution
	for _, r := range rows {
		if len(r.ours) == 0 {
			continue
		}
		d := distribute(r.name, r.ours)
		if len(r.bare) == 0 {
			all = append(all, d)
			continue
		}
		bare := distribute(r.bareName, r.bare)
		d.Bare, d.Ratio = bare.Name, d.Median/bare.Median
		all = append(all, d, bare)
	}
	return all
}

// print prints the measurements so far.
func (b *bench) print(w io.Writer, cfg leader.BucketConfig, like string, rounds int, asJSON bool) error {
	all := distributions(b.rows)
	done := len(b.rows[rowHandover].ours)
	storage, version := storageName(cfg.Storage), b.ends[0].nc.ConnectedServerVersion()
	if asJSON {
		return printJSON(w, map[string]any{
			"rounds": done, "replicas": cfg.Replicas, "storage": storage, "server": version, "rows": all,
		}, "  ")
	}
	replicas := "one replica"
	if cfg.Replicas != 1 {
		replicas = fmt.Sprintf("%d replicas", cfg.Replicas)
	}
	where := fmt.Sprintf("nats-server %s, %s, %s storage", version, replicas, storage)
	if like != "" {
		where += ", as bucket " + like
	}
	table := [][]string{{"", "COUNT", "MIN", "MEDIAN", "P90", "P99", "MAX", ""}}
	for _, d := range all {
		cells := []string{d.Name, fmt.Sprint(d.Count)}
		for _, us := range []float64{d.Min, d.Median, d.P90, d.P99, d.Max} {
			cells = append(cells, roundish(time.Duration(us*1e3)).String())
		}
		ratio := ""
		if d.Ratio > 0 {
			ratio = fmt.Sprintf("%.2f times %s", d.Ratio, d.Bare)
		}
		table = append(table, append(cells, ratio))
	}
	head := fmt.Sprintf("%d rounds on %s", done, where)
	if done < rounds {
		head = fmt.Sprintf("%d of %d rounds on %s", done, rounds, where)
	}
	return printLines(w, append([]string{head, ""}, columns(table)...))
}
