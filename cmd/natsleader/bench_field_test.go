//go:build field

package main

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/doctor"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
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
				if h := leader.HolderOf(e); h.State == leader.HolderLeading {
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

// Each election has one waiting candidate.
func BenchmarkStatusOf10000Elections(b *testing.B) {
	const n = 10_000
	url := startServer(b).ClientURL()
	newBucket(b, url, "elections", leader.BucketConfig{Roster: true})
	campaigns(b, url, "elections", "e00000", leader.Config{ID: "a", Value: []byte("10.0.0.7:80"), Queue: &leader.Queue{AtOnce: true}})
	stands(b, url, "e00000", leader.Config{ID: "b", Queue: &leader.Queue{AtOnce: true}})
	inLine(b, url, "e00000", "b")
	putMany(b, url, n)
	_, js := connectTo(b, url)
	storeMany(b, js, n, func(i int) *nats.Msg {
		announcement := nats.NewMsg(fmt.Sprintf("$KV.elections_roster.e%05d.%s", i, doctor.AnySession))
		announcement.Header.Set(jetstream.MsgTTLHeader, "1h")
		announcement.Data = []byte(`{"v":1,"id":"b"}`)
		return announcement
	})
	for line, each := range map[string]string{"status": "leading", "status --json": `"leading"`, "status --roster": "leading", "status --roster --json": `"stand": 1`} {
		b.Run(line, func(b *testing.B) {
			var all []time.Duration
			for b.Loop() {
				for range 5 {
					start := time.Now()
					out := succeeds(b, append(strings.Fields(line), "-s", url)...)
					all = append(all, time.Since(start))
					expect.Equal(b, strings.Count(out, each), n, "%d elections with "+each)
				}
			}
			figure(b, 2*time.Second, all)
		})
	}
}

// A scrape of 10,000 elections over HTTP, after 500 of them were renewed, also beside twice as many busy processes as there
// are processors.
func BenchmarkExporterOf10000Elections(b *testing.B) {
	const n = 10_000
	url := startServer(b).ClientURL()
	newBucket(b, url, "elections", leader.BucketConfig{})
	campaigns(b, url, "elections", "e00000", leader.Config{ID: "a"})
	putMany(b, url, n)
	address := startExporter(b, url, "elections")
	scrape := func() (led int, took time.Duration) {
		start := time.Now()
		response := expect.Got(http.Get(address + "/metrics"))(b)
		body := expect.Got(io.ReadAll(response.Body))(b)
		expect.OK(b, response.Body.Close())
		return strings.Count(string(body), "natsleader_election_led{"), time.Since(start)
	}
	testworld.Eventually(b, "the exporter has read all elections", func() bool { led, _ := scrape(); return led == n })
	for _, busy := range []int{0, 2 * runtime.NumCPU()} {
		b.Run(fmt.Sprint("busy=", busy), func(b *testing.B) {
			for range busy {
				loop := exec.CommandContext(b.Context(), "sh", "-c", "while :; do :; done")
				expect.OK(b, loop.Start())
				b.Cleanup(func() { _ = loop.Wait() })
			}
			var all []time.Duration
			for b.Loop() {
				for range 5 {
					putMany(b, url, 500)
					led, took := scrape()
					expect.Equal(b, led, n, "%d elections are led")
					all = append(all, took)
				}
			}
			figure(b, time.Second, all)
		})
	}
}
