package natskv

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

// full takes all slots that requests of a rank may have. The result gives them back.
func full(w *backend.Window, rank backend.Rank) (release func()) {
	var places []*backend.Place
	for {
		p := &backend.Place{}
		if !w.Take(p, rank, unheard{}, time.Time{}) {
			w.Return(p, backend.Reply{})
			break
		}
		places = append(places, p)
	}
	return func() {
		for _, p := range places {
			w.Return(p, backend.Reply{})
		}
	}
}

type unheard struct{}

func (unheard) Granted() {}

// What many candidates send at the same time waits for a slot of its stream: the announcements and the
// views of a roster, and the creation of a bucket.
func TestTurn_WaitsInLine(t *testing.T) {
	rostered := func(t *lab, js jetstream.JetStream) *Bucket { return mustCreate(t, js, Config{Roster: true}) }
	roster := func(b *Bucket) *backend.Window { return b.roster.api.Window() }
	for name, k := range map[string]struct {
		open func(t *lab, js jetstream.JetStream) *Bucket
		line func(b *Bucket) *backend.Window
		send func(t *lab, b *Bucket) error
	}{
		"announcement": {rostered, roster, func(t *lab, b *Bucket) error { return announce(t, b, "A", []byte("{}"), time.Minute) }},
		"view": {rostered, roster, func(t *lab, b *Bucket) error {
			f, err := await(func(r func(backend.Feed, error)) { b.View(t.Context(), "e", func(backend.Announcement) {}, r) })
			if err == nil {
				f.Stop()
			}
			return err
		}},
		"creation": {ensured, (*Bucket).Window, func(t *lab, b *Bucket) error {
			return check.Err(await(func(r func(backend.Settings, error)) { b.SettingsEnsured(t.Context(), r) }))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, server.Options{}, func(t *lab) {
				b := k.open(t, dialJS(t, t.s))
				release, ended := full(k.line(b), backend.RankTake), make(chan error, 1)
				go func() { ended <- k.send(t, b) }()
				time.Sleep(time.Minute)
				synctest.Wait()
				check.Must(t, len(ended) == 0, "the request was sent without a slot")
				release()
				check.Is(t, <-ended, nil)
			})
		})
	}
}

// ensured returns a bucket that does not exist and that candidates create.
func ensured(t *lab, js jetstream.JetStream) *Bucket {
	t.Helper()
	b := check.Got(Ensure(js, Config{Name: "E"}))(t)
	t.buckets = append(t.buckets, b)
	return b
}

// A thousand candidates learn at the same time that there is no bucket. Those that have a slot create it.
// The others find that it has been created.
func TestEnsure_FewCreations(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		b := ensured(t, dialJS(t, t.s))
		const candidates = 1000
		var creations atomic.Int32
		spy := dial(t, t.s)
		check.OK(t, check.Err(spy.Subscribe("$JS.API.STREAM.CREATE.KV_E", func(*nats.Msg) { creations.Add(1) })))
		t.ok(spy.Flush())
		ended := make(chan error, candidates)
		for range candidates {
			b.SettingsEnsured(t.Context(), func(_ backend.Settings, err error) { ended <- err })
		}
		for range candidates {
			check.Is(t, <-ended, nil)
		}
		synctest.Wait()
		n := creations.Load()
		check.That(t, n > 0 && n <= 100, "%d requests", n)
	})
}
