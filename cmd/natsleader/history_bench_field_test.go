//go:build field

package main

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
)

// BenchmarkHistory measures renewals of eight elections in a bucket without and with a
// history, and the room that the history takes for one of them: as the server counts it, and
// on disk.
func BenchmarkHistory(b *testing.B) {
	for _, with := range []bool{false, true} {
		b.Run(fmt.Sprintf("kept=%v", with), func(b *testing.B) {
			dir := testserver.StoreDir(b)
			s := startServer(b, func(o *server.Options) { o.StoreDir = dir })
			newBucket(b, s.ClientURL(), "elections", leader.BucketConfig{})
			if with {
				succeeds(b, "bucket", "add", "--history", "1d", "-s", s.ClientURL())
			}
			_, js := connectTo(b, s.ClientURL())
			kv := expect.Got(js.KeyValue(b.Context(), "elections"))(b)
			const elections = 8
			var all sync.WaitGroup
			b.ResetTimer()
			for i := range elections {
				all.Go(func() { renews(b, kv, i, b.N/elections) })
			}
			all.Wait()
			b.StopTimer()
			if with {
				reportSize(b, js, dir)
			}
		})
	}
}

// renews writes records as a leader renews them.
func renews(b *testing.B, kv jetstream.KeyValue, i, times int) {
	b.Helper()
	revision := uint64(0)
	for n := range times {
		record := fmt.Sprintf(`{"v":1,"state":"leading","id":"web-%d_4711_x7k2mq","session":"NV3ZQ5M6XK2A7WJ4TJ2BSOYD4%d","n":%d,"lease":"15s",`+
			`"token":%d,"since":"2026-11-23T07:43:32.268234594Z","value":"10.0.0.%d:8080"}`, i, i, n, 1795419812156734+i, i)
		var err error
		if revision, err = kv.Update(b.Context(), fmt.Sprint("billing-", i), []byte(record), revision); err != nil {
			b.Error(err)
			return
		}
	}
}

func reportSize(b *testing.B, js jetstream.JetStream, dir string) {
	b.Helper()
	time.Sleep(100 * time.Millisecond) // the last renewals are on their way; a few make no difference
	stream := expect.Got(js.Stream(b.Context(), historyStream("elections")))(b)
	state := stream.CachedInfo().State
	if state.Msgs == 0 {
		return
	}
	disk := int64(0)
	root := filepath.Join(dir, "jetstream", "$G", "streams", historyStream("elections"), "msgs")
	if err := filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			disk += info.Size()
		}
		return err
	}); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(state.Bytes)/float64(state.Msgs), "counted-B/renewal")
	b.ReportMetric(float64(disk)/float64(state.Msgs), "disk-B/renewal")
}
