package natskv

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

// asking opens a feed and reads the settings of the bucket some time after each reconnection, as
// a candidate does.
func asking(t *lab, b *Bucket, after time.Duration) {
	t.Helper()
	f, err := await(func(r func(backend.Feed, error)) {
		b.Watch(t.Context(), "a", nil, func(e backend.FeedEvent) {
			if e.Reconnected {
				time.AfterFunc(after, func() {
					b.Settings(t.Context(), func(_ backend.Settings, err error) {
						check.That(t, err == nil, "%v", err)
					})
				})
			}
		}, r)
	})
	t.ok(err)
	t.Cleanup(f.Stop)
}

// The settings of the bucket are forgotten before the feeds report a reconnection: a candidate that
// asks for them then does not receive those from before.
func TestReconnection_ForgetsSettings(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		mustCreate(t, dialJS(t, t.s), Config{})
		g := &gate{s: t.s}
		b := mustOpen(t, dialJS(t, g))
		var heard, known atomic.Int32
		f, err := await(func(r func(backend.Feed, error)) {
			b.Watch(t.Context(), "a", nil, func(e backend.FeedEvent) {
				if !e.Reconnected {
					return
				}
				heard.Add(1)
				if b.api.Known.Load() != nil {
					known.Add(1)
				}
			}, r)
		})
		t.ok(err)
		t.Cleanup(f.Stop)
		check.That(t, b.api.Known.Load() != nil, "the settings are not known before the reconnection")
		g.reconnect()
		check.That(t, heard.Load() == 1 && known.Load() == 0, "%d reports, the settings from before are known to %d", heard.Load(), known.Load())
	})
}

// Candidates that ask for the settings one after another share requests if their connection was
// made again. The requests are sent after 0, 8, 24, 56 and 120 ms, and from then on each 128 ms.
func TestReconnection_SharesRequests(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		mustCreate(t, dialJS(t, t.s), Config{})
		g := &gate{s: t.s}
		b := mustOpen(t, dialJS(t, g))
		for i := range 300 {
			asking(t, b, time.Duration(i)*time.Millisecond+time.Microsecond)
		}
		var requests atomic.Int32
		nc := dial(t, t.s)
		check.OK(t, check.Err(nc.Subscribe("$JS.API.STREAM.INFO.KV_E", func(*nats.Msg) { requests.Add(1) })))
		t.ok(nc.Flush())
		for i := range int32(2) {
			g.reconnect()
			n := requests.Swap(0)
			check.That(t, n == 7, "reconnection %d: %d requests", i, n)
		}
	})
}
