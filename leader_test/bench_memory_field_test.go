//go:build field && unix

package leader_test

import (
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

var memoryProfiles = flag.String("memory.profiles", "", "BenchmarkMemory writes heap profiles to this directory; run it with -memprofilerate=1")

// BenchmarkMemory reports what a candidate among thousands takes of the heap and of the
// stacks, and its goroutines: of one that leads an election of its own, of one that waits
// for such an election, and of one that waits with all others for the same key. Nothing
// reads the events. The server and the leaders for which candidates wait are processes of
// their own. With the store in memory the figure is that of the candidate alone, and of its
// key in the store. What a process has, as the kernel counts it, is more: collections come now and then only, and a stack that
// has grown shrinks with one.
func BenchmarkMemory(b *testing.B) {
	const n = 2000
	b.Run("memory", func(b *testing.B) { benchMemory(b, leadertest.NewStore(nil), n, false) })
	b.Run("led", func(b *testing.B) {
		benchMemory(b, tcpBucket(b, tcpJS(b, tcpDial(b, scaleWorldOf(b).url))), n, false)
	})
	for name, q := range map[string]scaleRequest{"process/led": {Number: n}, "process/led-in-loops": {Number: n, Loop: true}, "process/10000-led": {Number: 5 * n}} {
		b.Run(name, func(b *testing.B) { benchProcess(b, q) })
	}
	for name, oneKey := range map[string]bool{"on-keys-of-their-own": false, "on-one-key": true} {
		b.Run("waiting/"+name, func(b *testing.B) {
			w := scaleWorldOf(b)
			holder := w.client(w.url)
			holder.ask(scaleRequest{Do: "campaign", Number: n, OneKey: oneKey})
			holder.ask(scaleRequest{Do: "until all know", Limit: tcpLimit})
			benchMemory(b, tcpBucket(b, tcpJS(b, tcpDial(b, w.url))), n, oneKey)
		})
	}
}

// benchMemory measures n candidates. Their elections are those of a scaleCrowd.
func benchMemory(b *testing.B, store leader.Store, n int, oneKey bool) {
	b.Helper()
	before := scaleMemoryNow()
	c := &scaleCrowd{store: store}
	check.OK(b, c.campaign(scaleRequest{Number: n, OneKey: oneKey}))
	c.until(time.Now(), tcpLimit, scaleKnows)
	check.Must(b, c.first(scaleKnows) == n, "not all know the leader")
	time.Sleep(scaleSample.settle + 3*time.Second) // the length of a measurement: each has renewed once
	var grown runtime.MemStats                     // before the garbage collector makes the stacks smaller
	runtime.ReadMemStats(&grown)
	after := scaleMemoryNow()
	if *memoryProfiles != "" {
		f := check.Got(os.Create(filepath.Join(*memoryProfiles, strings.ReplaceAll(b.Name(), "/", "-"))))(b)
		check.OK(b, pprof.Lookup("heap").WriteTo(f, 0))
		check.OK(b, f.Close())
	}
	each := func(after, before uint64) float64 { return (float64(after) - float64(before)) / float64(n) }
	heap, stack := each(after.Heap, before.Heap), each(after.Stack, before.Stack)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(heap, "B-heap")
	b.ReportMetric(stack, "B-stack")
	b.ReportMetric(each(grown.StackInuse, before.Stack), "B-stack-grown")
	b.ReportMetric(heap+stack, "B")
	b.ReportMetric(float64(after.Goroutines-before.Goroutines)/float64(n), "goroutines")
	for _, a := range c.all {
		go a.Stop() //nolint:errcheck // it ends with the process at the latest
	}
	for _, a := range c.all {
		<-a.Done()
	}
	runtime.KeepAlive(c)
}

// benchProcess measures the memory that a process has for each of its candidates while they renew.
func benchProcess(b *testing.B, q scaleRequest) {
	b.Helper()
	w := scaleWorldOf(b)
	c := w.client(w.url)
	before, sum := c.ask(scaleRequest{Do: "resident"}).Resident, 0.0
	q.Do = "campaign"
	c.ask(q)
	c.ask(scaleRequest{Do: "until all lead", Limit: tcpLimit})
	time.Sleep(10 * time.Second) // the length of a measurement, as below
	const looks = 20
	for range looks {
		time.Sleep(time.Second)
		sum += c.ask(scaleRequest{Do: "resident"}).Resident
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric((sum/looks-before)/float64(q.Number), "B-resident")
}
