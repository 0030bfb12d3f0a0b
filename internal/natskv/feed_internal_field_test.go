//go:build field

package natskv

import (
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testserver"
)

// No goroutine outlives the Stop of the last feed.
func TestFeed_StopEndsGoroutines(tt *testing.T) {
	t := &lab{T: tt}
	s, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: testserver.StoreDir(t), NoSigs: true, NoLog: true})
	t.ok(err)
	t.s = s
	s.Start()
	defer func() { s.Shutdown(); s.WaitForShutdown() }()
	js := dialJS(t, t.s)
	defer js.Conn().Close()
	republishing := mustCreate(t, js, Config{Name: "R", Storage: jetstream.MemoryStorage})
	b := ordinary(t, js, jetstream.KeyValueConfig{Storage: jetstream.MemoryStorage})
	check.OK(t, check.Err(settingsOf(t.Context(), b)))
	before := goleak.IgnoreCurrent()
	for _, b := range []*Bucket{republishing, b} {
		var stops sync.WaitGroup
		for range 20 {
			w := watch(t, b, "a")
			stops.Go(w.Stop)
			stops.Go(w.Stop)
		}
		stops.Wait()
		check.Must(t, len(b.hub.sources) == 0, "%d feeds are left", len(b.hub.sources))
	}
	goleak.VerifyNone(t, before)
}
