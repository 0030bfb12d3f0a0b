//go:build field

package main

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// From the sending of a write of a new leader until a browser has drawn it, beside the time until a
// bare watcher has it.
func BenchmarkUI_ChangeToEye(b *testing.B) {
	url := startServer(b).ClientURL()
	newBucket(b, url, "elections", leader.BucketConfig{})
	_, js := connectTo(b, url)
	kv, err := js.KeyValue(b.Context(), "elections")
	expect.OK(b, err)
	campaigns(b, url, "elections", "other", leader.Config{ID: "x"})
	value := func(id string) string { return testworld.Record(b, js, "other", id, time.Hour) }
	write := func(id string) time.Time {
		text := []byte(value(id))
		sent := time.Now()
		if _, failed := kv.Put(b.Context(), "billing", text); failed != nil {
			b.Fatal(failed)
		}
		return sent
	}
	write("first")
	watch, err := kv.Watch(b.Context(), "billing", jetstream.UpdatesOnly())
	expect.OK(b, err)
	defer func() { _ = watch.Stop() }()
	page := testworld.OpenBrowser(b, startUI(b, url).address, 1200, 700)
	page.Becomes(testworld.LeaderOf, "first")
	var seen, delivered []time.Duration
	for i := range b.N {
		id := "leader-" + strconv.Itoa(i)
		// A frame is drawn after its callback, and before the next task.
		page.Value(`(window.seen = new Promise((resolve) => {
			const look = () => {
				if (` + testworld.LeaderOf + ` !== '` + id + `') return;
				observer.disconnect();
				requestAnimationFrame(() => setTimeout(() => resolve(String(performance.timeOrigin + performance.now()))));
			};
			const observer = new MutationObserver(look);
			observer.observe(document.getElementById('rows'), { subtree: true, childList: true, characterData: true });
		})) && 'waits'`)
		sent := write(id)
		<-watch.Updates()
		delivered = append(delivered, time.Since(sent))
		ms := expect.Got(strconv.ParseFloat(page.Run(`window.seen`), 64))(b)
		seen = append(seen, time.Duration(ms*float64(time.Millisecond))-time.Duration(sent.UnixNano()))
	}
	slices.Sort(seen)
	slices.Sort(delivered)
	median, bare := seen[len(seen)/2], delivered[len(delivered)/2]
	b.ReportMetric(float64(median.Microseconds())/1000, "ms/change")
	b.ReportMetric(float64(seen[len(seen)*99/100].Microseconds())/1000, "ms-p99")
	b.ReportMetric(float64(median)/float64(bare), "x-bare-watch")
	b.ReportMetric(0, "ns/op")
}
