//go:build field

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// figure reports the median and the worst of some measurements. It fails if the median
// exceeds ten times the wanted duration, which a busy machine does not explain any
// more.
func figure(b *testing.B, wanted time.Duration, all []time.Duration) {
	b.Helper()
	slices.Sort(all)
	median, worst := all[len(all)/2], all[len(all)-1]
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(0, "ns/op") // of all of them, which is of no use
	b.ReportMetric(ms(median), "ms-median")
	b.ReportMetric(ms(worst), "ms-worst")
	b.ReportMetric(ms(wanted), "ms-wanted")
	if median > 10*wanted {
		b.Errorf("%v, ten times more than the %v that are wanted", median, wanted)
	}
}

func BenchmarkStart(b *testing.B) {
	var all []time.Duration
	for b.Loop() {
		for range 20 {
			cmd := natsleader(b, "--version")
			start := time.Now()
			expect.OK(b, cmd.Run())
			all = append(all, time.Since(start))
		}
	}
	figure(b, 50*time.Millisecond, all)
}

// The time from the server's time of the record that elected `natsleader run`, which is
// a bit before Elected, to the time that its command prints, which is a bit after the
// command's start. The server is on this host.
func BenchmarkElectedToCommand(b *testing.B) {
	url := startServer(b).ClientURL()
	newBucket(b, url, "elections", leader.BucketConfig{})
	_, js := connectTo(b, url)
	kv := expect.Got(js.KeyValue(b.Context(), "elections"))(b)
	var all []time.Duration
	for b.Loop() {
		for range 20 {
			election := fmt.Sprint("e", len(all))
			records := expect.Got(kv.Watch(b.Context(), election))(b)
			out := succeeds(b, "run", election, "--quiet", "-s", url, "--", "date", "+%Y-%m-%dT%H:%M:%S.%NZ", "-u")
			for e := range records.Updates() {
				if e == nil {
					continue // there was none before
				}
				if h := leader.HolderOf(e); h.Leads() {
					all = append(all, printedTime(b, out).Sub(h.Since))
					break
				}
			}
			expect.OK(b, records.Stop())
		}
	}
	figure(b, 20*time.Millisecond, all)
}

// printedTime parses a time with nanoseconds.
func printedTime(b *testing.B, text string) time.Time {
	b.Helper()
	at, err := time.Parse("2006-01-02T15:04:05.999999999Z07:00", strings.TrimSpace(text))
	if err != nil {
		proof.Skip(b, "date prints no nanoseconds here: ", err)
	}
	return at
}

func BenchmarkStatusOf10000Elections(b *testing.B) {
	url := manyElections(b, 10_000)
	for name, args := range map[string][]string{"table": {"status"}, "json": {"status", "--json"}, "roster": {"status", "--roster"}} {
		b.Run(name, func(b *testing.B) {
			var all []time.Duration
			for b.Loop() {
				for range 5 {
					start := time.Now()
					succeeds(b, append(args, "-s", url)...)
					all = append(all, time.Since(start))
				}
			}
			figure(b, 2*time.Second, all)
		})
	}
}
